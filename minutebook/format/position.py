"""Positions of records in their shard.

A position is the pair (sequence number, sub-sequence number) as integers. Sub-sequence numbers count the user
records in a KPL aggregate; plain records have 0. Positions are comparable only within one shard (API reference of
PutRecord: sequence numbers are specific to a shard).
"""

import re
from typing import NamedTuple, Self

from minutebook.errors import FormatError

# Kinesis' own pattern for SequenceNumber is 0|([1-9]\d{0,128}); KPL counts user records with a non-negative int.
_TEXT = re.compile(r"(0|[1-9][0-9]{0,128}):(0|[1-9][0-9]{0,18})", re.ASCII)
_SEQUENCE = re.compile(r"0|[1-9][0-9]{0,128}", re.ASCII)


class Position(NamedTuple):
    """One record's place in its shard; ordered as a tuple."""

    sequence: int
    sub: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `<sequence>:<sub>`, without leading zeros and signs; raises FormatError."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise FormatError(
                f"not a position: {text!r}", next_step="expected <sequence number>:<sub-sequence number>"
            )
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.sequence}:{self.sub}"


def is_sequence_number(text: str) -> bool:
    """Return whether `text` is a sequence number as Kinesis writes it (decimal, no leading zeros)."""
    return _SEQUENCE.fullmatch(text) is not None


class SequenceRange(NamedTuple):
    """A closed interval of positions of one shard."""

    first: Position
    last: Position

    def __contains__(self, position: object) -> bool:
        return isinstance(position, tuple) and self.first <= position <= self.last

    def __str__(self) -> str:
        return f"[{self.first} .. {self.last}]"
