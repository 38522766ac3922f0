"""What a mutation is."""

from typing import NamedTuple


class Mutation(NamedTuple):
    """One way to break the code. `tests` are pytest's ids; at least one of them must fail."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]
