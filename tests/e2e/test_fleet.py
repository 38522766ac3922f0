"""A fleet: the streams of a folder in one daemon, whose shards have equal ids. Played once, in two lives.

life 1   orders  |--records--split--records--merge--records-------------------- stop
         clicks  |--records all the time--------------------------------------- stop
         logs    |--records--X child--records--X child--records---------------- stop
         gone    |--records--stream deleted-------------------------- gives up
         late    (its bucket is not there yet) ------bucket--records------------- stop
         barred  (its bucket is not there: never begins)
life 2   w1 |--records--X JVM--records--X fork server--records--SIGTERM
         w2            (waits) ------------------------------------|--records-- stop
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from demo.readback import Verdict
from minutebook.clock import SystemClock
from tests.e2e.fleet import FleetSite
from tests.e2e.harness import Application
from tests.e2e.worker import Worker, is_running, kill
from tests.witness.events import Event
from tests.witness.readback import assert_exactly_once
from tests.witness.waiting import wait_until

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws

_CLOCK = SystemClock()
_STOP_SECONDS = 25
_NAMES = ("orders", "clicks", "logs", "gone", "late")
_AGAIN_SECONDS = 10


@dataclass(kw_only=True)
class FirstLife:
    """What was seen of it."""

    verdicts: dict[str, Verdict]
    opened: dict[str, list[Event]]
    restarted: list[Event]
    split: list[str]
    merged: str
    kills: int
    seconds_to_reopen: list[float]
    barred: Event
    gave_up: Event
    exit_code: int
    stop_seconds: float
    last: Event
    first_shards: set[str]
    daemons_before_and_after: tuple[int, int]
    left_running: list[int]


@pytest.fixture(scope="module")
def first_life(embedded_aws: "EmbeddedAws", tmp_path_factory: pytest.TempPathFactory) -> FirstLife:
    """Play it."""
    site = FleetSite(
        embedded_aws, tmp_path_factory.mktemp("fleet"), _NAMES, flushSeconds=2, checkpointIntervalSeconds=1
    )
    folder = site.write()
    text = (folder / "orders.properties").read_text()
    for line in ("applicationName", "minutebook.bucket"):
        text = text.replace(f"{line} = ", f"{line} = nobodys-")
    (folder / "barred.properties").write_text(text)
    site.seed()
    orders, logs, gone, late = (site.apps[name] for name in ("orders", "logs", "gone", "late"))
    embedded_aws.s3_client().delete_bucket(Bucket=late.name)
    first_shards = {shard for app in site.apps.values() for shard in app.open_shards()}
    with site.consume(again_seconds=_AGAIN_SECONDS) as worker, _loaded(site.apps["clicks"]) as end_load:
        for name, app in site.apps.items():
            app.producer.put_numbered(20)
            if name != "late":
                worker.events.wait("shard_opened", properties=name)
        worker.events.wait("stream_not_opened", properties="late")
        embedded_aws.s3_client().create_bucket(Bucket=late.name)
        barred = worker.events.wait("stream_not_opened", properties="barred")
        (daemon,) = worker.daemons()
        await_checkpoint(worker, "gone", gone)
        gone.kinesis.delete_stream(StreamName=gone.name)  # it gives up while the others go on
        split = orders.split(orders.open_shards()[0])
        orders.producer.put_numbered(20, key=orders.key_of(split[0]))
        for shard in split:
            worker.events.wait("shard_opened", properties="orders", shard=shard)
        merged = orders.merge(*split)
        orders.producer.put_numbered(20)
        seconds = [_kill_child(worker, logs) for _ in range(2)]
        worker.events.wait("shard_opened", properties="orders", shard=merged)
        gave_up = worker.events.wait("gave_up", properties="gone")
        worker.events.wait("shard_opened", properties="late")
        end_load()
        for name in ("orders", "clicks", "logs", "late"):
            site.apps[name].producer.put_numbered(5)
            await_checkpoint(worker, name, site.apps[name])
        (daemon_now,) = worker.daemons()
        running = [process.pid for process in (*worker.daemons(), *worker.fork_servers(), *worker.processors())]
        begun = _CLOCK.monotonic()
        worker.terminate()
        code = worker.wait()
        stopped = _CLOCK.monotonic() - begun
    return FirstLife(
        verdicts={name: app.verdict() for name, app in site.apps.items()},
        opened={name: worker.events.all("shard_opened", properties=name) for name in _NAMES},
        restarted=worker.events.all("daemon_restarting"),
        split=split,
        merged=merged,
        kills=len(seconds),
        seconds_to_reopen=seconds,
        barred=barred,
        gave_up=gave_up,
        exit_code=code,
        stop_seconds=stopped,
        last=worker.events.all("fleet_stopped")[-1],
        first_shards=first_shards,
        daemons_before_and_after=(daemon.pid, daemon_now.pid),
        left_running=[pid for pid in running if is_running(pid)],
    )


@dataclass(kw_only=True)
class SecondLife:
    """What was seen of it."""

    verdicts: dict[str, Verdict]
    exit_codes: tuple[int, int]
    stop_seconds: float
    heirs: list[Event]
    back_seconds: dict[str, float]


@pytest.fixture(scope="module")
def second_life(embedded_aws: "EmbeddedAws", tmp_path_factory: pytest.TempPathFactory) -> SecondLife:
    """Play it."""
    site = FleetSite(
        embedded_aws,
        tmp_path_factory.mktemp("fleets"),
        ("a", "b"),
        shards=2,
        flushSeconds=2,
        checkpointIntervalSeconds=1,
    )
    site.write("w1")
    site.seed("w1")
    back: dict[str, float] = {}
    with site.consume("w1") as first:
        _send_and_await(first, site)
        for what, victims in (("jvm", first.daemons), ("fork server", first.fork_servers)):
            begun = _CLOCK.monotonic()
            kill(victims()[0], signal.SIGKILL)
            _send_and_await(first, site)
            back[what] = _CLOCK.monotonic() - begun
        site.write("w2")
        with site.consume("w2") as second:
            for app in site.apps.values():
                wait_until(lambda app=app: "w2" in app.reports(), "the second worker reports")  # type: ignore[misc]
            begun = _CLOCK.monotonic()
            first.terminate()
            code = first.wait()
            stopped = _CLOCK.monotonic() - begun
            _send_and_await(second, site)
            second.terminate()
            codes = code, second.wait()
    return SecondLife(
        verdicts={name: app.verdict() for name, app in site.apps.items()},
        exit_codes=codes,
        stop_seconds=stopped,
        heirs=first.events.all("leases_released"),
        back_seconds=back,
    )


def test_shards_of_all_streams_have_equal_ids(first_life: FirstLife) -> None:
    """The premise: what mistakes one stream for another would be seen."""
    assert len(first_life.first_shards) == 1


@pytest.mark.parametrize("name", _NAMES)
def test_every_record_of_each_stream_is_archived_once(first_life: FirstLife, name: str) -> None:
    """Split, merged, killed or deleted beside it: each stream's records lie in its own bucket, once."""
    assert_exactly_once(first_life.verdicts[name])


def test_a_stream_is_split_and_merged_while_another_is_loaded(first_life: FirstLife) -> None:
    """Parent, two children, their child."""
    shards = [event["shard"] for event in first_life.opened["orders"]]
    assert shards[0] in first_life.first_shards
    assert {*shards[1:]} == {*first_life.split, first_life.merged}


def test_a_killed_child_begins_its_own_stream_anew_and_no_other(first_life: FirstLife) -> None:
    """The other streams opened their shards once, and the daemon is the same process. Seconds are printed."""
    print("from SIGKILL of a child until its shard is open:", [round(s, 1) for s in first_life.seconds_to_reopen])  # noqa: T201
    assert {event["properties"] for event in first_life.restarted} == {"logs", "gone"}
    assert len(first_life.opened["logs"]) == 1 + first_life.kills
    assert len(first_life.opened["clicks"]) == 1
    assert len(set(first_life.daemons_before_and_after)) == 1


def test_a_stream_without_its_bucket_is_named(first_life: FirstLife) -> None:
    """And the others have run all the time."""
    assert first_life.barred["exit_code"] == 2
    assert first_life.barred["next_step"]


def test_a_stream_whose_bucket_is_made_later_is_archived(first_life: FirstLife) -> None:
    """In the same daemon, by the fork server that did not know it at its start."""
    assert [event["shard"] for event in first_life.opened["late"]] == sorted(first_life.first_shards)
    assert {event["properties"] for event in first_life.restarted} == {"logs", "gone"}


def test_a_deleted_stream_gives_up_alone(first_life: FirstLife) -> None:
    """Its error is its processor's."""
    assert first_life.gave_up["exit_code"] != 0


def test_the_exit_code_is_the_worst(first_life: FirstLife) -> None:
    """And the last line says whose it is."""
    assert first_life.exit_code == first_life.last["exit_code"] != 0
    assert set(first_life.last["codes"]) == {"barred", "gone"}


def test_a_stop_takes_less_than_its_deadline(first_life: FirstLife) -> None:
    """Nothing is left running."""
    print("seconds of a stop:", round(first_life.stop_seconds, 1))  # noqa: T201
    assert first_life.stop_seconds < _STOP_SECONDS
    assert first_life.left_running == []


@pytest.mark.parametrize("name", ["a", "b"])
def test_all_streams_survive_the_daemon_and_the_fork_server(second_life: SecondLife, name: str) -> None:
    """SIGKILL of each, and a hand-over to another worker: nothing is lost or doubled. Seconds are printed."""
    print("from SIGKILL until all streams have committed again:", second_life.back_seconds)  # noqa: T201
    assert_exactly_once(second_life.verdicts[name])


def test_a_stop_hands_over_the_leases_of_each_stream(second_life: SecondLife) -> None:
    """To the other worker, within the deadline of all."""
    heirs = [heir for event in second_life.heirs for heir in event["heirs"].values()]
    print("seconds of a stop beside another worker:", round(second_life.stop_seconds, 1))  # noqa: T201
    assert heirs == ["w2"] * 4
    assert second_life.stop_seconds < _STOP_SECONDS
    assert second_life.exit_codes == (0, 0)


@contextmanager
def _loaded(app: Application) -> Iterator[Callable[[], None]]:
    """Put records all the time while the block runs, or until the function that it yields has returned."""
    stop = threading.Event()

    def put() -> None:
        while not stop.wait(0.5):
            app.producer.put_numbered(20)

    thread = threading.Thread(target=put)

    def end() -> None:
        stop.set()
        thread.join()

    thread.start()
    try:
        yield end
    finally:
        end()


def _kill_child(worker: Worker, app: Application) -> float:
    """Kill the processor of the stream `logs`; return the seconds until its shard is open again."""
    app.producer.put_numbered(10)
    opened = worker.events.all("shard_opened", properties="logs")[-1]
    mark = worker.events.mark()
    (victim,) = [process for process in worker.processors() if process.pid == opened["pid"]]
    begun = _CLOCK.monotonic()
    kill(victim, signal.SIGKILL)
    worker.events.wait("shard_opened", properties="logs", since=mark)
    return _CLOCK.monotonic() - begun


def await_checkpoint(worker: Worker, name: str, app: Application) -> None:
    """Wait until all records in the open shards of a stream are archived and checkpointed."""
    last = app.producer.last()
    for position in [last[shard] for shard in app.open_shards() if shard in last]:
        wait_until(
            lambda position=position: bool(  # type: ignore[misc]
                worker.events.all("checkpoint_written", properties=name, position=str(position))
            ),
            f"{name} has checkpointed {position}",
        )


def _send_and_await(worker: Worker, site: FleetSite) -> None:
    for app in site.apps.values():
        app.producer.put_numbered(20)
    for name, app in site.apps.items():
        await_checkpoint(worker, name, app)
