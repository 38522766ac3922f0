"""What a night cannot read is a matter of its day, and a clean verdict in doubt does not stand for it."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pytest

from compaction.job.context import AuditOptions, Engine
from compaction.night.days.run import DayRow, row_of_due, row_of_error
from compaction.night.days.stop import StopRequest
from compaction.night.due import Due, do_due, find_due, pointer_word
from compaction.night.rewrite import CompactOptions
from compaction.publish.publisher import Publisher
from compaction.tasks.task import Order, TaskResult
from compaction.verdict.audit_document import decode_audit
from minutebook.errors import MinutebookError, OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable
from minutebook.format.day import Day
from minutebook.published.generation import DayFolder, inventory_beside
from minutebook.retry import Backoff
from minutebook.store.places import open_storage
from tests.corpus.auditing import in_process
from tests.corpus.desk import DAY, OUT, Desk, Mill, expire
from tests.corpus.model import PREFIX, Corpus, Shape, Stored
from tests.fakes.refusing_storage import Refuse, refusing

ARCHIVED: Final = "InvalidObjectState: the object is archived"
BEFORE: Final = DAY.shift(-1)
OLDER: Final = DAY.shift(-3)


def refuse_none(_: str) -> StoreError | None:
    """Refuse nothing."""
    return None


def refuse(*parts: str) -> Refuse:
    """Refuse keys that hold all of these."""
    return lambda key: StoreRefused(f"GET {key}: {ARCHIVED}") if all(part in key for part in parts) else None


def away(*parts: str) -> Refuse:
    """Do not answer for keys that hold all of these."""
    return lambda key: OutcomeUnknown(f"GET {key}: 503") if all(part in key for part in parts) else None


def failing(error: Exception) -> Engine:
    """Return an engine whose tasks end with an error: an object of theirs cannot be read."""

    def engine(_: Sequence[Order]) -> list[TaskResult]:
        raise error

    return engine


def night(
    desk: Desk,
    refuse: Refuse = refuse_none,
    *,
    engine: Engine = in_process,
    window: int = 14,
    stop: StopRequest | None = None,
    event_id: str | None = None,
) -> tuple[Due, Mapping[Day, DayRow]]:
    """Do what is due, as the command does; each request asks whether the run must `stop`."""
    context = desk.context()._replace(engine=engine)
    new_backoff = context.archive.new_backoff

    def checked() -> Backoff:
        if stop is not None:
            stop.check()
        return new_backoff()

    context = refusing(context._replace(archive=context.archive.within(checked)), refuse)
    options = CompactOptions(AuditOptions(published=desk.out, event_id=event_id), desk.out)
    due = find_due(context, desk.out, options.audit, window)
    rows = {}
    for day, each in sorted(due.by_day.items()):
        try:
            done = do_due(context, each, options)
            word = pointer_word(context.open(desk.out.address), OUT, day) if each.why else each.pointer
            rows[day] = row_of_due(each, done, word, "unknown")
        except MinutebookError as exc:
            rows[day] = row_of_error(day, exc)
    return due, rows


def clean(desk: Desk) -> Desk:
    """Publish what is there."""
    desk.corpus.write_marks(open_storage(desk.archive))
    _, rows = night(desk)
    assert {row.pointer for row in rows.values()} == {"clean"}
    return desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return two clean days that are published."""
    return clean(Desk(tmp_path))


def verdict(desk: Desk) -> str:
    """Return what readers see."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    return pointer.verdict


def lose(desk: Desk, number: int = 3) -> Stored:
    """Delete a segment of the day."""
    shard = desk.corpus.shards[0]
    stored = shard.segments[shard.in_day(DAY)[number]]
    open_storage(desk.archive).delete([stored.key])
    return stored


def put_back(desk: Desk, stored: Stored) -> None:
    """Store it again."""
    open_storage(desk.archive).put_if_absent(stored.key, stored.body, stored.fields, "application/gzip")


# A1: work that fails


@pytest.mark.parametrize(
    ("error", "state", "code"),
    [
        (StoreRefused(ARCHIVED, next_step="restore it"), "refused", 2),
        (StoreUnavailable("503"), "unavailable", 5),
        (MinutebookError("a job failed"), "failed", 1),
    ],
)
def test_a_loss_that_lists_show_withdraws_the_verdict_though_the_day_cannot_be_judged(
    desk: Desk, error: MinutebookError, state: str, code: int
) -> None:
    """Another object of the day is in Glacier, or under a key that is disabled: what is lost is lost all the same."""
    stored = lose(desk)
    _, rows = night(desk, engine=failing(error))
    row = rows[DAY]
    assert (row.state, row.exit_code, row.pointer, row.done) == (state, code, "unknown", ("withdrawn",))
    assert f"{error}; its verdict was withdrawn, because it was in doubt: objects came, went or changed" in row.reason
    assert (verdict(desk), rows[BEFORE].pointer) == ("unknown", "clean")
    assert len(desk.published_rows()) == desk.corpus.records
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    audit = decode_audit(desk.publisher().audit(pointer) or b"")
    assert [check.message for check in audit.checks if check.status == "unknown"] == [
        f"{row.reason.rpartition('in doubt: ')[2]}; it could not be judged again: {error}"
    ]
    _, rows = night(desk, engine=failing(error))
    assert (rows[DAY].exit_code, verdict(desk)) == (code, "unknown")
    put_back(desk, stored)
    _, rows = night(desk)
    assert (rows[DAY].pointer, rows[DAY].done) == ("clean", ("judged again",))
    _, rows = night(desk)
    assert rows[DAY].done == ("nothing",)


def test_a_bug_does_not_keep_a_verdict_either(desk: Desk) -> None:
    """It ends the run, as any bug does."""
    lose(desk)
    with pytest.raises(ZeroDivisionError):
        night(desk, engine=failing(ZeroDivisionError()))
    assert verdict(desk) == "unknown"


def test_a_run_that_is_stopped_withdraws_nothing(desk: Desk) -> None:
    """Its jobs end with whatever error; the next night judges the day."""
    lose(desk)
    stop = StopRequest()

    def engine(_: Sequence[Order]) -> list[TaskResult]:
        stop.ask()
        raise MinutebookError("the job was cancelled")

    _, rows = night(desk, engine=engine, stop=stop)
    assert (rows[DAY].state, verdict(desk)) == ("stopped", "clean")


def test_a_verdict_that_another_run_gave_meanwhile_stays(desk: Desk) -> None:
    """The other host could read the day."""
    stored = lose(desk)

    def engine(_: Sequence[Order]) -> list[TaskResult]:
        put_back(desk, stored)
        assert night(desk)[1][DAY].pointer == "clean"
        raise StoreRefused(ARCHIVED)

    _, rows = night(desk, engine=engine)
    assert "its pointer has changed meanwhile" in rows[DAY].reason
    assert verdict(desk) == "clean"


def test_a_part_keeps_its_verdict_when_later_hours_cannot_be_read(tmp_path: Path) -> None:
    """What keeps the day from being published does not concern it; a loss within the part does."""
    desk = Desk(tmp_path)
    part = AuditOptions(so_far_ms=DAY.begin_ms + 11 * 3_600_000)
    assert desk.compact(audit=part).verdict == "clean"
    refused = failing(StoreRefused(ARCHIVED))
    _, rows = night(desk, engine=refused)
    assert (rows[DAY].exit_code, verdict(desk)) == (2, "clean")
    lose(desk)
    _, rows = night(desk, engine=refused)
    assert (rows[DAY].exit_code, rows[DAY].done, verdict(desk)) == (2, ("withdrawn",), "unknown")


def test_rows_of_other_settings_put_no_verdict_in_doubt(desk: Desk) -> None:
    """The days are due, and cannot be judged this night: the archive is as it was, but for the day of a loss."""
    lose(desk)
    _, rows = night(desk, refuse(f"{PREFIX}_shards/"), event_id="n")
    assert {row.state for row in rows.values()} == {"refused"}
    assert (rows[DAY].done, verdict(desk)) == (("withdrawn",), "unknown")
    pointer = Publisher(desk.context().open(desk.out.address), DayFolder(OUT, BEFORE)).current().pointer
    assert pointer is not None
    assert pointer.verdict == "clean"


# A2: what cannot be looked at

PUBLISHED: Final[dict[str, Callable[[Desk], str]]] = {
    "pointer": lambda desk: desk.publisher().folder.pointer,
    "audit": lambda _: ".audit.json",
    "inventory": lambda desk: inventory_beside(_pointer_manifest(desk)),
}


def _pointer_manifest(desk: Desk) -> str:
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    return pointer.manifest


@pytest.mark.parametrize("what", PUBLISHED)
def test_what_is_refused_of_a_published_day_is_that_days_row(desk: Desk, what: str) -> None:
    """The others go on; and nobody can say that its verdict holds."""
    _, rows = night(desk, refuse(f"dt={DAY}", PUBLISHED[what](desk)))
    assert (rows[DAY].state, rows[DAY].exit_code, ARCHIVED in rows[DAY].reason) == ("refused", 2, True)
    assert (rows[BEFORE].pointer, rows[BEFORE].exit_code) == ("clean", 0)
    assert verdict(desk) == ("clean" if what == "pointer" else "unknown")
    assert ("readers still see it, because that failed" in rows[DAY].reason) is False
    _, rows = night(desk)
    assert (rows[DAY].pointer, night(desk)[1][DAY].done) == ("clean", ("nothing",))


@pytest.mark.parametrize("what", PUBLISHED)
def test_a_store_that_does_not_answer_withdraws_nothing(desk: Desk, what: str) -> None:
    """Running it again may be enough: the next night compares."""
    _, rows = night(desk, away(f"dt={DAY}", PUBLISHED[what](desk)))
    assert (rows[DAY].state, rows[DAY].exit_code) == ("unavailable", 5)
    assert (verdict(desk), rows[BEFORE].pointer) == ("clean", "clean")


def test_a_verdict_that_cannot_be_withdrawn_is_told(desk: Desk) -> None:
    """The pointer can be read, and not written."""
    lose(desk)
    looked: list[str] = []

    def once(key: str) -> StoreError | None:
        if not key.endswith(f"dt={DAY}/_current.json"):
            return None
        looked.append(key)
        return StoreRefused(f"{key}: AccessDenied") if len(looked) > 3 else None

    _, rows = night(desk, once, engine=failing(StoreRefused(ARCHIVED)))
    assert "readers still see it, because that failed" in rows[DAY].reason
    assert (rows[DAY].exit_code, rows[DAY].done, verdict(desk)) == (2, msgspec.UNSET, "clean")


@pytest.fixture
def long(tmp_path: Path) -> Desk:
    """Return four clean days that are published."""
    minutes = (-3000, -2999, -700, -2, -1, 0, 1, 2, 600, 601, 1439, 1440, 1441, 1442)
    return clean(Mill(tmp_path, Corpus(DAY, shape=Shape(minutes=minutes))))


@pytest.mark.parametrize("what", ["_current.json", ".audit.json", ".inventory.jsonl.gz"])
def test_what_is_refused_of_an_older_day_is_named_in_the_line_of_these(long: Desk, what: str) -> None:
    """The days of the window go on."""
    lose(long)
    due, rows = night(long, refuse(f"dt={OLDER}", what), window=1)
    assert (rows[DAY].pointer, rows[DAY].exit_code) == ("defects", 3)
    assert due.older.open_days == (OLDER,)


def _without_parquet(desk: Desk) -> None:
    desk.storage.delete([row.key for row in desk.storage.list_objects(f"{OUT}dt={OLDER}/") if "/part-" in row.key])


def _without_manifest(desk: Desk) -> None:
    desk.storage.delete([row.key for row in desk.storage.list_objects(f"{OUT}dt={OLDER}/_manifest/")])


def _pointer_with(desk: Desk, **fields: object) -> None:
    path = Path(desk.storage.uri(f"{OUT}dt={OLDER}/_current.json"))
    path.write_text(json.dumps(json.loads(path.read_bytes()) | fields))


@pytest.mark.parametrize(
    "change",
    [
        _without_parquet,
        _without_manifest,
        partial(_pointer_with, until=f"{OLDER}T06:00:00.000Z"),
        partial(_pointer_with, rules=1),
    ],
    ids=["its parquet", "its manifest", "a part", "older rules"],
)
def test_an_older_day_that_readers_do_not_see_whole_and_clean_is_named(
    long: Desk, change: Callable[[Desk], None]
) -> None:
    """The night has read that, long before it is the day's turn."""
    assert night(long, window=1)[0].older.open_days == ()
    change(long)
    assert night(long, window=1)[0].older.open_days == (OLDER,)


def test_a_refused_tombstone_is_a_row_of_its_day_and_concerns_those_that_need_it(long: Mill) -> None:
    """Those behind it stand on what nobody can read; the one that stands on a later segment does not."""
    pointer = Path(long.storage.uri(f"{long.out.prefix}dt={OLDER}/_current.json"))
    expire(long, json.loads(pointer.read_bytes())["generation"], days=3)
    night(long)

    def words(rows: Mapping[Day, DayRow]) -> list[tuple[object, int]]:
        return [(rows[DAY.shift(-number)].pointer, rows[DAY.shift(-number)].exit_code) for number in range(4)]

    assert words(night(long)[1]) == [("clean", 0), ("clean", 0), ("clean", 0), ("expired", 0)]
    for _ in range(2):
        _, rows = night(long, refuse(f"_expired/{OLDER}.json"))
        assert words(rows) == [("clean", 0), ("unknown", 4), ("unknown", 4), ("expired", 4)]
        assert ARCHIVED in rows[OLDER].reason
    assert rows[DAY].done == ("nothing",)
    night(long)
    assert words(night(long)[1]) == [("clean", 0), ("clean", 0), ("clean", 0), ("expired", 0)]


def test_a_refused_marker_is_a_row_of_each_day_and_hides_no_loss(desk: Desk) -> None:
    """All days need it; what LISTs alone show of one withdraws its verdict, and no other."""
    lose(desk)
    _, rows = night(desk, refuse(f"{PREFIX}_shards/"))
    assert {(row.state, row.exit_code) for row in rows.values()} == {("refused", 2)}
    assert (rows[DAY].done, verdict(desk)) == (("withdrawn",), "unknown")
    _, rows = night(desk)
    assert rows[BEFORE].done == ("nothing",)
