"""Segment metadata: strict in, complete out."""

from typing import Any

import msgspec
import pytest

from minutebook.errors import FormatError
from minutebook.format.metadata import ChainStart, Continuity, SegmentMetadata, is_ours
from minutebook.format.position import Position
from minutebook.format.read_mark import BIRTH

GOOD = SegmentMetadata(
    shard_id="shardId-000000000000",
    minute=29_920_936,
    first=Position(5),
    last=Position(9, 2),
    after=Position(4, 1),
    records=3,
    dropped=1,
    payload_bytes=300,
    arrival_min_ms=1_795_256_160_000,
    arrival_max_ms=1_795_256_161_000,
    writer="w1",
)
REQUIRED = sorted(GOOD.encode())


def changed(**changes: Any) -> SegmentMetadata:  # noqa: ANN401 - any field
    """Return GOOD with other values."""
    return msgspec.structs.replace(GOOD, **changes)


@pytest.mark.parametrize(
    "metadata",
    [
        GOOD,
        changed(after=ChainStart("TRIM_HORIZON")),
        changed(after=ChainStart("AT_TIMESTAMP")),
        changed(after=ChainStart("AFTER_SEQUENCE", Position(4))),
        changed(continuity=Continuity.PROVEN, evidence_ms=1_795_256_100_000),
        changed(continuity=Continuity.PROVEN, evidence_ms=BIRTH),
        changed(continuity=Continuity.UNPROVEN),
        changed(continuity=Continuity.LOST, evidence_ms=1_795_256_100_000),
        changed(watermarks="a=1"),
        changed(records=0),
        changed(first=Position(9, 2), after=Position(9, 1)),
        changed(first=Position(10**128), last=Position(10**128, 10**9)),
    ],
)
def test_round_trip(metadata: SegmentMetadata) -> None:
    """Every value that may be written is read back."""
    assert SegmentMetadata.decode(metadata.encode()) == metadata


def test_a_continuity_that_nobody_states_is_not_written() -> None:
    """Its absence leaves it to the reader, who looks at the run of the segment before."""
    assert GOOD.continuity is None
    assert not {"continuity", "evidence"} & GOOD.encode().keys()


def test_a_child_that_was_read_from_its_first_record_on_says_so() -> None:
    """In words: 0 would be a time."""
    assert changed(continuity=Continuity.PROVEN, evidence_ms=BIRTH).encode()["evidence"] == "birth"


@pytest.mark.parametrize(
    ("continuity", "is_doubtful"),
    [(None, False), (Continuity.PROVEN, False), (Continuity.UNPROVEN, True), (Continuity.LOST, True)],
)
def test_only_what_the_writer_doubts_is_doubtful(continuity: Continuity | None, *, is_doubtful: bool) -> None:
    """Silence is no doubt, and no proof either."""
    assert changed(continuity=continuity).is_doubtful is is_doubtful


@pytest.mark.parametrize("evidence", ["253370764800000", "9223372036854775807"])
def test_evidence_from_far_ahead_is_an_error(evidence: str) -> None:
    """No key holds such a time: whoever looked for what it stands on would fail."""
    with pytest.raises(FormatError, match="far ahead"):
        SegmentMetadata.decode({**GOOD.encode(), "continuity": "proven", "evidence": evidence})


def test_evidence_without_continuity_is_an_error() -> None:
    """It says since when something holds that nobody states."""
    with pytest.raises(FormatError, match="evidence without continuity"):
        SegmentMetadata.decode({**GOOD.encode(), "evidence": "1"})


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_field_is_named(name: str) -> None:
    """No field has a default."""
    fields = GOOD.encode()
    del fields[name]
    with pytest.raises(FormatError, match=f"'{name}' is missing"):
        SegmentMetadata.decode(fields)


@pytest.mark.parametrize("name", REQUIRED)
def test_an_empty_field_is_an_error(name: str) -> None:
    """Empty is missing."""
    with pytest.raises(FormatError):
        SegmentMetadata.decode({**GOOD.encode(), name: ""})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("minutebook-format", "2"),
        ("shard", "a/b"),
        ("minute", "2026-11-21T10:60Z"),
        ("minute", "2026/11/21/10/16"),
        ("first", "5"),
        ("first", "05:0"),
        ("last", "9:"),
        ("after", "LATEST"),
        ("after", "trim_horizon"),
        ("after", "-1:0"),
        ("after", "AFTER_SEQUENCE:"),
        ("records", "-1"),
        ("records", "1.0"),
        ("records", "03"),
        ("dropped", "\u0663"),
        ("payload-bytes", " 3"),
        ("payload-bytes", "9" * 20),
        ("arrival-min", "1e3"),
        ("arrival-max", "x"),
        ("continuity", "Proven"),
        ("continuity", ""),
    ],
)
def test_a_malformed_field_is_an_error(name: str, value: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(FormatError):
        SegmentMetadata.decode({**GOOD.encode(), name: value})


@pytest.mark.parametrize("value", ["", "0", "-1", "01", "Birth", "1.5", "9" * 20])
def test_a_malformed_time_of_evidence_is_an_error(value: str) -> None:
    """It is epoch milliseconds, or the word."""
    with pytest.raises(FormatError, match="evidence"):
        SegmentMetadata.decode({**GOOD.encode(), "continuity": "proven", "evidence": value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("last", "4:9"),
        ("after", "5:0"),
        ("after", "5:1"),
        ("after", "AFTER_SEQUENCE:5:0"),
        ("arrival-max", "1795256159999"),
        ("arrival-min", "1795256161001"),
        ("records", "0"),
    ],
)
def test_fields_that_contradict_each_other_are_an_error(name: str, value: str) -> None:
    """Ends in order, the predecessor before the first, at least one record."""
    fields = {**GOOD.encode(), "dropped": "0", name: value}
    with pytest.raises(FormatError):
        SegmentMetadata.decode(fields)


def test_unknown_fields_are_left_alone() -> None:
    """Tools may add their own, and so may a later version: an optional field needs no new format."""
    assert SegmentMetadata.decode({**GOOD.encode(), "copied-by": "someone"}) == GOOD


def test_metadata_stays_below_the_limit_of_s3() -> None:
    """The longest possible values fit into 2 KB."""
    longest = changed(
        shard_id="s" * 128,
        first=Position(10**128 + 1),
        last=Position(10**129 - 1, 10**18),
        after=ChainStart("AFTER_SEQUENCE", Position(10**128, 10**18)),
        continuity=Continuity.UNPROVEN,
        evidence_ms=10**18,
        writer="f" * 32 + "-" + "9" * 10,
    )
    assert sum(len(name) + len(value) for name, value in longest.encode().items()) < 2048


@pytest.mark.parametrize("watermarks", ["x" * 2048, "\u00e9"])
def test_what_does_not_fit_into_metadata_is_never_sent(watermarks: str) -> None:
    """Too long or not ASCII is an error before the PUT."""
    with pytest.raises(FormatError):
        changed(watermarks=watermarks).encode()


def test_only_the_format_field_makes_an_object_ours() -> None:
    """A foreign object is told by its absence, whatever else it carries."""
    assert is_ours({"minutebook-format": "9"})
    assert not is_ours({"shard": "shardId-000000000000", "writer": "w1"})
