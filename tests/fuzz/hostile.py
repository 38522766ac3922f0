"""Hostile input: valid input that was damaged, and how long to search.

`TESTS_SEARCH=deep` searches with fresh randomness and 120 times as long; by default a test gets a quarter of
the inputs that it names, the same everywhere.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from minutebook.errors import MinutebookError
from tests.searching import IS_DEEP


def search(examples: int) -> settings:
    """Return the settings of one test: a quarter of `examples` inputs, thirty times `examples` when deep."""
    return settings(
        max_examples=examples * 30 if IS_DEEP else examples // 4,
        derandomize=not IS_DEEP,
        database=None,
        deadline=None,
        print_blob=IS_DEEP,
        suppress_health_check=list(HealthCheck),
    )


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes], edits: int = 4) -> bytes:
    """Return bytes with some of them flipped, cut, repeated, exchanged or new."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(1, edits))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.integers(1, 12))
        match draw(st.sampled_from(["flip", "flip", "cut", "end", "repeat", "insert", "copy"])):
            case "flip" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at : at + length]
            case "end":
                del data[at:]
            case "repeat":
                data[at:at] = data[at : at + length] * draw(st.integers(1, 40))
            case "copy":
                source = draw(st.integers(0, len(data)))
                data[at : at + length] = data[source : source + length]
            case _:
                data[at:at] = draw(st.one_of(st.binary(max_size=12), _NASTY))
    return bytes(data)


_NASTY = st.sampled_from(
    [
        b"\x00",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\\ud800",
        b"\\u0000",
        b"\n",
        b"\r",
        b"9" * 5000,
        b"-1",
        b"1e400",
        b"1_0",
        b"NaN",
        b"null",
        b"[" * 3000,
        b'{"a":' * 3000,
        b"../",
        b"\xd9\xa1",
        b"99999999999999999999",
    ]
)


@st.composite
def damaged_text(draw: st.DrawFn, whole: st.SearchStrategy[str]) -> str:
    """Return damaged text; what is no UTF-8 any more becomes one odd character each."""
    return draw(damaged(whole.map(str.encode))).decode(
        "utf-8", "surrogateescape" if draw(st.booleans()) else "replace"
    )


def check_printable(error: MinutebookError) -> None:
    """Check that an error can be written to a log and to a terminal."""
    assert str(error).encode()
    error.next_step.encode()


def check_told(error: MinutebookError) -> None:
    """Check that an error can be printed, and says what to do."""
    check_printable(error)
    assert error.next_step
