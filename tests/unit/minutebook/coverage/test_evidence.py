"""What one object says about a time."""

import msgspec
import pytest

from minutebook.coverage.evidence import (
    Evidence,
    Kind,
    adopted_evidence,
    ended_by_ms,
    expired_link,
    mark_evidence,
    run_of,
    segment_link,
    unanswered,
)
from minutebook.coverage.intervals import FOREVER, Interval
from minutebook.format.metadata import Continuity, SegmentMetadata
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark
from tests.unit.minutebook.coverage.scene import LOST, PROVEN, SHARD, UNPROVEN, at, piece

MINUTE = at(10) // MINUTE_MS
METADATA = SegmentMetadata(
    shard_id=SHARD,
    minute=MINUTE,
    first=Position(5),
    last=Position(9),
    after=Position(4),
    records=5,
    dropped=0,
    payload_bytes=1,
    arrival_min_ms=at(10) + 1,
    arrival_max_ms=at(10) + 59_999,
    writer="run-1",
)


def test_a_segment_reaches_to_a_minute_before_its_own() -> None:
    """Never to its greatest arrival time: stamps step back, so what lies behind it may be older."""
    assert segment_link(METADATA).until_ms == at(9, 59)


def test_what_a_segment_begins_opens_two_minutes_behind_the_start_of_its_own() -> None:
    """What was trimmed before its first record may carry a later stamp."""
    assert segment_link(METADATA).begins_ms == at(10, 2)


@pytest.mark.parametrize(
    ("continuity", "evidence", "claim"),
    [
        (None, None, None),
        (PROVEN, None, None),
        (PROVEN, at(9), PROVEN),
        (UNPROVEN, None, UNPROVEN),
        (LOST, None, LOST),
    ],
)
def test_a_segment_claims_what_its_metadata_states(
    continuity: Continuity | None, evidence: int | None, claim: Continuity | None
) -> None:
    """A proven continuity without its `from` states nothing: nobody can tell what it covers."""
    found = segment_link(msgspec.structs.replace(METADATA, continuity=continuity, evidence_ms=evidence))
    assert (found.claim, found.from_ms) == (claim, evidence)


@pytest.mark.parametrize(
    ("kind", "continuity", "covers"),
    [
        (Kind.READ, PROVEN, Interval(at(1), at(2))),
        (Kind.READ, UNPROVEN, Interval(at(2), at(2))),
        (Kind.READ, LOST, Interval(at(2), at(2))),
        (Kind.STREAM, PROVEN, Interval(at(1), at(2))),
        (Kind.END, PROVEN, Interval(at(1), FOREVER)),
        (Kind.END, UNPROVEN, Interval(at(2), FOREVER)),
    ],
)
def test_only_what_is_proven_covers_backwards(kind: Kind, continuity: Continuity, covers: Interval) -> None:
    """And a shard that has ended needs nothing more, proven or not."""
    assert piece(at(1), at(2), kind=kind, continuity=continuity).interval == covers


@pytest.mark.parametrize(
    ("mark", "kind"), [(MarkKind.READ, Kind.READ), (MarkKind.END, Kind.END), (MarkKind.STREAM, Kind.STREAM)]
)
def test_a_mark_says_what_stands_in_it(mark: MarkKind, kind: Kind) -> None:
    """Interval, position and continuity."""
    found = mark_evidence(ReadMark(SHARD, mark, LOST, at(1), at(2), Position(3), "w"), at(3))
    assert found == (SHARD, kind, at(1), at(2), Position(3), LOST, at(3))


def test_an_adopted_checkpoint_begins_a_minute_before_its_write() -> None:
    """A day later where its record was trimmed: nobody knows when the reader catches up."""
    held = adopted_evidence(SHARD, Position(3), stored_ms=at(1), held=True)
    trimmed = adopted_evidence(SHARD, Position(3), stored_ms=at(1), held=False)
    assert (held.interval, trimmed.until_ms) == (Interval(at(0, 59), at(0, 59)), at(24, 59))


def test_an_expired_run_is_there_to_be_followed() -> None:
    """By the run of its last segment's writer, from that segment's `until`."""
    ends = {"first": Position(1), "last": Position(9), "after": Position(0)}
    found = expired_link(**ends, arrival_min_ms=at(-24), until_ms=at(-1), run="run")
    assert (found.until_ms, found.begins_ms, found.run) == (at(-1), at(-1), "run")
    assert found.arrival_min_ms == at(-24)


@pytest.mark.parametrize(
    ("pieces", "stored", "ended"),
    [
        ((), None, FOREVER),
        ((piece(0, at(1)),), None, FOREVER),
        ((), at(5), at(5, 1)),
        ((piece(0, at(1), kind=Kind.END), piece(0, at(2), kind=Kind.END)), at(5), at(1, 2)),
        ((piece(0, at(6), kind=Kind.END, continuity=UNPROVEN),), at(5), at(5, 1)),
    ],
)
def test_a_shard_had_ended_when_the_first_proof_says_so(
    pieces: tuple[Evidence, ...], stored: int | None, ended: int
) -> None:
    """Or when S3 stored its end.json; a little later, because both clocks are others'."""
    assert ended_by_ms(pieces, stored) == ended


@pytest.mark.parametrize(
    ("writer", "run"), [("r-1", "r"), ("a-b-2", "a-b"), ("c0ffee", None), ("-1", None), ("", None)]
)
def test_the_run_stands_before_the_last_hyphen(writer: str, run: str | None) -> None:
    """Ids of older versions name none."""
    assert run_of(writer) == run


LOSS = ReadMark(SHARD, MarkKind.STREAM, LOST, at(3), at(4), None, "run-1")
ANSWER = LOSS._replace(continuity=PROVEN, position=Position(9))


@pytest.mark.parametrize(
    "other",
    [
        ANSWER._replace(writer="run-2"),
        ANSWER._replace(from_ms=at(2)),
        ANSWER._replace(until_ms=at(5)),
        ANSWER._replace(kind=MarkKind.READ),
        ANSWER._replace(shard_id="shardId-000000000001"),
        ANSWER._replace(continuity=UNPROVEN),
    ],
)
def test_only_its_own_answer_voids_a_loss(other: ReadMark) -> None:
    """The same interval and the same writer, by a comparison; in any order of marks."""
    assert unanswered([LOSS, other]) == [LOSS, other]
    for marks in ([LOSS, other, ANSWER], [ANSWER, LOSS, other]):
        assert unanswered(marks) == [mark for mark in marks if mark != LOSS]
