"""What a mutation is: some places of the product, and the mode of histories that must notice."""

from typing import NamedTuple


class Change(NamedTuple):
    """One place."""

    path: str
    old: str
    new: str


class Mutation(NamedTuple):
    """One way to break the product; `mode` names the histories in which it is searched for."""

    name: str
    changes: tuple[Change, ...]
    mode: str = "plain"
