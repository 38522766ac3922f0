"""Write the example of format 1. It was run once; running it again is for a look at the writer only.

`python tests/data/format-1/generate.py FOLDER` writes into FOLDER, which must not be this one.
"""

import base64
import json
import sys
from pathlib import Path

from archive.format.keys import segment_key
from archive.format.markers import ApplicationRecord, EndMarker, StartMarker, encode_marker
from archive.format.metadata import ChainStart
from archive.format.record import Record
from archive.format.segment import SegmentWriter

SHARD = "shardId-000000000007"
MINUTE = 29_920_936
START_MS = MINUTE * 60_000
FIRST = 49_680_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000_001
PAYLOADS = [
    b'{"flight":"UA1545","delay":2}',
    bytes(range(256)),
    b"",
    "caf\u00e9 \u65e5\u672c \U0001f9ff".encode(),
    "line\u2028separators\u2029and\nbreaks\r\n".encode(),
    rb'{"lone":"\ud800"}',
    b"\xed\xa0\x80\xff",
    b'\x00\x1f\x7f"\\/',
]


def records() -> list[Record]:
    """Return plain records, then an aggregate of three; one arrival time steps back."""
    plain = [
        Record(str(FIRST + number * 7), 0, f"key-{number}\u00e9", START_MS + 1000 * (number ^ 1), data)
        for number, data in enumerate(PAYLOADS)
    ]
    aggregate = [Record(str(FIRST + 100), sub, "kpl", START_MS + 59_999, b"user record %d" % sub) for sub in range(3)]
    return [*plain, *aggregate]


def write(folder: Path) -> None:
    """Write all files."""
    writer = SegmentWriter(SHARD, MINUTE)
    writer.extend(records())
    metadata = writer.metadata(after=ChainStart("TRIM_HORIZON"), writer="0f" * 16)
    last = str(metadata.last)
    (folder / "segment.jsonl.gz").write_bytes(writer.body())
    _json(
        folder / "segment.json",
        {
            "prefix": "raw/",
            "key": segment_key("raw/", SHARD, MINUTE, metadata.first),
            "metadata": metadata.encode(),
        },
    )
    _json(
        folder / "records.json",
        [
            {
                "sequence_number": record.sequence_number,
                "sub_sequence_number": record.sub_sequence_number,
                "partition_key": record.partition_key,
                "arrival_ms": record.arrival_ms,
                "data": base64.b64encode(record.data).decode(),
            }
            for record in records()
        ],
    )
    written_at = "2026-11-21T10:17:05.000Z"
    start = StartMarker(
        format=1,
        shard=SHARD,
        sentinel="TRIM_HORIZON",
        first=str(metadata.first),
        starting_hash_key="0",
        ending_hash_key=str(2**127 - 1),
        parents=["shardId-000000000001"],
        writer="1f" * 16,
        written_at=written_at,
    )
    end = EndMarker(
        format=1,
        shard=SHARD,
        last=last,
        children=["shardId-000000000008", "shardId-000000000009"],
        proof="read",
        writer="2f" * 16,
        written_at=written_at,
    )
    application = ApplicationRecord(
        format=1,
        stream_arn="arn:aws:kinesis:eu-central-1:000000000000:stream/flights",
        stream_created_ms=START_MS - 3_600_000,
        application="minutebook-flights",
        start="oldest",
        start_at_ms=None,
        writer="3f" * 16,
        written_at_ms=START_MS,
    )
    for name, marker in (("start", start), ("end", end), ("application", application)):
        (folder / f"{name}.json").write_bytes(encode_marker(marker))


def _json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    if (target / "segment.jsonl.gz").exists():
        sys.exit("there is an example already, and it stays")
    write(target)
