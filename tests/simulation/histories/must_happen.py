"""What must have happened in the histories of each mode: what never does proves nothing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tests.simulation.histories.day_scenarios import DAY_SCENARIOS, MONTH_SCENARIOS
from tests.simulation.histories.scenarios import SCENARIOS, Scenario
from tests.simulation.histories.sharded_scenarios import SHARDED_SCENARIOS
from tests.simulation.modes import Mode


def missing(tally: Counter[str], modes: Sequence[Mode]) -> list[str]:
    """Return what ought to have happened in these modes and never did."""
    expected: set[str] = set()
    for mode in modes:
        scenarios = _SCENARIOS[mode]
        expected |= _EXPECTED[mode] | {f"scenario: {scenario.name}" for scenario in scenarios}
    return sorted(what for what in expected if not tally[what])


_TABLE: Final = {
    *(
        f"DynamoDB: PutItem {fault}"
        for fault in ("throttled", "refused before", "answer lost", "500 after", "delayed")
    ),
    "DynamoDB: a delayed put arrives",
    "checked: copies dropped",
    "killed: after a request to DynamoDB was applied",
    "killed: before a request to DynamoDB is applied",
    "producer: sends an event again",
    "stream: a shard is split",
    "stream: two shards are merged",
}
_AGGREGATES: Final = {
    "KCL: a batch is taken apart without the shard's hash keys",
    "aggregates: another shard's",
    "aggregates: cut off or damaged",
    "aggregates: empty",
    "aggregates: malformed from its beginning",
    "aggregates: malformed, with a good beginning",
    "aggregates: of no shard",
    "aggregates: the last record of a closed shard is not delivered, or not all of it",
    "checked: a record that is named as not delivered",
    "checked: a record that is not delivered and that evidence covers",
    "kept: a record that is not delivered, empty",
    "kept: a record that is not delivered, malformed",
    "kept: a record that is not delivered, outside_hash_range",
}
_STRAYS: Final = {
    "strays: archived",
    "strays: left out of a span",
    "strays: passed over",
}
_BESIDE: Final = {"beyond the promise: a segment of strays lies beside the chain"}
"""Mostly with deduplication, which archives what is delivered."""
_SCENARIOS: Final[Mapping[Mode, Sequence[Scenario]]] = {
    "plain": SCENARIOS,
    "days": DAY_SCENARIOS,
    "month": MONTH_SCENARIOS,
} | SHARDED_SCENARIOS
_EXPECTED: Final[Mapping[Mode, set[str]]] = {
    "plain": _AGGREGATES
    | _STRAYS
    | {
        "strays: kept beside the archive",
        *(f"S3: PUT {fault}" for fault in ("refused before", "503 before", "409", "answer lost", "delayed")),
        *(f"S3: {verb} {fault}" for verb in ("GET", "HEAD", "LIST") for fault in ("answer lost", "headers cut off")),
        *(f"held up: before {verb} is applied" for verb in ("PUT", "HEAD", "LIST", "GET")),
        *(f"held up: after {verb} was applied" for verb in ("PUT", "HEAD", "LIST", "GET")),
        "S3: 412",
        "S3: 403 RequestTimeTooSkewed",
        "S3: a delayed PUT arrives and wins",
        "S3: a segment is expired",
        "KCL: a checkpoint is restored inside a span",
        "KCL: a false shardEnded",
        "KCL: a false shardEnded inside an aggregate of a closed shard",
        "KCL: a graceful hand-over",
        "KCL: a stale checkpoint is read",
        "KCL: checkpoint fenced out",
        "KCL: checkpoint throttled",
        "KCL: leaseLost",
        "KCL: shardEnded",
        "KCL: the lease is stolen",
        "KCL: the lease table is wiped",
        "Kinesis: throttled",
        "arrival times: step back",
        "checked: a break, reported",
        "checked: an end that is not proven",
        "clock: a suspend",
        "clock: a machine is paused, idle",
        "clock: a machine is paused, inside a call",
        "clock: a machine is paused, with records held",
        "clock: a wall clock jumps",
        "clock: an outage longer than the retention",
        "died of: BufferTooOld",
        "died of: SafetyRefusal",
        "died of: SettingsError",
        "died of: ShardEndUnproven",
        "died of: StoreUnavailable",
        "killed: after PUT was applied",
        "killed: after a checkpoint was written",
        "killed: before PUT is applied",
        "killed: before a checkpoint is written",
        "killed: the daemon alone",
        "log: compression_settled_earlier",
        "log: near_retention",
        "log: slot_lost",
        "log: stored_ranges_found",
        "records: KPL aggregates",
        "segments: zstd",
        "refused: consume, exit 6",
        "stream: deleted and made again under its name",
        "stream: retention trims",
        "stream: the retention is changed",
        "stream: the shard is closed",
    },
    "claims": _TABLE
    | _AGGREGATES
    | _STRAYS
    | _BESIDE
    | {
        *(
            f"DynamoDB: BatchExecuteStatement {fault}"
            for fault in ("throttled", "answer lost", "500 after", "delayed")
        ),
        *(f"DynamoDB: a statement {fault}" for fault in ("throttled", "500 before", "500 after", "delayed")),
        *(
            f"DynamoDB: {verb} {outcome}"
            for verb in ("INSERT", "UPDATE")
            for outcome in ("succeeds", "finds another item")
        ),
        "held up: between two statements of a batch",
        "killed: between two statements of a batch",
        "DynamoDB: condition failed",
        "DynamoDB: time to live deletes a claim",
        "checked: an original that retention took",
        "producer: an event without an id",
        "producer: two events of one id",
        "stream: the retention is changed",
    },
    "watermark": _TABLE
    | _AGGREGATES
    | _STRAYS
    | _BESIDE
    | {
        "beyond the promise: two deliveries were filtered differently",
        "DynamoDB: a tail row has no state",
        "DynamoDB: a tail row is damaged",
        "DynamoDB: a tail row is lost",
        "DynamoDB: the dedupe table is deleted",
        "checked: a copy kept in doubt",
        "log: watermarks_unproven",
        "producer: a record fails and its successor is taken",
        "producer: an event without a number",
    },
    "operations": _AGGREGATES
    | {
        "segments: zstd",
        "strays: archived",
        "strays: passed over",
        "S3: a segment is expired",
        "S3: an object beside a segment is expired",
        "expire: SafetyRefusal",
        "expire: exit 6",
        "log: beside_expired",
        "log: day_expired",
        "nightly: a day is published",
        "restore: SafetyRefusal",
        "restore: went through",
    },
    "days": _AGGREGATES
    | {
        "audit: a day became clean",
        "audit: a day that misses records is not clean",
        "audit: a sound day is clean",
        "clock: a host sleeps",
        "clock: a machine is paused, idle",
        "clock: a machine is paused, inside a call",
        "clock: a wall clock jumps",
        "clock: an outage",
        "clock: an outage of one shard",
        "segments: zstd",
        "read marks: end, proven",
        "read marks: end, unproven",
        "read marks: read, proven",
        "read marks: read, unproven",
        "segments: proven",
        "segments: unproven",
        "stream: it is resharded by midnight",
        "stream: it was resharded before the application began",
        "stream: retention trims",
        "stream: the retention dips",
    },
    "month": {"audit: a sound day is clean", "checked: a day has at most 25 read marks", "KCL: a redeployment"},
}
