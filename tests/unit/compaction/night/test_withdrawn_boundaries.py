"""What a night, or a comparison with the stream, finds missing in a time that boundaries called complete."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from minutebook.completeness.objects import BoundaryObjects
from minutebook.completeness.publisher import Publisher
from minutebook.completeness.query import Answer, JudgedTime, judge, read_completeness
from minutebook.errors import StoreRefused
from minutebook.format.boundaries import COMPLETE, RowsObject, ShardRow, encode_boundary, rows_key
from minutebook.format.minute import HOUR_MS, MINUTE_MS
from minutebook.store.objects import PutOutcome
from minutebook.store.places import open_storage
from minutebook.store.retrying import RetryingStorage
from tests.corpus.comparing import compare
from tests.corpus.desk import DAY, Desk, no_engine
from tests.corpus.model import BEGIN_MS, PREFIX, Corpus, Stored
from tests.fakes.clock import ManualClock
from tests.fakes.refusing_storage import RefusingStorage

MORNING_MS = DAY.begin_ms + 4 * HOUR_MS
"""Boundaries begin at most 26 hours ago: at 22:30 of the day before."""


class Waited(Desk):
    """An archive whose workers publish a boundary each hour; it is half past midnight."""

    def __init__(self, where: Path, corpus: Corpus | None = None) -> None:
        super().__init__(where, corpus)
        self.clock = ManualClock(DAY.end_ms + 30 * MINUTE_MS)
        for marker in self.store.keys(f"{PREFIX}_shards/"):
            self.age_raw(marker, DAY.begin_ms)  # a folder has this host's time, by which a shard ended only now

    @property
    def store(self) -> RetryingStorage:
        """The archive."""
        return self.context().archive

    def publish(self) -> None:
        """Let workers say that each shard is archived up to now, and publish what that reaches."""
        now_ms = self.clock.now_ms()
        rows = {shard.shard_id: [ShardRow(BEGIN_MS, now_ms, now_ms, None)] for shard in self.corpus.shards}
        document = RowsObject(worker="w", run="run", rows=rows)
        self.store.put_if_absent(
            rows_key(PREFIX, now_ms // HOUR_MS * HOUR_MS, "run", now_ms), encode_boundary(document)
        )
        publisher = Publisher(self.store, PREFIX, every_ms=HOUR_MS, begin_ms=BEGIN_MS, writer="w")
        assert publisher.attempt(now_ms).published

    def judged(self) -> JudgedTime:
        """Return what those are told who wait for the day from 04:00 on."""
        known = read_completeness(BoundaryObjects(self.store, PREFIX), self.clock.now_ms())
        assert known is not None
        return judge(known, MORNING_MS, DAY.end_ms)

    def withdrawals(self) -> list[str]:
        """Return the keys of what was withdrawn."""
        return [key for key in self.store.keys(f"{PREFIX}{COMPLETE}") if "-withdrawn-" in key]

    def lose(self) -> Stored:
        """Delete the segment of 10:00 of a shard."""
        shard = self.corpus.shards[0]
        lost = shard.segments[shard.in_day(DAY)[3]]
        (self.raw / lost.key).unlink()
        return lost


class WithoutRight(RefusingStorage):
    """An archive in which this role may not say anything of boundaries."""

    def put_if_absent(self, key: str, body: bytes, fields: Mapping[str, str], content_type: str) -> PutOutcome:
        """Pass on or refuse."""
        self._check(key)
        return super().put_if_absent(key, body, fields, content_type)


@pytest.fixture
def desk(tmp_path: Path) -> Waited:
    """Return an archive of which the day is published clean, and boundaries up to midnight."""
    desk = Waited(tmp_path)
    assert desk.compact().verdict == "clean"
    desk.publish()
    assert desk.judged() == JudgedTime(Answer.COMPLETE)
    return desk


def test_the_end_of_a_chain_that_is_gone_is_withdrawn(desk: Waited) -> None:
    """No segment says that one is missing there: the checkpoint does, by a finding of the chain."""
    shard = desk.corpus.shards[2]
    (desk.raw / shard.segments[shard.in_day(DAY)[-1]].key).unlink()
    done = desk.compact()
    assert done.result is not None
    assert any(about.message.startswith("KCL's checkpoint names") for about in done.result.audit.findings)
    judged = desk.judged()
    assert (judged.answer, {gap.shard for gap in judged.gaps}) == (Answer.GAPS, {shard.shard_id})


def test_a_night_withdraws_what_it_finds_missing_until_it_is_put_back(desk: Waited) -> None:
    """Once: neither the next night nor one behind the next boundary, which names the gap, stores anything more."""
    lost = desk.lose()
    with capture_logs() as logs:
        assert desk.compact().verdict == "defects"
    assert [(line["log_level"], line["gaps"]) for line in logs if line["event"] == "boundary_withdrawn"] == [
        ("error", 1)
    ]
    judged = desk.judged()
    assert judged.answer is Answer.GAPS
    [gap] = judged.gaps
    assert (gap.shard, gap.reasons, gap.until) == ("shardId-000000000000", ("broken_chain",), f"{DAY}T10:03:00.000Z")
    withdrawn = desk.withdrawals()
    assert len(withdrawn) == 1
    desk.compact(engine=no_engine)
    assert desk.withdrawals() == withdrawn

    desk.clock.advance(3600)
    desk.publish()
    assert desk.judged() == judged
    desk.compact(engine=no_engine)
    assert desk.withdrawals() == withdrawn

    desk.store_again(lost, 1)
    desk.clock.advance(3600)
    desk.publish()
    assert desk.judged() == JudgedTime(Answer.COMPLETE)
    desk.lose()
    desk.compact()
    assert desk.judged().answer is Answer.GAPS, "the same gap again, which the newest boundary calls healed"


def test_a_comparison_with_the_stream_withdraws_and_an_audit_by_names_does_not(desk: Waited) -> None:
    """Its policy has no right to; the night behind it has."""
    shard = desk.corpus.shards[0]
    compare(desk, lost=shard.segments[shard.in_day(DAY)[4]].records[0].position)
    judged = desk.judged()
    assert [(gap.shard, gap.reasons) for gap in judged.gaps] == [(shard.shard_id, ("lost",))]

    desk.lose()
    audit_day(desk.context(), DAY, AuditOptions())
    assert desk.judged() == judged


def test_a_time_that_nothing_proves_yet_is_not_withdrawn(tmp_path: Path) -> None:
    """Looks prove times that no read mark shows yet. Nor is it withdrawn where a segment is gone beside it."""
    corpus = Corpus(DAY)
    shard = corpus.shards[2]
    shard.checkpoint = None
    del shard.segments[-1]  # that of 23:59: the last one is that of 10:01
    desk = Waited(tmp_path, corpus)
    desk.publish()
    assert desk.compact().verdict == "unknown"
    assert desk.withdrawals() == []
    assert desk.judged() == JudgedTime(Answer.COMPLETE)

    (desk.raw / shard.segments[-2].key).unlink()
    assert desk.compact().verdict == "defects"
    [gap] = desk.judged().gaps
    assert (gap.shard, gap.reasons) == (shard.shard_id, ("broken_chain",))
    assert gap.until == f"{DAY}T10:03:00.000Z", "the rest of the day is only unproven"


def test_nobody_is_asked_while_nothing_is_missing(tmp_path: Path) -> None:
    """Nor is anything written where nobody publishes boundaries."""
    desk = Waited(tmp_path)
    refused = StoreRefused("403 AccessDenied")
    storage = WithoutRight(open_storage(desk.archive), lambda key: refused if COMPLETE in key else None)
    archive = RetryingStorage(storage, desk.store.new_backoff)
    assert desk.compact(archive=archive).verdict == "clean"
    desk.lose()
    assert desk.compact().verdict == "defects"
    assert desk.store.keys(f"{PREFIX}{COMPLETE}") == []


@pytest.mark.parametrize("reads", [True, False], ids=["may read", "may not read"])
def test_a_night_that_may_not_withdraw_ends_as_ever(desk: Waited, *, reads: bool) -> None:
    """With a warning that says which right it lacks: a role from before this version."""
    desk.lose()

    def refuse(key: str) -> StoreRefused | None:
        is_meant = COMPLETE in key and (not reads or "-withdrawn-" in key)
        return StoreRefused("403 AccessDenied") if is_meant else None

    archive = RetryingStorage(WithoutRight(open_storage(desk.archive), refuse), desk.store.new_backoff)
    with capture_logs() as logs:
        done = desk.compact(archive=archive)
    assert (done.state, done.verdict) == ("held", "defects")
    [line] = [line for line in logs if line["event"] == "boundary_not_withdrawn"]
    assert (line["log_level"], line["day"], line["gaps"]) == ("warning", str(DAY), 1)
    assert "_complete/" in line["next_step"]
    assert desk.withdrawals() == []
    assert desk.compact().verdict == "defects"
    assert len(desk.withdrawals()) == 1
