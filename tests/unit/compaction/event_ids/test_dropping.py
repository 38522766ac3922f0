"""Digests of event ids: what a task keeps of a record, and what it leaves out."""

import pyarrow as pa

from compaction.event_ids.copies import Layout, find_copies
from compaction.event_ids.dropping import DroppedLines, Drops, pack_drops, payloads, unpack_drops, without
from compaction.event_ids.rows import ROW_BYTES, IdCollector, IdOrder
from compaction.parquet.line_tables import LINE_SCHEMA
from minutebook.format.payload import PayloadPath


def collect(data: list[bytes], partitions: int = 1) -> IdCollector:
    """Return a collector that has seen payloads in one piece."""
    collector = IdCollector(IdOrder("id", 0, partitions), ["a"])
    collector.add(data, [0] * len(data), "a")
    return collector


def copies(data: list[bytes]) -> list[tuple[int, int]]:
    """Return (line of the first copy, line of the original) for payloads of one piece."""
    rows = [chunk for _, chunk in collect(data).rows()]
    return [(copies.first.line, copies.original.line) for copies in find_copies(rows, Layout(0, (0,)))]


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
        b'{ "id": 1 }',
    ]
    assert [PayloadPath("id").text(payload) for payload in data] == [None, None, "1", '"1"', *[None] * 4, "1"]
    assert copies(data) == [(8, 2)]


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
    assert (found.total, found.copies, found.kept, found.lines) == (5000, 4999, 0, None)
    drops = unpack_drops([pack_drops(found)], {0: "a"})
    table = pa.Table.from_pylist([{"data": '{"id":1}'}] * 10 + [{"data": '{"id":2}'}], schema=LINE_SCHEMA)
    assert DroppedLines("id", drops).remaining(table, 0, "a")["data"].to_pylist() == ['{"id":1}', '{"id":2}']
    assert DroppedLines("id", drops).remaining(table, 5, "a")["data"].to_pylist() == ['{"id":2}']


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
