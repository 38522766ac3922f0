"""Delete what lies in a day's `_live/` and belongs into no table any more. Only nights do this.

the live pointer names parts that the inventory covers      it is swapped without them, if the whole day is published
a file that the live pointer does not name                  goes, if all of this holds:
    pointer and live pointer are older than the grace       it left what is shown before that
    the file is older than the grace                        no run is about to name it
    the table's current snapshot does not name it           a commit that failed leaves the table at older files
    no other table was shown the parts                      nobody knows what it names
"""

from collections.abc import Collection

from compaction.live.day import LiveDay
from minutebook.format.minute import parse_iso_time
from minutebook.published.generation import Pointer
from minutebook.published.reading import written_ms


def sweep_live(
    live: LiveDay, pointer: Pointer, shown: Collection[str], table: Collection[str], before_ms: int
) -> list[str]:
    """Delete what was left before a time; return the keys.

    `shown` are the addresses of the day's files in the current snapshot of the table. `table` are its UUID, and the
    name by which earlier versions knew it. Raises SafetyRefusal as `LiveDay.read`.
    """
    state = live.read()
    if state.version is None or not {*table}.issuperset(state.tables):
        return []
    covered = live.covered(pointer, {key for part in state.parts for key in part.segments})
    left = [part for part in state.parts if not covered.issuperset(part.segments)]
    if len(left) < len(state.parts):
        if pointer.until is None:
            live.keep(state, left)
        return []
    if max(written_ms(pointer), parse_iso_time(state.written_at)) >= before_ms:
        return []
    named = {key for part in state.parts for key in (part.key, part.part.facts)}
    names = {uri.rpartition("/")[2] for uri in shown}
    storage = live.publisher.storage
    gone = [
        row.key
        for row in storage.list_objects(live.folder)
        if row.key.endswith(".parquet")
        and row.key not in named
        and row.key.rpartition("/")[2] not in names
        and row.last_modified_ms < before_ms
    ]
    storage.delete(gone)
    return gone
