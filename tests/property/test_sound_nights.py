"""Sound days of a stream that is resharded daily, with a daily record that KCL does not deliver, and expiry.

None of it changes what a day's verdict rests on: from its third night on each day is left alone.
"""

from collections import defaultdict
from typing import Final

from minutebook.format.coverage_markers import UndeliveredRecord, encode_coverage_marker, undelivered_key
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS
from tests.corpus.model import PREFIX
from tests.fakes.published_archive import expire_published_now
from tests.lives.memory import in_one_thread
from tests.lives.night import Site
from tests.lives.world import FIRST_DAY, HOUR, World

WINDOW: Final = 14
NIGHTS: Final = 18


def reshard(world: World) -> bool:
    """Split the first shard that is read to its end; return whether there was one."""
    return any(world.reshard(name) for name in list(world.readings))


def refuse(world: World, day: Day) -> None:
    """Keep a record that KCL would not deliver."""
    arrival = day.begin_ms + 5 * HOUR
    record = UndeliveredRecord(
        format=1, shard="shardId-000000000000", sequence_number="5", first_sub=0, partition_key="k",
        arrival_ms=arrival, reason="empty", data_base64="", writer="w", written_at="t",
    )  # fmt: skip
    key = undelivered_key(PREFIX, record.shard, arrival, 5)
    world.store.put_if_absent(key, encode_coverage_marker(record), {}, "application/json")


@in_one_thread()
def test_a_sound_day_is_left_alone_from_its_third_night_on() -> None:
    """Every day of a window of fourteen is clean or expired in each night, and its row says that nothing was done."""
    world = World(None, 7, begin_ms=FIRST_DAY.begin_ms, shards=2)
    world.events_a_day = 2
    site = Site(None, world)
    resharded: list[bool] = []
    for number in range(NIGHTS + 1):
        day = FIRST_DAY.shift(number)
        world.plan_day(day)
        world.at(day.begin_ms + 15 * HOUR, lambda: resharded.append(reshard(world)))
        world.at(day.begin_ms + 16 * HOUR, lambda day=day: refuse(world, day))  # type: ignore[misc]  # bound at once
    done: dict[Day, list[tuple[str, str, tuple[str, ...]]]] = defaultdict(list)
    for number in range(1, NIGHTS + 1):
        today = FIRST_DAY.shift(number)
        world.live_until(today.begin_ms + 40 * MINUTE_MS)
        night = site.night(WINDOW)
        for day, row in night.rows.items():
            done[day].append((row.pointer, night.due.by_day[day].why, tuple(row.done or ())))
        assert len(night.rows) >= min(number, WINDOW)
        expire_published_now(world.store, site.out, site.place, world.clock, "8d", world.begin_ms)
    assert sum(resharded) >= NIGHTS - 3
    assert any(row.pointer == "expired" for row in night.rows.values())
    for day, nights in done.items():
        assert {pointer for pointer, _, _ in nights} <= {"clean", "expired"}, day
        later = nights[2:]
        assert all(why == "" and set(steps) <= {"nothing", "swept"} for _, why, steps in later), (day, later)
