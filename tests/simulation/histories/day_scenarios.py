"""The scenarios of histories that last for days: quiet and busy shards, outages, redeploys, splits by midnight."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final

from minutebook.errors import ObjectVanished, SafetyRefusal, ShardEndUnproven
from tests.simulation.histories.scenarios import SERVICES, deal
from tests.simulation.histories.sharded_scenarios import ShardedScenario
from tests.simulation.modes import Mode

QUIET: Final = 0.0


@dataclass(frozen=True)
class DayScenario(ShardedScenario):
    """What happens in some histories of several days.

    `acts` are what may happen in a step, each with its share of the steps. `means` are the mean hours between two
    records of a shard (`QUIET`: none ever come); `redeploys` the minutes between two deployments. `resharded` streams
    had been split before the application began. `calm`: each day must be clean in its night, and a shard gets at most
    25 read marks a day. A history has at most `max_shards`.
    """

    _: KW_ONLY
    acts: dict[str, float]
    days: tuple[int, int] = (2, 4)
    max_shards: int = 5
    means: tuple[float, ...] = (QUIET, 0.1, 1.0, 7.0, 15.0)
    redeploys: tuple[int | None, ...] = (None, 50, 400)
    retentions: tuple[int, ...] = (24, 24, 48, 168)
    resharded: float = 0.3
    calm: bool = False

    @property
    def is_calm(self) -> bool:
        """Tell whether nothing happens that anything could be blamed on."""
        return self.calm


_ERRORS: Final = SERVICES | {ShardEndUnproven, SafetyRefusal, ObjectVanished}
_STARTS: Final = ("now", "now", "past", "oldest", "plain")
_days = partial(
    DayScenario,
    actions={"put": 1},
    errors=_ERRORS,
    dedupe=None,
    trims=True,
    starts=_STARTS,
    faults=(0.0,),
    holdups=(0.0,),
    jumps=(-86_400, -7200, -400, 400, 7200, 86_400),
)
_FAULTY: Final = {"kill": 0.05, "reshard": 0.02, "land": 0.05}

DAY_SCENARIOS: Final = deal(
    (
        _days("days, calm", 3, acts={}, calm=True, starts=("now", "past", "oldest"), skew=60),
        _days(
            "days, resharding",
            4,
            acts={"reshard": 0.06, "reshard by midnight": 0.5, "outage of a shard": 0.08},
            roots=3,
            max_shards=9,
        ),
        _days("days, outages", 5, acts=_FAULTY | {"outage": 0.06, "outage of a shard": 0.05}, roots=2),
        _days(
            "days, retention dips",
            4,
            acts=_FAULTY | {"outage": 0.06, "outage of a shard": 0.05, "dip": 0.08},
            retentions=(168,),
            days=(4, 7),
        ),
        _days(
            "days, frozen hosts",
            4,
            acts=_FAULTY | {"freeze": 0.1, "outage": 0.02, "dip": 0.02},
            holdups=(0.0, 0.1, 0.3),
        ),
        _days(
            "days, paused machines",
            4,
            acts=_FAULTY | {"pause": 0.1, "outage": 0.02},
            holdups=(0.0, 0.1, 0.3),
            pauses=True,
            skew=60,
        ),
        _days("days, wrong clocks", 3, acts=_FAULTY | {"jump": 0.2, "outage": 0.03}, skew=86_400.0 * 2),
        _days(
            "days, faults",
            4,
            acts=_FAULTY | {"faults": 0.2, "throttle": 0.2, "outage": 0.03},
            faults=(0.0, 0.1, 0.4, 1.0),
        ),
        _days("days, lost lease tables", 3, acts=_FAULTY | {"lose leases": 0.05, "outage": 0.04}),
    )
)


_month = partial(
    _days, days=(31, 31), means=(QUIET,), redeploys=(50,), retentions=(24,), starts=("now",), resharded=0, skew=60
)
_RARELY: Final = {"reshard by midnight": 0.02}
CALM_MONTH: Final = _month("a quiet month", 1, acts={}, calm=True)
MONTH_SCENARIOS: Final = deal(
    (
        CALM_MONTH,
        _month("a month of few records", 1, acts={}, calm=True, means=(7,)),
        _month("a quiet month, resharded before", 1, acts={}, calm=True, resharded=1),
        _month("a quiet month, resharded by midnight", 1, acts=_RARELY, calm=True, max_shards=12),
        _month("a quiet month, outages", 1, acts={"outage": 0.01, "kill": 0.01}, means=(QUIET, 7)),
        _month("a quiet month, dips", 1, acts={"outage": 0.01, "dip": 0.01}, means=(7,), retentions=(168,)),
        _month("a quiet month, frozen hosts", 1, acts={"freeze": 0.01, "pause": 0.01}, means=(7,), pauses=True),
        _month("a quiet month, wrong clocks", 1, acts={"jump": 0.02}, skew=172_800.0),
        _month("a quiet month, everything", 2, acts=_RARELY | {"outage": 0.01, "freeze": 0.01}, means=(QUIET, 7)),
    )
)


def day_scenario_of(mode: Mode, seed: int) -> DayScenario:
    """Return the scenario of a seed of a mode."""
    dealt = DAY_SCENARIOS if mode == "days" else MONTH_SCENARIOS
    return dealt[seed % len(dealt)]
