"""How long the tests search: `make test` is done in minutes, `make deep` (`TESTS_SEARCH=deep`) takes hours."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

import pytest

IS_DEEP: Final = os.environ.get("TESTS_SEARCH") == "deep"
_TESTS: Final = Path(__file__).parent
_Case = TypeVar("_Case")


def only_deep(covered_by: str) -> pytest.MarkDecorator:
    """Leave a test to `make deep`; `covered_by` names the faster one that shows its claim: file below tests/, test.

    Raises:
        ValueError: there is no such test.
    """
    file, _, name = covered_by.partition("::")
    path = _TESTS / file
    if not path.is_file() or f"def {name}(" not in path.read_text():
        raise ValueError(f"tests/{covered_by}: there is no such test")
    return pytest.mark.skipif(not IS_DEEP, reason=f"left to make deep; tests/{covered_by} shows the claim")


def one_in(every: int, cases: Sequence[_Case]) -> list[_Case]:
    """Return one case in so many, and all in `make deep`: a case that is left out differs little from another."""
    return list(cases if IS_DEEP else cases[::every])
