"""Keys, metadata, markers, positions: refused by name, or exactly what would be written."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from minutebook.errors import FormatError
from minutebook.format.keys import parse_segment_key, segment_key
from minutebook.format.markers import (
    ApplicationRecord,
    EndMarker,
    StartMarker,
    decode_marker,
    encode_marker,
)
from minutebook.format.metadata import LIMIT_BYTES, SegmentMetadata, parse_predecessor
from minutebook.format.position import Position
from tests.fakes.shard import SHARD
from tests.fuzz.hostile import check_printable, damaged, damaged_text, search
from tests.fuzz.valid import application_records, end_markers, positions, segment_metadata, start_markers

PREFIX = "raw/"


@search(400)
@given(first=positions, minute=st.integers(0, 10**8), data=st.data())
def test_a_damaged_key_is_refused_or_is_a_key(first: Position, minute: int, data: st.DataObject) -> None:
    """A key is read only when the writer would make it, letter by letter."""
    key = data.draw(damaged_text(st.just(segment_key(PREFIX, SHARD, minute, first))))
    try:
        parsed = parse_segment_key(PREFIX, key)
    except FormatError:
        return
    assert segment_key(PREFIX, parsed.shard_id, parsed.minute, parsed.first) == key


@search(400)
@given(metadata=segment_metadata(), data=st.data())
def test_damaged_metadata_is_refused_or_is_metadata(metadata: SegmentMetadata, data: st.DataObject) -> None:
    """One field damaged, missing, or exchanged for another's value."""
    fields = metadata.encode()
    name = data.draw(st.sampled_from(sorted(fields)))
    match data.draw(st.sampled_from(["damage", "drop", "exchange"])):
        case "damage":
            fields[name] = data.draw(damaged_text(st.just(fields[name])))
        case "drop":
            del fields[name]
        case _:
            fields[name] = data.draw(st.sampled_from(sorted(fields.values())))
    try:
        read = SegmentMetadata.decode(fields)
    except FormatError:
        return
    if sum(map(len, [*fields, *fields.values()])) < LIMIT_BYTES and fields["writer"].isascii():
        assert read.encode() == fields


@search(250)
@given(text=st.one_of(damaged_text(positions.map(str)), damaged_text(st.just("AFTER_SEQUENCE:7:0")), st.text()))
def test_a_damaged_position_is_refused_or_is_a_position(text: str) -> None:
    """What stands in `after`, in markers and in checkpoints."""
    try:
        read = parse_predecessor(text)
    except FormatError:
        return
    assert str(read) == text


@search(300)
@given(data=st.data())
def test_a_damaged_marker_is_refused_or_is_a_marker(data: st.DataObject) -> None:
    """start.json, end.json and _application.json."""
    read: ApplicationRecord | StartMarker | EndMarker
    try:
        match data.draw(st.one_of(start_markers, end_markers, application_records)):
            case StartMarker() as marker:
                read = decode_marker(data.draw(damaged(st.just(encode_marker(marker)))), StartMarker, "key")
                read.first_position()
                read.chain_start()
            case EndMarker() as marker:
                read = decode_marker(data.draw(damaged(st.just(encode_marker(marker)))), EndMarker, "key")
                read.last_position()
            case marker:
                read = decode_marker(data.draw(damaged(st.just(encode_marker(marker)))), ApplicationRecord, "key")
    except FormatError as exc:
        check_printable(exc)
        return
    assert msgspec.json.decode(encode_marker(read)) == msgspec.to_builtins(read)


@search(200)
@given(value=st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.text()), st.lists), data=st.data())
def test_a_marker_with_a_value_of_another_kind_is_refused(value: object, data: st.DataObject) -> None:
    """Or it is the same kind of value."""
    marker = data.draw(application_records)
    fields = msgspec.to_builtins(marker)
    fields[data.draw(st.sampled_from(sorted(fields)))] = value
    try:
        body = msgspec.json.encode(fields)
    except (OverflowError, UnicodeEncodeError):
        return
    try:
        read = decode_marker(body, ApplicationRecord, "key")
    except FormatError:
        return
    assert msgspec.to_builtins(read) == fields
