"""`minutebook consume DIR`: one thread for each stream, and the main thread for signals and processes.

files of the folder    each is checked by itself: an error is this stream's, and the others run
opened                 checks and starts of all streams, a few at a time
the first start        when all are opened or refused: the open shards of all are known, and so the bounds; the
                       fork server prepares the settings of all before its first fork
a signal               one deadline for all streams
the end                with the worst exit code; also when all streams have given up
"""

import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import structlog

from consumer.boundaries.pool import JobPool
from consumer.child_logs.kcl_log import Skipped, read_kcl_line
from consumer.child_logs.processor_log import POLL_SECONDS, read_event
from consumer.daemon.consume import KILL_MARGIN_SECONDS, daemon_environment, find_logback
from consumer.daemon.fork_server import ForkPlan
from consumer.daemon.opened import is_forked
from consumer.daemon.prepared.classes import find_classes
from consumer.daemon.prepared.jvm_flags import jvm_flags
from consumer.daemon.process import ChildOutput, allow_descriptors, fleet_command
from consumer.daemon.supervisor import StopSignals, listen, log_late
from consumer.fleet.bounds import OpenShards, check_fleet
from consumer.fleet.host import FleetHost, HostPlan
from consumer.fleet.outputs import fleet_watched
from consumer.fleet.stream import FleetStream, Shared
from consumer.leases.hand_over import HandedCounts
from consumer.monitoring import log_lines
from consumer.preflight.java import find_jars, find_java
from consumer.settings.settings import LoadedSettings, load_with_kcl
from consumer.worker.worker_id import stable_worker_id
from minutebook.aws.clients import share_clients
from minutebook.clock import Clock, SystemClock
from minutebook.errors import MinutebookError, worst
from minutebook.logs import configure_logging
from minutebook.properties_folder import PropertiesFolder

_OPEN_SECONDS: Final = 120.0
"""A stream whose services do not answer is opened later, and the others do not wait for it any longer."""
_LAST_SECONDS: Final = 30.0
"""For what each stream does behind the end of the daemon: last rows, and its leases."""
_PLAIN_GRACE_SECONDS: Final = 25.0
_OPENING: Final = 8
"""More would not be quicker; and Kinesis answers twenty DescribeStreamSummary a second and account."""
_BOUNDARY_THREADS: Final = 16
"""For all streams: a request that is answered takes a hundredth of a second, one that hangs up to a minute."""


def consume_folder(folder: PropertiesFolder, environ: Mapping[str, str], state_folder: Path | None) -> int:
    """Run the fleet; return the exit code. Raises SettingsError if the streams cannot be one."""
    log = structlog.get_logger()
    usable: dict[str, LoadedSettings] = {}
    codes: list[int] = []
    for file in folder.streams:
        try:
            usable[file.name] = load_with_kcl(file.settings(), environ)
        except MinutebookError as exc:
            codes.append(exc.exit_code)
            log.error(  # noqa: TRY400 - the message and the next step explain it without a stack
                "stream_not_opened",
                properties=file.name,
                error=str(exc),
                next_step=exc.next_step or "correct what the error names, and start again",
                exit_code=exc.exit_code,
            )
    check_fleet(folder.name, {name: loaded.settings for name, loaded in usable.items()}, len(folder.streams))
    if not usable:
        return worst(codes)
    configure_logging(next(iter(usable.values())).settings.log_level)
    allow_descriptors()
    share_clients()
    fleet = Fleet(folder.name, usable, environ, state_folder, SystemClock())
    return worst([*codes, fleet.run()])


class _Mdc(msgspec.Struct):
    mdc: dict[str, str] = {}


class Fleet:
    """The streams of a folder. Main thread only: it owns the signals, and starts the processes."""

    def __init__(
        self,
        folder: str,
        usable: Mapping[str, LoadedSettings],
        environ: Mapping[str, str],
        state_folder: Path | None,
        clock: Clock,
    ) -> None:
        self._folder = folder
        self._environ = environ
        self._clock = clock
        self._level = next(iter(usable.values())).settings.log_level
        self._shards = OpenShards()
        output = ChildOutput(sys.stdout.buffer, sys.stderr.buffer, self._read_output, self._read_line)
        self._host = FleetHost(self._plan, output, self._shards.check_heap, clock)
        self._pool = JobPool(clock, threads=_BOUNDARY_THREADS)
        opening = threading.Semaphore(_OPENING)
        shared = Shared(self._host, self._shards, HandedCounts(), self._pool, opening)
        self._streams = {
            name: FleetStream(name, loaded, environ, state_folder, shared, clock) for name, loaded in usable.items()
        }
        self._log = structlog.get_logger()

    def run(self) -> int:
        """Run until a signal, or until all streams have given up; return the worst exit code."""
        streams = list(self._streams.values())
        worker = stable_worker_id(self._environ)
        name = Path(self._folder).resolve().name
        with listen() as signals, fleet_watched(name, streams, worker, self._clock), self._pool.running():
            self._log.info("fleet_opening", folder=self._folder, streams=len(streams))
            for stream in streams:
                stream.start()
            try:
                self._await(signals, lambda: all(each.is_opened_or_refused.is_set() for each in streams))
                self._shards.check(self._folder)
                for stream in streams:
                    stream.begin()
                self._await(signals, lambda: self._all_wait(streams))
                self._serve(signals, streams)
            finally:
                self._host.stop()
                self._host.reap()
                for stream in streams:
                    stream.begin()
                until = self._clock.monotonic() + _LAST_SECONDS
                late = [each.name for each in streams if not each.join(max(0.0, until - self._clock.monotonic()))]
                if late:
                    self._log.warning("streams_late", streams=late, next_step="nothing: no record is lost")
        code = worst(each.code for each in streams)
        write = self._log.info if code == 0 else self._log.error
        write("fleet_stopped", exit_code=code, codes={each.name: each.code for each in streams if each.code})
        return code

    def _serve(self, signals: StopSignals, streams: Sequence[FleetStream]) -> None:
        """Keep the processes running while a stream wants them; return when all has ended."""
        asked_at: float | None = None
        grace_seconds = self._grace_seconds()
        while True:
            self._host.look()
            run = self._host.run
            if asked_at is None and signals.received:
                asked_at = self._clock.monotonic()
                self._log.info("stopping", signal=signals.received[0].name, grace_seconds=grace_seconds)
                self._host.stop()
            if asked_at is not None:
                if run is None:
                    return
                waited = self._clock.monotonic() - asked_at
                if waited >= grace_seconds or signals.received[1:].count(signal.SIGINT):
                    self._host.reap(log_late(round(waited, 1)))
                    return
            elif all(each.has_given_up for each in streams):
                return
            elif run is None and self._host.waiting:
                self._host.start()
            run = self._host.run
            signals.wait([] if run is None else run.exit_descriptors, POLL_SECONDS)

    def _await(self, signals: StopSignals, is_done: Callable[[], bool]) -> None:
        """Wait for all streams, but not for ever; or for a signal."""
        until = self._clock.monotonic() + _OPEN_SECONDS
        while not is_done() and not signals.received and self._clock.monotonic() < until:
            signals.wait([], POLL_SECONDS / 5)

    def _all_wait(self, streams: Sequence[FleetStream]) -> bool:
        """Return whether no stream has to be waited for before the first start: the file of each is written."""
        waiting = self._host.waiting
        return all(each.has_given_up or each.name in waiting for each in streams)

    def _grace_seconds(self) -> float:
        return self._longest_grace() + KILL_MARGIN_SECONDS

    def _longest_grace(self) -> float:
        graces = [each.opened.grace_seconds for each in self._streams.values() if each.opened is not None]
        return max(graces, default=_PLAIN_GRACE_SECONDS)

    def _plan(self) -> HostPlan:
        """Return what to run. The fork server prepares the streams that are open, and serves later ones, too."""
        opened = {name: each.opened for name, each in self._streams.items() if each.opened is not None}
        first = next(iter(opened.values()))
        access = first.loaded.settings.access
        socket = first.socket if any(is_forked(each.loaded) for each in self._streams.values()) else None
        environment = daemon_environment(self._environ, first.effective, access, socket)
        files = {name: each.effective for name, each in opened.items() if is_forked(each.loaded)}
        java = find_java(self._environ).program
        return HostPlan(
            command=fleet_command(
                java,
                jvm_flags(self._environ),
                find_classes(java, find_jars()),
                first.effective.parent,
                find_logback(Path(self._folder, "x")),
                self._longest_grace(),
            ),
            environment=environment,
            forks=None if socket is None else ForkPlan(socket, files, environment),
            keep_open=[each.worker.lock for each in self._streams.values() if each.worker is not None],
        )

    def _read_line(self, line: bytes) -> bytes:
        """Take a line of the processors or of the fork server; return it for our log, or nothing."""
        event = read_event(line)
        stream = None if event is None else self._streams.get(event.properties)
        if event is not None and stream is not None:
            stream.note(event)
        return log_lines.of_processor(line, self._level, self._clock.now_ms())

    def _read_output(self, line: bytes) -> bytes:
        """Take a line of the JVM; return it for our log, or nothing."""
        if self._host.read_answer(line):
            return b""
        stream = self._streams.get(_stream_of(line))
        if stream is not None:
            stream.read_output(line)
        elif (event := read_kcl_line(line)) is not None and event.skipped is Skipped.NOTHING:
            for each in self._streams.values():
                each.note_skipped(event)
        return log_lines.of_daemon(line, self._level, self._clock.now_ms())


def _stream_of(line: bytes) -> str:
    """Return the stream that logged a line of KCL; empty if it says none."""
    try:
        return msgspec.json.decode(line, type=_Mdc).mdc.get(log_lines.STREAM, "")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
