"""Valid input of every kind: what the damage is done to."""

import json
from base64 import b64encode

from hypothesis import strategies as st

from minutebook.format.markers import ApplicationRecord, EndMarker, StartMarker
from minutebook.format.metadata import ChainStart, Continuity, Predecessor, SegmentMetadata
from minutebook.format.position import Position
from minutebook.format.record import Record
from tests.fakes.clock import START_MS
from tests.fakes.shard import SHARD

MINUTE = START_MS // 60_000

positions = st.builds(Position, st.one_of(st.integers(0, 99), st.integers(10**55, 10**57)), st.integers(0, 2**40))
payloads = st.one_of(
    st.binary(max_size=40), st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
keys = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@st.composite
def runs(draw: st.DrawFn, *, most: int = 12) -> list[Record]:
    """Return records of one minute, in order."""
    places = sorted(set(draw(st.lists(positions, min_size=1, max_size=most))))
    arrivals = st.integers(START_MS, START_MS + 59_999)
    return [Record(str(place.sequence), place.sub, draw(keys), draw(arrivals), draw(payloads)) for place in places]


@st.composite
def segment_metadata(draw: st.DrawFn) -> SegmentMetadata:
    """Return a segment's metadata, consistent in itself."""
    ends = sorted(draw(st.lists(positions, min_size=3, max_size=3, unique=True)))
    low = draw(st.integers(0, 2**50))
    predecessors: list[Predecessor] = [ChainStart("TRIM_HORIZON"), ChainStart("AT_TIMESTAMP"), ends[0]]
    return SegmentMetadata(
        shard_id=SHARD,
        minute=draw(st.integers(0, 10**8)),
        first=ends[1],
        last=ends[2],
        after=draw(st.sampled_from(predecessors)),
        records=draw(st.integers(1, 10**6)),
        dropped=draw(st.integers(0, 10**6)),
        payload_bytes=draw(st.integers(0, 2**40)),
        arrival_min_ms=low,
        arrival_max_ms=low + draw(st.integers(0, 59_999)),
        writer="0123456789abcdef0123456789abcdef",
        continuity=(continuity := draw(st.none() | st.sampled_from(Continuity))),
        evidence_ms=None if continuity is None else draw(st.none() | st.integers(0, 2**50)),
    )


start_markers = st.builds(
    StartMarker,
    format=st.just(1),
    shard=st.just(SHARD),
    sentinel=st.sampled_from(["TRIM_HORIZON", "AT_TIMESTAMP", "AFTER_SEQUENCE:7:0"]),
    first=positions.map(str),
    starting_hash_key=st.just("0"),
    ending_hash_key=st.just(str(2**128 - 1)),
    parents=st.just([SHARD]),
    writer=st.just("w"),
    written_at=st.just("2026-11-21T10:16:00.000Z"),
)
end_markers = st.builds(
    EndMarker,
    format=st.just(1),
    shard=st.just(SHARD),
    last=st.one_of(st.none(), positions.map(str)),
    children=st.just([SHARD]),
    proof=st.sampled_from(["read", "expired"]),
    writer=st.just("w"),
    written_at=st.just("2026-11-21T10:16:00.000Z"),
)
application_records = st.builds(
    ApplicationRecord,
    format=st.just(1),
    stream_arn=st.just("arn:aws:kinesis:eu-central-1:000000000000:stream/flights"),
    stream_created_ms=st.integers(0, 2**50),
    application=st.just("a"),
    start=st.sampled_from(["oldest", "now"]),
    start_at_ms=st.one_of(st.none(), st.integers(0, 2**50)),
    writer=st.just("w"),
    written_at_ms=st.integers(0, 2**50),
)


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    """Return what a daemon says in one life of a processor, line by line."""
    sequence = draw(st.sampled_from(["TRIM_HORIZON", "AT_TIMESTAMP", "LATEST", "7"]))
    lines: list[dict[str, object]] = [
        {"action": "initialize", "shardId": SHARD, "sequenceNumber": sequence, "subSequenceNumber": 0}
    ]
    batches = draw(st.lists(_batches, max_size=3))
    lines += [{"action": "processRecords", "records": batch, "millisBehindLatest": 0} for batch in batches]
    lines += draw(st.sampled_from([[], [{"action": "leaseLost"}], [{"action": "shutdownRequested"}]]))
    lines += draw(st.sampled_from([[], [{"action": "shardEnded"}], [{"action": "checkpoint", "error": None}]]))
    return [json.dumps(line, ensure_ascii=draw(st.booleans())).encode() + b"\n" for line in lines]


def _wire(record: Record) -> dict[str, object]:
    return {
        "action": "record",
        "data": b64encode(record.data).decode(),
        "partitionKey": record.partition_key,
        "sequenceNumber": record.sequence_number,
        "subSequenceNumber": record.sub_sequence_number,
        "approximateArrivalTimestamp": record.arrival_ms,
    }


_batches = runs(most=4).map(lambda run: [_wire(record) for record in run])

properties = st.lists(
    st.sampled_from(
        [
            "executableName = minutebook-processor",
            "streamName = flights",
            "streamArn = arn:aws:kinesis:eu-central-1:000000000000:stream/flights",
            "applicationName: minutebook",
            "regionName=eu-central-1",
            "kinesisEndpoint=http://127.0.0.1:4567",
            "initialPositionInStreamExtended=1795256160",
            "maxRecords = 1000",
            "failoverTimeMillis = 10000",
            "minutebook.bucket = archive",
            "minutebook.prefix = raw/",
            "minutebook.start = 2026-11-21T10:16:00Z",
            "minutebook.lingerSeconds = 2.5",
            "minutebook.maxSegmentBytes = 1000000",
            "minutebook.s3Endpoint = http://127.0.0.1:4566",
            "minutebook.dedupe = watermark",
            "minutebook.producerSequence = a.b[0]",
            "minutebook.dedupeTable = claims",
            "minutebook.logLevel = debug",
            "# a comment",
            "a.b = c\\",
        ]
    ),
    max_size=16,
    unique=True,
).map("\n".join)
