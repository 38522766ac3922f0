"""What is moved in the fork server's memory works as before, and lies together."""

import gc
import sys
from collections.abc import Callable, Iterable
from types import FunctionType

import pytest

from consumer.forks.layout import fill_holes, move_together

_PAGE_BYTES = 4096


def test_functions_that_ran_work_as_before() -> None:
    """Closures, defaults, methods and generators; their code is a copy, and no other's is touched, were it equal."""
    gc.unfreeze()  # other tests freeze what is there, and frozen functions are not found
    outer, idle = made_functions(2)
    counted = Counter(outer)
    before = {function: function.__code__ for function in (outer, idle, Counter.add, Counter.several)}
    move_together(lambda: counted.add(1))
    assert [counted.add(1), list(counted.several(2, by=3))] == [4, [7, 10]]
    assert {function: function.__code__ for function in before} == before
    moved = {function for function, code in before.items() if function.__code__ is not code}
    assert moved == {outer, Counter.add}


def test_an_error_passes_and_nobody_listens_any_more() -> None:
    """Whoever plays says what went wrong; what is called later is not watched."""

    def fail() -> None:
        raise OSError("the stage is gone")

    with pytest.raises(OSError, match="gone"):
        move_together(fail)
    assert sys.getprofile() is None


def test_the_code_of_functions_that_ran_lies_together() -> None:
    """Made among other things, each on a page of its own."""
    functions, between = [], []
    for function in made_functions(100):
        functions.append(function)
        between.append(function.__code__.replace(co_name="between" * 1000))
    copies = 16  # of some 250 bytes each: a page
    scattered = [function.__code__.replace() for function in functions for _ in range(copies)]
    for function, code in zip(functions, scattered[::copies], strict=True):
        function.__code__ = code
    before = pages(id(function.__code__) for function in functions)
    fill_holes()
    move_together(lambda: [function(1) for function in functions] and None)
    assert pages(id(function.__code__) for function in functions) < before / 2


@pytest.mark.parametrize(("size", "count"), [(100, 1500), (2000, 100)])
def test_what_is_allocated_behind_filled_holes_lies_together(size: int, count: int) -> None:
    """Of Python's own allocator, and of the C library's."""
    blocks = [bytes(size) for _ in range(4000)]
    del blocks[::2]
    fill_holes()
    after = [bytes(size) for _ in range(count)]
    # A pool of Python's has 16 KiB, and others may allocate between.
    assert pages(map(id, after)) <= count * (size + 50) / _PAGE_BYTES + 8


class Counter:
    """Something with methods."""

    def __init__(self, step: Callable[[int], int]) -> None:
        self._step = step
        self._count = 0

    def add(self, count: int) -> int:
        """Count."""
        self._count += self._step(count)
        return self._count

    def several(self, times: int, *, by: int = 1) -> Iterable[int]:
        """Count some times."""
        for _ in range(times):
            self._count += by
            yield self._count


def made_functions(count: int) -> list[FunctionType]:
    """Make functions, each with a code of its own, a default and a closure."""
    made = []
    for number in range(count):
        space: dict[str, FunctionType] = {}
        source = (
            f"def outer(one):\n    def inner(value, more={number}): return value + one + more * 0\n    return inner"
        )
        exec(source, {}, space)  # noqa: S102 - the test's own text
        made.append(space["outer"](1))
    return made


def pages(addresses: Iterable[int]) -> int:
    """Count the pages of memory that these lie on."""
    return len({address // _PAGE_BYTES for address in addresses})
