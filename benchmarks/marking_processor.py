"""`minutebook-processor` that marks far more often than in production, in turns, and notes what each call took.

Started by the daemon as `marking_processor.py NOTES WINDOW_SECONDS EVERY_SECONDS PROPERTIES`. In every other window
a mark is due so many seconds after the one before; the rest is the product's own. Each call without or with records
becomes a line of NOTES/<shard id>: a `Call`.
"""

import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TextIO

import msgspec

_REFUSED = 400
_ABSENT = 404
_MINUTE_MS = 60_000


class Call(msgspec.Struct, array_like=True):
    """One call of processRecords: when it was answered, the seconds it took, and the requests sent meanwhile."""

    at_ms: int
    seconds: float
    records: int
    requests: dict[str, int]
    refused: int = 0


def is_marking(at_ms: int, window_seconds: int) -> bool:
    """Tell whether marks are written in the window that a time lies in."""
    return at_ms // (window_seconds * 1000) % 2 == 1


class _Requests:
    """Counts this process's requests by operation, where botocore sends them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent = Counter[str]()
        self._refused = 0

    def sent(self, event_name: str = "", **_: object) -> None:
        with self._lock:
            self._sent[event_name.rpartition(".")[2]] += 1

    def answered(self, response_dict: dict[str, int] | None = None, **_: object) -> None:
        with self._lock:
            status = _ABSENT if response_dict is None else response_dict["status_code"]
            self._refused += status >= _REFUSED and status != _ABSENT

    def taken(self) -> tuple[dict[str, int], int]:
        with self._lock:
            found = dict(self._sent), self._refused
            self._sent.clear()
            self._refused = 0
            return found


def _meter(notes: Path, window_seconds: int, every_seconds: int) -> None:
    """Put the measurement around the product's own parts, before `main` takes them."""
    from archive.aws import aws_session  # noqa: PLC0415 - as `consumer.main`
    from archive.clock import SystemClock  # noqa: PLC0415
    from consumer.evidence import read_marks  # noqa: PLC0415
    from consumer.pipe.messages import Initialize  # noqa: PLC0415
    from consumer.processor import processor  # noqa: PLC0415
    from consumer.processor.protocol import Batch  # noqa: PLC0415

    clock, requests = SystemClock(), _Requests()
    events = aws_session().events
    events.register("before-send", requests.sent)
    events.register("before-parse", requests.answered)
    its_own = read_marks.is_mark_due

    def is_due(shard_id: str, last_until_ms: int | None, service_ms: int, last_attempt_ms: int | None) -> bool:
        if last_until_ms is None:
            return its_own(shard_id, last_until_ms, service_ms, last_attempt_ms)
        # A mark reaches to a minute before it was asked for.
        is_old = service_ms - last_until_ms > _MINUTE_MS + every_seconds * 1000
        return is_old and is_marking(clock.now_ms(), window_seconds)

    class Metered(processor.ShardProcessor):
        """Notes each call."""

        _file: TextIO | None = None

        def initialize(self, initialize_input: Initialize) -> None:
            super().initialize(initialize_input)
            self._file = (notes / initialize_input.shard_id).open("a", buffering=1)
            requests.taken()

        def process_records(self, process_records_input: Batch) -> None:
            began = clock.monotonic()
            super().process_records(process_records_input)
            sent, refused = requests.taken()
            delivery = process_records_input.delivery
            call = Call(clock.now_ms(), clock.monotonic() - began, delivery.decoded, sent, refused)
            if self._file is not None:
                self._file.write(msgspec.json.encode(call).decode() + "\n")

    setattr(read_marks, "is_mark_due", is_due)  # noqa: B010 - the rule, and nothing else, is another one here
    setattr(processor, "ShardProcessor", Metered)  # noqa: B010 - where `consumer.main` finds it


if __name__ == "__main__":
    from consumer.main import main

    folder, window, every, properties = sys.argv[1:]
    _meter(Path(folder), int(window), int(every))
    sys.argv = [sys.argv[0], properties]
    main()
