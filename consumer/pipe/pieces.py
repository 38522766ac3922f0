"""Pieces of a delivery: some hundred records whose sequence numbers were validated together.

Later code relies on valid numbers. Validating them one by one would take a quarter of the time of decoding, so they
are joined into one text that a few passes in C validate.
"""

from collections.abc import Callable
from operator import lt
from typing import Final, NamedTuple

from minutebook.errors import DeliveryDoubt
from minutebook.format.position import is_sequence_number
from minutebook.format.record import Record, WrittenLines

PROTOCOL_STEP: Final = "the line came from the MultiLangDaemon: compare the versions of amazon-kclpy and of its jars"
_USUAL_DIGITS: Final = 56
_DIGITS: Final = b"0123456789"


class RecordPiece(NamedTuple):
    """Records in the order of delivery. `ascends`: each lies after the one before; False means not known."""

    records: list[Record]
    ascends: bool


class WrittenPiece(NamedTuple):
    """A piece that was written as lines without creating its records; `decode` creates them."""

    written: WrittenLines
    decode: Callable[[], RecordPiece]


def make_piece(records: list[Record]) -> RecordPiece:
    """Validate the sequence numbers of records.

    Raises DeliveryDoubt if one is not a decimal number as Kinesis writes it.
    """
    numbers = [record.sequence_number for record in records]
    if _are_usual(numbers):
        return RecordPiece(records, ascends=_ascends(records, numbers))
    odd = next((number for number in numbers if not is_sequence_number(number)), None)
    if odd is not None:
        raise DeliveryDoubt(
            f"malformed protocol line: not a sequence number: {odd!r}",
            next_step=PROTOCOL_STEP,
        )
    return RecordPiece(records, ascends=False)


def _are_usual(numbers: list[str]) -> bool:
    """Return whether all consist of digits, have one usual length and no leading zeros, as those of one shard.

    They are joined by commas: without digits only the commas are left, each of them stands where numbers of one
    length put it, and the first digits of the numbers are at the same distance.
    """
    size, commas = len(numbers[0]) if numbers else 0, "," * (len(numbers) - 1)
    together = ",".join(numbers)
    return (
        0 < size <= _USUAL_DIGITS
        and len(together) == len(numbers) * (size + 1) - 1
        and together[size :: size + 1] == commas
        and together.isascii()
        and together.encode().translate(None, _DIGITS) == commas.encode()
        and "0" not in together[:: size + 1]
    )


def _ascends(records: list[Record], numbers: list[str]) -> bool:
    """Return whether each lies after the one before. Numbers of one length sort like their texts."""
    if all(map(lt, numbers, numbers[1:])):
        return True
    places = [(record.sequence_number, record.sub_sequence_number) for record in records]
    return all(map(lt, places, places[1:]))
