"""What is left to `make deep` names a faster test that shows its claim."""

import pytest

from tests.searching import IS_DEEP, one_in, only_deep


def test_a_test_is_left_out_by_default_and_names_the_faster_one() -> None:
    """In the reason, which `pytest -ra` shows; with TESTS_SEARCH=deep it runs."""
    mark = only_deep("unit/project/test_searching.py::test_a_name_that_is_no_test_is_refused").mark
    assert mark.args == (not IS_DEEP,)
    assert "tests/unit/project/test_searching.py::test_a_name_that_is_no_test_is_refused" in mark.kwargs["reason"]


@pytest.mark.parametrize("name", ["unit/project/test_searching.py::test_a_name_that", "unit/nowhere.py::test_it"])
def test_a_name_that_is_no_test_is_refused(name: str) -> None:
    """Renamed or deleted: then the claim may be shown nowhere."""
    with pytest.raises(ValueError, match="there is no such test"):
        only_deep(name)


def test_a_part_of_the_cases_is_taken_by_default() -> None:
    """The first of so many, in their order."""
    assert one_in(3, range(7)) == ([*range(7)] if IS_DEEP else [0, 3, 6])
