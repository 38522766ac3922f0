"""What a mutation is: some places of the product that are changed, and who must notice."""

from typing import NamedTuple

from tests.simulation.modes import Mode


class Change(NamedTuple):
    """One place: a file, a text that occurs in it once, and what it becomes."""

    path: str
    old: str
    new: str


class Mutation:
    """One way to break the product.

    At least one of `tests` (pytest's ids) must fail. `mode` names the histories of the simulation in which a promise
    must be broken.
    """

    def __init__(self, name: str, *changes: Change, tests: tuple[str, ...] = (), mode: Mode | None = None) -> None:
        self.name = name
        self.changes = changes
        self.tests = tests
        self.mode = mode
