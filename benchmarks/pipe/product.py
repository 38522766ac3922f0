"""`minutebook-processor` itself, without a Kinesis to ask: only a fake has records of any minute.

Minutes are played faster than they pass, so each of them would cost the LIST that is due for what began before the
process did. In steady work none is sent, and none is here.
"""

from collections.abc import Mapping
from typing import Self

from archive.format.position import Position
from consumer.stream.port import Answer, Beginning, ShardInfo, StreamIdentity

_A_CENTURY_MS = 86_400_000 * 36500


class NullStream:
    """The stream as the port sees it: young, open, and nothing to read."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def describe(self) -> StreamIdentity:
        """Name a stream that has trimmed nothing."""
        return StreamIdentity("arn:aws:kinesis:us-east-1:000000000000:stream/bench", 1_700_000_000_000, _A_CENTURY_MS)

    def shard(self, shard_id: str) -> ShardInfo | None:
        """Return an open shard."""
        return ShardInfo(shard_id, "0", "1", (), (), closed=False)

    def holds(self, shard_id: str, position: Position) -> bool:  # noqa: ARG002 - the port's shape
        """Hold everything."""
        return True

    def all_shards(self, *, at_ms: int | None = None, since_ms: int | None = None) -> Mapping[str, ShardInfo]:  # noqa: ARG002 - the port's shape
        """Return no other shards."""
        return {}

    def open(self, shard_id: str, beginning: Beginning) -> Answer | None:  # noqa: ARG002 - the port's shape
        """Open nothing."""
        return None

    def read(self, shard_id: str, iterator: str) -> Answer:  # noqa: ARG002 - the port's shape
        """Read nothing."""
        return Answer(None, None)

    def service_ms(self) -> int | None:
        """Know no time."""
        return None

    def within(self, budget_seconds: float) -> Self:  # noqa: ARG002 - the port's shape
        """Return the same."""
        return self


def _run() -> None:
    from consumer import main  # noqa: PLC0415 - which duplicates stdout first
    from consumer.processor import sequence_store  # noqa: PLC0415 - as above
    from consumer.stream import kinesis  # noqa: PLC0415 - as above

    setattr(kinesis, "KinesisStream", NullStream)  # noqa: B010 - where `consumer.main` finds it
    setattr(sequence_store, "SKEW_MS", -_A_CENTURY_MS)  # noqa: B010 - as said above
    main.main()


if __name__ == "__main__":
    _run()
