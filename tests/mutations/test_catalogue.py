"""The catalogue stays true to the code."""

from pathlib import Path

import pytest

from tests.mutations.catalogue import MUTATIONS
from tests.mutations.mutation import Mutation

_ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_changes_exactly_one_place(mutation: Mutation) -> None:
    """Its old text stands once in its file."""
    assert (_ROOT / mutation.path).read_text().count(mutation.old) == 1


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_tests_that_must_notice_exist(mutation: Mutation) -> None:
    """Each is a function of its file."""
    for test in mutation.tests:
        path, _, name = test.partition("::")
        assert f"def {name}(" in (_ROOT / path).read_text()
