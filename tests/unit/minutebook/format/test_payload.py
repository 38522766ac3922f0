"""What a JMESPath finds in a producer's payload, and what counts as an id or a number."""

import json
from collections.abc import Callable

import jmespath
import pytest

from minutebook.format.payload import PayloadPath


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b'{"id":"a"}', '"a"'),
        (b'{"id":1}', "1"),
        (b'{"id":"1"}', '"1"'),
        (b'{"id":null}', None),
        (b'{"id":""}', None),
        (b'{"id":true}', None),
        (b'{"id":{"x":1}}', None),
        (b'{"other":1}', None),
        (b"[1,2]", None),
        (b"not json", None),
        (b"\xff\xfe", None),
        (b"", None),
        (b"[" * 100_000, None),
        (b'{"id":-7}', "-7"),
        (b'{"id":123456789012345678901234567890}', "123456789012345678901234567890"),
        (b'{"id":1795256161.123456781}', None),
        (b'{"id":1.0}', None),
        (b'{"id":1e3}', None),
    ],
)
def test_only_strings_and_integers_are_ids(payload: bytes, expected: str | None) -> None:
    """1 and "1" stay apart; everything else is no id, and the record is kept: of fractions two would be one."""
    assert PayloadPath("id").text(payload) == expected


def test_a_long_id_is_hashed() -> None:
    """DynamoDB's keys end at 2 KB; two long ids that differ at the end stay apart."""
    path = PayloadPath("id")
    one, two = (path.text(b'{"id":"' + b"x" * 5000 + tail + b'"}') for tail in (b"1", b"2"))
    assert one is not None
    assert two is not None
    assert len(one) < 100
    assert one != two


@pytest.mark.parametrize(
    ("payload", "expected"),
    [(b'{"n":7}', 7), (b'{"n":"0007"}', 7), (b'{"n":-1}', None), (b'{"n":1.5}', None), (b'{"n":true}', None)],
)
def test_numbers_are_whole_and_not_negative(payload: bytes, expected: int | None) -> None:
    """A producer's sequence is counted in whole numbers; decimal text is read too."""
    assert PayloadPath("n").number(payload) == expected


@pytest.mark.parametrize("expression", ["id", "event.id", 'event."a b".id', "(event.a).id", "event.id.x"])
@pytest.mark.parametrize(
    "payload",
    [
        b'{"id":1,"event":{"id":"e","a":{"id":2},"a b":{"id":3}}}',
        b'{"event":[{"id":1}],"id":[]}',
        b'{"event":"text"}',
        b"7",
        b"null",
    ],
)
def test_the_quick_way_for_names_finds_what_jmespath_finds(expression: str, payload: bytes) -> None:
    """A path of names alone is followed without jmespath, to the same value."""
    assert PayloadPath(expression).value(payload) == jmespath.search(expression, json.loads(payload))


def test_an_integer_too_long_to_be_written_out_is_no_id() -> None:
    """A sum may have more digits than Python writes: doubt keeps, and nothing is raised."""
    digits = b"9" * 4300
    assert PayloadPath("sum(a)").text(b'{"a":[%b,%b]}' % (digits, digits)) is None


@pytest.mark.parametrize("read", [PayloadPath("n").value, PayloadPath("n").text, PayloadPath("n").number])
def test_only_payloads_of_up_to_ten_mebibytes_are_looked_into(read: Callable[[bytes], object]) -> None:
    """No stream takes larger ones: what they say is not known, and they are kept."""
    filling = b" " * ((10 << 20) - len(b'{"n":7}'))
    assert read(filling + b'{"n":7}') in (7, "7")
    assert read(filling + b' {"n":7}') is None


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b'{"id":"a","b":"' + b"x" * (10 * 1024 * 1024 - 30) + b'"}', '"a"'),
        (b'{"id":"a","b":"' + b"{,[" * (1 << 20) + b'"}', '"a"'),
        (b'{"id":"a","b":[' + b"1000000," * 130_000 + b"1]}", '"a"'),
        (b'{"id":"a","b":"' + b"x" * (10 * 1024 * 1024) + b'"}', None),
        (b'{"id":"a","b":[' + b"{}," * 600_000 + b"1]}", None),
    ],
)
def test_ids_are_read_of_records_as_large_as_the_stream_takes(payload: bytes, expected: str | None) -> None:
    """Unless they have so many values that decoding would take hundreds of megabytes."""
    assert PayloadPath("id").text(payload) == expected
