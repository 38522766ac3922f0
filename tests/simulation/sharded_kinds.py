"""The kinds of histories of several shards: both modes of producer deduplication, and the operator's commands.

Each mode has its own seeds: seed 7 of `claims` has nothing to do with seed 7 of `watermark`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from archive.errors import (
    MinutebookError,
    ObjectVanished,
    SafetyRefusal,
    ShardEndUnproven,
    StoreRefused,
)
from tests.simulation.kinds import SERVICES, Kind, deal


@dataclass(frozen=True, kw_only=True)
class ShardedKind(Kind):
    """One kind. `roots` are the shards that the stream begins with.

    The rest says what producers do: `keyed` (several share a shard), `ordered` (no number comes late), `partial`
    (requests fail in part), the `number_steps` between their numbers, and how many numbers a request holds at most.
    `vanishes` says that somebody deletes the dedupe table.
    """

    dedupe: Literal["claims", "watermark"] | None
    roots: int = 1
    keyed: bool = True
    ordered: bool = False
    partial: bool = True
    number_steps: tuple[int, ...] = (1,)
    numbers_at_once: int = 4
    vanishes: bool = False
    commands: bool = False


_BASE: Final = {"put": 20, "time": 11, "minute": 7, "deliver": 40, "tick": 8, "resume": 22, "start": 9, "land": 3}
_FAULTY: Final = _BASE | {"kill": 3, "orphan": 1, "faults": 3, "throttle": 2, "lose": 3, "end": 3}
_HEALTHY: Final = _BASE | {"handover": 5, "restart": 3, "reshard": 2, "end": 8}
_CALM: Final[dict[str, tuple[float, ...]]] = {"faults": (0.0,), "holdups": (0.0,)}
_ENDS: Final = SERVICES | {ShardEndUnproven}
_TRIMS: Final = _ENDS | {SafetyRefusal, ObjectVanished}
_SKEW: Final = 3600.0
_JUMPS: Final = (-3600, -200, -20, 20, 200, 3600)


def _claims() -> tuple[ShardedKind, ...]:
    def kind(name: str, weight: int, actions: Mapping[str, int], **more: object) -> ShardedKind:
        settings = {"roots": 2, "errors": _ENDS, "starts": ("plain", "plain", "oldest", "past"), "first": _FIRST}
        return ShardedKind(name=f"claims, {name}", weight=weight, actions=actions, dedupe="claims", **settings | more)  # type: ignore[arg-type] # names of fields

    return (
        kind("healthy", 2, _HEALTHY, errors=frozenset[type[MinutebookError]](), healthy=True, **_CALM),
        kind("crashes", 4, _FAULTY | {"kill": 9, "orphan": 3, "start": 14}),
        kind("zombies", 5, _FAULTY | {"start": 14, "handover": 4, "shutdown": 3}),
        kind("outages", 3, _FAULTY | {"faults": 12, "throttle": 8, "land": 10}, faults=(0.1, 0.3, 0.6)),
        kind("wiped lease table", 3, _FAULTY | {"wipe": 5, "start": 14}),
        kind("moved checkpoints", 3, _FAULTY | {"move": 6, "start": 12, "jump": 3}, skew=_SKEW, jumps=_JUMPS),
        kind("resharding", 4, _FAULTY | {"reshard": 5, "end": 14, "start": 16}, roots=1),
        kind(
            "outages of the reader",
            3,
            _FAULTY | {"outage": 3, "almost": 3, "sweep": 5, "day": 3, "start": 14},
            errors=_TRIMS,
            trims=True,
            old_stream=True,
        ),
        kind(
            "retention",
            2,
            _FAULTY | {"longer": 3, "almost": 4, "sweep": 5, "day": 4, "start": 14, "throttle": 0},
            errors=_TRIMS,
            trims=True,
        ),
    )


def _watermark() -> tuple[ShardedKind, ...]:
    def kind(name: str, weight: int, actions: Mapping[str, int], **more: object) -> ShardedKind:
        settings = {"errors": _ENDS, "starts": ("plain", "plain", "oldest", "past"), "steps": (22, 45)}
        return ShardedKind(
            name=f"watermark, {name}",
            weight=weight,
            actions=actions,
            dedupe="watermark",
            **settings | more,  # type: ignore[arg-type] # names of fields
        )

    return (
        kind("healthy", 2, _HEALTHY, errors=frozenset[type[MinutebookError]](), healthy=True, **_CALM),
        kind("crashes", 4, _FAULTY | {"kill": 9, "orphan": 3, "start": 11}),
        kind("zombies", 5, _FAULTY | {"start": 11, "handover": 4, "shutdown": 3}),
        kind("outages", 3, _FAULTY | {"faults": 12, "throttle": 8, "land": 10}, faults=(0.1, 0.3, 0.6)),
        kind("one producer", 2, _FAULTY | {"start": 11}, keyed=False),
        kind(
            "in order",
            3,
            _FAULTY | {"start": 11, "reshard": 2},
            ordered=True,
            partial=False,
            number_steps=(1, 2, 5),
            starts=("plain",),
        ),
        kind("too many gaps", 3, _FAULTY | {"start": 11}, number_steps=(2, 3), numbers_at_once=10),
        kind("wiped lease table", 3, _FAULTY | {"wipe": 5, "start": 12, "drop row": 2}),
        kind("moved checkpoints", 3, _FAULTY | {"move": 6, "start": 12, "jump": 3}, skew=_SKEW, jumps=_JUMPS),
        kind(
            "lost tail rows",
            3,
            _FAULTY | {"drop row": 5, "lose table": 3, "start": 14, "kill": 6},
            errors=_ENDS | {StoreRefused},
            vanishes=True,
        ),
        kind("resharding", 5, _FAULTY | {"reshard": 6, "end": 20, "start": 20, "drop row": 1}),
        kind(
            "outages of the reader",
            3,
            _FAULTY | {"outage": 3, "almost": 3, "day": 3, "wipe": 1, "start": 14},
            errors=_TRIMS,
            trims=True,
            old_stream=True,
        ),
    )


def _operations() -> tuple[ShardedKind, ...]:
    def kind(name: str, weight: int, dedupe: str | None, actions: Mapping[str, int], **more: object) -> ShardedKind:
        settings = {"errors": _ENDS, "prologue": 0.8, "starts": ("plain", "oldest", "past"), "commands": True}
        return ShardedKind(name=name, weight=weight, actions=actions, dedupe=dedupe, **settings | more)  # type: ignore[arg-type] # names of fields

    lost = _FAULTY | {"lose leases": 6, "restore": 6, "start": 12, "reshard": 2, "end": 8}
    days = _FAULTY | {"day": 10, "publish": 3, "expire": 8, "lose leases": 2, "restore": 2, "wipe": 1, "reshard": 1}
    old = {"trims": True, "errors": _TRIMS, "old_stream": True}
    return (
        kind("restore", 5, None, lost, roots=2, first=_FIRST),
        kind("restore, claims", 3, "claims", lost, roots=2, first=_FIRST),
        kind("restore, watermark", 4, "watermark", lost | {"drop row": 2}),
        kind("restore while workers live", 3, None, lost | {"lose leases": 1, "restore": 10}, roots=2, first=_FIRST),
        kind("expire", 5, None, days, **old),
        kind("expire, claims", 2, "claims", days | {"sweep": 3}, roots=2, **old),
        kind("expire, watermark", 3, "watermark", days | {"drop row": 2}, **old),
    )


_FIRST: Final = ("start", "start")
_DEALT: Final = {"claims": deal(_claims()), "watermark": deal(_watermark()), "operations": deal(_operations())}


def sharded_kind_of(mode: str, seed: int) -> ShardedKind:
    """Return the kind of a seed of a mode."""
    dealt = _DEALT[mode]
    return dealt[seed % len(dealt)]


def kinds_of(mode: str) -> set[str]:
    """Return the names of a mode's kinds."""
    return {kind.name for kind in _DEALT[mode]}


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
EXPECTED_OF: Final[Mapping[str, set[str]]] = {
    "claims": _TABLE
    | {
        "DynamoDB: condition failed",
        "DynamoDB: time to live deletes a claim",
        "checked: an original that retention took",
        "producer: an event without an id",
        "stream: the retention is changed",
    },
    "watermark": _TABLE
    | {
        "DynamoDB: a tail row is lost",
        "DynamoDB: the dedupe table is deleted",
        "checked: a copy kept in doubt",
        "log: watermarks_unproven",
        "producer: a record fails and its successor is taken",
        "producer: an event without a number",
    },
    "operations": {
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
}
"""What must have happened in each mode: what never does proves nothing."""
