"""The log of a run: one JSON line per happening, and the same in words on the terminal."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self

from minutebook.clock import Clock


class Strike(NamedTuple):
    """A fault that was really carried out: its kind, when (epoch ms), and the shards it may have stopped.

    Where `successors` is given, a shard has recovered when one of these workers has committed.
    """

    kind: str
    at_ms: int
    shards: frozenset[str]
    successors: frozenset[str] | None = None


class Timeline:
    """Writes what happens to `timeline.jsonl` of the run's folder; keeps the strikes."""

    def __init__(self, folder: Path, clock: Clock, *, is_loud: bool) -> None:
        self._file = (folder / "timeline.jsonl").open("a", encoding="ascii")
        self._clock = clock
        self._begun = clock.monotonic()
        self._is_loud = is_loud
        self.strikes: list[Strike] = []
        self.skipped: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return self._clock.monotonic() - self._begun

    def note(self, event: str, **ids: object) -> None:
        """Write one line."""
        row = {"seconds": round(self.seconds, 2), "at_ms": self._clock.now_ms(), "event": event, **ids}
        self._file.write(json.dumps(row, default=str) + "\n")
        self._file.flush()
        if self._is_loud:
            words = " ".join(f"{name}={value}" for name, value in ids.items() if value not in (None, [], ""))
            print(f"{self.seconds:7.1f} s  {event}  {words}", flush=True)  # noqa: T201 - what the run shows

    def strike(
        self, kind: str, shards: Iterable[str], *, successors: Iterable[str] | None = None, **ids: object
    ) -> None:
        """Write down a fault at the moment it happens."""
        struck = frozenset(shards)
        self.strikes.append(
            Strike(kind, self._clock.now_ms(), struck, None if successors is None else frozenset(successors))
        )
        self.note(kind, **ids, shards=sorted(struck))

    def skip(self, kind: str, why: str) -> None:
        """Write down an act that could not be played."""
        self.skipped.append(kind)
        self.note("skipped", act=kind, why=why)
