"""Write the example of format 2. It was run once; running it again is for a look at the writer only.

`python tests/data/format-2/generate.py FOLDER` writes into FOLDER, which must not be this one.
"""

import base64
import hashlib
import json
import sys
from pathlib import Path

from archive.compression import Compression
from archive.format.keys import duplicates_key, segment_key
from archive.format.markers import ApplicationRecord, encode_marker
from archive.format.metadata import ChainStart
from archive.format.record import Record
from archive.format.segment import SegmentWriter

SHARD = "shardId-000000000007"
MINUTE = 29_920_936
START_MS = MINUTE * 60_000
WRITER = "0f" * 16
LONG = 1600


def records() -> list[Record]:
    """Return the records of format 1's example."""
    rows = json.loads((Path(__file__).parents[1] / "format-1" / "records.json").read_bytes())
    return [
        Record(
            row["sequence_number"],
            row["sub_sequence_number"],
            row["partition_key"],
            row["arrival_ms"],
            base64.b64decode(row["data"]),
        )
        for row in rows
    ]


def long_records() -> list[Record]:
    """Return records whose lines fill several blocks; a part of each payload is noise."""
    digests = (hashlib.sha256(b"%d" % number).hexdigest() for number in range(LONG))
    return [
        Record(str(10**55 + number), 0, f"p{number % 7}", START_MS + number, b'{"id":"%s"}' % digest.encode())
        for number, digest in enumerate(digests)
    ]


def write(folder: Path) -> None:
    """Write all files."""
    writer = SegmentWriter(SHARD, MINUTE, Compression.ZSTD)
    writer.extend(records())
    metadata = writer.metadata(after=ChainStart("TRIM_HORIZON"), writer=WRITER)
    (folder / "segment.jsonl.zst").write_bytes(writer.body())
    dropper = SegmentWriter(SHARD, MINUTE, Compression.ZSTD)
    for record in records():
        dropper.drop(record, f"flights/{SHARD}/1:0")
    (folder / "duplicates.jsonl.zst").write_bytes(dropper.duplicates_body())
    long = SegmentWriter(SHARD, MINUTE, Compression.ZSTD)
    long.extend(long_records())
    (folder / "long.jsonl.zst").write_bytes(long.body())
    payloads = b"".join(record.data for record in long_records())
    _json(folder / "content.json", {"records": LONG, "payloads": hashlib.sha256(payloads).hexdigest()})
    slot = ("raw/", SHARD, MINUTE, metadata.first)
    _json(
        folder / "segment.json",
        {
            "prefix": "raw/",
            "key": segment_key(*slot, Compression.ZSTD),
            "duplicates": duplicates_key(*slot, WRITER, Compression.ZSTD),
            "metadata": metadata.encode(),
        },
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
    ).compressed(Compression.ZSTD)
    (folder / "application.json").write_bytes(encode_marker(application))


def _json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    if (target / "segment.jsonl.zst").exists():
        sys.exit("there is an example already, and it stays")
    write(target)
