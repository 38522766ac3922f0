"""`minutebook-processor` itself, without a Kinesis to ask: only a fake has records of any minute.

Minutes are played faster than they pass, so each of them would cost the LIST that is due for what began before the
process did. In steady work none is sent, and none is here.

The file that `SHARES` of the environment names is told, at the end, what each line of the pipe, each PUT of a segment
and each of a marker took: CPU seconds of the thread, so that waiting does not count. Markers belong to a start.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from benchmarks.pipe.shares import MARKERS, PIPE, SEGMENTS, SHARES
from consumer.stream.port import ShardInfo, StreamIdentity
from minutebook.aws.kinesis.answers import Answer, Beginning
from minutebook.format.position import Position

P = ParamSpec("P")
T = TypeVar("T")

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


class _Watch:
    """CPU seconds of each call of functions, by names that we give them."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {PIPE: [], SEGMENTS: [], MARKERS: []}

    def over(self, call: Callable[P, T], name: Callable[P, str]) -> Callable[P, T]:
        """Return the function under watch; `name` names a call by its arguments."""

        @wraps(call)
        def watched(*args: P.args, **kwargs: P.kwargs) -> T:
            begin = time.thread_time()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds[name(*args, **kwargs)].append(time.thread_time() - begin)

        return watched


def _line_read(_lines: object) -> str:
    return PIPE


def _put_of(_store: object, key: str, *_: object) -> str:
    return MARKERS if key.endswith(".json") else SEGMENTS


def _run() -> None:
    # Not before: it imports what a processor does, and no more.
    from consumer import main  # noqa: PLC0415 - as said
    from consumer.pipe.line_reader import LineReader  # noqa: PLC0415 - as said
    from consumer.processor import sequence_store  # noqa: PLC0415 - as said
    from consumer.stream import kinesis  # noqa: PLC0415 - as said
    from minutebook.store.s3 import S3Store  # noqa: PLC0415 - as said

    setattr(kinesis, "KinesisStream", NullStream)  # noqa: B010 - where `consumer.main` finds it
    setattr(sequence_store, "SKEW_MS", -_A_CENTURY_MS)  # noqa: B010 - as said above
    from consumer import serving  # noqa: PLC0415 - which takes the stream from there

    told = os.environ.get(SHARES)
    if told:
        watch, serve = _Watch(), serving.serve
        setattr(LineReader, "next_line", watch.over(LineReader.next_line, _line_read))  # noqa: B010 - under watch
        setattr(S3Store, "put_if_absent", watch.over(S3Store.put_if_absent, _put_of))  # noqa: B010 - as above

        def serve_and_tell(*args: Any) -> None:  # noqa: ANN401 - whatever it takes
            serve(*args)
            Path(told).write_text(json.dumps(watch.seconds))

        setattr(serving, "serve", serve_and_tell)  # noqa: B010 - where `consumer.main` finds it
    main.main()


if __name__ == "__main__":
    _run()
