"""A watch that hears what processors in this process say, as the supervisor hears it from their lines."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from consumer.child_logs.processor_log import read_event
from consumer.monitoring.watch import Watch


@contextmanager
def heard_by(watch: Watch) -> Iterator[None]:
    """Let the watch take each line at the moment when it is written."""

    def hear(_logger: Any, level: str, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - structlog's shape
        found = read_event(json.dumps({"level": level, **event}, default=str).encode())
        if found is not None:
            watch.note(found)
        raise structlog.DropEvent

    processors = structlog.get_config()["processors"]
    before = list(processors)
    processors[:] = [hear]
    try:
        yield
    finally:
        processors[:] = before
