"""Messages in pieces: the same is taken and refused as if each line, and each number, were looked at by itself."""

import base64
import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.pipe.messages import PIECE_BYTES, Delivery, read_message
from consumer.pipe.pieces import make_piece
from minutebook.errors import DeliveryDoubt
from minutebook.format.position import is_sequence_number
from minutebook.format.record import Record

PIECE = 100
"""So short that every record is a piece of its own, or two are one."""
HOSTILE = [
    '},{"action":"record",',
    "},{",
    '}],"millisBehindLatest":7}',
    "\\",
    '"',
    "\n",
    "\0",
    "\u2028",
    "\U0001f9ff",
    "]",
]
USUAL = 4968 * 10**52
ODD = ["", "0", "01", "-1", "+1", " 1", "1 ", "1,2", "1_0", "1\n", "\u0661", "\u00b2", "a", "9" * 129]


def wire(number: int, **changes: object) -> dict[str, object]:
    """Return a record as the daemon writes it, some fields changed; "absent" removes one."""
    record = {
        "action": "record",
        "data": base64.b64encode(b"payload %d" % number).decode(),
        "partitionKey": f"p{number}",
        "sequenceNumber": str(10**55 + number),
        "approximateArrivalTimestamp": 1_795_256_161_000 + number,
        "subSequenceNumber": 0,
        **changes,
    }
    return {name: value for name, value in record.items() if value != "absent"}


def message(records: list[Any], **fields: object) -> bytes:
    """Return a line."""
    whole = {"action": "processRecords", "records": records, **({"millisBehindLatest": 5} | fields)}
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def lent(line: bytes) -> memoryview:
    """Return a line as the reader of lines lends it: in memory that may be written to."""
    return memoryview(bytearray(line))


def outcome(line: bytes, piece_bytes: int) -> tuple[list[Record], int | None] | str:
    """Return what becomes of a line: its records and how far behind the reader is, or the error."""
    try:
        delivery = read_message(lent(line), piece_bytes)
        if not isinstance(delivery, Delivery):
            return str(delivery)
        records = [record for piece in delivery for record in piece.records]
        assert delivery.decoded == len(records)
        assert delivery.first == (records[0] if records else None)
    except DeliveryDoubt as exc:
        return str(exc)
    return records, delivery.millis_behind_latest


def agree(line: bytes) -> tuple[list[Record], int | None] | str:
    """Check that pieces and whole agree; return the outcome."""
    whole = outcome(line, len(line))
    assert outcome(line, PIECE) == whole
    assert outcome(line, 1) == whole
    return whole


VALUES = st.one_of(
    st.none(), st.integers(-2, 2**70), st.floats(allow_nan=False), st.text(max_size=5), st.sampled_from(HOSTILE),
    st.lists(st.just({"action": "record", "data": ""}), max_size=2), st.just("absent"),
)  # fmt: skip


FIELDS = (
    "action",
    "data",
    "partitionKey",
    "sequenceNumber",
    "subSequenceNumber",
    "approximateArrivalTimestamp",
    "new",
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Make a line: mostly sound, with keys that look like JSON, and sometimes one thing wrong with it."""
    keys = draw(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=8)), max_size=9))
    records = [wire(n, partitionKey=key) for n, key in enumerate(keys)]
    if records and draw(st.booleans()):
        at = draw(st.integers(0, len(records) - 1))
        records[at] = wire(at, **{draw(st.sampled_from(FIELDS)): draw(VALUES)})
    made = message(records, **draw(st.dictionaries(st.sampled_from(["millisBehindLatest", "x"]), VALUES, max_size=1)))
    if draw(st.booleans()):
        return made
    at = draw(st.integers(0, len(made)))
    return (
        made[:at]
        + draw(st.sampled_from([b"", b",", b"}", b"]", b'"', b"\xff", b" ", *[key.encode() for key in HOSTILE]]))
        + made[draw(st.integers(at, min(len(made), at + 30))) :]
    )


@settings(max_examples=300, deadline=None)
@given(line=lines())
def test_pieces_are_what_the_whole_is(line: bytes) -> None:
    """Whatever keys producers choose, whatever is missing, doubled, of another type, or damaged."""
    agree(line)


@pytest.mark.parametrize("key", HOSTILE)
def test_a_partition_key_that_looks_like_the_protocol_is_a_partition_key(key: str) -> None:
    """In every place, also cut off by the end of a piece."""
    found = agree(message([wire(n, partitionKey=key * n) for n in range(9)]))
    assert [record.partition_key for record in found[0]] == [key * n for n in range(9)]  # type: ignore[union-attr]


@pytest.mark.parametrize("behind", [None, 0, 5, 86_400_000, -1, 10**17])
def test_how_far_the_reader_is_behind_comes_along(behind: int | None) -> None:
    """It stands behind the records, and is known with the first."""
    assert agree(message([wire(n) for n in range(9)], millisBehindLatest=behind))[1] == behind


@pytest.mark.parametrize(
    "line",
    [
        message(
            [
                wire(n, explicitHashKey="1", nested=[{"action": "record", "a": [1]}, {"action": "record"}])
                for n in range(9)
            ]
        ),
        message([wire(n) for n in range(9)], newField=[1, {"action": "record"}]),
        message([wire(n) for n in range(9)]).replace(
            b'"subSequenceNumber":0', b'"subSequenceNumber":0,"subSequenceNumber":3'
        ),
        message([wire(n) for n in range(9)]).replace(b',{"action":"record"', b' , {"action" : "record"'),
        json.dumps({"records": [wire(n) for n in range(9)], "action": "processRecords"}).encode() + b"\n",
    ],
    ids=[
        "fields in a record",
        "fields in the message",
        "a field twice",
        "blanks",
        "another order",
    ],
)
def test_what_a_newer_daemon_may_write_is_read(line: bytes) -> None:
    """More fields, other blanks, another order, the last one of two: as JSON's readers read it."""
    assert not isinstance(agree(line), str)


@pytest.mark.parametrize(
    "second",
    [
        b"[]",
        message([wire(n) for n in range(3)])[37:-25],
        message([wire(99), *[wire(n) for n in range(1, 9)]])[37:-25],
    ],
    ids=["none", "fewer", "another one among the same"],
)
def test_two_lists_of_records_are_refused_where_the_first_was_read(second: bytes) -> None:
    """A reader that takes the last one would have archived both: never seen, and never guessed."""
    line = message([wire(n) for n in range(9)]).replace(b'],"millis', b'],"records":' + second + b',"millis')
    assert "two lists" in outcome(line, PIECE)


@pytest.mark.parametrize("sequence_number", ["", "01", "-1", "1e5", "1" * 130, "\u0661", None, 1])
@pytest.mark.parametrize("at", [0, 4, 8])
def test_a_malformed_record_refuses_the_message(sequence_number: object, at: int) -> None:
    """Wherever it stands."""
    records = [wire(n) for n in range(9)]
    records[at] = wire(at, sequenceNumber=sequence_number)
    assert isinstance(agree(message(records)), str)


def test_of_two_faults_the_one_is_named_that_the_whole_names() -> None:
    """A type that is wrong comes before a number that is none, wherever they stand."""
    records = [wire(0, sequenceNumber="01"), *[wire(n) for n in range(1, 8)], wire(8, data=None)]
    assert "records[8].data" in agree(message(records))


def test_what_is_still_to_come_can_be_checked_first() -> None:
    """Nothing may become durable of a message whose end is malformed; asking takes no record away."""
    sound = read_message(lent(message([wire(n) for n in range(9)])), PIECE)
    assert isinstance(sound, Delivery)
    pieces = iter(sound)
    next(pieces)
    sound.check_rest()
    assert len(list(pieces)) == 8
    broken = read_message(lent(message([*[wire(n) for n in range(9)], wire(9, data=None)])), PIECE)
    assert isinstance(broken, Delivery)
    assert broken.decoded == 0
    with pytest.raises(DeliveryDoubt, match=r"records\[9\]"):
        broken.check_rest()


def test_a_line_of_ten_megabytes_is_never_decoded_at_once() -> None:
    """Each piece is about a fifth of a MiB of the line."""
    line = message([wire(n, data=base64.b64encode(bytes(1000)).decode()) for n in range(3000)])
    delivery = read_message(lent(line))
    assert isinstance(delivery, Delivery)
    most = max(sum(len(record.data) for record in piece.records) for piece in delivery)
    assert most < PIECE_BYTES


def records(*places: tuple[str, int]) -> list[Record]:
    """Return records at these places."""
    return [Record(number, sub, "k", 1_795_256_161_000, b"") for number, sub in places]


def near(number: str) -> st.SearchStrategy[str]:
    """Draw texts that are as long as a number, and differ from it in one place."""
    marks = st.sampled_from("0123456789,;-+ _a\n\u0661\u00b2")
    return st.builds(lambda at, mark: number[:at] + mark + number[at + 1 :], st.integers(0, len(number) - 1), marks)


NUMBERS = st.one_of(
    st.integers(0, 20).map(lambda more: str(USUAL + more)),
    st.integers(0, 200).map(str),
    near(str(USUAL)),
    near("1234"),
    st.sampled_from(ODD),
)


@given(st.lists(st.tuples(NUMBERS, st.integers(0, 2)), max_size=5))
def test_what_is_refused_and_what_ascends_is_what_each_says_by_itself(places: list[tuple[str, int]]) -> None:
    """A piece that says that it ascends does so; nothing is asked of one that does not say it."""
    if not all(is_sequence_number(number) for number, _ in places):
        with pytest.raises(DeliveryDoubt, match="not a sequence number"):
            make_piece(records(*places))
        return
    piece = make_piece(records(*places))
    positions = [record.position for record in piece.records]
    if piece.ascends:
        assert all(before < behind for before, behind in itertools.pairwise(positions))
    if {len(number) for number, _ in places} in ({1}, {4}, {56}) and "0" not in dict(places):
        assert piece.ascends == (positions == sorted(set(positions)))


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_odd_number_among_usual_ones_is_named(odd: str, at: int) -> None:
    """Wherever it stands."""
    numbers = [str(USUAL + n) for n in range(3)]
    numbers[at] = odd
    if is_sequence_number(odd):
        assert not make_piece(records(*[(number, 0) for number in numbers])).ascends
        return
    with pytest.raises(DeliveryDoubt) as refused:
        make_piece(records(*[(number, 0) for number in numbers]))
    assert repr(odd) in str(refused.value)


@pytest.mark.parametrize(
    "numbers", [("12", "34,5", "6"), ("1", "2,3", "4"), ("11", "2", "333"), ("111", "22", "3"), ("10", "01")]
)
def test_commas_and_lengths_that_only_add_up_are_no_usual_numbers(numbers: tuple[str, ...]) -> None:
    """The text of all of them could be cut in another way."""
    places = [(number, 0) for number in numbers]
    if all(is_sequence_number(number) for number in numbers):
        assert not make_piece(records(*places)).ascends
    else:
        with pytest.raises(DeliveryDoubt):
            make_piece(records(*places))


def test_user_records_of_one_aggregate_ascend_by_their_numbers_in_it() -> None:
    """They share a sequence number."""
    assert make_piece(records((str(USUAL), 0), (str(USUAL), 1), (str(USUAL + 1), 0))).ascends
    assert not make_piece(records((str(USUAL), 1), (str(USUAL), 1))).ascends
    assert not make_piece(records((str(USUAL), 1), (str(USUAL), 0))).ascends
    assert make_piece(records((str(USUAL), 7))).ascends
    assert not make_piece([]).records
