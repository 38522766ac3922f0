"""`python -m demo.serve FOLDER`: embedded AWS with an empty stream and a bucket, until Ctrl-C, for the tutorial.

FOLDER gets the servers' files and `environment`, which a shell reads: credentials, addresses, and where Java is.
"""

import fcntl
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from demo.bootstrap import ensure_java
from demo.embedded import EmbeddedAws, beside_proxies
from demo.stage import SHARDS, STREAM
from minutebook.errors import MinutebookError, SettingsError

BUCKET = "my-archive"


def environment(aws: EmbeddedAws, java: Path) -> dict[str, str]:
    """Return what the tutorial's shell needs: also for boto3, which knows the addresses by these names."""
    return {
        **aws.environment,
        "AWS_ENDPOINT_URL_KINESIS": aws.kinesis_endpoint,
        "AWS_ENDPOINT_URL_DYNAMODB": aws.dynamodb_endpoint,
        "AWS_ENDPOINT_URL_S3": aws.s3_endpoint,
        "JAVA_HOME": str(java.parent.parent),
    }


def for_a_shell(values: Mapping[str, str]) -> str:
    """Return lines that a shell reads with `.`."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def serve(folder: Path) -> int:
    """Start the servers, make stream and bucket, say how to go on, and wait for a signal; returns an exit code.

    Raises SettingsError if servers that keep their files in this folder run already.
    """
    os.environ.update(beside_proxies(os.environ))
    with _ours_alone(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return _serve(folder)


def _serve(folder: Path) -> int:
    print("aws: Kinesis, S3 and DynamoDB start on this machine", flush=True)
    with EmbeddedAws(folder) as aws:
        aws.s3_client().create_bucket(Bucket=BUCKET)
        aws.kinesis_client().create_stream(StreamName=STREAM, ShardCount=SHARDS)
        shell = folder / "environment"
        shell.write_text(for_a_shell(environment(aws, ensure_java())))
        print(f"The stream {STREAM} ({SHARDS} shards) and the bucket {BUCKET} are there until Ctrl-C.", flush=True)
        print(f"In each other terminal: . {shlex.quote(str(shell))}", flush=True)
        signal.pause()
    return 0


@contextmanager
def _ours_alone(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(
                f"embedded AWS runs already with its files in {folder}",
                next_step=f"use it (`. {shlex.quote(str(folder / 'environment'))}`), or end it with Ctrl-C first",
            ) from None
        yield


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Serve; a signal is the usual end."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        return serve(Path(arguments[0]).resolve())
    except KeyboardInterrupt:
        return 0
    except MinutebookError as exc:
        sys.stderr.write(f"{exc}\n{exc.next_step}\n")
        return exc.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
