"""One stream with its lease table row and its ledger, and how its application is started."""

import random
from typing import TYPE_CHECKING, ClassVar, Final

from consumer.archived.application import kcl_start, propose_start, settle_application, settle_first_shards
from consumer.settings.settings import Settings
from consumer.stream.kinesis import KinesisStream
from consumer.stream.port import StreamIdentity
from minutebook.compression import Compression
from minutebook.format.document import FORMAT
from minutebook.format.markers import ApplicationRecord
from minutebook.format.metadata import ChainStart
from minutebook.format.position import Position
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from minutebook.store.s3 import S3Store
from tests.fakes.daemon_double import Lease
from tests.fakes.shard import FIRST_SEQUENCE
from tests.simulation.promises.ledger import Ledger
from tests.simulation.services.aggregates import ALMOST_EVERY_HASH_KEY
from tests.simulation.services.bucket import PREFIX, Bucket, S3Client
from tests.simulation.services.kinesis import ARN, HOUR, KinesisClient, SimShard, SimStream
from tests.simulation.world import Host, World

if TYPE_CHECKING:
    from collections.abc import Sequence

_TAILS: Final = (b"", b"", b"", "é日".encode(), b"\xff\xfe", b'"\n\\', b"x" * 150)


class Site:
    """One stream of one shard, its application and its archive."""

    lease_type: ClassVar[type[Lease]] = Lease
    ledger_type: ClassVar[type[Ledger]] = Ledger

    def __init__(
        self, world: World, bucket: Bucket, number: int, *, created: float, start: str, shard: SimShard | None = None
    ) -> None:
        self.world = world
        self.bucket = bucket
        self.arn = ARN + ("" if number == 0 else str(number))
        # The same numbers and the same shard id in every stream: the worst that two streams can have in common.
        if shard is None:
            shard = SimShard(first_sequence=FIRST_SEQUENCE)
            if world.troubles is not None:
                shard.hash_range = ALMOST_EVERY_HASH_KEY
        self.stream = SimStream(world, shard, arn=self.arn, created=created, retention_hours=24)
        self.start = start
        self.lease = self.lease_type(shard, start="LATEST" if start == "latest" else "TRIM_HORIZON")
        self.ledger = self.ledger_type(world, self.stream)
        self.lease.on_write = self.ledger.checkpointed
        self.table: Sequence[Site] = [self]
        """Whose rows lie in one lease table with this one."""
        self.recreated = False
        self.record: ApplicationRecord | None = None
        self.skew = 0.0

    def put(self, rng: random.Random) -> None:
        """Let a producer put some records; arrival times may step back, run ahead, or be late."""
        for _ in range(rng.randint(1, 4)):
            number = len(self.stream.shard.everything)
            size = rng.randint(2, 5) if self.world.chance(0.25) else 1
            payloads = [b"%d " % (number + at) + rng.choice(_TAILS) for at in range(size)]
            off = self.world.stamps.off_seconds(rng)
            if off < -1:
                self.world.tally["arrival times: step back"] += 1
            if size > 1:
                self.world.tally["records: KPL aggregates"] += 1
            self.stream.shard.put_now(
                payloads,
                int((self.world.now + off) * 1000),
                rng.choice(("p1", "ключ")),
                self.world.now,
                rng.randint(1, 9),
            )
            self.world.now += rng.choice((0.01, 0.5, 3.0))
        self.trouble()
        shard = self.stream.shard
        self.world.note("producer", f"{self.arn[-9:]} holds #{shard.trimmed}..#{len(shard.everything) - 1}")

    def trouble(self, *, at_end: bool = False) -> None:
        """Let careless producers put something, if the history has any."""
        if self.world.troubles is not None:
            self.world.troubles.put(self.world, self.stream.shard, at_end=at_end)

    @property
    def has_consume(self) -> bool:
        """Tell whether `minutebook consume` writes KCL's configuration."""
        return self.start not in {"plain", "latest"}

    def checkpoint_before(self, *, is_calm: bool) -> Position | None:
        """Return the checkpoint that was written before the one that stands; None where there was none.

        None, too, where nothing happens (`is_calm`) and retention took what lies between: no row is behind so long.
        """
        written = [checkpoint for checkpoint in self.lease.written if isinstance(checkpoint, Position)]
        if not isinstance(self.lease.checkpoint, Position) or self.lease.checkpoint not in written[1:]:
            return None
        before, shard = written[written.index(self.lease.checkpoint) - 1], self.stream.shard
        return None if is_calm and shard.index[before] + 1 < shard.trimmed else before

    def settle_start(self) -> None:
        """Give KCL its start, as `minutebook consume` does on each machine; a row that is there stays as it is."""
        if self.has_consume:
            at_ms = self.lease.at_timestamp_ms = self.configured_ms()
            self.lease.start = "TRIM_HORIZON" if at_ms is None else "AT_TIMESTAMP"
            if self.lease.is_new:
                self.lease.checkpoint = self.lease.start

    def configured_ms(self) -> int | None:
        """Return the time in KCL's configuration, settled with everybody; None for TRIM_HORIZON."""
        self.stream.trim()
        world = self.world
        host = Host(world, "consume", skew=self.skew, holdup=0, fault_rate=0)
        identity = self.identity()
        if self.record is None:
            chosen: str | int = self.start
            if self.start == "past":
                chosen = int((world.now - 30) * 1000)
            proposal = ApplicationRecord(
                format=FORMAT,
                stream_arn=identity.arn,
                stream_created_ms=identity.created_ms,
                application="simulated",
                start=str(chosen),
                start_at_ms=propose_start(chosen, identity, 900, host.now_ms()),
                writer=world.new_id(),
                written_at_ms=host.now_ms(),
            ).compressed(world.next_compression() or Compression.GZIP)
            store = S3Store(S3Client(self.bucket, host), "archive")  # type: ignore[arg-type] # the part of it that is used
            backoff = Backoff(host, world.rng, budget_seconds=1)
            retrying = RetryingStore(store, lambda: backoff)
            self.record = settle_application(retrying, PREFIX, identity, proposal)
            client = KinesisClient(self.stream, host)
            stream = KinesisStream(lambda: client, "flights", host, world.rng)  # type: ignore[arg-type,return-value] # the part of it that is used
            settle_first_shards(
                retrying, PREFIX, stream, self.record, host, world.new_id, service_ms=int(world.now * 1000)
            )
        waits = any(site.lease.checkpoint == "AT_TIMESTAMP" and not site.lease.is_new for site in self.table)
        at = kcl_start(self.record, identity, host.now_ms(), has_timestamp_rows=waits).at_seconds
        return None if at is None else at * 1000

    def identity(self) -> StreamIdentity:
        """Return what the stream says of itself."""
        stream = self.stream
        return StreamIdentity(stream.arn, int(stream.created * 1000), stream.retention_hours * HOUR * 1000)

    def recreate(self) -> None:
        """Delete the stream and make it again under its name: other data under the same numbers."""
        shard = SimShard(first_sequence=FIRST_SEQUENCE)
        shard.hash_range = self.stream.shard.hash_range
        self.stream.shard = self.lease.shard = shard
        self.stream.created = self.world.now
        self.stream.closed_at = None
        self.recreated = True
        for number in range(3):
            shard.put_now([b"new %d" % number], int(self.world.now * 1000), "p", self.world.now, 3)

    def adopt(self, rng: random.Random) -> None:
        """Begin with the checkpoint of another application, which archived to another place."""
        everything = self.stream.shard.everything
        position = everything[rng.randrange(len(everything))].position
        self.lease.checkpoint = position
        self.ledger.adopted = position

    def chain_start(self) -> ChainStart | None:
        """Return where the shard's chain was started from, as start.json says."""
        return None if self.ledger.start is None else self.ledger.start.chain_start()


def new_settings(rng: random.Random, *, adopt: bool, compression: Compression | None = None) -> Settings:
    """Return the settings of one processor: every one may cut differently."""
    return Settings(
        stream_name="flights",
        application_name="simulated",
        region="eu-central-1",
        bucket="archive",
        prefix=PREFIX,
        checkpoint_interval_seconds=rng.choice((0, 5, 30)),
        max_segment_bytes=rng.choice((1, 500, 1200, 10**6, 10**6)),
        flush_seconds=rng.choice((None, None, 5)),
        store_timeout_seconds=rng.choice((10, 60, 300)),
        adopt_checkpoint=adopt,
        compression=compression,
    )


def describe_settings(settings: Settings) -> str:
    """Return what differs from processor to processor, for the timeline."""
    return (
        f"{settings.compression or ''} segments <= {settings.max_segment_bytes} B, flush {settings.flush_seconds}, "
        f"checkpoints every {settings.checkpoint_interval_seconds} s, "
        f"gives up after {settings.store_timeout_seconds} s"
    )
