"""Nights on real processes, Spark and S3: `python -m tests.nights --kills 20 --seed 1` (minutes).

kills    the driver's process group gets SIGKILL while parts are written, again and again; `vacuum` between two of the
         runs, as of today and as of next month; then a run to the end, and all of it once more with a late segment
ranges   SIGINT and SIGTERM to a range in the middle; two ranges at once that share a day; then a run to the end

Exit code 0 only if every reader, at every moment that was looked at, saw no day or a whole one, and every day ends
row for row as its segments are, with the exit codes that the documentation names.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import NoReturn

from demo.embedded import EmbeddedAws
from minutebook.clock import SystemClock
from tests.corpus.model import make_segment
from tests.nights.house import DAY, DAYS, House

_MASTER = ("--master", "local[2]")
_ONE = ("compact", "--date", str(DAY), *_MASTER)
_MINUTES_A_KILL = 4
_CLOCK = SystemClock()


def main(arguments: list[str]) -> int:
    """Play the stories; raises AssertionError where one ends otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.nights", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--kills", type=int, default=20, help="drivers that are killed before the first run to the end"
    )
    parser.add_argument("--seed", type=int, default=1, help="decides the moments (1)")
    options = parser.parse_args(arguments)
    rng = random.Random(options.seed)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell's background jobs do, and so would the drivers
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    with tempfile.TemporaryDirectory() as name, EmbeddedAws(Path(name) / "aws") as aws:
        for key, value in aws.environment.items():
            os.environ[key] = value
        if options.kills:
            _kills(House(aws, Path(name), max(16, _MINUTES_A_KILL * options.kills)), rng, options.kills)
        _ranges(House(aws, Path(name)), rng)
    _say("every day is whole")
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _kill_one(house: House, rng: random.Random) -> bool:
    """Kill a run while it writes; False: it was faster."""
    wanted = house.done(DAY) + rng.randint(0, 2)
    with house.driver(*_ONE) as process:
        if not house.wait_for(process, lambda: house.done(DAY) >= wanted):
            return False
        _CLOCK.sleep(rng.uniform(0, 3 if wanted == house.done(DAY) else 0.5))
        if process.poll() is not None:
            return False
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return True


def _kills(house: House, rng: random.Random, kills: int) -> None:
    raw, killed = house.raw_rows(), 0
    while killed < kills:
        assert _kill_one(house, rng), f"published after {killed} kills: give the day more segments"
        killed += 1
        assert house.rows() == []
        _say(f"kill {killed}: {house.done(DAY)} tasks have left their facts")
        if killed == kills // 3:
            left = house.done(DAY)
            code, printed = house.run("vacuum", "--json", "--apply")
            assert (code, json.loads(printed)["objects"], house.done(DAY)) == (0, 0, left), printed
        if killed == 2 * kills // 3:
            _say(f"vacuum of next month: {house.vacuum_of_next_month()} objects")
    _finish(house, raw)
    _late_segment(house)
    _kill_one(house, rng)
    assert house.rows() in (raw, house.raw_rows())
    gone = house.vacuum_of_next_month()
    assert house.rows() in (raw, house.raw_rows())
    _say(f"a late segment, a kill, vacuum of next month: {gone} objects; readers see a whole day")
    _finish(house, house.raw_rows())


def _finish(house: House, raw: list[object]) -> None:
    left, begun_ms = house.done(DAY), _CLOCK.now_ms() // 1000 * 1000
    code, printed = house.run(*_ONE)
    assert code in {0, 4}, printed
    assert house.rows() == raw
    parts = house.parts(begun_ms)
    _say(f"the run to the end: {code}, {len(raw)} rows, {left} facts before, parts {parts}")


def _late_segment(house: House) -> None:
    shard = house.corpus.shards[2]
    last = shard.segments[-1]
    record = last.records[-1]
    changed = {name: getattr(record, name) for name in record.__struct_fields__}
    late = type(record)(**{**changed, "sequence_number": str(int(record.sequence_number) + 9)})
    made = make_segment(shard.shard_id, last.metadata.minute, [late], last.metadata.last, "writer2-late")
    shard.segments.append(made)
    house.storage.put_if_absent(made.key, made.body, made.fields, "application/gzip")


def _ranges(house: House, rng: random.Random) -> None:
    words = ("compact", "--from", str(DAYS[0]), "--to", str(DAYS[-1]), "--parallel-days", "2", "--json", *_MASTER)
    for number, expected in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        before = house.done(*DAYS)
        with house.driver(*words) as process:
            assert house.wait_for(process, lambda before=before: house.done(*DAYS) > before)  # type: ignore[misc]
            _CLOCK.sleep(rng.uniform(0, 1))
            asked = _CLOCK.monotonic()
            process.send_signal(number)
            printed, _ = process.communicate(timeout=300)
        states = [row["state"] for row in json.loads(printed)["days"]]
        _say(f"{number.name}: {process.returncode} after {_CLOCK.monotonic() - asked:.1f} s, {states}")
        assert (process.returncode, json.loads(printed)["exit_code"], len(states)) == (expected, expected, 3)
        assert "stopped" in states
        assert all(house.rows(day) in ([], house.raw_rows(day)) for day in DAYS)
    shared = [("compact", "--from", str(a), "--to", str(b), "--json", *_MASTER) for a, b in (DAYS[:2], DAYS[1:])]
    with house.driver(*shared[0]) as first, house.driver(*shared[1]) as second:
        for process in (first, second):
            printed, _ = process.communicate(timeout=900)
            rows = json.loads(printed)["days"]
            _say(f"two at once: {process.returncode}, {[(row['day'], row['state']) for row in rows]}")
            assert process.returncode in {0, 4}, printed
    code, printed = house.run(*words)
    assert {row["state"] for row in json.loads(printed)["days"]} == {"already"}
    assert code in {0, 4}, printed
    assert all(house.rows(day) == house.raw_rows(day) for day in DAYS)
    _say(f"the range again: {code}, {[row['verdict'] for row in json.loads(printed)['days']]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
