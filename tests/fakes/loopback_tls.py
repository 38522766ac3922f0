"""TLS before a server on loopback: a client then loads a bundle of certificates, as it does for AWS."""

import asyncio
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import botocore

from demo.embedded import LOOPBACK, free_ports
from tests.witness.waiting import wait_until

_ROOT = Path(__file__).parents[2]
_NAME = "subjectAltName=DNS:localhost"


class TlsFront:
    """A process that takes TLS connections and passes on what they say; leaving the block ends it.

    `environment` lets a client trust it, beside all that botocore trusts: a bundle of the usual size.
    """

    def __init__(self, folder: Path, endpoint: str) -> None:
        self._certificate, bundle = folder / "front.pem", folder / "bundle.pem"
        (self._port,) = free_ports(1)
        self.endpoint = f"https://localhost:{self._port}"
        self._behind = urlsplit(endpoint)
        words = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext {_NAME}".split()
        made = [*words, "-keyout", str(self._certificate), "-out", str(self._certificate)]
        subprocess.run(["openssl", *made], check=True, capture_output=True)
        certificate = self._certificate.read_text()
        certificate = certificate[certificate.index("-----BEGIN CERTIFICATE") :]
        bundle.write_text((Path(botocore.__file__).parent / "cacert.pem").read_text() + certificate)
        self.environment = {"AWS_CA_BUNDLE": str(bundle)}

    def __enter__(self) -> Self:
        words = [self._certificate, self._port, self._behind.hostname, self._behind.port]
        command = [sys.executable, __file__, *map(str, words)]
        self._process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(_ROOT)})
        wait_until(self._answers, "the TLS front answers")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        async def connect() -> None:
            _, writer = await asyncio.open_connection(LOOPBACK, self._port)
            writer.close()

        try:
            asyncio.run(connect())
        except OSError:
            return False
        return True


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while piece := await source.read(1 << 16):
            sink.write(piece)
            await sink.drain()
    except OSError:
        pass  # the other side has gone, as clients do
    finally:
        sink.close()


async def _front(certificate: str, port: str, host: str, behind: str) -> None:
    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(host, int(behind))
        await asyncio.gather(_pass_on(reader, inner_writer), _pass_on(inner_reader, writer))

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(take, LOOPBACK, int(port), ssl=context)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_front(*sys.argv[1:]))
