"""A newcomer's first hour, outside of any checkout: build, install, init, doctor, consume, follow, compact, audit.

The commands and the settings are those of docs/tutorial.md, but for names, for options that print JSON, and for the
time up to which the day is judged. The wheel is what `make dist` makes, and everything else comes from the hashed
lock, by uv in the place of pip: with its cache, which `make setup` has filled, a clean environment takes seconds.
Nothing of the checkout is importable there, nor is PySpark.

Most of the time is waiting: the consumer is stopped when a record two minutes younger than the first ones is
archived, because a minute of a day that is not over is proven by nothing less. The daemon's JVM is the only one.

Meanwhile it is heard what the daemon asks for: of DynamoDB by a proxy, of Kinesis in the log of its HTTP/2 frames.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from demo.nightly import days_so_far
from demo.readback import compare
from demo.serve import environment as environment_of
from demo.serve import for_a_shell
from minutebook.clock import SystemClock
from minutebook.format.minute import MINUTE_MS
from tests.e2e.harness import PREFIX, Application
from tests.e2e.worker import Worker
from tests.fakes.denying_dynamodb import deny
from tests.witness.events import Event
from tests.witness.policies import Names, kcl_requests
from tests.witness.readback import assert_exactly_once
from tests.witness.requests import Heard
from tests.witness.waiting import wait_until

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws

CHECKOUT: Final = Path(__file__).resolve().parents[2]
UV: Final = CHECKOUT / ".cache" / "tools" / "bin" / "uv"
TUTORIAL: Final = (CHECKOUT / "docs" / "tutorial.md").read_text()
_FRAMES: Final = """
  <appender name="FRAMES" class="ch.qos.logback.core.FileAppender">
    <file>{}</file>
    <encoder><pattern>%msg%n</pattern></encoder>
  </appender>
  <logger name="io.netty.handler.codec.http2.Http2FrameLogger" level="DEBUG" additivity="false">
    <appender-ref ref="FRAMES"/>
  </logger>
</configuration>
"""
_SECONDS: Final = 300
_FIRST: Final = 30
_LOG_LINES: Final = 30
"""More than the supervisor and one processor log from the start of an application to its end."""


class Journey(NamedTuple):
    """What a newcomer saw: what is installed, and the answer of each command by its name."""

    top_level: set[str]
    answers: Mapping[str, subprocess.CompletedProcess[str]]
    consume_code: int
    app: Application
    environment: Mapping[str, str]
    folder: Path
    asked: Heard
    """By `consume`, of DynamoDB and Kinesis: the processors' requests to Kinesis are not among them."""
    log: Sequence[Event]
    """The lines of `consume`: those of the daemon on stdout, then the others."""


def _run(
    words: Sequence[str | Path], environment: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS
    )


def _install(folder: Path) -> Path:
    """Build the wheel and install it with its lock into an environment of its own; returns its `bin`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTHON", "VIRTUAL"))}
    cache = os.environ.get("UV_CACHE_DIR", str(CHECKOUT / ".cache" / "uv"))
    environment = {"UV_SYSTEM_CERTS": "true", **kept, "UV_CACHE_DIR": cache}
    dist, venv = folder / "dist", folder / "venv"
    built = _run(
        ["make", "--no-print-directory", "dist", f"DIST={dist}", f"UV_CACHE_DIR={cache}"], environment, CHECKOUT
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = dist.glob("*.whl")
    requirements = CHECKOUT / "requirements"
    pip: list[str | Path] = [UV, "pip", "install", "--quiet", "--python", venv / "bin" / "python", "--no-deps"]
    steps: tuple[list[str | Path], ...] = (
        [UV, "venv", "--quiet", "--python", CHECKOUT / ".cache" / "tools" / "bin" / "python", venv],
        [
            *pip,
            "--require-hashes",
            "--build-constraints",
            requirements / "build.lock",
            "-r",
            requirements / "follow.lock",
        ],
        [*pip, wheel],
    )
    for words in steps:
        done = _run(words, environment, folder)
        assert done.returncode == 0, done.stderr
    return venv / "bin"


def _fill_in(text: str, values: Mapping[str, str]) -> str:
    """Fill in what `init` printed, as a person does with an editor: lines that are there, commented out or not."""
    for name, value in values.items():
        text, count = re.subn(rf"(?m)^#?{re.escape(name)} = .*$", f"{name} = {value}", text)
        assert count == 1, f"{name} is not in the file that init prints"
    return text


def _typed(command: str, *days: str) -> list[str]:
    """Return what the tutorial lets people type after `minutebook`; `days` stand for the day that it names."""
    (line, *_) = re.findall(rf"(?m)^minutebook ({command}\b.*)$", TUTORIAL)
    words = shlex.split(line)
    if days:
        at = words.index("--date")
        assert words[at : at + 4] == ["--date", "today", "--so-far", "$until"]
        words[at : at + 4] = days
    return words


def _settings(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Let a shell do what the tutorial says with the environment that `make aws` makes, and return what it wrote."""
    (block,) = (text for text in re.findall(r"```sh\n(.*?)```", TUTORIAL, re.DOTALL) if "cat > my.properties" in text)
    done = _run(["bash", "-ec", f". ./environment\n{block}"], environment, folder)
    assert done.returncode == 0, done.stderr
    lines = (folder / "my.properties").read_text().splitlines()
    return dict(line.split(" = ", 1) for line in lines)


def _ask(environment: Mapping[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Let people ask the table as the tutorial does."""
    (program,) = (text for text in re.findall(r"```python\n(.*?)```", TUTORIAL, re.DOTALL) if "load_catalog" in text)
    (folder / "rows.py").write_text(program)
    return _run(["python", "rows.py"], environment, folder)


@contextmanager
def _heard(endpoint: str, file: Path, name: str) -> Iterator[Heard]:
    """Hear what `consume` asks for while the block runs; its file names a proxy meanwhile."""
    heard, folder = Heard(Names(stream=name, application=name, bucket=name, prefix=PREFIX)), file.parent
    log, frames = (CHECKOUT / "properties" / "logback.xml").read_text(), folder / "frames.log"
    (folder / "logback.xml").write_text(log.replace("</configuration>", _FRAMES.format(frames)))
    text = file.read_text()
    with deny(endpoint, tell=lambda action, body: heard.operation("dynamodb", action, json.loads(body))) as proxy:
        file.write_text(text.replace(endpoint, proxy))
        yield heard
    file.write_text(text)
    for operation in set(re.findall(r"Kinesis_20131202\.(\w+)", frames.read_text())):
        heard.operation("kinesis", operation, {})


@pytest.fixture(scope="module")
def journey(embedded_aws: "EmbeddedAws", tmp_path_factory: pytest.TempPathFactory) -> Journey:
    """Make it, with the commands of the shell."""
    folder = tmp_path_factory.mktemp("newcomer")
    app = Application(embedded_aws, folder)
    app.producer.put_numbered(_FIRST)
    programs = _install(folder)
    (packages,) = programs.parent.glob("lib/python3*/site-packages")
    home = app.environment({"HOME": str(folder)})
    environment = {**home, "PATH": f"{programs}:{home['PATH']}", "COLUMNS": "300"}
    minutebook, clock, answers = programs / "minutebook", SystemClock(), {}

    def run(*words: str) -> None:
        answers[words[0]] = _run([minutebook, *words], environment, folder)

    run("init")
    (folder / "environment").write_text(
        for_a_shell(environment_of(embedded_aws, Path(home["JAVA_HOME"], "bin", "java")))
    )
    names = {"streamName": app.name, "applicationName": app.name, "minutebook.bucket": app.name}
    values = {**_settings(environment, folder), **names, "minutebook.prefix": PREFIX}
    file = folder / "my.properties"
    file.write_text(_fill_in(answers["init"].stdout, values))
    run(*_typed("doctor"), "--json")
    places = {name: str(folder / name) for name in ("my.properties", "state")}
    command = [str(minutebook), *(places.get(word, word) for word in _typed("consume"))]
    with (
        _heard(embedded_aws.dynamodb_endpoint, file, app.name) as asked,
        Worker(command, environment, folder / "consume.log") as consumer,
    ):
        consumer.events.wait("segment_committed")
        wait_until(lambda: sum(len(each.records) for each in app.segments()) == _FIRST, "all are archived")
        options = days_so_far(app.segments())
        del options[options.index("--master") :]  # there is no PySpark
        proven_ms = (max(each.metadata.minute for each in app.segments()) + 2) * MINUTE_MS
        run(*_typed("follow"))
        answers["rows"] = _ask(environment, folder)
        run(*_typed("status"), "--json")
        run("health", "my.properties")
        wait_until(lambda: clock.now_ms() >= proven_ms, "what lies two minutes back is proven by what arrives now")
        mark = consumer.events.mark()
        app.producer.put_numbered(1)
        consumer.events.wait("segment_committed", since=mark)
        consumer.terminate()
        code = consumer.wait()
    log = [
        *map(json.loads, (folder / "consume.log").read_text().splitlines()),
        *map(json.loads, consumer.events.lines),
    ]
    run(*_typed("compact", *options))
    answers["rows, published"] = _ask(environment, folder)
    run(*_typed("audit", *options), "--json")
    top_level = {path.name for path in packages.iterdir()}
    return Journey(top_level, answers, code, app, environment, folder, asked, log)


def test_what_is_installed(journey: Journey) -> None:
    """The three packages and the front door: nothing named as everybody's own folders are."""
    assert {"consumer", "compaction", "minutebook"} <= journey.top_level
    assert "pyspark" not in journey.top_level
    assert not {"demo", "tests", "benchmarks", "properties", "docs"} & journey.top_level


@pytest.mark.parametrize("name", ["init", "doctor", "follow", "status", "health", "compact", "audit"])
def test_each_command_succeeds(journey: Journey, name: str) -> None:
    """The exit code is 0: compact and audit came to the verdict clean."""
    answer = journey.answers[name]
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr


def test_the_doctor_found_nothing(journey: Journey) -> None:
    """Java, jars, stream, bucket and table of the installed package's own."""
    checks = json.loads(journey.answers["doctor"].stdout)["checks"]
    assert {check["outcome"] for check in checks} <= {"ok", "unknown"}
    assert any("each with its SHA-256" in check["sentence"] for check in checks)


def test_the_consumer_archives_each_record_once_and_stops_in_order(journey: Journey) -> None:
    """By the witness of the tests, which reads the archive itself."""
    assert journey.consume_code == 0
    assert_exactly_once(compare(journey.app.segments(), journey.app.producer.fingerprints()))


def test_a_first_start_logs_what_a_person_can_use(journey: Journey) -> None:
    """None of KCL's fifty lines of info, but warnings; what it waits for is read in lines that are not shown."""
    ours = [line for line in journey.log if line["event"] not in {"kcl", "printed", "segment_committed"}]
    assert {line["level"] for line in journey.log if line["event"] == "kcl"} <= {"warning", "error"}
    assert {"first_start", "shard_opened", "supervisor_stopped"} <= {line["event"] for line in ours}
    assert sum(line["event"] == "first_start" for line in ours) > 1
    assert len(ours) < _LOG_LINES


def test_the_daemon_asks_for_what_was_recorded(journey: Journey) -> None:
    """Every action, and no other on any table: `deploy/iam/consume.json` rests on that list."""
    heard, recorded = set(map(str, journey.asked.requests)), kcl_requests(journey.asked.names, seldom=False)
    assert heard - set(map(str, recorded)) == set()
    assert {each.action for each in journey.asked.requests} == {each.action for each in recorded}


def test_the_day_is_proven_and_published(journey: Journey) -> None:
    """So far: the first records, all of them, in Parquet files."""
    said = journey.answers["compact"].stdout
    assert f"published: {_FIRST} rows" in said, said
    assert list((journey.folder / "parquet").glob("dt=*/_gen-*/*.parquet"))
    days = json.loads(journey.answers["audit"].stdout)["days"]
    assert {day["verdict"] for day in days} == {"clean"}


def test_the_table_has_each_row_at_once_and_when_it_is_published(journey: Journey) -> None:
    """Before a night, and with what it publishes."""
    for name in ("rows", "rows, published"):
        answer = journey.answers[name]
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout.startswith(f"{_FIRST} rows until 20"), answer.stdout


def test_help_is_at_hand_without_the_checkout(journey: Journey) -> None:
    """Pages, and what to do about the demo."""
    minutebook = Path(journey.environment["PATH"].partition(":")[0]) / "minutebook"
    page = _run([minutebook, "docs", "operations", "permissions"], journey.environment, journey.folder)
    demo = _run([minutebook, "demo"], journey.environment, journey.folder)

    assert (page.returncode, "kinesis:GetRecords" in page.stdout) == (0, True)
    assert (demo.returncode, "run `make demo` in a checkout" in demo.stderr) == (2, True)
