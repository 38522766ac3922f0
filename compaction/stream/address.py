"""Where a stream is, as a plain value: tasks take it along and open the stream themselves."""

from typing import NamedTuple

from archive.access import Access
from archive.aws import client_config, make_kinesis_client
from archive.clock import Clock, SystemClock, new_random
from compaction.stream.kinesis import StreamReader
from compaction.stream.pace import SHARE

_BUDGET_SECONDS = 120


class StreamAddress(NamedTuple):
    """A stream by its name; `share` is what of each shard's reads may be taken."""

    name: str
    region: str
    endpoint: str | None
    access: Access
    share: float = SHARE

    def here(self) -> StreamReader:
        """Return the stream, to be read in this process."""
        return self.open(SystemClock())

    def open(self, clock: Clock, *, budget_seconds: float = _BUDGET_SECONDS) -> StreamReader:
        """Return the stream with a clock, and how long each request is repeated."""
        client = make_kinesis_client(self.region, self.endpoint, self.access, client_config(connections=32))
        return StreamReader(client, self.name, clock, new_random(), budget_seconds=budget_seconds, share=self.share)
