"""A shard with producers that send events again, and what became of these."""

import json
from collections.abc import Iterable
from typing import Any

from demo.ledger import fingerprint
from demo.readback import StoredRecord
from tests.fakes.dedupe_table import MemoryDedupeTable
from tests.fakes.world import World

CLAIMS = {"dedupe": "claims", "event_id": "id"}
WATERMARK = {"dedupe": "watermark", "producer_sequence": "n", "producer_key": "p"}


class DedupeWorld(World):
    """A world with a dedupe table."""

    def __init__(self, mode: dict[str, Any]) -> None:
        super().__init__()
        self.table = MemoryDedupeTable()
        self.settings = {**mode, "checkpoint_interval_seconds": 0}

    def send(self, *numbers: int, producer: str = "a") -> None:
        """Put one event per number; an event sent again has the same id and number."""
        for number in numbers:
            body = {"id": f"{producer}-{number}", "n": number, "p": producer}
            self.shard.put(json.dumps(body).encode(), self.clock.now_ms())

    def kept(self) -> list[int]:
        """Return the numbers in the archive, in order; the chain is checked."""
        return self._numbers(record for segment in self.chain() for record in segment.records)

    def dropped(self) -> list[int]:
        """Return the numbers in the duplicates beside committed segments."""
        return self._numbers(record for segment in self.chain() for record in segment.dropped)

    def _numbers(self, found: Iterable[StoredRecord]) -> list[int]:
        sent = {fingerprint(record.partition_key, record.data): record.data for record in self.shard.everything}
        return [json.loads(sent[record.digest])["n"] for record in found]
