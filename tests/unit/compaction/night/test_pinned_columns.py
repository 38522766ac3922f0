"""A published day keeps its columns: what comes late is read by them, whatever the file says by then."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compaction.columns.columns import Columns
from compaction.columns.event_time import with_event_time
from compaction.columns.files.columns_file import read_columns
from compaction.columns.pinned import decode_pinned, encode_pinned
from compaction.commands.vacuum.day import RawDays, delete_leftovers, find_leftovers
from compaction.job.context import AuditOptions
from compaction.night.dry_run import plan_dry_run
from compaction.night.rewrite import Compacted, CompactOptions, settle_day
from compaction.verdict.audit_document import decode_audit
from minutebook.errors import SafetyRefusal
from minutebook.format.minute import MINUTE_MS
from minutebook.published.generation import Manifest, columns_beside, is_audit
from minutebook.published.schema import SCHEMA
from tests.corpus.desk import DAY, Desk, expire, no_engine
from tests.corpus.typed_day import payload_day
from tests.fakes.typed_lines import mapping

A: Mapping[str, Any] = {
    "number": "int64",
    "price": {"path": "fare.price", "type": "decimal(10,2)"},
    "carrier": "string",
    "gate": "string",
    "stop": "struct<name: string, delay: int64>",
}
B: Mapping[str, Any] = {
    "number": "int64",
    "price": {"path": "fare.cost", "type": "decimal(10,2)"},
    "gate": "int32",
    "stop": "struct<name: string, delay: int64>",
}
"""Of A: `price` has another path, `carrier` is dropped, `gate` is of another type."""


def _payload(number: int) -> bytes:
    fields = {
        "number": number,
        "fare": {"price": f"{number}.25"},
        "carrier": "UA",
        "gate": "B7",
        "stop": {"name": "x", "delay": number},
    }
    return json.dumps(fields).encode()


def _desk(folder: Path) -> Desk:
    return Desk(folder, payload_day(DAY, 3, _payload))


def _manifest(done: Compacted) -> Manifest:
    assert done.manifest is not None, done.reason
    return done.manifest


def _columns_key(desk: Desk) -> str:
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    return columns_beside(pointer.manifest)


def _stored(desk: Desk) -> Columns | None:
    pointer, key = desk.publisher().current().pointer, _columns_key(desk)
    stored = desk.storage.get(key)
    assert pointer is not None
    return None if stored is None else decode_pinned(stored.body, key, pointer.day, pointer.generation)


def _files(desk: Desk, manifest: Manifest) -> dict[int, list[dict[str, Any]]]:
    """Return the typed rows of each file, by its place in the manifest."""
    bodies = [desk.storage.get(file.key) for file in manifest.files]
    assert None not in bodies
    return {
        number: pq.ParquetFile(pa.BufferReader(stored.body)).read().to_pylist()
        for number, stored in enumerate(bodies)
        if stored is not None
    }


def test_what_comes_late_is_read_by_the_columns_of_then(tmp_path: Path) -> None:
    """Each file holds what it held, but for the late row; a run over unchanged objects does nothing at all."""
    desk = _desk(tmp_path)
    before = _files(desk, _manifest(desk.compact(columns=mapping(A))))
    again = desk.compact(columns=mapping(B), engine=no_engine)
    assert (again.state, again.keeps_columns) == ("already", True)
    desk.archive_more()
    done = desk.compact(columns=mapping(B))
    after = _files(desk, _manifest(done))
    assert (done.state, done.verdict, done.keeps_columns) == ("published", "clean", True)
    assert _manifest(done).columns == mapping(A).types
    assert after.keys() == before.keys()
    late = [row for number, rows in after.items() for row in rows if row not in before[number]]
    assert [row for number, rows in after.items() for row in rows if row in before[number]] == [
        row for rows in before.values() for row in rows
    ]
    assert [(row["carrier"], row["gate"], row["_unfit"]) for row in late] == [("UA", "B7", None)]
    assert _stored(desk) == mapping(A)


def test_a_run_without_a_file_keeps_the_columns(tmp_path: Path) -> None:
    """Whoever forgets --columns loses none."""
    desk = _desk(tmp_path)
    desk.compact(columns=mapping(A))
    desk.archive_more()
    done = desk.compact()
    assert (_manifest(done).columns, done.keeps_columns) == (mapping(A).types, False)


def test_columns_come_to_a_day_that_had_none(tmp_path: Path) -> None:
    """Nothing is lost by them; then the day has them for good."""
    desk = _desk(tmp_path)
    desk.compact()
    assert _stored(desk) is None
    assert _manifest(desk.compact(columns=mapping(A))).columns == mapping(A).types
    assert _stored(desk) == mapping(A)


def test_a_rewrite_refuses_fewer_values_and_names_each(tmp_path: Path) -> None:
    """Another path finds nothing, another type takes nothing, a column is gone; only a person may do that."""
    desk = _desk(tmp_path)
    first = _manifest(desk.compact(columns=mapping(A)))
    count, pointer = first.rows, desk.publisher().current().pointer
    with pytest.raises(SafetyRefusal) as refused:
        desk.compact(columns=mapping(B), rewrite_columns=True)
    told = str(refused.value)
    assert f"price: {count:,} filled -> 0, the others empty" in told
    assert f"carrier: {count:,} filled -> gone" in told
    assert f"gate: {count:,} filled -> 0, the others unfit" in told
    assert "number" not in told
    assert "stop" not in told
    assert desk.publisher().current().pointer == pointer
    done = desk.compact(columns=mapping(B), rewrite_columns=True, is_confirmed=True)
    assert (done.state, _manifest(done).columns, _stored(desk)) == ("published", mapping(B).types, mapping(B))
    desk.archive_more()
    assert _manifest(desk.compact(columns=mapping(A))).columns == mapping(B).types


def test_a_leaf_with_fewer_values_is_named(tmp_path: Path) -> None:
    """A struct keeps its rows when one of its leaves loses its values."""
    desk = _desk(tmp_path)
    rows = _manifest(desk.compact(columns=mapping(A))).rows
    other = mapping({**A, "stop": "struct<name: int64, late: int64>"})
    with pytest.raises(SafetyRefusal) as refused:
        desk.compact(columns=other, rewrite_columns=True)
    assert f"stop.name: {rows:,} filled -> 0, the others unfit" in str(refused.value)
    assert f"stop.delay: {rows:,} filled -> gone" in str(refused.value)


@pytest.mark.parametrize("kind", ["struct<floor: int64>", "struct<name: string>", "map<string, int64>", "list<json>"])
def test_a_document_with_fewer_values_is_named(tmp_path: Path, kind: str) -> None:
    """It counts as one value before and after, and `_unfit` does not name keys without a field."""
    desk = _desk(tmp_path)
    rows = _manifest(desk.compact(columns=mapping({"stop": "json", "number": "int64"}))).rows
    with pytest.raises(SafetyRefusal) as refused:
        desk.compact(columns=mapping({"stop": kind, "number": "int64"}), rewrite_columns=True)
    assert f"stop: {rows:,} filled {'-> 0' if 'list' in kind else 'with json -> the leaves'}" in str(refused.value)
    whole = mapping({"stop": "map<string, json>", "number": "int64"})
    assert desk.compact(columns=whole, rewrite_columns=True).state == "published"


def test_a_rewrite_that_loses_nothing_needs_no_confirmation(tmp_path: Path) -> None:
    """A wider type, and one column more; the same columns again do nothing."""
    desk = _desk(tmp_path)
    desk.compact(columns=mapping(A))
    wider = mapping(
        {**A, "price": {"path": "fare.price", "type": "decimal(12,2)"}, "all": {"path": "@", "type": "json"}}
    )
    done = desk.compact(columns=wider, rewrite_columns=True)
    assert (done.state, _manifest(done).columns) == ("published", wider.types)
    assert desk.compact(columns=wider, rewrite_columns=True, engine=no_engine).state == "already"


def test_a_part_of_a_day_is_not_pinned(tmp_path: Path) -> None:
    """The file of a running day may be corrected until its night."""
    desk = _desk(tmp_path)
    part = AuditOptions(so_far_ms=DAY.begin_ms + 12 * 60 * MINUTE_MS)
    assert desk.compact(audit=part, columns=mapping(A)).state == "published"
    assert _stored(desk) is None
    assert _manifest(desk.compact(columns=mapping(B))).columns == mapping(B).types


def test_a_day_of_an_earlier_release_takes_the_file_that_agrees(tmp_path: Path) -> None:
    """By its audit's digest, also by earlier rules; from then on the day has its columns."""
    desk = _desk(tmp_path)
    then = mapping(A)._replace(rules="typed-3")
    desk.compact(columns=then)
    desk.storage.delete([_columns_key(desk)])
    assert desk.compact(columns=mapping(B), engine=no_engine).state == "already"
    assert _stored(desk) is None
    assert desk.compact(columns=mapping(A), engine=no_engine).state == "already"
    assert _stored(desk) == then
    desk.archive_more()
    assert _manifest(desk.compact(columns=mapping(B))).columns == mapping(A).types
    assert _stored(desk) == mapping(A)


def test_a_night_with_nothing_due_stores_the_columns_of_a_clean_day(tmp_path: Path) -> None:
    """So an upgrade reaches all days of the window before somebody edits the file."""
    desk = _desk(tmp_path)
    desk.compact(columns=mapping(A))
    desk.storage.delete([_columns_key(desk)])
    for given, stored in ((B, None), (A, mapping(A)), (B, mapping(A))):
        options = CompactOptions(AuditOptions(), desk.out, columns=mapping(given))
        done = settle_day(desk.context(), desk.publisher().storage, DAY, options, is_expired=False)
        assert (done.state, _stored(desk)) == ("already", stored)


@pytest.mark.parametrize("given", [B, None])
def test_without_its_columns_a_day_stays_as_it_is(tmp_path: Path, given: Mapping[str, Any] | None) -> None:
    """What comes late holds it, each night alike; --rewrite-columns or the file of then lets it go on."""
    desk = _desk(tmp_path)
    first = _manifest(desk.compact(columns=mapping(A)))
    desk.storage.delete([_columns_key(desk)])
    desk.archive_more()
    columns = None if given is None else mapping(given)
    for number in range(2):
        changes = {"engine": no_engine} if number else {}
        done = desk.compact(columns=columns, **changes)
        assert (done.state, done.verdict) == ("held", "unknown")
        assert done.result is not None
        [unknown] = [about for about in done.result.audit.findings if about.code == "mapping_unknown"]
        assert unknown.reproduce.endswith(f"--rewrite-columns --date {DAY}")
        pointer, manifest = desk.publisher().published()
        assert pointer is not None
        assert (pointer.verdict, manifest) == ("unknown", first)
    accepted = desk.compact(columns=columns, accept="never mind")
    assert (accepted.state, desk.publisher().published()[1]) == ("held", first)
    again = desk.compact(columns=mapping(A))
    assert (again.state, again.verdict, _manifest(again).columns) == ("published", "clean", mapping(A).types)


def test_a_held_day_is_rewritten_on_demand(tmp_path: Path) -> None:
    """What its night has read is not read again, and the finding goes."""
    desk = _desk(tmp_path)
    desk.compact(columns=mapping(A))
    desk.storage.delete([_columns_key(desk)])
    desk.archive_more()
    desk.compact(columns=mapping(B))
    with pytest.raises(SafetyRefusal, match=r"carrier: .* gone"):
        desk.compact(columns=mapping(B), rewrite_columns=True)
    done = desk.compact(columns=mapping(B), rewrite_columns=True, is_confirmed=True)
    assert (done.state, done.verdict, _manifest(done).columns) == ("published", "clean", mapping(B).types)
    stored = desk.storage.get(_manifest(done).audit)
    assert stored is not None
    assert {check.status for check in decode_audit(stored.body).checks if check.id == "mapping_unknown"} == {
        "not_asked"
    }


@pytest.mark.parametrize("body", [b"{", b"", b'{"format":2}'])
def test_damaged_columns_are_no_columns(tmp_path: Path, body: bytes) -> None:
    """Then the file must agree with the audit, as for an earlier release's days."""
    desk = _desk(tmp_path)
    desk.compact(columns=mapping(A))
    key = _columns_key(desk)
    desk.storage.delete([key])
    desk.storage.put_if_absent(key, body, {}, "application/json")
    desk.archive_more()
    assert desk.compact(columns=mapping(B)).state == "held"
    assert _manifest(desk.compact(columns=mapping(A))).columns == mapping(A).types


def _replaced(desk: Desk) -> bytes:
    """Return an object of other columns that is whole in itself."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    return encode_pinned(pointer.day, pointer.generation, mapping(B))


def _edited(desk: Desk) -> bytes:
    """Return the object with another path, and no audit that would tell."""
    stored, folder = desk.storage.get(_columns_key(desk)), desk.publisher().folder
    assert stored is not None
    desk.storage.delete([row.key for row in desk.storage.list_objects(folder.manifests) if is_audit(row.key)])
    return stored.body.replace(b"fare.price", b"fare.costs")


@pytest.mark.parametrize("body", [_replaced, _edited])
def test_columns_that_somebody_changed_are_not_believed(tmp_path: Path, body: Callable[[Desk], bytes]) -> None:
    """The audit has the digest of those that were used, and the object its own."""
    desk = _desk(tmp_path)
    desk.compact(columns=mapping(A))
    key, changed = _columns_key(desk), body(desk)
    desk.storage.delete([key])
    desk.storage.put_if_absent(key, changed, {}, "application/json")
    desk.archive_more()
    assert desk.compact(columns=mapping({**A, "more": "string"})).state == "held"


def test_an_expired_day_is_not_rewritten(tmp_path: Path) -> None:
    """Nothing is left to read its columns from."""
    desk = _desk(tmp_path)
    manifest = _manifest(desk.compact(columns=mapping(A)))
    expire(desk, manifest.generation, days=0)
    with pytest.raises(SafetyRefusal, match="were expired"):
        desk.compact(columns=mapping(A), rewrite_columns=True)


def test_the_stored_columns_are_a_file_of_columns(tmp_path: Path) -> None:
    """With event times and a schema's text beside; a person can give them to --columns as they are."""
    schema = {
        "type": "record",
        "name": "flight",
        "fields": [{"name": "number", "type": "long"}, {"name": "gate", "type": ["null", "string"]}],
    }
    file = tmp_path / "flights.avsc"
    file.write_text(json.dumps(schema))
    given = read_columns(file, SCHEMA.names)
    desk = _desk(tmp_path / "desk")
    timed = with_event_time(given, "at as timestamp(ms)", 7, SCHEMA.names)
    desk.compact(columns=timed)
    assert _stored(desk) == timed
    assert timed.schemas == (("flights.avsc", file.read_text()),)
    stored = desk.storage.get(_columns_key(desk))
    assert stored is not None
    copy = tmp_path / "copy.json"
    copy.write_bytes(stored.body)
    assert read_columns(copy, SCHEMA.names).columns == given.columns


def test_columns_end_with_the_manifest_that_they_lie_beside(tmp_path: Path) -> None:
    """A sweep takes no manifest for them, and vacuum keeps those of what is published."""
    desk = _desk(tmp_path)
    desk.compact(columns=mapping(A))
    old = _columns_key(desk)
    desk.clock.advance(86_400)
    desk.compact(columns=mapping(B), rewrite_columns=True, is_confirmed=True)
    desk.clock.advance((desk.after_grace_ms() - desk.clock.now_ms()) / 1000)
    publisher = desk.publisher()
    assert publisher.sweep(desk.clock.now_ms())
    assert desk.storage.head(old) is not None
    left = find_leftovers(
        publisher.storage, publisher.folder, desk.clock.now_ms(), RawDays(lambda _: True, lambda _: "")
    )
    delete_leftovers(publisher.storage, publisher.folder, left)
    assert (desk.storage.head(old), _stored(desk)) == (None, mapping(B))


def test_a_plan_says_what_a_run_would_do(tmp_path: Path) -> None:
    """By the day's columns, not by the file."""
    desk = _desk(tmp_path)
    first = _manifest(desk.compact(columns=mapping(A)))

    def plan(columns: Columns | None, *, rewrites: bool = False) -> tuple[str, bool]:
        options = CompactOptions(AuditOptions(), desk.out, columns=columns, rewrite_columns=rewrites)
        found = plan_dry_run(desk.context(), DAY, options)
        return found.action, found.generation == first.generation

    assert plan(mapping(B)) == ("nothing to do", True)
    assert plan(mapping(B), rewrites=True) == ("would be rewritten", False)
    desk.archive_more()
    assert plan(mapping(B)) == ("would be rewritten", False)
    desk.storage.delete([_columns_key(desk)])
    assert plan(mapping(B)) == ("would be held: mapping_unknown", False)
