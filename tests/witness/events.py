"""The log events of the processes under test: read as they are written, and waited for."""

import json
import threading
from collections.abc import Callable
from typing import IO, Any

from tests.witness.waiting import PATIENCE_SECONDS

Event = dict[str, Any]


class EventLog:
    """Lines of a process's stderr. JSON lines are events; the rest is kept for error messages."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._news = threading.Condition()
        self._events: list[Event] = []
        self._lines: list[str] = []
        self._ended = False
        self._pump = threading.Thread(target=self._read, daemon=True)
        self._pump.start()

    def mark(self) -> int:
        """Return the present end of the log; give it as `since` to look at later events only."""
        with self._news:
            return len(self._events)

    def all(self, name: str, *, since: int = 0, before: Event | None = None, **fields: object) -> list[Event]:
        """Return the events of this name whose fields have these values, all or those before another event."""
        with self._news:
            until = len(self._events) if before is None else self._events.index(before)
            return self._find(name, since, fields, until)

    def last(self, *names: str, **fields: object) -> str | None:
        """Return which of these events, with these values, came last; None when none did."""
        with self._news:
            found = (event for event in reversed(self._events) if event.get("event") in names)
            matching = (event for event in found if all(event.get(key) == value for key, value in fields.items()))
            return next((str(event["event"]) for event in matching), None)

    def wait(
        self,
        name: str,
        *,
        seconds: float = PATIENCE_SECONDS,
        since: int = 0,
        where: Callable[[Event], bool] | None = None,
        **fields: object,
    ) -> Event:
        """Return the first such event, as soon as it is there.

        Raises:
            AssertionError: it did not come in time, or the process closed its stderr without it.
        """
        found: list[Event] = []

        def is_there() -> bool:
            found[:] = [event for event in self._find(name, since, fields) if where is None or where(event)]
            return bool(found) or self._ended

        with self._news:
            self._news.wait_for(is_there, seconds)
            why = "the process ended without" if self._ended else f"{seconds:g} s without"
            assert found, f"{why} {name} {fields}; the last lines:\n" + "\n".join(self._lines[-15:])
            return found[0]

    def join(self) -> None:
        """Wait until the pipe is at its end; every line is then in."""
        self._pump.join(PATIENCE_SECONDS)

    @property
    def tail(self) -> str:
        """The last lines, for messages."""
        with self._news:
            return "\n".join(self._lines[-30:])

    @property
    def lines(self) -> list[str]:
        """All lines."""
        with self._news:
            return list(self._lines)

    @property
    def foreign_lines(self) -> list[str]:
        """The lines that are no JSON objects."""
        with self._news:
            return [line for line in self._lines if not line.startswith("{")]

    def _find(self, name: str, since: int, fields: dict[str, object], until: int | None = None) -> list[Event]:
        return [
            event
            for event in self._events[since:until]
            if event.get("event") == name and all(event.get(key) == value for key, value in fields.items())
        ]

    def _read(self) -> None:
        with self._pipe:
            for line in self._pipe:
                self._take(line.decode(errors="replace").rstrip("\n"))
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _take(self, line: str) -> None:
        try:
            event = json.loads(line) if line.startswith("{") else None
        except ValueError:
            event = None
        with self._news:
            self._lines.append(line)
            if isinstance(event, dict):
                self._events.append(event)
            self._news.notify_all()
