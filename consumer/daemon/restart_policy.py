"""What the supervisor does after the daemon has ended. Pure: the facts come in, a decision goes out.

    asked to stop, ended as asked ............ stop, 0
    asked to stop, a processor failed ........ stop, that processor's code
    asked to stop, had to be killed .......... stop, 1
    a processor refused (code 2 or 6) ........ once more, then give up with that code: a person must act
    anything else, also code 0 ............... again, waiting 1, 2, 4 ... 60 s; give up after 6 in a row

The daemon exits 0 by itself when it cannot initialise; unasked, that is a crash like any other. A run counts as
healthy, and the counting starts again, when it lasted longer than a processor may wait for the store, twice.
"""

from dataclasses import dataclass
from typing import Final

from consumer.daemon.processor_log import ProcessorEvent

_REFUSALS: Final = frozenset({2, 6})
_OUR_CODES: Final = frozenset({1, 2, 5, 6})
_STOPPED: Final = frozenset({0, 143, -15})
"""What a daemon ends with after SIGTERM: 143 from Java, -15 when it had not installed its hook yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RestartLimits:
    """How patient the supervisor is."""

    healthy_seconds: float = 660
    first_wait_seconds: float = 1
    longest_wait_seconds: float = 60
    crashes_in_a_row: int = 6
    refusals_in_a_row: int = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonExit:
    """How one run of the daemon ended. `code` is negative for a signal; `failure` the first that a child told."""

    code: int
    ran_seconds: float
    asked: bool
    failure: ProcessorEvent | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """End the supervisor."""

    exit_code: int
    reason: str
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Restart:
    """Start the daemon again after `wait_seconds`."""

    wait_seconds: float
    crashes_in_a_row: int
    reason: str


class RestartPolicy:
    """Counts crashes in a row and decides."""

    def __init__(self, limits: RestartLimits) -> None:
        self._limits = limits
        self._crashes = 0
        self._refusals = 0

    def after(self, ended: DaemonExit) -> Stop | Restart:
        """Return what to do after `ended`."""
        if ended.asked:
            return _after_request(ended)
        if ended.ran_seconds >= self._limits.healthy_seconds:
            self._crashes = self._refusals = 0
        self._crashes += 1
        refused = ended.failure is not None and ended.failure.exit_code in _REFUSALS
        self._refusals = self._refusals + 1 if refused else 0
        patience_spent = (
            self._crashes >= self._limits.crashes_in_a_row or self._refusals >= self._limits.refusals_in_a_row
        )
        if patience_spent:
            return _give_up(ended)
        wait = self._limits.first_wait_seconds * 2.0 ** (self._crashes - 1)
        return Restart(min(wait, self._limits.longest_wait_seconds), self._crashes, _give_up(ended).reason)


def _after_request(ended: DaemonExit) -> Stop:
    if ended.failure is not None:
        return _give_up(ended)
    if ended.code in _STOPPED:
        return Stop(0, "the daemon stopped as asked")
    return Stop(
        1,
        f"the daemon did not stop in order (code {ended.code})",
        "nothing is lost: what was not committed is delivered again; look at the lines before this one",
    )


def _give_up(ended: DaemonExit) -> Stop:
    if ended.failure is not None:
        code = ended.failure.exit_code
        return Stop(code if code in _OUR_CODES else 1, ended.failure.error, ended.failure.next_step)
    if ended.code == 0:
        return Stop(
            1,
            "the daemon could not initialise: it ended by itself with code 0",
            "read its log on stdout: usually the lease table, permissions, or the stream's shards",
        )
    return Stop(1, f"the daemon crashed (code {ended.code})", "read its log on stdout; run minutebook doctor")
