"""`python -m demo.serve FOLDER`: embedded AWS with an empty stream and a bucket, until Ctrl-C, for the tutorial.

FOLDER gets the servers' files and `environment`, which a shell reads: credentials, addresses, and where Java is.
"""

import shlex
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from demo.bootstrap import ensure_java
from demo.embedded import EmbeddedAws
from demo.stage import SHARDS, STREAM
from minutebook.errors import MinutebookError

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
    """Start the servers, make stream and bucket, say how to go on, and wait for a signal; returns an exit code."""
    shutil.rmtree(folder, ignore_errors=True)
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
