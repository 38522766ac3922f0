"""The simulation's catalogue of mutations stays true to the code."""

from pathlib import Path

import pytest

from tests.simulation.mutate import MUTATIONS
from tests.simulation.mutation import Mutation

_ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_changes_exactly_one_place_per_change(mutation: Mutation) -> None:
    """Each old text stands once in its file."""
    for change in mutation.changes:
        assert (_ROOT / change.path).read_text().count(change.old) == 1
