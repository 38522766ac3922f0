"""The scenarios of histories: which events happen in them, how often, and which errors may end a processor.

Seeds are dealt to scenarios by weight, so that each rare thing gets a scenario in which it is common.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, TypeVar

from minutebook.errors import (
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


@dataclass(frozen=True)
class Scenario:
    """What happens in some histories: events by name, each as often as its number says.

    `skew` and `jumps` are seconds of wall clocks; `trims` says that records may be trimmed, `pauses` that virtual
    machines are paused without their knowing, and that services refuse whoever is a quarter of an hour off.
    `starts` are the ways in which the application may be started: "plain" is a processor without `consume`.
    `prologue` is the share of histories that begin with an archive of some segments.
    """

    name: str
    weight: int
    actions: Mapping[str, int]
    _: KW_ONLY
    errors: Errors = SERVICES
    faults: tuple[float, ...] = (0.0, 0.0, 0.1, 0.3)
    holdups: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5)
    skew: float = 150
    jumps: tuple[float, ...] = (-200, -20, 20, 200)
    trims: bool = False
    pauses: bool = False
    old_stream: bool = False
    healthy: bool = False
    sites: int = 1
    adopts_at_start: bool = False
    starts: tuple[str, ...] = ("plain", "plain", "oldest", "now", "past")
    steps: tuple[int, int] = (18, 40)
    first: tuple[str, ...] = ()
    prologue: float = 0.3

    @property
    def is_calm(self) -> bool:
        """Tell whether nothing happens that anything could be blamed on."""
        return self.healthy


S = TypeVar("S", bound=Scenario)

SCENARIOS: Final = (
    Scenario(
        "healthy",
        8,
        _BASE | {"start": 0, "handover": 4, "restart": 3, "close": 1, "end": 4},
        errors=frozenset(),
        faults=(0.0,),
        holdups=(0.0,),
        healthy=True,
    ),
    Scenario("steady", 1, {}, errors=frozenset(), faults=(0.0,), holdups=(0.0,), skew=0, healthy=True),
    Scenario("crashes", 12, _FAULTY | {"kill": 9, "orphan": 3, "start": 11}),
    Scenario("zombies", 18, _FAULTY | {"start": 8, "handover": 4, "shutdown": 3}),
    Scenario(
        "first starts",
        8,
        _FAULTY | {"start": 12},
        errors=SERVICES | {SettingsError},
        first=("put", "start", "start", "start"),
        prologue=0,
        starts=("plain", "oldest", "now", "past", "latest"),
        steps=(10, 25),
    ),
    Scenario(
        "wiped lease table",
        12,
        _FAULTY | {"wipe": 7, "start": 8, "trim": 5, "restore": 1},
        prologue=0.7,
        errors=SERVICES | {SafetyRefusal},
        trims=True,
    ),
    Scenario(
        "restored checkpoints",
        10,
        _FAULTY | {"restore": 9, "start": 9, "jump": 6, "shutdown": 3},
        prologue=0.7,
        skew=4000,
        jumps=(-7200, -200, -20, 20, 200, 4000, 7200),
    ),
    Scenario(
        "clocks",
        8,
        _FAULTY | {"jump": 12, "suspend": 5, "start": 7},
        skew=7200,
        jumps=(-86_400, -7200, -400, 400, 7200, 86_400),
    ),
    Scenario(
        "outages of S3",
        8,
        _FAULTY | {"faults": 12, "throttle": 8, "land": 10, "start": 7},
        faults=(0.1, 0.3, 0.6, 1.0),
    ),
    Scenario(
        "retention",
        12,
        _FAULTY | {"trim": 8, "edge": 4, "retention": 3, "start": 8, "close": 1, "end": 4},
        prologue=0.7,
        errors=SERVICES | {SafetyRefusal, ShardEndUnproven},
        trims=True,
        old_stream=True,
    ),
    Scenario(
        "frozen for days",
        7,
        _FAULTY | {"days": 5, "expire": 2, "start": 8, "wipe": 1, "edge": 2},
        prologue=0.7,
        errors=SERVICES | {SafetyRefusal, ObjectVanished},
        holdups=(0.3, 0.5, 0.7),
        trims=True,
        old_stream=True,
    ),
    Scenario(
        "paused machines",
        7,
        _FAULTY | {"pause": 10, "days": 8, "expire": 4, "start": 10, "kill": 1},
        first=("put", "start", "deliver", "pause", "start", "deliver", "put", "minute", "deliver"),
        errors=SERVICES | {SafetyRefusal, ObjectVanished},
        faults=(0.0, 0.1),
        holdups=(0.0, 0.1, 0.3),
        trims=True,
        pauses=True,
    ),
    Scenario(
        "shard ends",
        10,
        _FAULTY | {"close": 4, "end": 14, "false end": 5, "start": 7},
        prologue=0.7,
        errors=SERVICES | {ShardEndUnproven},
    ),
    Scenario(
        "foreign streams",
        5,
        _FAULTY | {"start": 14, "recreate": 2, "false end": 3},
        errors=SERVICES | {SafetyRefusal, ShardEndUnproven},
        sites=2,
        steps=(15, 30),
    ),
    Scenario(
        "adopted checkpoints",
        4,
        _FAULTY | {"start": 12, "close": 1, "end": 4},
        errors=SERVICES | {SafetyRefusal, ShardEndUnproven},
        adopts_at_start=True,
        prologue=0,
        starts=("plain",),
        steps=(12, 30),
    ),
)


def scenario_of(seed: int) -> Scenario:
    """Return the scenario of a seed: dealt in turn, so that every stretch of seeds holds every scenario."""
    return _DEALT[seed % len(_DEALT)]


def deal(scenarios: Sequence[S]) -> tuple[S, ...]:
    """Return a round of scenarios in which each comes as often as its weight, evenly spread."""
    total = sum(scenario.weight for scenario in scenarios)
    rounds = [
        ((number + 0.5) * total / scenario.weight, scenario.name, scenario)
        for scenario in scenarios
        for number in range(scenario.weight)
    ]
    return tuple(scenario for _, _, scenario in sorted(rounds, key=lambda dealt: dealt[:2]))


_DEALT: Final = deal(SCENARIOS)
