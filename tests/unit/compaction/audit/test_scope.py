"""What the audit says before it judges: whose archive it is, whether the day is over, whether it was expired."""

from pathlib import Path

import pytest

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.job.scope import SETTLED_MS
from compaction.verdict.audit_document import Audit, AuditLevel
from consumer.stream.port import StreamIdentity
from minutebook.errors import SafetyRefusal, SettingsError
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS
from minutebook.owner import StreamOwner
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import OWNER, job_context
from tests.corpus.desk import DAY as MILL_DAY
from tests.corpus.desk import Mill, expire
from tests.corpus.model import PREFIX, STREAM_ARN, Corpus, Shape
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.clock import ManualClock
from tests.fakes.stream import DAY_MS

DAY = Day.parse("2026-11-20")
LEVELS: tuple[AuditLevel, ...] = ("inventory", "keys", "stream")
each_level = pytest.mark.parametrize("level", LEVELS)


def audit(corpus: Corpus, folder: Path, now_ms: int, **options: object) -> Audit:
    """Write a corpus and audit its day at a time."""
    corpus.write(open_storage(Address(None, str(folder))))
    asked = AuditOptions()._replace(**options)  # type: ignore[arg-type]
    return audit_day(job_context(folder, corpus.checkpoints, clock=ManualClock(now_ms)), corpus.day, asked).audit


def check(found: Audit, name: str) -> str:
    """Return the status of a check; empty when it is not there."""
    return next((check.status for check in found.checks if check.id == name), "")


@each_level
@pytest.mark.parametrize(
    "owner",
    [
        StreamOwner("other", "us-east-1"),
        StreamOwner("corpus", "eu-west-1"),
        StreamOwner("corpus", "us-east-1", "111111111111"),
    ],
    ids=["name", "region", "account"],
)
def test_another_streams_archive_is_refused(tmp_path: Path, level: AuditLevel, owner: StreamOwner) -> None:
    """At every level: its chains would be judged by our checkpoints."""
    corpus = Corpus(DAY)
    corpus.write(open_storage(Address(None, str(tmp_path))))
    context = job_context(tmp_path, corpus.checkpoints)._replace(owner=owner)
    with pytest.raises(SafetyRefusal, match="belongs to the stream") as caught:
        audit_day(context, DAY, AuditOptions(level=level))
    assert STREAM_ARN in str(caught.value)
    assert caught.value.next_step


def test_the_account_is_asked_where_the_settings_name_it(tmp_path: Path) -> None:
    """The archive's own is no other."""
    corpus = Corpus(DAY)
    corpus.write(open_storage(Address(None, str(tmp_path))))
    context = job_context(tmp_path, corpus.checkpoints)._replace(owner=OWNER._replace(account=""))
    assert audit_day(context, DAY, AuditOptions()).audit.verdict == "clean"


@pytest.mark.parametrize("body", [None, b"{}"], ids=["missing", "unreadable"])
def test_segments_that_are_nobodys_are_never_clean(tmp_path: Path, body: bytes | None) -> None:
    """Without a record nobody can tell whose they are."""
    corpus = Corpus(DAY)
    store = open_storage(Address(None, str(tmp_path)))
    corpus.write(store)
    store.delete([f"{PREFIX}_application.json"])
    if body is not None:
        store.put_if_absent(f"{PREFIX}_application.json", body, {}, "application/json")
    found = audit_day(job_context(tmp_path, corpus.checkpoints), DAY, AuditOptions()).audit
    assert found.verdict != "clean"
    assert f"{PREFIX}_application.json" in found.findings[0].keys


def test_a_day_before_the_archive_begins_is_refused(tmp_path: Path) -> None:
    """An empty day that nobody archived is not clean."""
    store = open_storage(Address(None, str(tmp_path)))
    ArchiveScene(store, PREFIX).settle(StreamIdentity(STREAM_ARN, 1, DAY_MS), start_at_ms=DAY.end_ms)
    with pytest.raises(SettingsError, match="before this archive begins"):
        audit_day(job_context(tmp_path), DAY, AuditOptions())


def test_the_day_of_the_start_begins_there(tmp_path: Path) -> None:
    """It says so."""
    store = open_storage(Address(None, str(tmp_path)))
    ArchiveScene(store, PREFIX).settle(StreamIdentity(STREAM_ARN, 1, DAY_MS), start_at_ms=DAY.begin_ms + MINUTE_MS)
    scope = audit_day(job_context(tmp_path), DAY, AuditOptions()).audit.scope
    assert (scope.begins, scope.until) == ("2026-11-20T00:01:00.000Z", "2026-11-21T00:00:00.000Z")


@pytest.mark.parametrize("after_ms", [-1, 0, SETTLED_MS - 1])
def test_a_day_that_is_not_settled_is_unknown(tmp_path: Path, after_ms: int) -> None:
    """Records of it may be on their way."""
    found = audit(Corpus(DAY), tmp_path, DAY.end_ms + after_ms)
    assert (found.verdict, check(found, "day_is_over"), found.findings) == ("unknown", "unknown", ())
    assert not found.scope.day_is_over


def test_a_day_that_is_settled_is_judged(tmp_path: Path) -> None:
    """Twenty minutes after its end."""
    found = audit(Corpus(DAY), tmp_path, DAY.end_ms + SETTLED_MS)
    assert (found.verdict, check(found, "day_is_over"), found.scope.day_is_over) == ("clean", "", True)


@pytest.mark.parametrize("level", ["inventory", "keys"])
def test_a_day_so_far_is_judged_up_to_its_end(tmp_path: Path, level: AuditLevel) -> None:
    """Segments behind it prove that the chains go on, and count for nothing else; by names alone nothing is clean."""
    corpus = Corpus(DAY)
    until_ms = DAY.begin_ms + 601 * MINUTE_MS
    found = audit(corpus, tmp_path, DAY.begin_ms + 700 * MINUTE_MS, level=level, so_far_ms=until_ms + 1)
    before = [
        segment
        for shard in corpus.shards
        for segment in shard.segments
        if DAY.first_minute <= segment.metadata.minute < DAY.first_minute + 601
    ]
    assert (found.verdict, found.scope.objects) == ("clean" if level == "keys" else "unknown", len(before))
    assert found.scope.until == "2026-11-20T10:01:00.000Z"
    assert check(found, "day_is_over") == "warning"
    assert {shard.end_proof for shard in found.shards} == {"successor"}


def test_a_day_so_far_ends_at_the_last_hour_that_every_shard_covers(tmp_path: Path) -> None:
    """At half past eleven that is ten o'clock: a shard wrote at 10:01 and was not marked since."""
    found = audit(Corpus(DAY), tmp_path, DAY.begin_ms + 690 * MINUTE_MS, level="keys", so_far_ms="covered")
    assert (found.verdict, found.scope.until) == ("clean", "2026-11-20T10:00:00.000Z")


def test_what_is_wrong_behind_the_end_of_the_scope_is_not_judged(tmp_path: Path) -> None:
    """And what is wrong at its end is: the first segment behind it names one that is missing."""
    corpus = Corpus(DAY)
    shard = corpus.shards[0]
    gone = [segment for segment in shard.segments if segment.metadata.minute == DAY.first_minute + 600]
    shard.segments.remove(gone[0])
    now_ms = DAY.begin_ms + 800 * MINUTE_MS
    early = audit(corpus, tmp_path, now_ms, so_far_ms=DAY.begin_ms + MINUTE_MS)
    late = audit(corpus, tmp_path, now_ms, so_far_ms=DAY.begin_ms + 601 * MINUTE_MS)
    assert (early.verdict, early.findings) == ("clean", ())
    assert (late.verdict, [finding.code for finding in late.findings]) == ("defects", ["broken_chain"])


def test_a_shard_that_has_nothing_behind_the_end_needs_a_proof(tmp_path: Path) -> None:
    """Silence so far is not the end of a chain."""
    corpus = Corpus(DAY, shape=Shape(shards=1, minutes=(-3, 5)))
    found = audit(corpus, tmp_path, DAY.begin_ms + 800 * MINUTE_MS, so_far_ms=DAY.begin_ms + 601 * MINUTE_MS)
    assert (found.verdict, [finding.code for finding in found.findings]) == ("unknown", ["unproven_end"])


@each_level
def test_an_expired_day_is_unknown_and_nothing_else(tmp_path: Path, level: AuditLevel) -> None:
    """One finding names the tombstone; that its segments are gone is no defect, and its old verdict no proof."""
    mill = Mill(tmp_path)
    expire(mill, "g1")
    day = MILL_DAY.shift(-1)
    found = audit_day(mill.context(), day, AuditOptions(level=level)).audit
    assert found.verdict == "unknown"
    assert [(finding.code, finding.severity, finding.keys) for finding in found.findings] == [
        ("expired_day", "unknown", (f"{PREFIX}_expired/{day}.json",))
    ]
