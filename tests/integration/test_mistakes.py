"""What a new user gets wrong, and what is said then: one line that names it, one that helps, and the exit code.

Each row is a command as it is typed; the unit tests of settings have what may be wrong with a line of the file. The
rows need no archive; some need servers: the embedded ones, or one that denies something.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from demo.embedded import REGION
from minutebook.clock import new_id
from tests.fakes.denying_dynamodb import deny
from tests.fakes.lax_s3 import LaxBucket, serve
from tests.integration.forked import run_forked
from tests.witness.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

    from demo.embedded import EmbeddedAws

_WITHOUT_ARROW: Final = (
    sys.executable,
    "-c",
    "import sys; sys.modules['pyarrow'] = None; from minutebook.cli import main; main()",
)
_JAVA_LESS: Final = {"PATH": "/nonexistent", "JAVA_HOME": ""}
_NOBODY: Final = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None, "AWS_CONFIG_FILE": "/nonexistent"}
_ARN: Final = "arn:aws:kinesis:eu-west-1:123456789012:stream/"


class Mistake(NamedTuple):
    """A command with FILE for the file, what is wrong, the exit code, and what is said.

    `lines` replace those of a file that is right (None: the line is missing).
    `servers`: `no-s3-put`, `no-table`, `away` take the place of the embedded ones. `program`: not `minutebook`.
    """

    command: str
    code: int
    says: str
    helps: str
    lines: Mapping[str, str | None] = {}
    environ: Mapping[str, str | None] = {}
    servers: str = ""
    program: Sequence[str] = ()


_CORRECT: Final = "correct the lines named; `minutebook init` prints a file that explains every name"

MISTAKES: Final = {
    # the file
    "a misspelled name of ours": Mistake(
        "consume FILE", 2, "did you mean minutebook.lingerSeconds?", _CORRECT, {"minutebook.lingerSecond": "5"}
    ),
    "no bucket": Mistake("doctor FILE", 2, "minutebook.bucket is missing", _CORRECT, {"minutebook.bucket": None}),
    "a bucket with its scheme": Mistake(
        "doctor FILE",
        2,
        "minutebook.bucket must be a bucket name (3 to 63 of a-z 0-9 . -), not 's3://archive'",
        _CORRECT,
        {"minutebook.bucket": "s3://archive"},
    ),
    "LATEST": Mistake(
        "consume FILE",
        2,
        "initialPositionInStream=LATEST is refused",
        "use minutebook.start=oldest, now or a time",
        {"initialPositionInStream": "LATEST"},
    ),
    "an address without http": Mistake(
        "status FILE",
        2,
        "kinesisEndpoint must be an address such as http://127.0.0.1:4566",
        _CORRECT,
        {"kinesisEndpoint": "localhost:4568"},
    ),
    "a region by its city": Mistake(
        "doctor FILE",
        2,
        "regionName must be a region such as us-east-1, not 'Frankfurt'",
        _CORRECT,
        {"regionName": "Frankfurt"},
    ),
    "a region that there is not": Mistake(
        "doctor FILE",
        2,
        "there is no AWS region us-nowhere-7",
        "correct regionName",
        {"regionName": "us-nowhere-7", "kinesisEndpoint": None},
    ),
    "a stream of another region": Mistake(
        "status FILE",
        2,
        "regionName=us-east-1, and streamArn lies in eu-west-1",
        "remove regionName",
        {"streamName": None, "streamArn": f"{_ARN}flights"},
    ),
    "no file at all": Mistake("consume", 2, "no settings: name FILE.properties", "minutebook init > my.properties"),
    # the machine and AWS
    "no Java": Mistake("consume FILE", 2, "no Java 17 or later", "install a Java 17 runtime", environ=_JAVA_LESS),
    "no credentials": Mistake(
        "doctor FILE", 2, "no AWS credentials found", "give this process a role", environ=_NOBODY
    ),
    "no credentials for status": Mistake(
        "status FILE", 2, "Unable to locate credentials", "credentials", environ=_NOBODY
    ),
    "consume without its bucket": Mistake(
        "consume FILE",
        2,
        "there is no bucket nowhere",
        "create it, or correct minutebook.bucket",
        {"minutebook.bucket": "nowhere"},
    ),
    "a role that may not write": Mistake(
        "doctor FILE",
        2,
        "AccessDenied",
        "minutebook docs operations permissions",
        {"minutebook.bucket": "archive"},
        servers="no-s3-put",
    ),
    "a role that may not see the table": Mistake(
        "doctor FILE", 2, "DescribeTable", "minutebook docs operations permissions", servers="no-table"
    ),
    "nobody at the address": Mistake("doctor FILE", 5, "Could not connect", "health of Kinesis", servers="away"),
    # the commands
    "an unknown command": Mistake("run FILE", 2, "No such command 'run'", "minutebook"),
    "no day": Mistake("audit FILE", 2, "no day is named", "give --date D, or --from D and --to D"),
    "--from without --to": Mistake(
        "compact FILE --from 2026-11-01", 2, "--from needs --to", "give --date D, or --from D and --to D"
    ),
    "a day as at home": Mistake(
        "audit FILE --date 21.11.2026", 2, "not a day: '21.11.2026'", "write a UTC day such as 2026-11-21"
    ),
    "a day to come": Mistake("compact FILE --date 2999-01-01", 2, "lies in the future", "name a day that has begun"),
    "a prefix without an archive": Mistake(
        "audit FILE --date yesterday", 4, "is this the right bucket and prefix?", "COULD NOT PROVE"
    ),
    "Parquet among the segments": Mistake(
        "compact FILE --date yesterday --out s3://BUCKET/raw/", 2, "--out is where the raw segments are", "_parquet/"
    ),
    "no extra": Mistake(
        "compact FILE --date yesterday",
        2,
        "compact needs the extra `compact`",
        "minutebook docs spark",
        program=_WITHOUT_ARROW,
    ),
    "an age without its unit": Mistake(
        "expire FILE --older-than 30 --published s3://BUCKET/parquet/", 2, "not an age: '30'", "--older-than 30d"
    ),
    "a restore of what never was": Mistake(
        "restore FILE", 6, "no archive begins at prefix 'raw/'", "correct minutebook.bucket and minutebook.prefix"
    ),
}


@pytest.fixture(scope="session")
def stream(kinesis_client: "KinesisClient") -> str:
    """Return the name of an active stream."""
    name = f"mistakes-{new_id()[:8]}"
    kinesis_client.create_stream(StreamName=name, ShardCount=1)
    kinesis_client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    return name


@pytest.fixture
def right(embedded_aws: "EmbeddedAws", stream: str, bucket: str) -> dict[str, str]:
    """Return the lines of a file without a mistake."""
    return {
        "streamName": stream,
        "applicationName": f"app-{bucket}",
        "regionName": REGION,
        "kinesisEndpoint": embedded_aws.kinesis_endpoint,
        "dynamoDBEndpoint": embedded_aws.dynamodb_endpoint,
        "minutebook.bucket": bucket,
        "minutebook.prefix": "raw/",
        "minutebook.s3Endpoint": embedded_aws.s3_endpoint,
    }


def _serve(stack: ExitStack, servers: str, right: Mapping[str, str], unused: str) -> dict[str, str]:
    """Start what the row asks for; returns the lines that point to it."""
    if servers == "away":
        return {"kinesisEndpoint": unused}
    if servers == "no-s3-put":
        return {"minutebook.s3Endpoint": stack.enter_context(serve(LaxBucket(denies=frozenset({"PUT"}))))}
    if servers == "no-table":
        return {"dynamoDBEndpoint": stack.enter_context(deny(right["dynamoDBEndpoint"], "DescribeTable"))}
    return {}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_clear_line(
    mistake: Mistake, right: dict[str, str], unused_endpoint: str, tmp_path: Path
) -> None:
    """It is named, the next step helps, the shell gets the code, and nobody sees a stack."""
    file = tmp_path / "my.properties"
    with ExitStack() as stack:
        lines = {**right, **_serve(stack, mistake.servers, right, unused_endpoint), **mistake.lines}
        text = "".join(f"{name} = {value}\n" for name, value in lines.items() if value is not None)
        file.write_text(text)
        words = mistake.command.replace("FILE", str(file)).replace("BUCKET", right["minutebook.bucket"]).split()
        changed = {"COLUMNS": "400", "HOME": str(tmp_path), **mistake.environ}
        environment = {**os.environ, **{name: value for name, value in changed.items() if value is not None}}
        for name in (name for name, value in changed.items() if value is None):
            environment.pop(name, None)
        if mistake.program:
            done = subprocess.run(
                [*mistake.program, *words],
                env=environment,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_SECONDS,
            )
        else:
            done = run_forked(words, environment=environment, folder=tmp_path)

    said = done.stdout + done.stderr
    assert done.returncode == mistake.code, said
    assert mistake.says in said, said
    assert mistake.helps in said, said
    assert "Traceback" not in said, said
