"""Decide what the supervisor does after the daemon has ended. Pure.

    asked to stop, ended as asked ............ stop, 0; also if a processor was killed before that
    asked to stop, a processor failed ........ stop, that processor's code
    asked to stop, killed after the grace, or
      a processor was killed while stopping .. stop, 1
    a processor refused (code 2, 4, 6) or KCL
      lacks a permission (2) ................. restart once, then give up with that code: a person must act
    a shard was left without a reader ........ restart twice, then give up: a restart does not help
    anything else, also code 0 ............... restart at once, then after 2, 4 ... 60 s; give up after 6 in a row

The daemon exits 0 by itself when it cannot initialise, which is a crash like any other. A run that lasted twice as
long as a processor may wait for the store is healthy, and the counts start at 0 again.
"""

import signal
from dataclasses import dataclass
from typing import Final

from consumer.child_logs.processor_log import ProcessorEvent

UNREAD: Final = "shard_without_reader"
_REFUSALS: Final = frozenset({2, 4, 6})
_OUR_CODES: Final = frozenset({1, 2, 4, 5, 6})
_QUIET_CRASHES: Final = 2
"""One crash or two need no person; a refusal does."""
_WAIT: Final = "nothing yet: it is started again, and consume gives up after {} crashes in a row"
_STOPPED: Final = frozenset({0, 143, -15})
"""The daemon's exit codes after SIGTERM: 143 from Java, -15 before it has installed its hook."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RestartLimits:
    """Limits and waits of restarts."""

    healthy_seconds: float = 660
    second_wait_seconds: float = 2
    """There is no wait after the first crash: a start takes some seconds, and its shards wait."""
    longest_wait_seconds: float = 60
    crashes_in_a_row: int = 6
    refusals_in_a_row: int = 2
    unread_in_a_row: int = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonExit:
    """How one run of the daemon ended.

    `code` is negative for a signal. `failure` is the first one that a processor logged; `evidence` the cause where
    none did (see `run_notes`); `last_error` KCL's last logged error. `left_in_order`: all processors left as asked,
    except some killed before, for which the daemon waited. `killed_stopping` is a processor that was killed after it
    was asked to commit.
    """

    code: int
    ran_seconds: float
    stop_requested: bool
    failure: ProcessorEvent | None = None
    evidence: ProcessorEvent | None = None
    last_error: str = ""
    left_in_order: bool = False
    killed_stopping: ProcessorEvent | None = None

    @property
    def cause(self) -> ProcessorEvent | None:
        """The most certain cause that is known."""
        return self.failure or (None if self.stop_requested else self.evidence)


@dataclass(frozen=True, slots=True)
class EndSupervisor:
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
    next_step: str = ""


class RestartPolicy:
    """Counts crashes in a row and decides."""

    def __init__(self, limits: RestartLimits) -> None:
        self._limits = limits
        self._crashes = 0
        self._refusals = 0
        self._unread = 0

    def after(self, ended: DaemonExit) -> EndSupervisor | Restart:
        """Return what to do after `ended`."""
        if ended.stop_requested:
            return _after_request(ended)
        if ended.ran_seconds >= self._limits.healthy_seconds:
            self._crashes = self._refusals = self._unread = 0
        self._crashes += 1
        refused = ended.cause is not None and ended.cause.exit_code in _REFUSALS
        self._refusals = self._refusals + 1 if refused else 0
        unread = ended.cause is not None and ended.cause.event == UNREAD
        self._unread = self._unread + 1 if unread else 0
        patience_spent = (
            self._crashes >= self._limits.crashes_in_a_row
            or self._refusals >= self._limits.refusals_in_a_row
            or self._unread >= self._limits.unread_in_a_row
        )
        if patience_spent:
            return _give_up(ended)
        wait = self._limits.second_wait_seconds * 2.0 ** (self._crashes - 2) if self._crashes > 1 else 0
        stop = _give_up(ended)
        is_quiet = self._crashes <= _QUIET_CRASHES and not refused
        next_step = _WAIT.format(self._limits.crashes_in_a_row) if is_quiet else stop.next_step
        return Restart(min(wait, self._limits.longest_wait_seconds), self._crashes, stop.reason, next_step)


def _after_request(ended: DaemonExit) -> EndSupervisor:
    if ended.failure is not None:
        return _give_up(ended)
    if (killed := ended.killed_stopping) is not None:
        return EndSupervisor(1, f"{killed.error}, when it had been asked to commit", killed.next_step)
    if ended.code in _STOPPED or ended.left_in_order:
        return EndSupervisor(0, "the daemon stopped as asked")
    reason = ended.evidence.error if ended.evidence is not None else f"the daemon ended with {_name_of(ended.code)}"
    return EndSupervisor(
        1,
        f"{reason}, and not in order",
        "nothing is lost: what was not committed is delivered again; if it happens again, raise shutdownGraceMillis "
        "and the container's stop time-out",
    )


def _give_up(ended: DaemonExit) -> EndSupervisor:
    if ended.cause is not None:
        code = ended.cause.exit_code
        return EndSupervisor(code if code in _OUR_CODES else 1, ended.cause.error, ended.cause.next_step)
    kcl_error = f"; KCL's last error: {ended.last_error}" if ended.last_error else ""
    if ended.code == 0:
        return EndSupervisor(
            1,
            f"the daemon could not initialise: it ended by itself with code 0{kcl_error}",
            "mend what KCL's last error names (its log on stdout has all of them), and run minutebook doctor: "
            "usually the lease table, a permission, or the stream's shards",
        )
    return EndSupervisor(
        1,
        f"the daemon crashed ({_name_of(ended.code)}){kcl_error}",
        "look at what the daemon printed before it ended, on stdout and stderr; run minutebook doctor",
    )


def _name_of(code: int) -> str:
    """Return the exit code in words, a signal by its name."""
    if code >= 0:
        return f"code {code}"
    try:
        return f"{signal.Signals(-code).name} that the supervisor did not send"
    except ValueError:
        return f"signal {-code}"
