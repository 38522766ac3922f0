"""What a mutation is: some places of the product that are changed, and who must notice."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.mutations.editing import replace
from tests.mutations.tree import ROOT
from tests.simulation.modes import Mode


class Change(NamedTuple):
    """One place: a definition, code that occurs in it once, and what that becomes (see `editing.replace`).

    `of` is `package.module:Class.function`: what moves or changes around the definition does not matter.
    """

    of: str
    old: str = ""
    new: str = ""

    @property
    def path(self) -> str:
        """The definition's file."""
        return self.of.partition(":")[0].replace(".", "/") + ".py"

    def apply(self, source: str) -> str:
        """Return the file's text with the change."""
        return replace(source, self.of.partition(":")[2], self.old, self.new)


class Mutation:
    """One way to break the product.

    At least one of `tests`, the names of test functions, must fail. `mode` names the histories of the simulation in
    which a promise must be broken.
    """

    def __init__(self, name: str, *changes: Change, tests: tuple[str, ...] = (), mode: Mode | None = None) -> None:
        self.name = name
        self.changes = changes
        self.tests = tests
        self.mode = mode


def in_mode(mode: Mode, *mutations: Mutation) -> tuple[Mutation, ...]:
    """Return mutations that break a promise in histories of one mode."""
    return tuple(Mutation(each.name, *each.changes, tests=each.tests, mode=mode) for each in mutations)


def mutated(changes: Sequence[Change]) -> dict[str, str]:
    """Return the text of each file that the changes concern, with them.

    Raises:
        PlaceError: the code is not what a change expects.
    """
    texts: dict[str, str] = {}
    for change in changes:
        texts[change.path] = change.apply(texts.get(change.path) or (ROOT / change.path).read_text())
    return texts
