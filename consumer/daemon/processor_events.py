"""What the supervisor learns from the processors' log lines, which pass through its hands on stderr.

The daemon loses a child's exit code: it exits 1 whatever the child said. So the code is read from the child's own
last line, `processor_failed`.
"""

from typing import Final

import msgspec


class ProcessorEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One log line of a processor; what the line does not say has its default."""

    event: str
    pid: int = 0
    shard: str = ""
    records: int = 0
    payload_bytes: int = 0
    body_bytes: int = 0
    attempts: int = 0
    exit_code: int = 1
    error: str = ""
    next_step: str = ""


STARTED: Final = "processor_started"
ENDED: Final = "processor_ended"
FAILED: Final = "processor_failed"
_DECODER: Final = msgspec.json.Decoder(ProcessorEvent)


def read_event(line: bytes) -> ProcessorEvent | None:
    """Return the event of a log line; None when the line is not one, for whatever reason it was printed."""
    if not line.startswith(b"{"):
        return None
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
