// Loaded before kinesis-local (node --require): a server that names no host listens on loopback, not everywhere.
"use strict";
const net = require("node:net");

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (first, ...rest) {
  if (first !== null && typeof first === "object" && first.path === undefined) {
    return listen.call(this, { ...first, host: "127.0.0.1" }, ...rest);
  }
  if (typeof first === "number" || (typeof first === "string" && /^\d+$/.test(first))) {
    const callback = rest.find((argument) => typeof argument === "function");
    return listen.call(this, { port: Number(first), host: "127.0.0.1" }, callback);
  }
  return listen.call(this, first, ...rest);
};
