"""`minutebook cut`: where an archive is divided, and what must be proven of the time before."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from consumer.cut import command
from consumer.cut.archive_cut import cut_archive
from consumer.cut.command import Sources, check_time, doubts, judge, judged_from_ms
from consumer.requests import CutRequest
from minutebook.coverage.verdict import State, Verdict
from minutebook.cut import END, NONE, Cut
from minutebook.errors import FormatError, SafetyRefusal, SettingsError
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.format.position import Position
from minutebook.format.tombstone import encode_tombstone, tombstone_key
from minutebook.owner import read_application
from tests.fakes.archive_scene import PREFIX
from tests.fakes.expire_scene import DAY, TODAY, ExpireScene, day_of
from tests.fakes.restore_scene import NOW, S0, S1, S2, RestoreScene

AT = NOW - 10


def cut(archive: RestoreScene, minute: int = AT) -> Cut:
    """Cut at the beginning of a minute."""
    application = read_application(archive.retrying, PREFIX)
    assert application is not None
    return cut_archive(archive.retrying, PREFIX, application, minute * MINUTE_MS)


def test_the_cut_is_the_end_of_the_last_segment_that_began_before() -> None:
    """Not of a later one, however soon."""
    archive = RestoreScene(S0)
    lasts = archive.begun(S0, [AT - 2, AT - 1, AT])
    assert cut(archive).shards == {S0: str(lasts[1])}
    assert cut(archive).through == cut(archive).at == iso_time(AT * MINUTE_MS)


def test_a_minute_that_began_before_belongs_to_it_whole() -> None:
    """A cut between two segments of a minute would be a time within it, which the archive does not know."""
    archive = RestoreScene(S0)
    lasts = archive.begun(S0, [AT - 1, AT])
    application = read_application(archive.retrying, PREFIX)
    assert application is not None
    found = cut_archive(archive.retrying, PREFIX, application, AT * MINUTE_MS + 1)
    assert found.shards == {S0: str(lasts[1])}
    assert found.through == iso_time((AT + 1) * MINUTE_MS)


def test_a_stamp_that_stepped_back_takes_what_lies_before_it_along() -> None:
    """Readers learn how far they must list."""
    archive = RestoreScene(S0, S1)
    lasts = archive.begun(S0, [AT - 1, AT + 3, AT - 1, AT + 1])
    archive.begun(S1, [AT + 30])
    assert cut(archive).shards == {S0: str(lasts[2]), S1: NONE}
    assert cut(archive).through == iso_time((AT + 4) * MINUTE_MS)


def test_a_stamp_far_ahead_is_found_however_far() -> None:
    """Also one ahead of now: a reader that stops before it leaves the record out."""
    archive = RestoreScene(S0)
    lasts = archive.begun(S0, [AT - 3, AT + 15 * 60, AT - 1])
    assert cut(archive).shards == {S0: str(lasts[2])}
    assert cut(archive).through == iso_time((AT + 15 * 60 + 1) * MINUTE_MS)


def expired_scene() -> ExpireScene:
    """Return an archive whose shard S0 is quiet since its two days were expired; S1 has a segment a day ago."""
    archive = ExpireScene()
    for days_ago in (40, 39):
        archive.add(days_ago, 600)
        archive.add(days_ago, 610)
    archive.add(1, shard_id=S1)
    for days_ago in (40, 39):
        archive.publish(days_ago)
    return archive


def cut_expired(archive: ExpireScene, at_minute: int) -> Cut:
    """Expire, and cut; nothing of the expired days is left, the last segment of the chain neither."""
    archive.expire()
    for key in archive.raw():
        if S0 in key:
            archive.bucket.delete(key)
    application = read_application(archive.retrying, PREFIX)
    assert application is not None
    return cut_archive(archive.retrying, PREFIX, application, at_minute * MINUTE_MS)


def test_expired_days_lie_before_the_cut() -> None:
    """Their tombstones say where: what they published must not be delivered again."""
    archive = expired_scene()
    whole = cut_before_expiry(archive, TODAY - 38 * DAY)
    assert cut_expired(archive, TODAY - 38 * DAY).shards == whole.shards
    assert whole.shards[S0] != NONE
    at_midnight = cut_expired(archive, TODAY - 39 * DAY)
    assert at_midnight.is_before(S0, archive_runs_end(archive, 40))
    assert not at_midnight.is_before(S0, archive_runs_end(archive, 39))


def cut_before_expiry(archive: ExpireScene, at_minute: int) -> Cut:
    """Cut what is still there."""
    application = read_application(archive.retrying, PREFIX)
    assert application is not None
    return cut_archive(archive.retrying, PREFIX, application, at_minute * MINUTE_MS)


def archive_runs_end(archive: ExpireScene, days_ago: int) -> Position:
    """Return the last position of the shard's expired day."""
    return Position.parse(archive.tombstone(days_ago).shards[S0].runs[-1].last)


def test_a_time_within_an_expired_day_is_refused() -> None:
    """A run may have begun before it and ended behind it."""
    with pytest.raises(SafetyRefusal, match="expired") as refusal:
        cut_expired(expired_scene(), TODAY - 39 * DAY + 605)
    assert "that day is expired: cut at its end" in refusal.value.next_step


def test_an_expired_day_with_a_record_before_the_cut_is_read_through() -> None:
    """Its stamps stepped back over midnight: a run of the day after the cut lies before it in the chain."""
    archive = expired_scene()
    archive.expire()
    later = replace(archive.tombstone(40), day=str(day_of(39)))
    archive.bucket.place(tombstone_key(PREFIX, day_of(39)), encode_tombstone(later))
    assert cut_expired(archive, TODAY - 39 * DAY).through == iso_time((TODAY - 38 * DAY) * MINUTE_MS)


def test_a_tombstone_that_cannot_be_read_is_refused() -> None:
    """What it says of the cut is not known."""
    archive = expired_scene()
    archive.expire()
    archive.bucket.place(tombstone_key(PREFIX, day_of(40)), b"{}")
    with pytest.raises(FormatError, match="_expired"):
        cut_expired(archive, TODAY - 38 * DAY)


def test_a_shard_that_has_ended_before_is_at_its_end() -> None:
    """One that ended behind the cut is divided; one without a record has nothing to divide."""
    archive = RestoreScene(S0, S1, S2)
    archive.ended(S0, archive.begun(S0, [AT - 3])[-1])
    lasts = archive.begun(S1, [AT - 3, AT])
    archive.ended(S1, lasts[-1])
    archive.ended(S2, None)
    assert cut(archive).shards == {S0: END, S1: str(lasts[0]), S2: END}


def test_a_cut_holds_positions_of_any_length() -> None:
    """Kinesis' sequence numbers have 56 digits: they are compared as integers."""
    found = Cut(
        stream_arn="a", stream_created_ms=1, at="2026-11-20T10:00Z", through="2026-11-20T10:00Z", shards={S0: "99:3"}
    )
    assert found.is_before(S0, Position(9, 7))
    assert found.is_before(S0, Position(99, 3))
    assert not found.is_before(S0, Position(99, 4))
    assert not found.is_before(S0, Position(100, 0))
    assert not found.is_before(S1, Position(1, 0))


def sources(archive: RestoreScene) -> Sources:
    """Return what the command reads."""
    application = read_application(archive.retrying, PREFIX)
    assert application is not None
    shards = {name: info for name in archive.stream.shards if (info := archive.stream.shard(name))}
    stream = archive.stream
    return Sources(archive.retrying, PREFIX, application, stream.describe(), shards, archive.clock.now_ms(), stream)


def judged(archive: RestoreScene, hours: int = 1) -> Verdict:
    """Judge the hours before the cut."""
    read = sources(archive)
    return judge(read, judged_from_ms(read, AT * MINUTE_MS, hours), AT * MINUTE_MS)


def test_a_gap_is_found_within_the_hours_that_are_judged() -> None:
    """Since the archive's beginning with 0."""
    archive = RestoreScene(S0, created_ms=(AT - 300) * MINUTE_MS)
    archive.first(S0)
    archive.begun(S0, range(AT - 300, AT + 3), missing=range(150, 160))
    assert judged(archive).state is State.COVERED
    assert judged(archive, 3).state is not State.COVERED
    assert judged(archive, 0).state is not State.COVERED
    assert judged_from_ms(sources(archive), AT * MINUTE_MS, 0) == (AT - 300) * MINUTE_MS
    assert judged_from_ms(sources(archive), AT * MINUTE_MS, 9) == (AT - 300) * MINUTE_MS


def test_what_had_arrived_before_must_be_proven() -> None:
    """A shard whose evidence ends before the cut may hold records that are not archived."""
    archive = RestoreScene(S0)
    archive.first(S0)
    archive.begun(S0, range(AT - 90, AT - 3))
    verdict = judged(archive)
    assert verdict.state is State.UNKNOWN
    assert f"what arrived on {S0} from" in doubts(verdict)[0]
    archive.chain(S0, range(AT - 3, AT + 3))
    assert judged(archive).state is State.COVERED


@pytest.mark.parametrize("minute", [NOW + 1, 0])
def test_a_time_outside_of_the_archive_is_refused(minute: int) -> None:
    """Before its beginning, and in the future."""
    archive = RestoreScene(S0)
    with pytest.raises(SettingsError, match="no time of the archive"):
        check_time(sources(archive), minute * MINUTE_MS)


def test_a_cut_holds_all_that_is_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that lags stores the last minutes before the cut between the two looks at the archive."""
    archive, out, lasts = RestoreScene(S0), tmp_path / "cut.json", list[Position]()
    archive.first(S0)
    archive.begun(S0, range(AT - 90, AT - 3))

    def looked(look: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any) -> Any:  # noqa: ANN401 - as `look`
            found = look(*given)
            if not lasts:
                lasts.extend(archive.chain(S0, range(AT - 3, AT + 3)))
            return found

        return called

    for name, look in (("cut_archive", cut_archive), ("judge", judge)):
        monkeypatch.setattr(command, name, looked(look))
    monkeypatch.setattr(command, "load_with_kcl", lambda *_: SimpleNamespace(settings=None))
    monkeypatch.setattr(command, "read_sources", lambda *_: sources(archive))
    request = CutRequest(at=iso_time(AT * MINUTE_MS), out=out)
    assert (command.run_cut(request, {}), out.exists()) == (4, False)
    assert command.run_cut(request, {}) == 0
    assert json.loads(out.read_text())["shards"] == {S0: str(lasts[2])}
