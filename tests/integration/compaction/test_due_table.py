"""`compact --due` on real Spark and servers: a night over days in every state, and one that has nothing to do.

Each day of one archive is brought into a state: what readers see of it, what has changed since, how the table is. One
run has to do what is due of each, and to name it.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from compaction.inventory.checkpoints import Checkpoints
from compaction.job.context import AuditOptions
from compaction.night.rewrite import Compacted
from compaction.tables.table import IcebergTable
from demo.embedded import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedAws
from minutebook.clock import SystemClock
from minutebook.format.day import Day, day_of_ms
from minutebook.format.metadata import ChainStart, Continuity
from minutebook.format.minute import MINUTE_MS
from minutebook.format.read_mark import MarkKind, ReadMark, encode_read_mark, read_mark_key
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.desk import OUT, Mill, expire
from tests.corpus.model import PREFIX, Corpus, Shape, Stored, make_segment
from tests.fakes.clock import ManualClock
from tests.integration.shell import Shell, store_checkpoints
from tests.searching import only_deep
from tests.witness.counting import CountingProxy

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_TWO_HOURS_MS = 120 * MINUTE_MS
_MINUTES = (0, 1, 720, 900, 1439)
_TABLE = "events.raw"
Row = tuple[str, tuple[str, ...], str, int]
"""Pointer, done, table, exit code."""


class State(NamedTuple):
    """One day: what is done before it is published, how it is published, what changes then, and its row.

    `in_table`: the run that published it committed it to the table, too. `reason`: it was published as accepted.
    """

    name: str
    row: Row
    before: Callable[["Archive", Day], object] | None = None
    published: bool = True
    in_table: bool = True
    reason: str | None = None
    change: Callable[["Archive", Day], object] | None = None


class Archive(Mill):
    """Days of three shards in a bucket, and what happens to each of them."""

    def __init__(self, address: Address | Path, newest: Day, days: int, table: IcebergTable) -> None:
        minutes = tuple(-1440 * back + minute for back in reversed(range(days)) for minute in _MINUTES)
        named = {} if isinstance(address, Path) else {"application": address.bucket or ""}
        super().__init__(address, Corpus(newest, shape=Shape(minutes=(*minutes, 1441), records=3)), **named)
        self.clock = ManualClock(SystemClock().now_ms())
        self.newest = newest
        self.raw_store = open_storage(self.archive)
        self.table = table

    def publish(self, day: Day, *, in_table: bool = True, **changes: Any) -> Compacted:  # noqa: ANN401 - of `compact`
        """Publish a day in this process."""
        audit = changes.pop("audit", AuditOptions(published=self.out))
        return self.compact(day=day, audit=audit, **({"table": self.table} if in_table else {}), **changes)

    def noon(self, day: Day, shard: int = 0) -> Stored:
        """Return a shard's segment of noon."""
        minute = day.first_minute + 720
        return next(one for one in self.corpus.shards[shard].segments if one.metadata.minute == minute)

    def replace(self, stored: Stored) -> None:
        """Store a segment over the one of its key."""
        self.raw_store.delete([stored.key])
        self.raw_store.put_if_absent(stored.key, stored.body, stored.fields, "application/gzip")

    def swap_lines(self, day: Day) -> None:
        """Exchange two lines of a segment."""
        stored = self.noon(day)
        stored.records[0], stored.records[1] = stored.records[1], stored.records[0]
        stored.pack()
        self.replace(stored)

    def edit(self, day: Day, *, to_its_size: bool = False) -> None:
        """Change a payload of a segment, so that all else is as it was, or else only the compressed size."""
        stored = self.noon(day)
        record, size = stored.records[0], len(stored.body)
        for place, byte in itertools.product(range(2, 6), range(97, 123)):
            data = record.data[:-place] + bytes([byte]) + record.data[1 - place :]
            stored.records[0] = msgspec.structs.replace(record, data=data)
            stored.pack()
            if data != record.data and (len(stored.body) == size) is to_its_size:
                break
        assert (len(stored.body) == size) is to_its_size
        self.replace(stored)

    def edit_to_its_size(self, day: Day) -> None:
        """Let no LIST show more than another ETag."""
        self.edit(day, to_its_size=True)

    def hold_back(self, day: Day) -> None:
        """Let a segment of noon not come yet."""
        self.raw_store.delete([self.noon(day, 1).key])

    def arrive_late(self, day: Day) -> None:
        """Let that segment come."""
        stored = self.noon(day, 1)
        self.raw_store.put_if_absent(stored.key, stored.body, stored.fields, "application/gzip")

    def arrive_broken(self, day: Day) -> None:
        """Let an object come that cannot be read."""
        stored = self.noon(day)
        made = make_segment(
            self.corpus.shards[0].shard_id,
            stored.metadata.minute + 1,
            stored.records,
            stored.metadata.after,
            "late-1",
        )
        self.raw_store.put_if_absent(made.key, made.body[:20], made.fields, "application/gzip")

    def doubt(self, day: Day) -> None:
        """Let a segment of noon say that its writer does not know what came before it."""
        stored = self.noon(day, 1)
        stored.metadata = msgspec.structs.replace(stored.metadata, continuity=Continuity.UNPROVEN)
        stored.seal()
        self.replace(stored)

    def lose(self, day: Day) -> None:
        """Let a mark say that the stream held a record of the afternoon that is not archived."""
        begin = self.noon_ms(day) + 60 * MINUTE_MS
        self.mark(day, ReadMark("", MarkKind.STREAM, Continuity.LOST, begin, begin + MINUTE_MS, None, "w"))

    def lose_and_answer(self, day: Day) -> None:
        """Let a night withdraw the day by such a mark, and then a mark say that the record is archived."""
        self.lose(day)
        assert self.publish(day).verdict == "defects"
        begin = self.noon_ms(day) + 60 * MINUTE_MS
        self.mark(day, ReadMark("", MarkKind.STREAM, Continuity.PROVEN, begin, begin + MINUTE_MS, None, "w"))

    def noon_ms(self, day: Day) -> int:
        """Return when noon is."""
        return day.begin_ms + 720 * MINUTE_MS

    def mark(self, day: Day, mark: ReadMark) -> None:
        """Store a mark of the second shard."""
        named = mark._replace(shard_id=self.corpus.shards[1].shard_id)
        self.raw_store.put_if_absent(
            read_mark_key(PREFIX, day, named), encode_read_mark(named), {}, "application/json"
        )

    def expire(self, day: Day) -> None:
        """Delete the raw objects."""
        pointer = self.pointer(day)
        expire(self, pointer["generation"], DAY_NUMBER - day.number)

    def come_back(self, day: Day) -> None:
        """Expire the day, and let a zombie write another segment of it."""
        self.expire(day)
        records = self.noon(day).records
        made = make_segment(
            "shardId-000000000009", day.first_minute + 9, records, ChainStart("TRIM_HORIZON"), "zombie-1"
        )
        self.raw_store.put_if_absent(made.key, made.body, made.fields, "application/gzip")

    def fail_by_the_checkpoint(self, day: Day) -> None:
        """Let KCL's checkpoint name more than is archived: the day is not published for that."""
        position = self.corpus.shards[2].checkpoint
        assert position is not None
        wrong = Checkpoints(
            {
                **self.corpus.checkpoints,
                self.corpus.shards[2].shard_id: position._replace(sequence=position.sequence + 9),
            }
        )
        done = self.publish(day, checkpoints=lambda: wrong)
        assert done.state == "held", (done, done.result and done.result.audit.findings)

    def pointer(self, day: Day) -> dict[str, Any]:
        """Return the pointer."""
        stored = self.storage.get(f"{OUT}dt={day}/_current.json")
        assert stored is not None
        pointer: dict[str, Any] = json.loads(stored.body)
        return pointer

    def rewrite_json(self, key: str, **changes: object) -> None:
        """Change fields of a document of the output; `None` takes one away."""
        stored = self.storage.get(key)
        assert stored is not None
        fields = {**json.loads(stored.body), **changes}
        body = json.dumps({name: value for name, value in fields.items() if value is not None}).encode()
        assert self.storage.put_if_match(key, body, stored.etag, "application/json")

    def judged_by_an_earlier_release(self, day: Day) -> None:
        """Take the basis out of the audit: a release before it had none."""
        self.rewrite_json(self.pointer(day)["audit"], basis=None)

    def judged_by_older_rules(self, day: Day) -> None:
        """Let the pointer and the manifest name older rules."""
        self.rewrite_json(f"{OUT}dt={day}/_current.json", rules=1)

    def damage_pointer(self, day: Day) -> None:
        """Leave half a pointer."""
        key = f"{OUT}dt={day}/_current.json"
        stored = self.storage.get(key)
        assert stored is not None
        assert self.storage.put_if_match(key, stored.body[:40], stored.etag, "application/json")

    def damage_inventory(self, day: Day) -> None:
        """Delete what says which objects a generation was made of."""
        self.storage.delete([self.pointer(day)["manifest"].removesuffix(".json") + ".inventory.jsonl.gz"])

    def lose_symlinks(self, day: Day) -> None:
        """Let a run die between the swap and the symlinks."""
        self.storage.delete([f"{OUT}_symlinks/dt={day}/manifest"])

    def late_without_the_table(self, day: Day) -> None:
        """Let a late object be published by a run that died before its commit."""
        self.arrive_late(day)
        done = self.publish(day, in_table=False)
        assert done.state == "published", (done.reason, done.result and done.result.audit.findings)

    def until_noon(self, day: Day) -> None:
        """Publish the day until noon."""
        done = self.publish(day, audit=AuditOptions(published=self.out, so_far_ms=day.begin_ms + 720 * MINUTE_MS))
        assert done.state == "published", done


DAY_NUMBER = Day.parse("2026-11-20").number

NOTHING: Row = ("clean", ("nothing",), "same", 0)
BLOCKED: Row = ("defects", ("blocked",), "same", 3)


SETTLED = (
    State("none", ("clean", ("published",), "mended", 0), published=False),
    State("clean", NOTHING),
    State("clean, the table lacks it", ("clean", ("nothing",), "mended", 0), in_table=False),
    State(
        "clean, the table died behind",
        ("clean", ("nothing",), "mended", 0),
        before=Archive.hold_back,
        reason="it will come",
        change=Archive.late_without_the_table,
    ),
    State(
        "accepted, a late object",
        ("clean", ("rewritten",), "mended", 0),
        before=Archive.hold_back,
        reason="it will come",
        change=Archive.arrive_late,
    ),
    State("defects, a marker", ("clean", ("judged again",), "same", 0), change=Archive.lose_and_answer),
    State("so far", ("clean", ("published",), "mended", 0), published=False, change=Archive.until_noon),
    State("an earlier release", ("clean", ("judged again",), "same", 0), change=Archive.judged_by_an_earlier_release),
    State("older rules", ("clean", ("rewritten",), "mended", 0), change=Archive.judged_by_older_rules),
    State("damaged pointer", ("clean", ("published",), "same", 0), change=Archive.damage_pointer),
    State("damaged inventory", ("clean", ("rewritten",), "mended", 0), change=Archive.damage_inventory),
    State("symlinks behind", NOTHING, change=Archive.lose_symlinks),
)
"""The next night has nothing to do for them."""
OPEN = (
    State("none, blocked", ("none", ("blocked",), "same", 3), published=False, change=Archive.swap_lines),
    State(
        "accepted, missing", ("accepted", ("judged again",), "same", 0), before=Archive.hold_back, reason="it is lost"
    ),
    State("accepted, and edited", BLOCKED, before=Archive.hold_back, reason="it is lost", change=Archive.edit),
    State(
        "clean, edited to its size",
        ("defects", ("judged again", "withdrawn"), "same", 3),
        change=Archive.edit_to_its_size,
    ),
    State("clean, edited", ("defects", ("withdrawn", "blocked"), "same", 3), change=Archive.edit),
    State(
        "clean, blocked by a late object",
        ("defects", ("withdrawn", "blocked"), "same", 3),
        change=Archive.arrive_broken,
    ),
    State(
        "clean, blocked, the table lacks it",
        ("defects", ("withdrawn", "blocked"), "mended", 3),
        in_table=False,
        change=Archive.arrive_broken,
    ),
    State("clean, a marker", ("defects", ("judged again", "withdrawn"), "same", 3), change=Archive.lose),
    State("unknown", ("unknown", ("judged again",), "same", 4), before=Archive.doubt),
    State(
        "unknown, the table lacks it",
        ("unknown", ("judged again",), "mended", 4),
        before=Archive.doubt,
        in_table=False,
    ),
    State(
        "accepted, unproven",
        ("accepted", ("judged again",), "same", 0),
        before=Archive.doubt,
        reason="the reader was looked at",
    ),
)
EXPIRED = (
    State("expired", ("expired", ("nothing",), "same", 0), change=Archive.expire),
    State(
        "expired, the table lacks it", ("expired", ("nothing",), "mended", 0), in_table=False, change=Archive.expire
    ),
    State("expired, a zombie", ("expired", ("nothing",), "same", 4), change=Archive.come_back),
)

REPAIRED = State(
    "blocked, repaired in DynamoDB alone",
    ("clean", ("published",), "mended", 0),
    published=False,
    change=Archive.fail_by_the_checkpoint,
)
"""The newest day, whose tail KCL's checkpoint proves."""
SETTLED_THEN = (REPAIRED, *SETTLED)
STATES = (*SETTLED_THEN, *OPEN, *EXPIRED)


def prepare(archive: Archive) -> dict[Day, State]:
    """Bring each day into its state; returns them."""
    days = {archive.newest.shift(-number): state for number, state in enumerate(STATES)}
    for day, state in days.items():
        if state.before is not None:
            state.before(archive, day)
    # The oldest first: what was stored in the second of a judgement counts as a change, and that day is expired next.
    for day, state in reversed(days.items()):
        if state.published:
            archive.publish(day, in_table=state.in_table, accept=state.reason)
    for day, state in days.items():
        if state.change is not None:
            state.change(archive, day)
    return days


@pytest.fixture
def shell(embedded_aws: EmbeddedAws, bucket: str, tmp_path: Path) -> Shell:
    """Return a shell with an empty bucket, and a catalog in a file."""
    shell = Shell(embedded_aws, bucket, tmp_path)
    shell.environment |= {
        "PYICEBERG_CATALOG__LAKE__URI": f"sqlite:///{tmp_path / 'lake.sqlite'}",
        "PYICEBERG_CATALOG__LAKE__WAREHOUSE": f"s3://{bucket}/warehouse",
    }
    return shell


@pytest.fixture
def table(shell: Shell, embedded_aws: EmbeddedAws) -> Iterator[IcebergTable]:
    """Return the table of this process."""
    properties = {
        "s3.endpoint": embedded_aws.s3_endpoint,
        "s3.region": REGION,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
    }
    uri, warehouse = (shell.environment[f"PYICEBERG_CATALOG__LAKE__{name}"] for name in ("URI", "WAREHOUSE"))
    catalog = SqlCatalog("lake", uri=uri, warehouse=warehouse, **properties)
    yield IcebergTable(catalog, _TABLE)
    catalog.close()


def rows_of_json(text: str) -> dict[str, Row]:
    """Return the rows of `--json`, by day."""
    return {
        row["day"]: (row["pointer"], tuple(row["done"]), row["table"], row["exit_code"])
        for row in json.loads(text)["days"]
    }


def rows_of_table(text: str) -> dict[str, tuple[str, ...]]:
    """Return what the table says, by day: pointer, done, table."""
    lines = [re.split(r" {2,}", line) for line in text.splitlines() if re.match(r"\d{4}-\d\d-\d\d  ", line)]
    return {day: (pointer, done, table) for day, pointer, done, table, *_ in lines}


@only_deep("unit/compaction/night/test_due.py::test_a_clean_day_that_is_as_it_was_is_not_due")
def test_a_night_does_what_is_due_of_each_day_and_names_the_rest(
    shell: Shell, table: IcebergTable, dynamodb_client: "DynamoDBClient", bucket: str
) -> None:
    """One run on Spark over every state. A second one, over the days that are settled then, asks for no segment.

    It writes nothing. The older day that it looks at in rotation is one that is still open.
    """
    newest = day_of_ms(SystemClock().now_ms() - _TWO_HOURS_MS).shift(-1)
    archive = Archive(shell.address, newest, len(STATES), table)
    states = prepare(archive)
    store_checkpoints(dynamodb_client, bucket, archive.corpus)
    words = (
        "--out",
        f"s3://{bucket}/{OUT}",
        "--iceberg",
        _TABLE,
        "--iceberg-catalog",
        "lake",
        "--master",
        "local[2]",
    )
    first = shell.run("compact", "--due", f"{len(STATES)}d", "--json", *words)
    names = {str(day): state.name for day, state in states.items()}
    assert {names[day]: row for day, row in rows_of_json(first.stdout).items()} == {
        state.name: state.row for state in STATES
    }
    assert (first.returncode, json.loads(first.stdout)["exit_code"]) == (3, 3)
    assert all(archive.storage.get(f"{OUT}_symlinks/dt={day}/manifest") for day in list(states)[: len(SETTLED_THEN)])
    before = {row.key: row.etag for row in archive.storage.list_objects("")}
    with CountingProxy(shell.address.endpoint or "") as proxy:
        shell.file.write_text(
            shell.file.read_text().replace(
                f"minutebook.s3Endpoint = {shell.address.endpoint}", f"minutebook.s3Endpoint = {proxy.endpoint}"
            )
        )
        second = shell.run("compact", "--due", f"{len(SETTLED_THEN)}d", *words)
    told = rows_of_table(second.stdout)
    settled = list(states)[: len(SETTLED_THEN)]
    assert {day: told[str(day)] for day in settled} == dict.fromkeys(settled, ("clean", "nothing", "same")), second
    in_turn = [day for day in told if day not in set(map(str, settled))]
    assert 1 <= len(in_turn) <= 2
    around = [Day.parse(day).shift(by).path(PREFIX) for day in in_turn for by in (-1, 0, 1)]
    assert len(proxy.requests) > len(settled)
    assert not [
        each
        for each in proxy.requests
        if each.key.startswith(f"{PREFIX}2") and not each.key.startswith(tuple(around))
    ]
    after = {row.key: row.etag for row in archive.storage.list_objects("")}
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    assert not [key for key in changed if not any(f"dt={day}/" in key for day in in_turn)]
