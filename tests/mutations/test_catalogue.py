"""The catalogue is true to the code."""

import ast
from collections import Counter

import pytest

from tests.mutations.catalogue import MUTATIONS
from tests.mutations.mutation import Mutation, mutated
from tests.mutations.noticing import files_of_tests
from tests.mutations.tree import ROOT

each_mutation = pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)


@each_mutation
def test_a_change_has_exactly_one_place(mutation: Mutation) -> None:
    """Its old code occurs once in the definition that it names, and what comes of it is other code."""
    for path, text in mutated(mutation.changes).items():
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse((ROOT / path).read_text()))


@each_mutation
def test_somebody_must_notice(mutation: Mutation) -> None:
    """It names tests or a mode of the simulation, and each test is there."""
    assert mutation.tests or mutation.mode
    assert set(mutation.tests) <= files_of_tests().keys()


def test_each_mutation_has_one_entry() -> None:
    """No name, and no set of changes, occurs twice."""
    assert max(Counter(mutation.name for mutation in MUTATIONS).values()) == 1
    assert max(Counter(mutation.changes for mutation in MUTATIONS).values()) == 1


@pytest.mark.parametrize(
    ("title", "cases"), [("What an audit once called clean", 14), ("What once stopped a shard, or hid a loss", 11)]
)
def test_the_tables_of_old_cases_name_mutations(title: str, cases: int) -> None:
    """Each case of tests/README.md names some, and all of them have tests that must fail; one is Java's."""
    table = (ROOT / "tests/README.md").read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    tested = {mutation.name for mutation in MUTATIONS if mutation.tests}
    assert [row[0].partition(".")[0] for row in rows[1 : cases + 1]] == [
        str(number) for number in range(1, cases + 1)
    ]
    for _, _, names in rows[1:]:
        assert names.startswith("Java, ") or not set(names.split("; ")) - tested
