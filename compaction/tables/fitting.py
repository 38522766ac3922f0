"""The typed columns that a day's files bring into a table: those published, and those of live parts. Pure.

    a live part's column                                    the part
    of a part that the table has already                    stays as it is, whatever became of the table since
    the table takes it, and it fits beside the others       keeps it
    as in `evolution` a conflict; or of a type that one     is written again without it: its rows are shown, and null
    column cannot hold beside that of the other files       in it until the night

The night is the judge: what it publishes is not changed here, and a conflict of that holds the day, as ever.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from compaction.columns.columns import EVENT_INDEX, UNFIT
from compaction.columns.types import parse_type
from compaction.columns.widening import wider
from compaction.tables.plan import Conflict

Conflicts = Callable[[Mapping[str, str]], Sequence[Conflict]]


class DayColumns:
    """The columns of a day's files, name to type; grows by those of live parts. None: no file has typed ones."""

    def __init__(
        self, conflicts: Conflicts, published: Mapping[str, str] | None, present: Collection[str] = ()
    ) -> None:
        """Begin with the published columns; `conflicts` compares others with the table, whose files are `present`."""
        self._conflicts = conflicts
        self._present = present
        self._seen = dict[tuple[tuple[str, str], ...], frozenset[str]]()
        self.columns = published
        self.left_out: dict[str, tuple[str, Conflict]] = {}
        """Columns of live parts that were left out: their type, and why."""

    def add(self, types: Mapping[str, str], uri: str = "") -> frozenset[str]:
        """Take the columns of a live part, which is the file at `uri`; return those that it must not have."""
        if not types or uri in self._present:
            return frozenset()
        kind = tuple(types.items())
        if kind not in self._seen:
            self._seen[kind] = self._add(types)
        return self._seen[kind]

    def _add(self, types: Mapping[str, str]) -> frozenset[str]:
        known = dict(self.columns or {})
        found = {each.column.partition(".")[0]: each for each in self._conflicts(types)}
        lower = {name.lower(): name for name in known}
        for name, text in types.items():
            if name in found:
                continue
            has = known.get(name)
            if has is None and name.lower() in lower:
                found[name] = Conflict(name, f"a column {lower[name.lower()]}", text)
            elif has is None:
                known[name] = text
            elif (both := wider(parse_type(has), parse_type(text))) is None:
                found[name] = Conflict(name, has, text)
            else:
                known[name] = both.text
        left = found.keys() & types.keys()
        if UNFIT in found or EVENT_INDEX in left or left | {EVENT_INDEX} >= types.keys():
            left = set(types)
        else:
            self.columns = known
        why = next(iter(found.values()), None)
        if why is not None:
            self.left_out |= {name: (types[name], found.get(name, why)) for name in left}
        return frozenset(left)
