"""A shard that was quiet for days: published days say where its chain stood, and the judged day must stand on it."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from compaction.inventory.neighbours import NeighbourQuery, find_neighbours
from compaction.publish.ends import PublishedEnds
from compaction.verdict.audit_document import Audit
from minutebook.errors import StoreError, StoreRefused, StoreUnavailable
from minutebook.format.keys import segment_key
from minutebook.format.metadata import Continuity
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.index.last_segments import LastSegment
from minutebook.published.generation import Manifest, Pointer, ends_beside
from minutebook.published.verdict import RULES
from tests.corpus.model import PREFIX
from tests.fakes.archive_scene import end_marker
from tests.unit.compaction.inventory.quiet_scene import BUSY, FIRST, OUT, QUIET, Nights

DAYS = 6


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an archive whose days are published but the last one."""
    folder = tmp_path_factory.mktemp("published")
    nights = Nights(folder, DAYS)
    nights.publish(*(nights.day(number) for number in range(DAYS - 1)))
    return folder


@pytest.fixture
def nights(published: Path, tmp_path: Path) -> Nights:
    """Return a copy of it."""
    shutil.copytree(published, tmp_path, dirs_exist_ok=True)
    return Nights(tmp_path, DAYS)


def listed(nights: Nights, asked: dict[str, int]) -> int:
    """Return how many LISTs looked at days before the one beside the last."""
    days = [str(nights.day(number)).replace("-", "/") for number in range(nights.days - 2)]
    return sum(asked.get(day, 0) for day in days)


def said(audit: Audit) -> object:
    """Return what an audit says, but when it was given, and what only published days can tell."""
    checks = [check for check in audit.checks if check.id not in {"altered_object", "replaced"}]
    return audit.verdict, audit.findings, audit.shards, checks, audit.equation


def document(nights: Nights, number: int) -> tuple[str, list[dict[str, object]]]:
    """Return the key and the lines of what a published day says."""
    publisher = nights.publisher(nights.day(number))
    pointer = publisher.current().pointer
    assert pointer is not None
    key = ends_beside(pointer.manifest)
    stored = publisher.storage.get(key)
    assert stored is not None
    return key, [json.loads(line) for line in gzip.decompress(stored.body).splitlines()]


def forge(nights: Nights, number: int, change: Callable[[list[dict[str, object]]], object]) -> None:
    """Change what a published day says."""
    key, lines = document(nights, number)
    change(lines)
    body = gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    Path(nights.publisher(nights.day(number)).storage.uri(key)).write_bytes(body)


def test_a_quiet_shard_costs_no_list_of_the_days_before(nights: Nights) -> None:
    """One HEAD instead, and the audit says what it says without published days."""
    last = nights.day(DAYS - 1)
    with_days, asked = nights.audit(last)
    without, asked_without = nights.audit(last, published=False)
    assert said(with_days) == said(without)
    assert with_days.verdict == "clean"
    assert listed(nights, asked) == 0
    assert listed(nights, asked_without) > 0


def test_a_shard_is_carried_on_while_it_is_quiet(nights: Nights) -> None:
    """Each day names the segment of the first one, and its own of the busy shard."""
    for number in range(DAYS - 1):
        _, (head, busy, *others) = document(nights, number)
        rows = {row["shard"]: row for row in (busy, *others)}
        assert (head["day"], head["shards"]) == (str(nights.day(number)), 2)
        assert (rows[QUIET]["key"], rows[QUIET]["last"]) == (nights.tail.key, str(nights.tail.metadata.last))
        assert str(rows[BUSY]["key"]).startswith(nights.day(number).path(PREFIX))


def test_a_shard_that_writes_again_is_joined_with_its_last_segment(nights: Nights) -> None:
    """Its first segment's link says what it stands on; the next days stand on the new one."""
    nights.pass_day(500)
    nights.publish(nights.day(DAYS - 1))
    audit, asked = nights.audit(nights.day(DAYS))
    assert {row.shard: row.start_proof for row in audit.shards} == {QUIET: "link", BUSY: "link"}
    assert (audit.verdict, listed(nights, asked)) == ("clean", 0)
    nights.publish(nights.day(DAYS))
    rows = {row["shard"]: row for row in document(nights, DAYS)[1][1:]}
    assert str(rows[QUIET]["key"]).startswith(nights.day(DAYS).path(PREFIX))


def test_a_shard_may_be_quiet_for_longer_than_days_are_searched(nights: Nights) -> None:
    """What lies further back is found all the same; without published days nobody knows it."""
    nights.pass_day(500)
    nights.publish(nights.day(DAYS - 1))
    last = nights.day(DAYS)
    assert nights.audit(last, lookback=2)[0].verdict == "clean"
    found = nights.audit(last, lookback=2, published=False)[0].findings
    assert [(about.code, about.severity) for about in found] == [("missing_start", "unknown")]


def gone(nights: Nights) -> None:
    """Its segment was deleted."""
    nights.store.delete([nights.tail.key])


def replaced(nights: Nights) -> None:
    """Another object lies where its segment was."""
    nights.store.delete([nights.tail.key])
    nights.store.put_if_absent(nights.tail.key, b"x", {}, "text/plain")


def without_ends(nights: Nights) -> None:
    """An earlier version published the day."""
    nights.publisher(nights.day(DAYS - 2)).storage.delete([document(nights, DAYS - 2)[0]])


def damaged(nights: Nights) -> None:
    """What it says was cut on its way."""
    path = Path(nights.publisher(nights.day(DAYS - 2)).storage.uri(document(nights, DAYS - 2)[0]))
    path.write_bytes(path.read_bytes()[:-9])


def of_another_day(nights: Nights) -> None:
    """It is the word of another day."""
    forge(nights, DAYS - 2, lambda lines: lines[0].update(day=str(FIRST)))


def of_another_generation(nights: Nights) -> None:
    """It is the word of another generation."""
    forge(nights, DAYS - 2, lambda lines: lines[0].update(generation="0" * 16))


def not_whole(nights: Nights) -> None:
    """A line of it is missing."""
    forge(nights, DAYS - 2, lambda lines: lines.pop())


def against_its_manifest(nights: Nights) -> None:
    """It does not know a segment of the day itself."""
    forge(nights, DAYS - 2, lambda lines: next(one for one in lines if one.get("shard") == BUSY).update(last="1:0"))


def with_pointer(nights: Nights, number: int = DAYS - 2, **changes: object) -> None:
    """Change what a pointer says, and its manifest where it says the same."""
    publisher = nights.publisher(nights.day(number))
    pointer = publisher.current().pointer
    assert pointer is not None
    manifest = publisher.manifest(pointer)
    assert manifest is not None
    both = {name: value for name, value in changes.items() if name != "verdict"}
    documents: list[tuple[str, Pointer | Manifest]] = [
        (publisher.folder.pointer, msgspec.structs.replace(pointer, **changes)),
        (pointer.manifest, msgspec.structs.replace(manifest, **both)),
    ]
    for key, changed in documents:
        Path(publisher.storage.uri(key)).write_bytes(msgspec.json.encode(changed))


def not_clean(nights: Nights) -> None:
    """The day is published and not clean."""
    with_pointer(nights, verdict="unknown")


def so_far(nights: Nights) -> None:
    """The day was published so far."""
    with_pointer(nights, until="2026-11-06T10:00:00.000Z")


def by_older_rules(nights: Nights) -> None:
    """Its verdict was given by older rules."""
    with_pointer(nights, rules=RULES - 1)


def hole(nights: Nights) -> None:
    """The day beside was never published."""
    nights.publisher(nights.day(DAYS - 2)).storage.delete([f"{OUT}dt={nights.day(DAYS - 2)}/_current.json"])


OF_ONE_DAY = (
    without_ends,
    damaged,
    of_another_day,
    of_another_generation,
    not_whole,
    against_its_manifest,
    not_clean,
    so_far,
    by_older_rules,
    hole,
)


@pytest.mark.parametrize("doubt", OF_ONE_DAY, ids=lambda doubt: doubt.__name__)
def test_the_names_of_a_day_in_doubt_are_looked_at(nights: Nights, doubt: Callable[[Nights], None]) -> None:
    """As today; then the day before it is asked. The audit says the same."""
    last = nights.day(DAYS - 1)
    asked_before = nights.audit(last)[1]
    doubt(nights)
    beside = str(nights.day(DAYS - 2)).replace("-", "/")
    plain = nights.audit(last, published=False)[0]
    audit, asked = nights.audit(last)
    assert said(audit) == said(plain)
    assert asked[beside] > asked_before[beside]
    assert listed(nights, asked) <= 1  # the minute that the shard's marks name


def late_and_published(nights: Nights) -> None:
    """A late segment forks the chain on a day between, which was judged again."""
    late(nights)
    nights.compact(nights.day(2))


def late(nights: Nights) -> None:
    """A late segment of the quiet shard forks its chain on a day between; nobody has noticed."""
    records = [Record("2000", 0, "k", nights.day(2).begin_ms + 60_000 * 30, b"late")]
    scene, minute = nights.scene, nights.day(2).first_minute + 30
    scene.segment(QUIET, minute, records, after=nights.tail.metadata.last, continuity=Continuity.UNPROVEN)


def says_another(nights: Nights) -> None:
    """A day between names another segment than the later ones do."""
    key = segment_key(PREFIX, QUIET, nights.day(1).first_minute + 5, Position(1002))

    def change(lines: list[dict[str, object]]) -> None:
        next(one for one in lines if one.get("shard") == QUIET).update(key=key)

    forge(nights, 2, change)


def withdrawn(nights: Nights) -> None:
    """A day between is not clean any more."""
    with_pointer(nights, 2, verdict="defects")


@pytest.mark.parametrize(
    "doubt", [gone, replaced, late_and_published, says_another], ids=lambda doubt: doubt.__name__
)
def test_names_are_listed_where_days_or_segments_disagree(nights: Nights, doubt: Callable[[Nights], None]) -> None:
    """Back in time to where a segment of the shard lies; the audit says what it says without published days."""
    last = nights.day(DAYS - 1)
    doubt(nights)
    plain = nights.audit(last, published=False)[0]
    audit, asked = nights.audit(last)
    assert said(audit) == said(plain)
    assert listed(nights, asked) > 0


def test_the_names_of_a_day_between_are_looked_at_where_it_is_not_clean(nights: Nights) -> None:
    """Of that one, and of no other."""
    withdrawn(nights)
    audit, asked = nights.audit(nights.day(DAYS - 1))
    looked_at = [number for number in range(DAYS - 2) if asked[str(nights.day(number)).replace("-", "/")]]
    assert (audit.verdict, looked_at) == ("clean", [2])


def test_a_late_segment_that_nobody_noticed_is_its_own_days_to_tell(nights: Nights) -> None:
    """The last day stands on the segment that was last; the day of the late one has the fork."""
    late(nights)
    assert nights.audit(nights.day(DAYS - 1))[0].verdict == "clean"
    assert nights.compact(nights.day(2))[0].verdict != "clean"
    assert (
        nights.audit(nights.day(DAYS - 1))[0].verdict
        == nights.audit(nights.day(DAYS - 1), published=False)[0].verdict
    )


@pytest.mark.parametrize("writes", [(), (500,)], ids=["quiet", "writes"])
def test_a_segment_that_the_day_does_not_stand_on_is_not_taken(nights: Nights, writes: tuple[int, ...]) -> None:
    """All published days agree, and the day stands on a later segment: on one that came late, and nobody noticed."""
    nights.scene.segment(QUIET, nights.day(2).first_minute + 30)
    last = nights.pass_day(*writes)
    nights.publish(nights.day(DAYS - 1))
    forge(nights, DAYS - 1, lambda lines: lines.__setitem__(slice(None), of_before(nights, lines)))
    plain = nights.audit(last, published=False)[0]
    audit, asked = nights.audit(last)
    assert said(audit) == said(plain)
    assert listed(nights, asked) > 0


def of_before(nights: Nights, lines: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return what a day says with the quiet shard's line of a day that did not know of the late segment."""
    stale = next(one for one in document(nights, DAYS - 2)[1] if one.get("shard") == QUIET)
    return [stale if one.get("shard") == QUIET else one for one in lines]


def test_a_published_day_that_names_another_segment_is_not_believed(tmp_path: Path) -> None:
    """It names the position that the day stands on, and the segment before the one that ends there."""
    nights = Nights(tmp_path, 1)
    one, two = nights.tail, nights.scene.segment(QUIET, nights.day(1).first_minute + 30)
    lie = LastSegment(one.key, two.metadata.last, one.metadata.minute, one.metadata.after)
    need = NeighbourQuery(None, None, before=True, after=False, stands_on=two.metadata.last)
    asked = nights.context().archive, PREFIX, nights.day(3), {QUIET: need}
    found = find_neighbours(*asked, published=lambda _: {QUIET: lie})
    assert [link.key for link in found.links[QUIET]] == [two.key]


@pytest.mark.parametrize("error", [StoreRefused, StoreUnavailable])
def test_an_output_out_of_reach_costs_requests_and_nothing_else(error: type[StoreError]) -> None:
    """An audit may have no right to read it: it is asked once, and names are listed."""
    asked: list[int] = []

    def open_output() -> NoReturn:
        asked.append(1)
        raise error("out of reach", next_step="none")

    ends = PublishedEnds(open_output, OUT)
    assert [ends(FIRST), ends(FIRST.shift(1)), ends(FIRST)] == [None, None, None]
    assert len(asked) == 1


def test_a_shard_that_was_closed_is_told_as_closed(tmp_path: Path) -> None:
    """On the day on which it ended."""
    nights = Nights(tmp_path, 2)
    last = nights.day(1)
    nights.scene.put_end(end_marker(QUIET, nights.tail.metadata.last, written_at=f"{last}T12:00:00.000Z"))
    nights.compact(last)
    ends = nights.ends()(last)
    assert ends is not None
    assert {shard: end.is_closed for shard, end in ends.items()} == {QUIET: True, BUSY: False}
