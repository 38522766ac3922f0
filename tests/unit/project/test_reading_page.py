"""The page on reading: its SQL of raw segments reads what the archive writes, also the longest line."""

import gzip
import re
from pathlib import Path
from typing import Final

import duckdb
import pytest

from minutebook.format.record import Record, encode_lines
from minutebook.format.segment import MAX_LINE_BYTES
from tests.unit.project.test_docs_text import CHECKOUT, blocks

_MIB: Final = 1 << 20
_SHARD: Final = "shardId-000000000000"
(_SQL,) = (
    found[1]
    for block in blocks(CHECKOUT / "docs" / "how-to" / "read.md", "python")
    if (found := re.search(r'"""(.*read_json.*)"""', block, re.DOTALL))
)
_PAYLOADS: Final = [b'{"n": 1}', b"\xff\x00", b"\x01" * (6 * _MIB)]
"""Text, bytes, and a line of 36 MiB: twice what DuckDB reads at once by default is refused wherever it lies."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an hour with one segment."""
    hour = tmp_path_factory.mktemp("hour")
    records = [
        Record(str(number + 1), 0, "p", 1_795_256_161_790 + number, payload)
        for number, payload in enumerate(_PAYLOADS)
    ]
    place = hour / "16" / _SHARD / "1-0.jsonl.gz"
    place.parent.mkdir(parents=True)
    place.write_bytes(gzip.compress(bytes(encode_lines(_SHARD, records)), 1))
    return hour


def _run(sql: str, folder: Path) -> list[bytes]:
    here = re.sub(r"'s3://[^']*?/\*/\*/", f"'{folder}/*/*/", sql)
    assert here != sql
    return [payload for _, payload in duckdb.execute(here).fetchall()]


def test_the_sql_reads_each_payload(folder: Path) -> None:
    """Byte for byte."""
    assert _run(_SQL, folder) == _PAYLOADS


def test_it_raises_the_bound_to_the_longest_line_of_an_archive() -> None:
    """The number is the format's."""
    assert re.findall(r"maximum_object_size = (\d+)", _SQL) == [str(MAX_LINE_BYTES)]


def test_without_it_a_long_line_is_refused(folder: Path) -> None:
    """Else the page would warn of nothing."""
    with pytest.raises(duckdb.InvalidInputException, match="maximum_object_size"):
        _run(re.sub(r",\s*maximum_object_size = \d+", "", _SQL), folder)
