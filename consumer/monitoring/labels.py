"""The labels of every metric: a task may read several streams, whose shards have the same ids."""

from typing import Final, NamedTuple


class StreamLabels(NamedTuple):
    """The application and the stream that it reads, by their names."""

    application: str
    stream: str


LABEL_NAMES: Final = StreamLabels._fields
