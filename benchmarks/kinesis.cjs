"use strict";
/* A Kinesis for measurements: one stream whose records are there from the beginning, and which nothing else can write.

   node kinesis.cjs PORT SHARDS MEGABYTES_A_SHARD PAYLOAD_BYTES BEGIN_MS BYTES_A_SECOND

   It answers what KCL and Minutebook ask of a stream: CBOR over HTTP/2 without TLS, as the Java SDK speaks, and JSON
   over HTTP/1.1, as boto3 does. Records lie encoded in memory, so that what is measured beside it has the cores. It
   holds to Kinesis' bounds of an answer (10,000 records, 10 MB); it never throttles, and has no bound of 2 MB a second. */
const http = require("node:http");
const http2 = require("node:http2");
const net = require("node:net");

const [port, shards, megabytes, payloadBytes, beginMs, bytesPerSecond] = process.argv.slice(2).map(Number);
const RECORDS = 10_000;
const BYTES = 10 << 20;
const NAME = "bench";
const ARN = `arn:aws:kinesis:us-east-1:000000000000:stream/${NAME}`;
const RANGE = (1n << 128n) / BigInt(shards);
const FIRST = 49680430009993180326445188721472315949130085524050018306n;

// The part of CBOR that the SDK uses.
function head(major, value) {
  const big = BigInt(value);
  if (big < 24n) return Buffer.from([(major << 5) | Number(big)]);
  for (const [code, bytes] of [[24, 1], [25, 2], [26, 4], [27, 8]]) {
    if (big < 1n << BigInt(8 * bytes)) {
      const out = Buffer.alloc(1 + bytes);
      out[0] = (major << 5) | code;
      for (let at = bytes, rest = big; at > 0; at--, rest >>= 8n) out[at] = Number(rest & 255n);
      return out;
    }
  }
  throw new Error("a number beyond 64 bits");
}

class Moment {
  constructor(ms) {
    this.ms = ms;
  }
}

class Raw {
  constructor(cbor) {
    this.cbor = cbor;
  }
}

function cbor(value) {
  if (value === null || value === undefined) return Buffer.from([0xf6]);
  if (typeof value === "boolean") return Buffer.from([value ? 0xf5 : 0xf4]);
  if (typeof value === "number") return head(0, value);
  if (typeof value === "string") return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (value instanceof Raw) return value.cbor;
  if (value instanceof Moment) return Buffer.concat([head(6, 1), head(0, value.ms)]);
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value]);
  if (Array.isArray(value)) return Buffer.concat([head(4, value.length), ...value.map(cbor)]);
  const fields = Object.entries(value);
  return Buffer.concat([head(5, fields.length), ...fields.flatMap(([name, field]) => [cbor(name), cbor(field)])]);
}

function parse(bytes) {
  let at = 0;
  const number = (info) => {
    if (info < 24) return info;
    const length = 1 << (info - 24);
    let value = 0n;
    for (let end = at + length; at < end; at++) value = (value << 8n) | BigInt(bytes[at]);
    return Number(value);
  };
  const item = () => {
    const major = bytes[at] >> 5, info = bytes[at++] & 31;
    const open = info === 31;
    if (major === 7) {
      if (info === 27) return bytes.readDoubleBE((at += 8) - 8);
      return { 20: false, 21: true }[info] ?? null;
    }
    const isLast = (count, done) => (open ? bytes[at] === 0xff && ++at > 0 : done >= count);
    const count = open ? 0 : number(info);
    if (major === 0) return count;
    if (major === 1) return -1 - count;
    if (major === 2 || major === 3) {
      let parts = [];
      if (open) while (!isLast()) parts.push(Buffer.from(item()));
      else parts = [bytes.subarray(at, (at += count))];
      const whole = Buffer.concat(parts);
      return major === 3 ? whole.toString() : whole;
    }
    if (major === 4) {
      const list = [];
      while (!isLast(count, list.length)) list.push(item());
      return list;
    }
    if (major === 5) {
      const map = {};
      for (let done = 0; !isLast(count, done); done++) map[item()] = item();
      return map;
    }
    return item();
  };
  return item();
}

// Records: their texts are cut from one pool that is longer than any compressor looks back.
const LETTERS = "etaoin shrdlu 0123456789";
const CARRIERS = ["UA", "AA", "DL", "B6"];
let seed = 1;
function random(below) {
  seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
  return (seed >>> 8) % below;
}
const POOL = Array.from({ length: 1 << 22 }, () => LETTERS[random(LETTERS.length)]).join("");

class Shard {
  constructor(number) {
    this.id = `shardId-${String(number).padStart(12, "0")}`;
    this.number = number;
    this.offsets = [0];
    const parts = [];
    let size = 0, payload = 0;
    for (let index = 0; payload < megabytes * 1e6; index++) {
      const event = { id: index, carrier: CARRIERS[random(4)], distance: random(5000) };
      const pad = Math.max(0, payloadBytes - JSON.stringify(event).length - 11);
      const from = random(POOL.length - pad);
      event.note = POOL.slice(from, from + pad);
      const data = Buffer.from(JSON.stringify(event));
      payload += data.length;
      const record = cbor({
        SequenceNumber: this.sequence(index),
        ApproximateArrivalTimestamp: new Moment(beginMs + Math.floor((payload * 1000) / bytesPerSecond)),
        Data: data,
        PartitionKey: `N${index % 997}`,
        EncryptionType: "NONE",
      });
      parts.push(record);
      size += record.length;
      this.offsets.push(size);
    }
    this.bytes = Buffer.concat(parts);
    this.last = this.offsets.length - 2;
  }

  sequence(index) {
    return String(FIRST + BigInt(this.number) * 10n ** 40n + BigInt(index));
  }

  index(sequence) {
    return Number(BigInt(sequence) - FIRST - BigInt(this.number) * 10n ** 40n);
  }

  row() {
    const from = RANGE * BigInt(this.number);
    const to = this.number === shards - 1 ? (1n << 128n) - 1n : from + RANGE - 1n;
    return {
      ShardId: this.id,
      HashKeyRange: { StartingHashKey: String(from), EndingHashKey: String(to) },
      SequenceNumberRange: { StartingSequenceNumber: String(FIRST + BigInt(this.number) * 10n ** 40n - 1n) },
    };
  }

  read(from, limit) {
    let to = Math.min(from + Math.min(limit ?? RECORDS, RECORDS), this.offsets.length - 1);
    while (to > from + 1 && this.offsets[to] - this.offsets[from] > BYTES) to -= Math.ceil((to - from) / 8);
    to = Math.max(to, Math.min(from + 1, this.offsets.length - 1));
    const records = Buffer.concat([head(4, to - from), this.bytes.subarray(this.offsets[from], this.offsets[to])]);
    return { next: to, records };
  }
}

const all = Array.from({ length: shards }, (_, number) => new Shard(number));
const shardOf = (id) => all.find((shard) => shard.id === id);

const OPERATIONS = {
  DescribeStreamSummary: () => ({
    StreamDescriptionSummary: {
      StreamName: NAME,
      StreamARN: ARN,
      StreamStatus: "ACTIVE",
      StreamModeDetails: { StreamMode: "PROVISIONED" },
      RetentionPeriodHours: 8760,
      StreamCreationTimestamp: new Moment(beginMs - 60_000),
      EnhancedMonitoring: [{ ShardLevelMetrics: [] }],
      EncryptionType: "NONE",
      OpenShardCount: shards,
      ConsumerCount: 0,
    },
  }),
  DescribeStream: () => ({
    StreamDescription: {
      StreamName: NAME,
      StreamARN: ARN,
      StreamStatus: "ACTIVE",
      RetentionPeriodHours: 8760,
      StreamCreationTimestamp: new Moment(beginMs - 60_000),
      EnhancedMonitoring: [{ ShardLevelMetrics: [] }],
      EncryptionType: "NONE",
      HasMoreShards: false,
      Shards: all.map((shard) => shard.row()),
    },
  }),
  ListShards: () => ({ Shards: all.map((shard) => shard.row()) }),
  GetShardIterator: (asked) => {
    const shard = shardOf(asked.ShardId);
    const from = {
      TRIM_HORIZON: () => 0,
      AT_TIMESTAMP: () => 0,
      LATEST: () => shard.last + 1,
      AT_SEQUENCE_NUMBER: () => Math.max(0, shard.index(asked.StartingSequenceNumber)),
      AFTER_SEQUENCE_NUMBER: () => Math.max(0, shard.index(asked.StartingSequenceNumber) + 1),
    }[asked.ShardIteratorType]();
    return { ShardIterator: `${shard.id}:${from}` };
  },
  GetRecords: (asked) => {
    const [id, from] = asked.ShardIterator.split(":");
    const shard = shardOf(id);
    const { next, records } = shard.read(Number(from), asked.Limit);
    return {
      Records: new Raw(records),
      NextShardIterator: `${id}:${next}`,
      MillisBehindLatest: next > shard.last ? 0 : 60_000,
    };
  },
};

function plain(value) {
  if (value instanceof Moment) return value.ms / 1000;
  if (value instanceof Raw) return parse(value.cbor).map((r) => ({
    ...r,
    Data: r.Data.toString("base64"),
    ApproximateArrivalTimestamp: r.ApproximateArrivalTimestamp / 1000,
  }));
  if (Array.isArray(value)) return value.map(plain);
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, plain(field)]));
  }
  return value;
}

function serve(request, response) {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    if (request.aborted || response.destroyed) return; // whoever asked has died
    const isCbor = String(request.headers["content-type"]).includes("cbor");
    const body = Buffer.concat(parts);
    const name = String(request.headers["x-amz-target"]).split(".").pop();
    const operation = OPERATIONS[name];
    const asked = body.length === 0 ? {} : isCbor ? parse(body) : JSON.parse(body);
    if (name === "GetRecords" && asked.ShardIterator === undefined) return response.destroy(); // cut off by its end
    const answer = operation ? operation(asked) : { __type: "UnknownOperationException", message: name };
    if (!operation) process.stderr.write(`not answered: ${name}\n`);
    const out = isCbor ? cbor(answer) : Buffer.from(JSON.stringify(plain(answer)));
    response.writeHead(operation ? 200 : 400, {
      "content-type": isCbor ? "application/x-amz-cbor-1.1" : "application/x-amz-json-1.1",
      "content-length": out.length,
      "x-amzn-requestid": "00000000-0000-0000-0000-000000000000",
      date: new Date().toUTCString(),
    });
    response.end(out);
  });
}

const one = http.createServer(serve);
// Megabytes: beyond the default of 10, two answers of one connection, Node refuses streams and then ends the connection.
const two = http2.createServer({ maxSessionMemory: 8192 }, serve);
two.on("sessionError", (error) => process.stderr.write(`a connection ended: ${error.message}\n`));
net
  .createServer((socket) => {
    socket.once("data", (begin) => {
      socket.pause();
      socket.unshift(begin);
      (begin.toString("latin1", 0, 3) === "PRI" ? two : one).emit("connection", socket);
      process.nextTick(() => socket.resume());
    });
    socket.on("error", () => {});
  })
  .listen(port, "127.0.0.1", () => process.stdout.write(JSON.stringify(all.map((s) => s.sequence(s.last))) + "\n"));
