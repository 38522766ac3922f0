"""Embedded AWS: Kinesis, S3 and DynamoDB as child processes on loopback, without Docker.

Kinesis is `kinesis-local` (real splits and merges, HTTP/2 as KCL wants it), S3 and DynamoDB are two processes of
`ministack`: two, because S3 may be killed on stage while the lease table must live. Everything a server writes
lies in one folder that the caller gives.
"""

import os
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from botocore.config import Config

from demo.bootstrap import ensure_kinesis_local, ensure_ministack
from demo.child import Child
from minutebook.aws.clients import client_config
from minutebook.clock import Clock, SystemClock, new_random
from minutebook.errors import MinutebookError

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_s3 import S3Client

REGION = "us-east-1"
ACCESS_KEY = "minutebook"
"""Letters and digits only: some emulators refuse anything else."""
SECRET_KEY = "minutebook"  # noqa: S105 - no secret: the emulators take any
LOOPBACK = "127.0.0.1"
_START_SECONDS = 60
_STOP_SECONDS = 3
_PORTS = range(20_000, 32_000)
_LOADER = Path(__file__).with_name("loopback.cjs")


class EmbeddedAws:
    """Three servers with a life: `with EmbeddedAws(folder) as aws: ...`.

    Endpoints are stable for the whole life, also over `kill_s3` and `restart_s3`. What S3 acknowledged survives
    its SIGKILL; Kinesis and DynamoDB live in memory. `kinesis_port` is that of a Kinesis which runs already, and
    which somebody else stops.
    """

    def __init__(self, folder: Path, *, clock: Clock | None = None, kinesis_port: int | None = None) -> None:
        self._folder = folder
        self._clock = clock or SystemClock()
        self._children: dict[str, Child] = {}
        self._session: Session | None = None
        self._making = threading.Lock()
        self._ports = dict(zip(("kinesis", "kinesis-tls", "s3", "dynamodb"), free_ports(4), strict=True))
        self._has_own_kinesis = kinesis_port is None
        if kinesis_port is not None:
            self._ports["kinesis"] = kinesis_port

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:  # also Ctrl-C: nothing may outlive a start that failed
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def kinesis_endpoint(self) -> str:
        """URL of Kinesis."""
        return f"http://{LOOPBACK}:{self._ports['kinesis']}"

    @property
    def kinesis_port(self) -> int:
        """Port of Kinesis: others may use it, too."""
        return self._ports["kinesis"]

    @property
    def s3_endpoint(self) -> str:
        """URL of S3 (path-style addresses)."""
        return f"http://{LOOPBACK}:{self._ports['s3']}"

    @property
    def dynamodb_endpoint(self) -> str:
        """URL of DynamoDB."""
        return f"http://{LOOPBACK}:{self._ports['dynamodb']}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to talk to these servers: dummy credentials, a region, and no proxy between."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            **beside_proxies(os.environ),
        }

    def start(self) -> Self:
        """Install what is missing, start the servers and wait until each answers."""
        ministack = ensure_ministack()
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._has_own_kinesis:
            self._start_kinesis(*ensure_kinesis_local())
        self._start_ministack(ministack, "s3")
        self._start_ministack(ministack, "dynamodb")
        if self._has_own_kinesis:
            self._children["kinesis"].wait_until(self._kinesis_answers, seconds=_START_SECONDS)
        for name in ("s3", "dynamodb"):
            self._children[name].wait_until(lambda name=name: self._ministack_answers(name), seconds=_START_SECONDS)  # type: ignore[misc]
        return self

    def stop(self) -> None:
        """Stop and reap every server; may be called twice."""
        while self._children:
            name, child = self._children.popitem()
            # kinesis-local waits for open connections on SIGTERM, and has nothing to save.
            child.kill() if name == "kinesis" else child.stop(grace_seconds=_STOP_SECONDS)

    def kill_s3(self) -> None:
        """SIGKILL the S3 server; requests are refused until `restart_s3`."""
        self._children.pop("s3").kill()

    def restart_s3(self) -> None:
        """Start S3 again on the same port, with what it had acknowledged."""
        self._start_ministack(ensure_ministack(), "s3")
        self._children["s3"].wait_until(lambda: self._ministack_answers("s3"), seconds=_START_SECONDS)

    def kinesis_client(self, *, total_max_attempts: int = 3) -> "KinesisClient":
        """Return a boto3 client that sends a request so many times, unless it is answered before."""
        config = Config(retries={"total_max_attempts": total_max_attempts, "mode": "standard"})
        client: KinesisClient = self._client("kinesis", self.kinesis_endpoint, config=config)
        return client

    def s3_client(self) -> "S3Client":
        """Return a boto3 client with the settings of the archive's own."""
        client: S3Client = self._client("s3", self.s3_endpoint, config=client_config(path_style=True))
        return client

    def dynamodb_client(self) -> "DynamoDBClient":
        """Return a boto3 client."""
        client: DynamoDBClient = self._client("dynamodb", self.dynamodb_endpoint)
        return client

    def _client(self, service: str, endpoint: str, **more: Any) -> Any:  # noqa: ANN401 - boto3's types are generated
        with self._making:  # a session is for one thread at a time, its clients are for all
            if self._session is None:
                import boto3  # noqa: PLC0415 - half a second that `--help` need not pay

                # One for all clients: it reads the descriptions of a service once, for a tenth of a second.
                self._session = boto3.session.Session(
                    aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, region_name=REGION
                )
            return self._session.client(service, endpoint_url=endpoint, **more)  # type: ignore[call-overload]

    def _start_kinesis(self, node: Path, package: Path) -> None:
        settings = {
            # Without it the server looks for its certificate in the working directory and exits.
            "KINESIS_MOCK_CERT_PATH": str(package / "server.json"),
            "KINESIS_MOCK_PLAIN_PORT": str(self._ports["kinesis"]),
            "KINESIS_MOCK_TLS_PORT": str(self._ports["kinesis-tls"]),
            "SHARD_LIMIT": "1000",
            "CREATE_STREAM_DURATION": "20ms",
            "DELETE_STREAM_DURATION": "20ms",
            "SPLIT_SHARD_DURATION": "200ms",
            "MERGE_SHARDS_DURATION": "200ms",
            "LOG_LEVEL": "ERROR",
            "AWS_REGION": REGION,
        }
        command = [str(node), "--require", str(_LOADER), str(package / "main.js")]
        self._children["kinesis"] = self._child("kinesis", command, settings)

    def _start_ministack(self, program: Path, service: str) -> None:
        data = self._folder / service
        data.mkdir(exist_ok=True)
        settings = {
            "GATEWAY_PORT": str(self._ports[service]),
            "BIND_HOST": LOOPBACK,
            "SERVICES": service,
            "S3_PERSIST": "1" if service == "s3" else "0",
            "S3_DATA_DIR": str(data),
            "STATE_DIR": str(data / "state"),
            "TMPDIR": str(data),  # it writes a pid file there
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "LOG_LEVEL": "WARNING",
            "MINISTACK_REGION": REGION,
        }
        self._children[service] = self._child(service, [str(program)], settings)

    def _child(self, name: str, command: list[str], settings: Mapping[str, str]) -> Child:
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self._folder), **settings}
        log = self._folder / f"{name}.log"
        return Child(name, command, log=log, clock=self._clock, environment=environment)

    def _kinesis_answers(self) -> bool:
        headers = {
            "X-Amz-Target": "Kinesis_20131202.ListStreams",
            "Content-Type": "application/x-amz-json-1.1",
            "Authorization": f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/{REGION}/kinesis/aws4_request, "
            "SignedHeaders=host, Signature=00",
            "X-Amz-Date": "20260101T000000Z",
        }
        return status(self.kinesis_endpoint, "POST", "/", body="{}", headers=headers) == 200  # noqa: PLR2004 - HTTP OK

    def _ministack_answers(self, name: str) -> bool:
        endpoint = f"http://{LOOPBACK}:{self._ports[name]}"
        return status(endpoint, "GET", "/_ministack/health") == 200  # noqa: PLR2004 - HTTP OK


def beside_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which boto3, KCL's daemon and others reach loopback without this machine's proxy.

    Both spellings: boto3 takes the lower one where it is set. Empty where the machine has no proxy.
    """
    if not any(name.lower() in {"http_proxy", "https_proxy", "all_proxy"} for name in environ):
        return {}
    spared = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    hosts = ",".join(filter(None, (spared, LOOPBACK, "localhost")))
    return {"NO_PROXY": hosts, "no_proxy": hosts}


def status(
    endpoint: str, method: str, path: str, *, body: str | None = None, headers: Mapping[str, str] | None = None
) -> int:
    """Return the HTTP status of one request; 0 when there is no answer."""
    connection = HTTPConnection(urlsplit(endpoint).netloc, timeout=5)
    try:
        connection.request(method, path, body, dict(headers or {}))
        return connection.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()


def free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago, all different because all are held until the last is found.

    They lie below those that Linux gives to outgoing connections: none of these takes the place of a server that
    was killed and is started again.
    """
    sockets: list[socket.socket] = []
    try:
        for port in new_random().sample(_PORTS, len(_PORTS)):
            with suppress(OSError):
                sockets.append(socket.create_server((LOOPBACK, port)))
            if len(sockets) == count:
                return [int(held.getsockname()[1]) for held in sockets]
    finally:
        for held in sockets:
            held.close()
    raise MinutebookError(f"fewer than {count} of the ports {_PORTS.start} to {_PORTS.stop} are free")
