"""Payloads that are read in C: the time that many keys take, the memory of long lists, and keys there twice."""

import itertools
import time
from array import array
from collections.abc import Sequence
from ctypes import addressof, create_string_buffer
from pathlib import Path

import pytest

from minutebook.codec.documents import (
    ColumnsOfDocuments,
    FoundColumns,
    FoundValues,
    ValueKind,
    WantedColumn,
    WantedList,
    WantedValues,
    new_columns_of_documents,
)
from tests.fakes.compiled_codec import COMPILER, compiled_codec

MOST_KEYS, FEW_KEYS, MOST_PROBES = 128, 8, 16
"""Those of keys.h."""
MIB = 1 << 20
LONG = WantedValues(ValueKind.WHOLE, 8, low=-(1 << 63), high=(1 << 63) - 1)
ID = [WantedColumn(("id",), LONG)]

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler on this machine")


def new_reader(wanted: Sequence[WantedColumn]) -> ColumnsOfDocuments:
    """Return what reads payloads by the sources as they are."""
    made = new_columns_of_documents(wanted, 4096, MIB, compiled_codec)
    assert made is not None
    return made


def read(reader: ColumnsOfDocuments, payloads: Sequence[bytes]) -> FoundColumns:
    """Read payloads."""
    texts = create_string_buffer(b"".join(payloads))
    ends = array("i", itertools.accumulate(map(len, payloads), initial=0))
    found = reader.read(memoryview(ends), addressof(texts))
    assert found is not None
    return found


def object_of(keys: Sequence[str]) -> bytes:
    """Return an object with these keys."""
    return b"{%s}" % b",".join(b'"%s":1' % key.encode() for key in keys)


@pytest.mark.parametrize("key", ["k{}", "{}", "a key of some length, and its number: {}", "{} and what is behind it"])
@pytest.mark.parametrize("count", [2, FEW_KEYS, FEW_KEYS + 1, FEW_KEYS + 2, 40, MOST_KEYS])
def test_a_key_that_is_there_twice_leaves_the_row(key: str, count: int) -> None:
    """Wherever both are; and the next row is not taken for having the keys of the one before."""
    keys = [key.format(number) for number in range(count)]
    doubled = [
        [*keys[:second], keys[first], *keys[second + 1 :]]
        for first in (0, 7, 8, 30)
        for second in (1, 8, 9, 39, 127)
        if first < second < count
    ]
    payloads = [each for wrong in doubled for each in (object_of(wrong), object_of(wrong), object_of(keys))]
    payloads += [b'{"below":%s}' % payload for payload in payloads]
    left = [row for row in range(len(payloads)) if row % 3 < 2]
    assert read(new_reader(ID), payloads).left == left


def test_no_more_keys_are_taken_than_there_is_room_for() -> None:
    """The first key too many leaves the row, in whatever order they come."""
    keys = [f"k{number}" for number in range(MOST_KEYS + 1)]
    payloads = [object_of(keys[1:]), object_of(keys), object_of(keys[:-1]), object_of(keys[::-1])]
    assert read(new_reader(ID), payloads).left == [1, 3]


def slot_of(key: str) -> int:
    """Do what keys.h does for less than eight bytes."""
    text = key.encode()
    return ((len(text) ^ int.from_bytes(text, "big")) * 0x9E3779B97F4A7C15 >> 32) % 512


def test_keys_that_were_chosen_to_meet_are_left_to_python() -> None:
    """So many as meet by chance are taken; who looks for more finds no way to make us slow."""
    meeting = [key for key in (f"{number:05x}" for number in range(1 << 14)) if slot_of(key) == 7]
    payloads = [object_of(meeting[:MOST_PROBES]), object_of(meeting[: MOST_PROBES + 1])]
    assert len(meeting) > MOST_PROBES
    assert read(new_reader(ID), payloads).left == [1]


def test_the_keys_of_a_large_object_take_the_time_of_as_many_in_small_ones() -> None:
    """Each was compared with all before it: six times the time of small objects, four times that of Python."""
    reader = new_reader(ID)
    keys = [f"k{number:03}" for number in range(MOST_KEYS)]
    parts = [object_of(keys[begin : begin + FEW_KEYS]) for begin in range(0, MOST_KEYS, FEW_KEYS)]
    large, small = (b'{"m":%s}' % object_of(keys), b'{"m":[%s]}' % b",".join(parts))

    def seconds(payload: bytes) -> float:
        begin = time.process_time()
        assert not read(reader, [payload] * 800).left
        return time.process_time() - begin

    taken = [(seconds(large), seconds(small)) for _ in range(7)]
    assert min(one for one, _ in taken) < 3 * min(other for _, other in taken)


def test_long_lists_in_one_column_after_the_other_take_the_memory_of_one() -> None:
    """Whether their rows are taken or left: each of 60 columns kept nine MiB of its longest list."""
    value = WantedValues(ValueKind.DECIMAL, 16, 38, 0)
    reader = new_reader([WantedColumn((f"c{number}",), WantedList(value)) for number in range(60)])
    before = resident_mib()
    for number in range(60):
        ending = b"]}" if number % 2 else b"]"
        found = read(reader, [b'{"c%d":[%s%s' % (number, b"1," * 500_000, b"1" + ending)])
        assert found.left == ([] if number % 2 else [0])
    assert resident_mib() - before < 100


def resident_mib() -> float:
    """Return the memory of this process that is in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / MIB


def test_what_a_long_list_has_left_is_in_no_later_block() -> None:
    """The memory is given back between them, and begins anew."""
    reader = new_reader([WantedColumn(("c",), WantedList(LONG)), *ID])
    payloads = [b'{"id":%d,"c":[%d]}' % (number, number) for number in range(4096)]
    expected = read(reader, payloads)
    read(reader, [b'{"c":[%s7]}' % (b"7," * 500_000)])
    assert read(reader, payloads) == expected
    assert isinstance(expected.columns[1], FoundValues)
    assert expected.columns[1].content == array("q", range(4096)).tobytes()


def test_a_system_that_promises_no_memory_leaves_the_columns_to_python() -> None:
    """The addresses of many lists are gigabytes, and may be limited: here to less than a processor has."""
    text = [WantedColumn(("text",), WantedValues(ValueKind.TEXT))]
    assert new_columns_of_documents(text, 4096, MIB, compiled_codec) is not None
    assert new_columns_of_documents(text, 4096, 1 << 62, compiled_codec) is None
