"""Asking for the stream's shards, in a run of many days."""

import pytest

from compaction.stream.kinesis import once_in_vain
from minutebook.errors import StreamRefused, StreamUnavailable


def test_a_stream_out_of_reach_is_waited_for_once() -> None:
    """Each day of the run is told the same, at once."""
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        raise StreamUnavailable("no answer for 15 s", next_step="look at the endpoint")

    listing = once_in_vain(ask)
    for _ in range(3):
        with pytest.raises(StreamUnavailable, match="no answer"):
            listing()
    assert len(asked) == 1


def test_what_answers_is_asked_each_time() -> None:
    """A refusal costs no wait, and shards may be split between two days."""
    answers = iter([1, 2, StreamRefused("no such stream", next_step="name it"), 3])

    def ask() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    listing = once_in_vain(ask)
    assert [listing(), listing()] == [1, 2]
    with pytest.raises(StreamRefused):
        listing()
    assert listing() == 3
