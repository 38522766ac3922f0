"""The scenarios of histories of several shards: both modes of producer deduplication, and the operator's commands.

Each mode has its own seeds: seed 7 of `claims` has nothing to do with seed 7 of `watermark`.
"""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final, Literal

from minutebook.errors import ObjectVanished, SafetyRefusal, ShardEndUnproven
from tests.simulation.histories.scenarios import SERVICES, Scenario, deal
from tests.simulation.modes import Mode


@dataclass(frozen=True)
class ShardedScenario(Scenario):
    """What happens in some histories of several shards. `roots` are the shards that the stream begins with.

    The rest says what producers do: `keyed` (several share a shard), `ordered` (no number comes late), `partial`
    (requests fail in part), the `number_steps` between their numbers, and how many numbers a request holds at most.
    """

    _: KW_ONLY
    dedupe: Literal["claims", "watermark"] | None
    roots: int = 1
    keyed: bool = True
    ordered: bool = False
    partial: bool = True
    number_steps: tuple[int, ...] = (1,)
    numbers_at_once: int = 4


_BASE: Final = {"put": 20, "time": 11, "minute": 7, "deliver": 40, "tick": 8, "resume": 22, "start": 9, "land": 3}
_FAULTY: Final = _BASE | {"kill": 3, "orphan": 1, "faults": 3, "throttle": 2, "lose": 3, "end": 3}
_HEALTHY: Final = _BASE | {"handover": 5, "restart": 3, "reshard": 2, "end": 8}
_ENDS: Final = SERVICES | {ShardEndUnproven}
_TRIMS: Final = _ENDS | {SafetyRefusal, ObjectVanished}
_SKEW: Final = 3600.0
_JUMPS: Final = (-3600, -200, -20, 20, 200, 3600)


_FIRST: Final = ("start", "start")
_STARTS: Final = ("plain", "plain", "oldest", "past")
_claims = partial(ShardedScenario, dedupe="claims", roots=2, errors=_ENDS, starts=_STARTS, first=_FIRST)
_watermark = partial(ShardedScenario, dedupe="watermark", errors=_ENDS, starts=_STARTS, steps=(22, 45))
_operations = partial(ShardedScenario, errors=_ENDS, starts=("plain", "oldest", "past"), prologue=0.8)

_CLAIMS: Final = (
    _claims("claims, healthy", 2, _HEALTHY, errors=frozenset(), healthy=True, faults=(0.0,), holdups=(0.0,)),
    _claims("claims, crashes", 4, _FAULTY | {"kill": 9, "orphan": 3, "start": 14}),
    _claims("claims, zombies", 5, _FAULTY | {"start": 14, "handover": 4, "shutdown": 3}),
    _claims("claims, outages", 3, _FAULTY | {"faults": 12, "throttle": 8, "land": 10}, faults=(0.1, 0.3, 0.6)),
    _claims("claims, wiped lease table", 3, _FAULTY | {"wipe": 5, "start": 14}),
    _claims("claims, moved checkpoints", 3, _FAULTY | {"move": 6, "start": 12, "jump": 3}, skew=_SKEW, jumps=_JUMPS),
    _claims("claims, resharding", 4, _FAULTY | {"reshard": 5, "end": 14, "start": 16}, roots=1),
    _claims(
        "claims, outages of the reader",
        3,
        _FAULTY | {"outage": 3, "almost": 3, "sweep": 5, "day": 3, "start": 14},
        errors=_TRIMS,
        trims=True,
        old_stream=True,
    ),
    _claims(
        "claims, retention",
        2,
        _FAULTY | {"longer": 3, "almost": 4, "sweep": 5, "day": 4, "start": 14, "throttle": 0},
        errors=_TRIMS,
        trims=True,
    ),
)

_WATERMARK: Final = (
    _watermark("watermark, healthy", 2, _HEALTHY, errors=frozenset(), healthy=True, faults=(0.0,), holdups=(0.0,)),
    _watermark("watermark, crashes", 4, _FAULTY | {"kill": 9, "orphan": 3, "start": 11}),
    _watermark("watermark, zombies", 5, _FAULTY | {"start": 11, "handover": 4, "shutdown": 3}),
    _watermark("watermark, outages", 3, _FAULTY | {"faults": 12, "throttle": 8, "land": 10}, faults=(0.1, 0.3, 0.6)),
    _watermark("watermark, one producer", 2, _FAULTY | {"start": 11}, keyed=False),
    _watermark(
        "watermark, in order",
        3,
        _FAULTY | {"start": 11, "reshard": 2},
        ordered=True,
        partial=False,
        number_steps=(1, 2, 5),
        starts=("plain",),
    ),
    _watermark("watermark, too many gaps", 3, _FAULTY | {"start": 11}, number_steps=(2, 3), numbers_at_once=10),
    _watermark("watermark, wiped lease table", 3, _FAULTY | {"wipe": 5, "start": 12, "drop row": 2}),
    _watermark(
        "watermark, moved checkpoints", 3, _FAULTY | {"move": 6, "start": 12, "jump": 3}, skew=_SKEW, jumps=_JUMPS
    ),
    _watermark("watermark, lost tail rows", 3, _FAULTY | {"drop row": 5, "lose table": 3, "start": 14, "kill": 6}),
    _watermark("watermark, resharding", 5, _FAULTY | {"reshard": 6, "end": 20, "start": 20, "drop row": 1}),
    _watermark(
        "watermark, outages of the reader",
        3,
        _FAULTY | {"outage": 3, "almost": 3, "day": 3, "wipe": 1, "start": 14},
        errors=_TRIMS,
        trims=True,
        old_stream=True,
    ),
)

_LOST: Final = _FAULTY | {"lose leases": 6, "restore": 6, "start": 12, "reshard": 2, "end": 8}
_DAYS: Final = _FAULTY | {
    "day": 10, "publish": 3, "expire": 8, "lose leases": 2, "restore": 2, "wipe": 1, "reshard": 1,
}  # fmt: skip
_restores = partial(_operations, dedupe=None, roots=2, first=_FIRST)
_expires = partial(_operations, errors=_TRIMS, trims=True, old_stream=True)

_OPERATIONS: Final = (
    _restores("restore", 5, _LOST),
    _restores("restore, claims", 3, _LOST, dedupe="claims"),
    _operations("restore, watermark", 4, _LOST | {"drop row": 2}, dedupe="watermark"),
    _restores("restore while workers live", 3, _LOST | {"lose leases": 1, "restore": 10}),
    _expires("expire", 5, _DAYS, dedupe=None),
    _expires("expire, claims", 2, _DAYS | {"sweep": 3}, dedupe="claims", roots=2),
    _expires("expire, watermark", 3, _DAYS | {"drop row": 2}, dedupe="watermark"),
)

SHARDED_SCENARIOS: Final[dict[Mode, tuple[ShardedScenario, ...]]] = {
    "claims": deal(_CLAIMS),
    "watermark": deal(_WATERMARK),
    "operations": deal(_OPERATIONS),
}
"""The scenarios of each mode, each as often as its seeds are dealt to it."""


def sharded_scenario_of(mode: Mode, seed: int) -> ShardedScenario:
    """Return the scenario of a seed of a mode."""
    dealt = SHARDED_SCENARIOS[mode]
    return dealt[seed % len(dealt)]
