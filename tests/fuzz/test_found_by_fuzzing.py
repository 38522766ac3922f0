"""Defects that hostile input found, each with the smallest input that shows it."""

import gzip
import io
import os
import random
from pathlib import Path
from time import process_time

import pytest

from consumer.processor.processor import ShardProcessor
from consumer.processor.protocol import run_process
from consumer.settings.settings import load_settings
from minutebook.errors import DeliveryDoubt, FormatError, SettingsError
from minutebook.format.payload import PayloadPath
from minutebook.format.record import decode_line
from minutebook.format.segment import inflate
from tests.fakes.memory_store import MemoryStore
from tests.fakes.world import World, settings

NEEDED = "streamName=flights\napplicationName=archive\nregionName=eu-central-1\nminutebook.bucket=archive\n"
START = b'{"action":"initialize","shardId":"shardId-000000000000","sequenceNumber":"TRIM_HORIZON"%s}\n'
BATCH = (
    b'{"action":"processRecords","records":[{"action":"record","data":"","partitionKey":"p","sequenceNumber":"1",'
    b'"subSequenceNumber":%d,"approximateArrivalTimestamp":1795256160000}]}\n'
)


def serve(*lines: bytes) -> World:
    """Serve a processor with these lines."""
    world = World()
    processor = ShardProcessor(
        settings(), MemoryStore(world.bucket), world.stream, world.clock, random.Random(1), world.new_id
    )
    run_process(processor, io.BytesIO(b"".join(lines)), io.BytesIO(), io.StringIO())
    return world


def test_a_deeply_nested_message_is_refused_by_name() -> None:
    """RecursionError came out of the decoder and was reported as a defect of Minutebook."""
    with pytest.raises(DeliveryDoubt):
        serve(START % (b',"x":' + b"[" * 100_000 + b"]" * 100_000))


def test_a_sub_sequence_number_beyond_java_s_is_refused() -> None:
    """It was committed, and then neither its key nor its metadata could be read any more."""
    with pytest.raises(DeliveryDoubt):
        serve(START % b"", BATCH % 10**19)


def test_a_negative_sub_sequence_number_of_the_checkpoint_is_refused() -> None:
    """It stood in `after`, which no reader takes."""
    with pytest.raises(DeliveryDoubt):
        serve(START.replace(b"TRIM_HORIZON", b"7") % b',"subSequenceNumber":-1')


def test_a_line_with_such_a_sub_sequence_number_is_refused() -> None:
    """The reader agrees with the writer."""
    line = (
        b'{"shard_id":"s","sequence_number":"1","sub_sequence_number":%d,"partition_key":"p","arrival_ms":1,'
        b'"data":""}'
    )
    with pytest.raises(FormatError):
        decode_line(line % 10**19)


@pytest.mark.parametrize("value", ["\\ud800", "a\\u0000b"])
@pytest.mark.parametrize("name", ["minutebook.prefix", "workerId", "\\udfff"])
def test_half_a_character_in_a_file_is_refused_in_words_that_can_be_printed(
    tmp_path: Path, name: str, value: str
) -> None:
    """The refusal itself could not be written to a terminal, and some values reached the daemon's file."""
    path = tmp_path / "f.properties"
    path.write_text(f"{NEEDED}{name}={value}\n")
    with pytest.raises(SettingsError) as caught:
        load_settings(path, {})
    assert str(caught.value).encode()


def test_an_endless_number_is_refused_by_name(tmp_path: Path) -> None:
    """Python refuses to convert more than 4,300 digits, with a ValueError."""
    path = tmp_path / "f.properties"
    path.write_text(f"{NEEDED}initialPositionInStreamExtended={'9' * 5000}\n")
    with pytest.raises(SettingsError):
        load_settings(path, {})


def test_reading_a_large_body_in_one_piece_takes_as_long_as_in_small_pieces() -> None:
    """For each block the decoder copied all that was left: 127 MiB took 24 s, now half a second."""
    raw = os.urandom(3 << 20).hex().encode() + b"\n"
    body = gzip.compress(raw * 6, 1)

    def seconds(chunks: list[bytes]) -> float:
        began = process_time()
        assert sum(1 for _ in inflate(chunks)) == 6
        return process_time() - began

    small = seconds([body[start : start + 65_536] for start in range(0, len(body), 65_536)])
    assert seconds([body]) < 5 * small + 0.5


def test_a_body_of_empty_members_is_read_in_linear_time() -> None:
    """One megabyte of them took seconds and ten took minutes: the rest was copied for each member."""
    assert list(inflate([gzip.compress(b"") * 50_000])) == []


@pytest.mark.parametrize("start", ["0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "1969-12-31T23:59:59Z"])
def test_a_start_outside_the_calendar_is_refused(tmp_path: Path, start: str) -> None:
    """It was taken, and `consume` then failed to write it into the daemon's file."""
    path = tmp_path / "f.properties"
    path.write_text(f"{NEEDED}minutebook.start={start}\n")
    with pytest.raises(SettingsError):
        load_settings(path, {})


@pytest.mark.parametrize("expression", ["(" * 500, "a." * 3000 + "a"])
def test_a_jmespath_without_end_is_refused_by_name(tmp_path: Path, expression: str) -> None:
    """Deep ones ended in RecursionError, at the start or at the first payload."""
    path = tmp_path / "f.properties"
    path.write_text(f"{NEEDED}minutebook.eventId={expression}\n")
    with pytest.raises(SettingsError, match="eventId"):
        load_settings(path, {})


@pytest.mark.parametrize(
    ("expression", "payload"),
    [("a[?b > `1`] | [0].id", b'{"a":[{"b":""}]}'), ("ceil(to_number(id))", b'{"id":"1e999"}')],
)
def test_a_payload_that_the_expression_cannot_take_has_no_id(expression: str, payload: bytes) -> None:
    """Its TypeError or OverflowError ended the process: one record of a producer stopped the shard for good."""
    assert PayloadPath(expression).text(payload) is None
    assert PayloadPath(expression).number(payload) is None
