"""Payloads of producers: whatever they hold, an id and a number come out or none, and the state can be read again."""

import json

from hypothesis import given
from hypothesis import strategies as st

from consumer.dedupe.watermarks import Watermarks
from minutebook.errors import FormatError
from minutebook.format.payload import PayloadPath
from tests.fuzz.hostile import damaged, search

EXPRESSIONS = (
    *("id", "a.b[0]", "@", "to_number(id)", "ceil(to_number(id))", "join('-', [id, id])", "max(a)", "sum(a)"),
    *("a[?b > `1`] | [0]", "sort_by(a, &b)[0].b", "keys(a)[0]", "to_string(@)", "contains(a, b)"),
)
PATHS = [PayloadPath(text) for text in EXPRESSIONS]
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(2**62, 10**45),
        st.floats(),
        st.text(max_size=8),
        st.integers(0, 10**45).map(str),
        st.just("1e999"),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("ab"), inner)),
    max_leaves=6,
)
payloads = st.one_of(
    st.dictionaries(st.sampled_from(["id", "a", "b"]), values, max_size=3).map(
        lambda fields: json.dumps(fields).encode()
    ),
    st.sampled_from([b'{"id":' * 5000, b"[" * 5000, b'{"id":"\\ud800"}', b'{"id":"\xed\xa0\x80"}', b""]),
)


@search(300)
@given(payload=st.one_of(payloads, damaged(payloads)), path=st.sampled_from(PATHS))
def test_any_payload_has_an_id_or_none(payload: bytes, path: PayloadPath) -> None:
    """Ids are short ASCII texts; a payload without one is kept."""
    text = path.text(payload)
    assert text is None or (text.isascii() and 0 < len(text) <= 512)
    number = path.number(payload)
    assert number is None or number >= 0


@search(300)
@given(batch=st.lists(payloads, min_size=1, max_size=40), ordered=st.booleans())
def test_whatever_numbers_producers_send_the_state_can_be_read_again(batch: list[bytes], ordered: bool) -> None:  # noqa: FBT001 - drawn
    """It travels in metadata: a state that no reader takes would stop the shard for ever."""
    state = Watermarks()
    for payload in batch:
        number = PATHS[0].number(payload)
        if number is not None:
            state.take(PATHS[0].text(payload) or "", number, ordered=ordered)
    assert Watermarks.decode(state.encode()).encode() == state.encode()


@search(300)
@given(text=damaged(st.just(b'[["p",[[1,3],[5,7]]],["q",[[0,0]]]]')))
def test_a_damaged_state_is_refused_or_is_a_state(text: bytes) -> None:
    """Whoever put it there."""
    try:
        state = Watermarks.decode(text)
    except FormatError:
        return
    assert Watermarks.decode(state.encode()).encode() == state.encode()
