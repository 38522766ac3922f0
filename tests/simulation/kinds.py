"""The kinds of histories: which things happen in them, how often, and which errors they may end processors with.

Seeds are dealt to kinds by weight, so that each rare thing gets a kind in which it is common.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from archive.errors import (
    BufferTooOld,
    MinutebookError,
    ObjectVanished,
    SafetyRefusal,
    SettingsError,
    ShardEndUnproven,
    StoreUnavailable,
    StreamUnavailable,
)

Errors = frozenset[type[MinutebookError]]
SERVICES: Final[Errors] = frozenset({StoreUnavailable, StreamUnavailable, BufferTooOld})

_BASE: Final = {"put": 18, "time": 12, "minute": 7, "deliver": 36, "tick": 10, "resume": 20, "start": 5, "land": 3}
_FAULTY: Final = _BASE | {"kill": 3, "orphan": 1, "faults": 3, "throttle": 2, "lose": 4}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind. `skew` and `jumps` are seconds of wall clocks; `trims` says that records may be trimmed.

    `starts` are the ways in which the application may be started: "plain" is a processor without `consume`.
    `prologue` is the share of histories that begin with an archive of some segments.
    """

    name: str
    weight: int
    actions: Mapping[str, int]
    errors: Errors = SERVICES
    faults: tuple[float, ...] = (0.0, 0.0, 0.1, 0.3)
    holdups: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5)
    skew: float = 150
    jumps: tuple[float, ...] = (-200, -20, 20, 200)
    trims: bool = False
    old_stream: bool = False
    healthy: bool = False
    sites: int = 1
    adopt: bool = False
    adopts_at_start: bool = False
    starts: tuple[str, ...] = ("plain", "plain", "oldest", "now", "past")
    steps: tuple[int, int] = (18, 40)
    first: tuple[str, ...] = ()
    prologue: float = 0.3


K = TypeVar("K", bound=Kind)

KINDS: Final = (
    Kind(
        name="healthy",
        weight=8,
        actions=_BASE | {"start": 0, "handover": 4, "restart": 3, "close": 1, "end": 4},
        errors=frozenset(),
        faults=(0.0,),
        holdups=(0.0,),
        healthy=True,
    ),
    Kind(
        name="steady", weight=1, actions={}, errors=frozenset(), faults=(0.0,), holdups=(0.0,), skew=0, healthy=True
    ),
    Kind(name="crashes", weight=12, actions=_FAULTY | {"kill": 9, "orphan": 3, "start": 11}),
    Kind(name="zombies", weight=18, actions=_FAULTY | {"start": 8, "handover": 4, "shutdown": 3}),
    Kind(
        name="first starts",
        weight=8,
        actions=_FAULTY | {"start": 12},
        errors=SERVICES | {SettingsError},
        first=("put", "start", "start", "start"),
        prologue=0,
        starts=("plain", "oldest", "now", "past", "latest"),
        steps=(10, 25),
    ),
    Kind(
        name="wiped lease table",
        prologue=0.7,
        weight=12,
        actions=_FAULTY | {"wipe": 7, "start": 8, "trim": 5, "restore": 1},
        errors=SERVICES | {SafetyRefusal},
        trims=True,
    ),
    Kind(
        name="restored checkpoints",
        prologue=0.7,
        weight=10,
        actions=_FAULTY | {"restore": 9, "start": 9, "jump": 6, "shutdown": 3},
        skew=4000,
        jumps=(-7200, -200, -20, 20, 200, 4000, 7200),
    ),
    Kind(
        name="clocks",
        weight=8,
        actions=_FAULTY | {"jump": 12, "suspend": 5, "start": 7},
        skew=7200,
        jumps=(-86_400, -7200, -400, 400, 7200, 86_400),
    ),
    Kind(
        name="outages of S3",
        weight=8,
        actions=_FAULTY | {"faults": 12, "throttle": 8, "land": 10, "start": 7},
        faults=(0.1, 0.3, 0.6, 1.0),
    ),
    Kind(
        name="retention",
        prologue=0.7,
        weight=12,
        actions=_FAULTY | {"trim": 8, "edge": 4, "retention": 3, "start": 8, "close": 1, "end": 4},
        errors=SERVICES | {SafetyRefusal, ShardEndUnproven},
        trims=True,
        old_stream=True,
    ),
    Kind(
        name="frozen for days",
        prologue=0.7,
        weight=7,
        actions=_FAULTY | {"days": 5, "expire": 2, "start": 8, "wipe": 1, "edge": 2},
        errors=SERVICES | {SafetyRefusal, ObjectVanished},
        holdups=(0.3, 0.5, 0.7),
        trims=True,
        old_stream=True,
    ),
    Kind(
        name="shard ends",
        prologue=0.7,
        weight=10,
        actions=_FAULTY | {"close": 4, "end": 14, "false end": 5, "start": 7},
        errors=SERVICES | {ShardEndUnproven},
    ),
    Kind(
        name="foreign streams",
        weight=5,
        actions=_FAULTY | {"start": 14, "recreate": 2, "false end": 3},
        errors=SERVICES | {SafetyRefusal, ShardEndUnproven},
        sites=2,
        steps=(15, 30),
    ),
    Kind(
        name="adopted checkpoints",
        weight=4,
        actions=_FAULTY | {"start": 12, "close": 1, "end": 4},
        errors=SERVICES | {SafetyRefusal, ShardEndUnproven},
        adopts_at_start=True,
        prologue=0,
        starts=("plain",),
        steps=(12, 30),
    ),
)


def kind_of(seed: int) -> Kind:
    """Return the kind of a seed: dealt in turn, so that every stretch of seeds holds every kind."""
    return _DEALT[seed % len(_DEALT)]


def deal(kinds: Sequence[K]) -> tuple[K, ...]:
    """Return a round of kinds in which each comes as often as its weight, evenly spread."""
    total = sum(kind.weight for kind in kinds)
    rounds = [
        ((number + 0.5) * total / kind.weight, kind.name, kind) for kind in kinds for number in range(kind.weight)
    ]
    return tuple(kind for _, _, kind in sorted(rounds, key=lambda one: one[:2]))


_DEALT: Final = deal(KINDS)
