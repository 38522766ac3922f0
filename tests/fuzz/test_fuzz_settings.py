"""Properties files: refused with sentences that can be printed, or values that can be used."""

import dataclasses
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.settings.settings import load_with_kcl
from minutebook.errors import SettingsError
from minutebook.properties_file import parse_properties
from minutebook.settings.values import start_text
from tests.fuzz.hostile import check_told, damaged, search
from tests.fuzz.valid import properties


def load(raw: bytes) -> None:
    """Load a file of these bytes; what comes out must be printable, and usable when it is accepted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f.properties")
        path.write_bytes(raw)
        try:
            loaded = load_with_kcl(path, {"AWS_REGION": "eu-central-1"})
        except SettingsError as exc:
            check_told(exc)
            return
    for text in (*loaded.kcl.values(), *loaded.ours.values()):
        text.encode()
        assert "\0" not in text
    for value in dataclasses.asdict(loaded.settings).values():
        str(value).encode()
    assert start_text(loaded.settings.start)


@search(400)
@given(raw=damaged(properties.map(str.encode), edits=3))
def test_a_damaged_file_is_refused_or_usable(raw: bytes) -> None:
    """Unknown names, doubled names, endless numbers, odd characters."""
    load(raw)


NAMES = st.sampled_from(
    [
        *("streamName", "streamArn", "applicationName", "regionName", "kinesisEndpoint", "workerId", "maxRecords"),
        *("initialPositionInStreamExtended", "executableName", "AwsCredentialsProvider", "workerMetricsEMAAlpha"),
        *("minutebook.bucket", "minutebook.prefix", "minutebook.start", "minutebook.lingerSeconds"),
        *("minutebook.eventId", "minutebook.s3Endpoint", "minutebook.maxSegmentBytes", "minutebook.dedupeTable"),
        *("minutebook.logLevel", "minutebook.producerOrdered", "minutebook.metricsPort", "minutebook.compression"),
    ]
)
VALUES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["9" * 5000, "-0", "1e999", "nan", "inf", "1_0", "0x10", "\u0661", "\0", "\ud800", "[" * 2000]),
    st.sampled_from(["(" * 500, "a[?" * 300, "`" * 9, "http://[::1", "http://a:99999", "0001-01-01T00:00+23:59"]),
    st.sampled_from(["9999-12-31T23:59:59-23:59", "2026-W01", "arn:", "arn:aws:s3:x", "a/" * 300, "a" * 100_000]),
)


@pytest.mark.filterwarnings("ignore:deprecated string literal syntax:PendingDeprecationWarning")
@search(400)
@given(pairs=st.dictionaries(NAMES, VALUES, min_size=1, max_size=4))
def test_any_value_is_refused_or_usable(pairs: dict[str, str]) -> None:
    """Every value written with escapes, so that it reaches the parser of its kind."""
    base = {
        "streamName": "flights",
        "applicationName": "archive",
        "regionName": "eu-central-1",
        "minutebook.bucket": "archive",
    }
    lines = [f"{name}={''.join(map(_escape, value))}" for name, value in (base | pairs).items()]
    load("\n".join(lines).encode())


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    if character.isalnum() and character.isascii():
        return character
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))


@search(300)
@given(text=st.text(st.characters(max_codepoint=255), max_size=200))
def test_any_text_parses_or_is_refused(text: str) -> None:
    """The daemon reads ISO-8859-1, so any byte may be there."""
    try:
        parse_properties(text, "f.properties")
    except SettingsError as exc:
        check_told(exc)
