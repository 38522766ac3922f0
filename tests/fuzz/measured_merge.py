"""A program that merges the objects in a folder as a task of the nightly job does, and says what it cost.

python -m tests.fuzz.measured_merge FOLDER      prints {"rows": ..., "surplus": ..., "grown_mib": ...}
"""

import json
import resource
import sys
from pathlib import Path

from compaction.parquet.plan import MergeGroup, RawObject, Task
from compaction.tasks.task import Order, run
from minutebook.format.keys import parse_segment_key
from minutebook.store.places import open_storage
from minutebook.store.storage import Address


def peak_mib() -> int:
    """Return the largest resident size so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def raw_object(key: str, etag: str, size: int) -> RawObject:
    """Return an object as a plan names it."""
    parsed = parse_segment_key("raw/", key)
    return RawObject(key, etag, size, parsed.shard_id, parsed.minute, parsed.first)


def main() -> None:
    """Merge all that lies in the folder, into a Parquet file beside it."""
    folder = Path(sys.argv[1])
    place, out = Address(None, str(folder)), Address(None, str(folder / "out"))
    objects = tuple(raw_object(row.key, row.etag, row.size) for row in open_storage(place).list_objects("raw/"))
    run(Order(Task(0, (MergeGroup(objects[:1], merge=True),)), place, out))  # what the libraries take is not counted
    before = peak_mib()
    result = run(Order(Task(1, (MergeGroup(objects, merge=True),)), place, out))
    surplus = sum(repeat.surplus for repeat in result.repeats)
    rows = 0 if result.part is None else result.part.rows
    sys.stdout.write(json.dumps({"rows": rows, "surplus": surplus, "grown_mib": peak_mib() - before}) + "\n")


if __name__ == "__main__":
    main()
