"""`status` of a folder of streams: a row a stream, which says what a person would look at first."""

import random
from pathlib import Path

import msgspec
import pytest

from consumer.requests import StatusRequest
from consumer.status.command import end_of_stream, run_status
from consumer.status.report import StatusProblem, StatusReport
from consumer.status.screen import HEADINGS, NUMBERS
from minutebook.errors import SettingsError
from minutebook.properties_file import PropertiesFile
from minutebook.properties_folder import PropertiesFolder, StreamFile
from minutebook.streams_run import StreamEnd, StreamsRun
from tests.unit.consumer.status.test_screen import _report, _shard


def test_a_stream_with_nothing_to_say_is_its_numbers() -> None:
    """How many shards, the longest lag, up to when all is proven."""
    end = end_of_stream(_report(_shard(0), _shard(1, behind_seconds=3661)), None)
    assert (end.exit_code, end.outcome, _texts(end)) == (0, "", ["2", "3,661 s", "2026-11-21 10:14"])


def test_what_is_not_known_is_no_small_number() -> None:
    """One shard whose lag is unknown makes the stream's unknown; one that is archived to its end is not behind."""
    ended = _shard(1, behind_source="end", behind_seconds=None)
    assert _texts(end_of_stream(_report(_shard(0), ended), None))[1] == "41 s"
    assert _texts(end_of_stream(_report(_shard(0), _shard(2, behind_seconds=None)), None))[1] == "unknown"
    assert _texts(end_of_stream(_report(), None)) == ["0", "unknown", "2026-11-21 10:14"]


def test_a_late_stream_is_seen_among_forty() -> None:
    """Its lag is red, an unknown one yellow, as in the table of a stream's shards."""
    late, unknown = ({"behind_seconds": seconds} for seconds in (181, None))
    styles = [end_of_stream(_report(_shard(0, **of)), None).cells[1].style for of in ({}, late, unknown)]  # type: ignore[arg-type, union-attr]
    assert styles == ["", "bold red", "yellow"]


def test_a_service_that_failed_comes_first() -> None:
    """Its code and its next step are the stream's; what is merely absent is told behind it."""
    report = _with(
        _report(_shard(0)),
        StatusProblem(sentence="the lease table does not exist", next_step="start consume"),
        StatusProblem(sentence="stream: access denied", next_step="grant it", exit_code=2),
    )
    end = end_of_stream(report, None)
    assert (end.exit_code, end.next_step) == (2, "grant it")
    assert end.outcome.split("\n  - ") == ["stream: access denied", "the lease table does not exist"]


def test_a_limit_is_each_streams() -> None:
    """7 where a shard is later, with the shard."""
    end = end_of_stream(_report(_shard(0), _shard(1, behind_seconds=900)), "5m")
    assert (end.exit_code, end.outcome) == (7, "more than 5m behind: shardId-000000000001")
    assert end_of_stream(_report(_shard(0)), "5m").exit_code == 0


def test_gaps_are_named_whatever_else_is_well() -> None:
    """Some of the shards that have them, and where to see more."""
    end = end_of_stream(_report(*(_shard(number, gaps=["missing after 1:0"]) for number in range(4))), None)
    assert end.outcome == "gaps in the archive of shardId-000000000000, shardId-000000000001 and 2 more"
    assert "--stream" in end.next_step


def test_forty_streams_fit_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line a stream that is well, whatever its name; the troubled ones have what is wrong below, whole."""
    monkeypatch.setenv("COLUMNS", "80")
    names = [f"{'a-team-with-a-long-name-' * (1 + number % 3)}{number:02}-events" for number in range(40)]
    files = tuple(StreamFile(name, PropertiesFile({}, (), name)) for name in names)
    rng = random.Random(3)

    def work(each: StreamFile, _: PropertiesFile) -> StreamEnd:
        report = _report(*(_shard(number, behind_seconds=rng.uniform(0, 90_000)) for number in range(130)))
        if each.name.endswith("07-events"):
            sentence = "lease table: access denied (AccessDeniedException: dynamodb:Scan on a table)"
            report = _with(report, StatusProblem(sentence=sentence, next_step="let this role read it", exit_code=2))
        return end_of_stream(report, None)

    run = StreamsRun("status", PropertiesFolder("streams", files), headings=HEADINGS, numbers=NUMBERS)
    assert run.run(work) == 2
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 40 + 6
    assert "→ let this role read it" in "".join(lines)
    assert len({line.index(" s  2026-") for line in lines if " s  2026-" in line}) == 1, "lags end in one column"


def test_watching_is_for_one_stream(tmp_path: Path) -> None:
    """And for one of a folder, if it is named."""
    (tmp_path / "orders.properties").write_text("applicationName=orders\n")
    with pytest.raises(SettingsError, match="works for one stream only"):
        run_status(StatusRequest(tmp_path, watch=True), {})


def test_wrong_settings_are_the_streams_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each stream says what it lacks, and the code is 2."""
    for name in ("clicks", "orders"):
        (tmp_path / f"{name}.properties").write_text(f"applicationName={name}-app\n")
    assert run_status(StatusRequest(tmp_path), {}) == 2
    told = capsys.readouterr().out
    assert told.count("minutebook.bucket is missing") == 2
    with pytest.raises(SettingsError, match=r"minutebook\.bucket is missing"):
        run_status(StatusRequest(tmp_path, stream="orders"), {})


def _with(report: StatusReport, *problems: StatusProblem) -> StatusReport:
    return msgspec.structs.replace(report, problems=list(problems))


def _texts(end: StreamEnd) -> list[str]:
    return [str(cell) for cell in end.cells]
