"""Digests of event ids: what a task keeps of a record, and what it leaves out."""

import pyarrow as pa

from compaction.event_ids.copies import EventCopies, IdConflict, Layout, Repeated, find_copies
from compaction.event_ids.dropping import DroppedLines, Drops, pack_drops, payloads, unpack_drops, without
from compaction.event_ids.rows import MOST_PAYLOADS, ROW_BYTES, IdCollector, IdOrder
from compaction.parquet.line_tables import LINE_SCHEMA
from minutebook.format.payload import PayloadPath


def collect(data: list[bytes], partitions: int = 1) -> IdCollector:
    """Return a collector that has seen payloads in one piece."""
    collector = IdCollector(IdOrder("id", 0, partitions), ["a"])
    collector.add(data, [0] * len(data), "a")
    return collector


def repeated(data: list[bytes]) -> list[Repeated]:
    """Return the copies and conflicts among payloads of one piece."""
    return list(find_copies([chunk for _, chunk in collect(data).rows()], Layout(0, (0,))))


def copies(data: list[bytes]) -> list[tuple[int, int]]:
    """Return (line of the first copy, line of the original) for payloads of one piece."""
    return [(found.first.line, found.original.line) for found in repeated(data) if isinstance(found, EventCopies)]


def conflicts(data: list[bytes]) -> list[tuple[int, int]]:
    """Return (line, line of the record that had its id before) for payloads of one piece."""
    return [(found.first.line, found.original.line) for found in repeated(data) if isinstance(found, IdConflict)]


def test_a_record_leaves_32_bytes() -> None:
    """However long its payload is; a record without an id leaves none."""
    collector = collect([b'{"id":"' + b"x" * 10_000 + b'"}', b"no json", b'{"id":7}'])
    assert [len(rows) for _, rows in collector.rows()] == [2 * ROW_BYTES] == [64]
    assert collector.missing() == {"a": 1}


def test_an_id_is_what_the_consumer_takes_for_one() -> None:
    """1 and "1" are two ids, fractions, null and objects are none: the rules of `minutebook.format.payload`."""
    data = [
        b'{"id":1.5}',
        b'{"id":1.5}',
        b'{"id":1}',
        b'{"id":"1"}',
        b'{"id":null}',
        b'{"id":null}',
        b'{"id":{}}',
        b'{"id":{}}',
        b'{"id":1}',
    ]
    assert [PayloadPath("id").text(payload) for payload in data] == [None, None, "1", '"1"', *[None] * 4, "1"]
    assert copies(data) == [(8, 2)]
    assert conflicts(data) == []


def test_another_payload_is_another_event() -> None:
    """A and C are the same bytes, B has their id: C is a copy of A, B is none and stays, and its own retry is one."""
    a, b, other = b'{"id":1,"x":1}', b'{"id":1,"x":2}', b'{"id":2}'
    assert (copies([a, b, a]), conflicts([a, b, a])) == ([(2, 0)], [(1, 0)])
    assert (copies([a, other, b, b, a]), conflicts([a, other, b, b, a])) == ([(4, 0), (3, 2)], [(2, 0)])
    assert (copies([a, b, other]), conflicts([a, b, other])) == ([], [(1, 0)])
    assert conflicts([b'{"id":1}', b'{ "id": 1 }']) == [(1, 0)]


def test_an_id_of_the_day_before_with_another_payload_is_kept() -> None:
    """It conflicts with that record; two records of the day before are that day's matter."""
    a, b, c = (b'{"id":1,"x":%d}' % number for number in range(3))
    for before, day, expected in (([a], [b], [(1, 0)]), ([a, b], [a, c], [(1, 1)]), ([a, b], [b], [])):
        collector = IdCollector(IdOrder("id", 0, 1), ["before", "day"])
        collector.add(before, [9] * len(before), "before")
        collector.add(day, [1] * len(day), "day")
        found = find_copies([chunk for _, chunk in collector.rows()], Layout(1, (1,)))
        assert [(each.first.number, each.first.line) for each in found if isinstance(each, IdConflict)] == expected


def test_ids_are_partitioned_by_their_digest() -> None:
    """Every partition gets its share, and equal ids meet in one."""
    data = [f'{{"id":{number % 500}}}'.encode() for number in range(1000)]
    partitions = dict(collect(data, 8).rows())
    assert set(partitions) == set(range(8))
    assert all(len(rows) // ROW_BYTES % 2 == 0 for rows in partitions.values())


def test_an_id_that_all_records_have_leaves_two_rows() -> None:
    """However many there are: it does not bring a day into one partition. All but the first are left out."""
    collector = collect([b'{"id":1}'] * 5000)
    [(_, rows)] = collector.rows()
    assert len(rows) == 2 * ROW_BYTES
    [found] = find_copies([rows], Layout(0, (0,)))
    assert isinstance(found, EventCopies)
    assert (found.total, found.copies, found.kept, found.lines) == (5000, 4999, 0, None)
    drops = unpack_drops([pack_drops(found)], {0: "a"})
    table = pa.Table.from_pylist([{"data": '{"id":1}'}] * 10 + [{"data": '{"id":2}'}], schema=LINE_SCHEMA)
    assert DroppedLines("id", drops).remaining(table, 0, "a")["data"].to_pylist() == ['{"id":1}', '{"id":2}']
    assert DroppedLines("id", drops).remaining(table, 5, "a")["data"].to_pylist() == ['{"id":2}']


def test_an_id_with_many_payloads_leaves_few_rows() -> None:
    """It is no event's id, and must not bring a day into one partition. All are kept, and counted as conflicts."""
    collector = collect([b'{"id":1,"x":%d}' % number for number in range(5000)])
    [(_, rows)] = collector.rows()
    assert len(rows) == (MOST_PAYLOADS + 1) * ROW_BYTES
    found = list(find_copies([rows], Layout(0, (0,))))
    assert all(isinstance(each, IdConflict) for each in found)
    assert sum(each.total for each in found) == 4999


def test_lines_beyond_the_payloads_that_are_compared_are_kept() -> None:
    """Two of the same payload, too: doubt keeps. A task that drops by event drops no other payload of the id."""
    payloads = [b'{"id":1,"x":%d}' % number for number in range(40)]
    left_out = {line for found in repeated(payloads * 3) if isinstance(found, EventCopies) for line in dropped(found)}
    assert len(left_out) == 2 * MOST_PAYLOADS
    assert min(left_out) >= len(payloads)
    uncompared = [
        found.total for found in repeated(payloads * 3) if isinstance(found, IdConflict) and found.total > 1
    ]
    assert uncompared == [3 * (40 - MOST_PAYLOADS)]


def dropped(found: EventCopies) -> list[int]:
    """Return the lines that a task leaves out of three times forty, told of copies."""
    lines = [b'{"id":1,"x":%d}' % number for number in range(40)] * 3
    drops = unpack_drops([pack_drops(found)], {0: "a"})["a"]
    return [number for number, payload in enumerate(lines) if drops.test("id")(number, payload)]


def test_rows_that_do_not_fit_into_memory_lie_on_disk() -> None:
    """Every one comes back, in its partition; a task holds a few MiB of them."""
    keys = [str(number) for number in range(20)]
    small, whole = (IdCollector(IdOrder("id", 7, 5), keys, run_bytes) for run_bytes in (1, 1 << 20))
    for collector in (small, whole):
        for key in keys:
            collector.add([f'{{"id":"{key}-{line}"}}'.encode() for line in range(30)], [0] * 30, key)
    partitions: list[dict[int, set[bytes]]] = [{}, {}]
    for found, collector in zip(partitions, (small, whole), strict=True):
        for part, rows in collector.rows():
            pieces = {rows[at : at + ROW_BYTES] for at in range(0, len(rows), ROW_BYTES)}
            found.setdefault(part, set()).update(pieces)
    assert partitions[0] == partitions[1]
    assert sum(map(len, partitions[0].values())) == 600


def test_other_objects_lose_nothing() -> None:
    """What is dropped of one is there in another."""
    table = pa.Table.from_pylist([{"data": "x"}], schema=LINE_SCHEMA)
    assert DroppedLines("id", {"a": Drops([0])}).remaining(table, 0, "b") is table


def test_payloads_are_those_of_the_producer() -> None:
    """Text and bytes, in the order of the lines."""
    table = pa.Table.from_pylist([{"data": "ä"}, {"data_bytes": b"\xff"}, {"data": ""}], schema=LINE_SCHEMA)
    assert payloads(table) == ["ä".encode(), b"\xff", b""]


def test_lines_are_left_out_by_their_number_in_the_piece() -> None:
    """Blocks begin anywhere in the piece."""
    table = pa.Table.from_pylist([{"data": str(number)} for number in range(10, 15)], schema=LINE_SCHEMA)
    assert without(table, 10, [2, 10, 13, 15])["data"].to_pylist() == ["11", "12", "14"]
    assert without(table, 10, [9, 15]) is table
