"""The supervisor's boundaries step by step: rows are stored, looks are sent, and what is reached is published."""

from collections.abc import Callable

from structlog.testing import capture_logs

from consumer.boundaries.due import Boundaries
from consumer.boundaries.known import KnownShards
from consumer.boundaries.looks import Looker
from consumer.boundaries.saying import DaemonRuns, RowWriter
from consumer.child_logs.processor_log import COMMITTED, OPENED, ProcessorEvent
from minutebook.clock import new_random
from minutebook.completeness.query import read_completeness
from minutebook.format.boundaries import UNTIL, decode_rows
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from tests.fakes.boundary_scene import FIVE_MS, PREFIX, S0, S1, T0, BoundaryScene, row
from tests.fakes.memory_store import EndlessFault, Fault, MemoryStore, PlannedFaults
from tests.fakes.shard import FakeShard
from tests.fakes.stream import FakeStream

M = 60_000


class Log:
    """The daemon's log: read to its end, or not."""

    is_read = True

    def is_read_to_its_end(self) -> bool:
        """Return what the test says."""
        return self.is_read


class Worker:
    """A supervisor whose only shard S0 holds one archived record; another worker reads S1."""

    def __init__(
        self,
        *,
        leads: bool = True,
        store: Callable[[MemoryStore], None] = lambda _: None,
        describes: bool = True,
    ) -> None:
        self.scene = BoundaryScene()
        self.clock = self.scene.clock
        shard = FakeShard(S0)
        self.last = shard.put(b"archived", T0).position
        self.stream = FakeStream(shard, FakeShard(S1), clock=self.clock)
        self.known = KnownShards()
        self.log = Log()
        self.complete: list[int] = []
        raw = MemoryStore(self.scene.bucket)
        store(raw)
        retrying = RetryingStore(raw, lambda: Backoff(self.clock, new_random(), budget_seconds=0))
        self.runs = DaemonRuns("run")
        writer = RowWriter(retrying, PREFIX, self.known, self.clock, worker="w", runs=self.runs, every_ms=FIVE_MS)
        self.boundaries = Boundaries(
            self.known,
            Looker(self.stream, self.clock),
            writer,
            self.scene.publisher(),
            self.stream,
            self.clock,
            every_ms=FIVE_MS,
            leads=lambda: leads,
            runs=self.runs,
            on_complete=self.complete.append,
        )
        self.boundaries.daemon_started(self.log)
        self.boundaries.note(ProcessorEvent(event=OPENED, shard=S0, after="5:0"))
        if describes:
            self.stream.describe()

    def commit(self, from_minute: float, until_minute: float) -> None:
        """Let the processor log a segment that ends at the shard's last record."""
        at = [T0 + round(minute * M) for minute in (from_minute, until_minute)]
        line = ProcessorEvent(
            event=COMMITTED,
            shard=S0,
            covered_from_ms=at[0],
            covered_until_ms=at[1],
            last=str(self.last),
            minute="2026-11-21T10:16Z",
        )
        self.boundaries.note(line)

    def rows(self) -> list[tuple[int, int]]:
        """Return the stored rows in minutes."""
        keys = self.scene.bucket.keys(f"{PREFIX}{UNTIL}")
        stored = [decode_rows(self.scene.bucket.body(key), key).rows.get(S0, []) for key in keys]
        return [((each.from_ms - T0) // M, (each.until_ms - T0) // M) for rows in stored for each in rows]


def test_a_row_is_stored_once_its_line_counts() -> None:
    """And at most one object in half a minute."""
    worker = Worker()
    worker.commit(0, 1)
    worker.log.is_read = False
    worker.boundaries.settle()
    worker.boundaries.store()
    assert worker.rows() == []

    worker.log.is_read = True
    worker.boundaries.settle()
    worker.boundaries.store()
    worker.commit(1, 2)
    worker.boundaries.settle()
    worker.boundaries.store()
    assert worker.rows() == [(0, 1)]
    worker.clock.advance(31)
    worker.boundaries.store()
    assert worker.rows() == [(0, 1), (1, 2)]


def test_rows_and_markers_of_skipped_batches_name_the_daemons_run() -> None:
    """The rows of the next run, which has read the skipped batch again, say nothing of what the last one skipped."""
    worker = Worker()
    for number in range(2):
        assert worker.runs.name == f"run.{number + 1}"
        worker.commit(number, number + 1)
        worker.boundaries.store_last()
        worker.boundaries.daemon_started(worker.log)
        worker.boundaries.note(ProcessorEvent(event=OPENED, shard=S0, after="5:0"))

    keys = worker.scene.bucket.keys(f"{PREFIX}{UNTIL}")
    assert [decode_rows(worker.scene.bucket.body(key), key).run for key in keys] == ["run.1", "run.2"]


def test_an_answer_that_got_lost_does_not_lose_a_row() -> None:
    """The same bytes are sent to the same key; only then the next rows are."""
    worker = Worker(store=lambda raw: setattr(raw, "faults", PlannedFaults(Fault.REFUSED_BEFORE, Fault.ANSWER_LOST)))
    worker.commit(0, 1)
    worker.boundaries.settle()
    for _ in range(4):
        worker.boundaries._guarded("rows", worker.boundaries.store)
        worker.clock.advance(31)

    assert worker.rows() == [(0, 1)]


def test_a_quiet_shard_is_looked_at_and_reaches_the_boundary() -> None:
    """Its processor writes nothing for an hour; the look says what the boundary needs."""
    worker = Worker()
    worker.commit(-3, 1)
    worker.boundaries.settle()
    worker.clock.advance(300)
    worker.stream.describe()
    assert worker.boundaries.due_shards() == []
    worker.clock.advance(66)
    worker.stream.describe()

    [shard] = worker.boundaries.due_shards()
    worker.boundaries.look(shard)

    assert worker.boundaries.due_shards() == []
    worker.boundaries.store(at_once=True)
    [(begin, until)] = worker.rows()
    assert (begin, until >= 5) == (-3, True)


def test_the_leader_publishes_first() -> None:
    """Another worker waits for a minute more: the leader may be dead."""
    for leads, seconds in ((True, 61), (False, 121)):
        worker = Worker(leads=leads)
        worker.scene.say(s0=row(-6, 6), s1=row(-6, 6))
        worker.clock.advance(300)
        worker.stream.describe()
        worker.boundaries.publish()
        assert worker.complete == [T0 + FIVE_MS]
        worker.clock.advance(300 + seconds - 2)
        worker.stream.describe()
        assert not worker.boundaries.is_time_to_publish()
        worker.clock.advance(2)
        assert worker.boundaries.is_time_to_publish()


def test_a_daemon_that_skipped_a_batch_withdraws_before_the_next_one_is_due() -> None:
    """Its marker is stored before the next run begins; a store that does not answer then is asked again."""
    worker = Worker()
    worker.scene.say(s0=row(-6, 6), s1=row(-6, 6))
    worker.clock.advance(300)
    worker.stream.describe()
    worker.boundaries.publish()
    worker.clock.advance(20)
    assert not worker.boundaries.is_time_to_publish()
    worker.boundaries.skipped(S0)
    worker.scene.skipped(S0, worker.clock.now_ms(), "run.1_1")
    assert not worker.boundaries.is_time_to_publish()
    worker.boundaries.daemon_started(worker.log)
    assert worker.boundaries.is_time_to_publish()
    worker.boundaries.publish()
    known = read_completeness(worker.scene.objects(), worker.clock.now_ms())
    assert known is not None
    assert [gap.reasons for gap in known.gaps] == [("skipped",)]
    worker.clock.advance(20)
    assert not worker.boundaries.is_time_to_publish()


def test_the_last_rows_are_stored_when_the_daemon_has_ended() -> None:
    """A redeploy then needs no look into the archive."""
    worker = Worker()
    worker.commit(0, 1)
    worker.boundaries.store_last()

    assert worker.rows() == [(0, 1)]


def test_a_store_that_refuses_costs_time_and_nothing_else() -> None:
    """It is logged once, with a next step."""
    worker = Worker(store=lambda raw: setattr(raw, "faults", EndlessFault(Fault.REFUSED)))
    worker.commit(0, 1)
    with capture_logs() as logs:
        worker.boundaries.store_last()
        worker.boundaries.store_last()

    [line] = [log for log in logs if log["event"] == "boundaries_failed"]
    assert line["next_step"]


def test_what_holds_a_boundary_for_long_is_logged_once() -> None:
    """With the shard, how far it reached, and what to look at."""
    worker = Worker()
    worker.scene.say(s0=row(-6, 26), s1=row(-6, 6))
    worker.clock.advance(300)
    worker.stream.describe()
    with capture_logs() as logs:
        worker.boundaries.publish()
        worker.clock.advance(20 * 60 + 10)
        worker.stream.describe()
        worker.boundaries.publish()
        worker.boundaries.publish()

    [line] = [log for log in logs if log["event"] == "boundary_held"]
    assert (line["shard"], line["reached"]) == (S1, "2026-11-21T10:21:00.000Z")


def test_jobs_say_what_is_due() -> None:
    """Each once, by name; done one after the other they bring the quiet shard's rows and the boundary."""
    worker = Worker()
    worker.commit(-3, 1)
    assert set(worker.boundaries.jobs()) == {"rows", "publishing"}
    worker.scene.say(s1=row(-6, 6))
    worker.clock.advance(366)
    for name in ("look-0", "rows", "publishing"):
        worker.stream.describe()
        worker.boundaries.jobs()[name]()
        assert name not in worker.boundaries.jobs()
    assert worker.complete == [T0 + FIVE_MS]


def test_without_the_services_time_nothing_else_is_due() -> None:
    """Its first answer tells it; no service is asked to find out what is due."""
    worker = Worker(describes=False)
    assert set(worker.boundaries.jobs()) == {"time"}
    worker.boundaries.jobs()["time"]()
    assert set(worker.boundaries.jobs()) == {"look-0", "publishing"}
