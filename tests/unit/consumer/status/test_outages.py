"""`status` while a service is away, missing or another's: what is said, and what is shown all the same."""

from consumer.status.command import unasked_services_code
from consumer.stream.port import StreamIdentity
from minutebook.errors import StreamUnavailable
from tests.fakes.clock import START_MS
from tests.fakes.memory_store import EndlessFault, Fault
from tests.fakes.status_scene import LEASE, NOW, S0, StatusScene


def test_a_missing_table_is_said_and_no_failure() -> None:
    """With what to do."""
    scene = StatusScene()
    scene.archive(NOW)
    report = scene.report()
    assert ("there is none" in report.problems[0].sentence, unasked_services_code(report)) == (True, 0)
    assert report.shards[0].lease == "unknown"


def test_an_archive_that_was_never_begun_is_said() -> None:
    """The stream's shards and the leases are shown all the same."""
    report = StatusScene(LEASE).report()
    assert ("nothing is archived" in report.problems[0].sentence, unasked_services_code(report)) == (True, 0)
    assert report.shards[0].checkpoint == "1005:2"


def test_another_streams_archive_is_refused_by_its_code() -> None:
    """Exit code 6, and no tail of the other stream is shown."""
    scene = StatusScene(LEASE)
    scene.archive(NOW)
    scene.stream.recreate(START_MS)
    report = scene.report()
    assert (unasked_services_code(report), report.shards[0].tail) == (6, None)


def test_an_unavailable_store_leaves_the_leases() -> None:
    """Exit code 5."""
    scene = StatusScene(LEASE)
    scene.store.faults = EndlessFault(Fault.THROTTLED)
    report = scene.report()
    assert (unasked_services_code(report), report.shards[0].owner) == (5, "w1")


def test_an_unavailable_stream_leaves_the_archive() -> None:
    """Exit code 5, and the archive's end is shown."""
    scene = StatusScene(LEASE)
    scene.archive(NOW)
    scene.stream.unavailable = True
    report = scene.report()
    assert (unasked_services_code(report), report.shards[0].tail) == (5, "1005:2")


def test_an_unavailable_table_leaves_the_archive() -> None:
    """Exit code 5; it is not called missing."""
    scene = StatusScene()
    scene.archive(NOW)
    scene.table.unavailable = True
    report = scene.report()
    assert (unasked_services_code(report), len(report.problems), report.shards[0].tail) == (5, 1, "1005:2")


def test_an_unreadable_row_is_a_problem() -> None:
    """KCL ignores it silently, so it must be seen here."""
    scene = StatusScene(LEASE)
    scene.archive(NOW)
    assert scene.table.items is not None
    del scene.table.items[S0]["leaseCounter"]
    report = scene.report()
    assert ("leaseCounter" in report.problems[0].sentence, report.shards[0].lease) == (True, "missing")


def refuse() -> StreamIdentity:
    """Fail as Kinesis does."""
    raise StreamUnavailable("Kinesis stayed unavailable", next_step="wait")


def test_everything_down_is_no_crash() -> None:
    """The report names each of them."""
    scene = StatusScene()
    scene.table.unavailable = True
    scene.store.faults = EndlessFault(Fault.THROTTLED)
    report = scene.report(describe=refuse)
    assert len(report.problems) == 3
