"""`minutebook columns --sniff` finds the steps that a sample needs."""

import base64
import gzip
import json
from functools import partial

import pytest
from backports import zstd

from compaction.columns.decode.finding import sniff
from compaction.commands.propose_columns import proposed
from minutebook.errors import SettingsError
from tests.fakes.typed_lines import lines_of

gzipped = partial(gzip.compress, mtime=0)
PLAIN = [f'{{"id":{number}}}'.encode() for number in range(3)]
CHANGE = b'{"eventName":"INSERT","dynamodb":{"Keys":{"id":{"N":"1"}},"NewImage":{"id":{"N":"1"}}}}'


@pytest.mark.parametrize(
    ("payloads", "steps"),
    [
        (PLAIN, []),
        ([gzipped(text) for text in PLAIN], ["gzip"]),
        ([gzipped(PLAIN[0]), zstd.compress(PLAIN[1]), PLAIN[2]], ["gzip", "zstd"]),
        ([base64.b64encode(gzipped(text)) for text in PLAIN], ["base64", "gzip"]),
        ([b"\xef\xbb\xbf" + text for text in PLAIN], ["bom"]),
        ([json.dumps(text.decode()).encode() for text in PLAIN], ["json-text"]),
        ([json.dumps({"Message": text.decode()}).encode() for text in PLAIN], ["json-text Message"]),
        ([CHANGE] * 2, ["dynamodb"]),
        ([zstd.compress(CHANGE)] * 2, ["zstd", "dynamodb"]),
        ([base64.b64encode(PLAIN[0]), PLAIN[1]], []),
        ([b"1234", b"abcd"], []),
        ([b'{"note":"{\\"a\\":1}"}', b'{"note":"plain"}'], []),
    ],
)
def test_steps_are_found_in_their_order(payloads: list[bytes], steps: list[str]) -> None:
    """A step that must succeed is found only where it does on every payload."""
    assert steps == [" ".join((step.name, *step.path)) for step in sniff(payloads).steps]


def test_a_proposal_names_its_steps_and_sees_decoded_payloads() -> None:
    """The file that is printed reads what it was made from."""
    text, columns = proposed(lines_of([*map(gzipped, PLAIN), b"\x1f\x8b!"]), is_sniffed=True)
    assert 'decode = ["gzip"]\n' in text
    assert '# "gzip": 4 of 4 payloads begin with 1f 8b\n' in text
    assert "1 of 4 payloads are not decoded by (gzip)" in text
    assert columns.types == {"id": "int64"}
    assert [step.name for step in columns.decode] == ["gzip"]


def test_a_proposal_without_steps_says_what_would_help() -> None:
    """Three of three are gzip: the option is named."""
    with pytest.raises(SettingsError, match=r"3 of 3 payloads are gzip$") as caught:
        proposed(lines_of([*map(gzipped, PLAIN)]))
    assert caught.value.next_step.startswith(
        "minutebook columns --sniff looks for steps that decode them; columns need"
    )


def test_a_payload_of_another_kind_hides_no_step() -> None:
    """A heartbeat between a thousand records: the sentence counts it, and the proposal says what its row will be."""
    logs = {"messageType": "DATA_MESSAGE", "logEvents": [{"id": "1", "message": "m"}]}
    records = [gzipped(json.dumps(logs).encode())] * 99
    text, columns = proposed(lines_of([*records, b'{"ping":1}']), is_sniffed=True)
    assert [step.name for step in columns.decode] == ["gzip", "cloudwatch-logs"]
    assert "99 of 100 payloads are records of CloudWatch Logs" in text
    assert "1 of 100 events are not decoded by (cloudwatch-logs)" in text
    assert [step.name for step in sniff([*map(base64.b64encode, PLAIN * 40), b"?!"]).steps] == ["base64"]


def test_what_the_steps_gave_is_what_a_payload_is() -> None:
    """It was zstd; what it holds are lists."""
    payloads = [zstd.compress(b'[{"a":1}]')] * 3 + [b'{"a":1}']
    assert "# 3 of 4 payloads are lists\n" in proposed(lines_of(payloads), is_sniffed=True)[0]
