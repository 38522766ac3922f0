"""What a person sees of an audit at 60, 80, 120 and 200 columns, and what clears what could not be proven."""

import io
from pathlib import Path

import msgspec
import pytest

from compaction.audit.audit import audit_day
from compaction.audit.conclusion import DayResult
from compaction.job.context import AuditOptions
from compaction.report.screen import progress_bar, show_audit
from compaction.verdict.audit_document import Audit
from compaction.verdict.findings import Code, Finding, finding
from minutebook.format.day import Day
from minutebook.format.minute import iso_time
from minutebook.format.position import Position
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from minutebook.terminal import TerminalConsole
from tests.corpus.auditing import job_context
from tests.corpus.chain_defects import missing_object, unproven_end
from tests.corpus.model import Corpus

DAY = Day.parse("2026-11-20")
HOUR_MS = 3_600_000
S0 = "shardId-000000000000"
KEY = f"raw/2026/11/20/10/16/{S0}/49680458451850689392835739103872079364584924912174497810-00000000.jsonl.gz"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> DayResult:
    """Return the audit of an archive with a broken chain and two shards without an end."""
    folder = tmp_path_factory.mktemp("archive")
    corpus = Corpus(DAY)
    missing_object(corpus, corpus.shards[0], 3)
    unproven_end(corpus, corpus.shards[1], 0)
    unproven_end(corpus, corpus.shards[2], 0)
    corpus.write(open_storage(Address(None, str(folder))))
    options = AuditOptions(command="minutebook audit my.properties", level="inventory")
    return audit_day(job_context(folder, corpus.checkpoints), DAY, options)


def _shown(audit: Audit, width: int = 80, retention_ms: int | None = 24 * HOUR_MS) -> list[str]:
    console = TerminalConsole(width=width)
    with console.capture() as captured:
        show_audit(audit, console, retention_ms)
    return captured.get().splitlines()


def _with(result: DayResult, *findings: Finding) -> Audit:
    return msgspec.structs.replace(result.audit, findings=findings, checks=(), verdict="unknown")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_key_is_folded(result: DayResult, width: int) -> None:
    """Each finding is a row, and its first key is whole: in the row where it has room, else below it."""
    lines = _shown(result.audit, width)
    keys = [about.keys[0] for about in result.audit.findings]
    assert {line.split()[0] for line in lines} >= {about.code for about in result.audit.findings}
    assert len(keys) >= 3
    for key in keys:
        (line,) = (line for line in lines if key in line)
        assert line.strip() == key or len(line) <= width
    assert all(
        len(line) <= width
        for line in lines
        if not any(text in line for text in (*keys, "/archive0/", "minutebook audit"))
    )


def test_an_audit_of_one_shard_says_that_it_is_one(tmp_path: Path) -> None:
    """Another shard has lost an object: the verdict is not about it."""
    corpus = Corpus(DAY)
    missing_object(corpus, corpus.shards[1], 3)
    corpus.write(open_storage(Address(None, str(tmp_path))))
    options = AuditOptions(shard=S0)
    audit = audit_day(job_context(tmp_path, corpus.checkpoints), DAY, options).audit
    assert (audit.verdict, audit.scope.shard) == ("clean", S0)
    assert f"shard {S0} alone: the other shards of the day are not judged" in _shown(audit, 120)


def test_findings_that_look_alike_are_told_apart(result: DayResult) -> None:
    """By what they say, or by the first position."""
    mismatch = Code.METADATA_MISMATCH
    twice = [finding(mismatch, why, shard=S0, keys=[KEY]) for why in ("6 lines", "arrival times")]
    gaps = [finding(Code.UNCOVERED, why, severity="unknown", shard=S0) for why in ("at ten", "at noon")]
    forks = [finding(Code.FORKED_CHAIN, "two", shard=S0, positions=[Position(number)]) for number in (7, 8)]
    text = "\n".join(_shown(_with(result, *twice, *gaps, *forks)))
    for told in ("6 lines", "arrival times", "at ten", "at noon", "7:0", "8:0"):
        assert told in text
    assert "6 lines" not in "\n".join(_shown(_with(result, twice[0])))


def test_what_is_unknown_says_what_clears_it_and_until_when(result: DayResult) -> None:
    """Once for the shards that have it in common, with the command."""
    lines = _shown(result.audit, 200)
    at = lines.index("What clears what could not be proven:")
    assert at > next(number for number, line in enumerate(lines) if line.startswith("DEFECTS FOUND"))
    told = " ".join(line.strip() for line in lines[at + 1 :])
    assert told.startswith("unproven_end of shardId-000000000001, shardId-000000000002: ")
    assert "Level stream can prove all of it until 2026-11-21T23:5" in told
    assert "its end until 2026-11-22T00:00:00.000Z" in told
    assert lines[-1] == "  minutebook audit my.properties --date 2026-11-20 --level stream"
    assert _shown(result.audit, 40)[-1] == lines[-1]


def test_what_the_next_night_may_clear_says_so(result: DayResult) -> None:
    """Where no evidence was found, and not where a reader came too late."""
    gap = finding(Code.UNPROVEN_END, "open", severity="unknown", shard=S0)
    told = {
        reason: " ".join(_shown(_with(result, msgspec.structs.replace(gap, reasons=(reason,)))))
        for reason in ("not_covered", "unproven")
    }
    assert "Later evidence clears it" in told["not_covered"]
    assert "Later evidence clears it" not in told["unproven"]


@pytest.mark.parametrize("code", list(Code))
def test_every_unknown_names_what_clears_it(result: DayResult, code: Code) -> None:
    """Whatever it is; where nothing does, that is said."""
    lines = _shown(_with(result, finding(code, "who knows", severity="unknown", shard=S0)), 200)
    (told,) = (line for line in lines if line.startswith(f"  {code.value} of {S0}: "))
    assert any(word in told for word in ("until", "accepts it", "Nothing:", "whenever", "how-to/findings"))


def test_a_stream_that_has_forgotten_is_not_asked(result: DayResult) -> None:
    """The command would prove nothing any more."""
    audit = msgspec.structs.replace(result.audit, audited_at=iso_time(DAY.end_ms + 30 * 24 * HOUR_MS))
    text = "\n".join(_shown(audit, 200))
    assert "The stream held it until 2026-11-22T00:00:00.000Z" in text
    assert "--level stream" not in text


def test_a_clean_or_broken_day_has_nothing_to_clear(result: DayResult) -> None:
    """Time clears no defect."""
    broken = finding(Code.BROKEN_CHAIN, "a gap", shard=S0)
    assert not any("clears" in line for line in _shown(_with(result, broken)))


def test_a_day_that_is_not_over_says_from_when_it_is(tmp_path: Path) -> None:
    """Twenty minutes behind its end."""
    corpus = Corpus(DAY)
    corpus.write(open_storage(Address(None, str(tmp_path))))
    context = job_context(tmp_path, corpus.checkpoints)
    today = Day.parse(iso_time(context.clock.now_ms())[:10])
    audit = audit_day(context, today, AuditOptions(level="inventory")).audit
    text = " ".join(_shown(audit, 200))
    assert f"may be on their way until {today.shift(1)}T00:20:00.000Z" in text


def test_a_result_does_not_continue_the_line_of_a_progress_bar() -> None:
    """Both are written to one terminal, by two consoles: the bar is erased before, and drawn again behind."""
    terminal = io.StringIO()
    bar_console = TerminalConsole(file=terminal, force_terminal=True, width=80)
    with progress_bar("audit", bar_console) as report:
        report("read 2026-11-25", 1, 1)
        TerminalConsole(file=terminal, force_terminal=True, width=80).print("2026-11-25  s3://archive/")
        before, _, behind = terminal.getvalue().partition("2026-11-25  s3://archive/")
    assert before.endswith("\x1b[2K")
    assert "audit: read 2026-11-25" in behind
