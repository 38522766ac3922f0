"""The audit on what the real consumer has written: both sides agree on the format."""

import random
from typing import TYPE_CHECKING, NamedTuple

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions, JobContext
from compaction.night.rewrite import CompactOptions, compact_day
from consumer.stream.kinesis import KinesisStream
from demo.embedded import REGION, EmbeddedAws
from minutebook.clock import SystemClock
from minutebook.compression import Compression
from minutebook.format.day import Day, day_of_ms
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.owner import StreamOwner
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.daemon_double import DaemonDouble
from tests.integration.archive_site import PREFIX, Site

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient


class Clients(NamedTuple):
    """Where the site's services are."""

    kinesis: "KinesisClient"
    s3_endpoint: str


def run_context(site: Site, aws: EmbeddedAws) -> JobContext:
    """Return the context of a run on the site's archive, with KCL's checkpoint of its lease."""
    address = Address(site.name, "", REGION, aws.s3_endpoint)
    last = site.shard.everything[-1].position
    given = job_context(address, {site.shard.shard_id: Position(*last)}, clock=SystemClock())
    return given._replace(place=StorePrefix(address, PREFIX), owner=StreamOwner(site.name, REGION))


def so_far(site: Site, minutes: int = 3) -> AuditOptions:
    """Ask for the days up to the end of a minute, the last one unless told: they are those of the test."""
    return AuditOptions(so_far_ms=site.minutes[minutes - 1] + MINUTE_MS)


def begin_early(site: Site, clients: Clients, compression: Compression = Compression.GZIP) -> None:
    """Let the application have begun before the records arrived; the stream is younger than they are."""
    stream = KinesisStream(lambda: clients.kinesis, site.name, SystemClock(), random.Random(1))
    storage = open_storage(Address(site.name, "", REGION, clients.s3_endpoint))
    ArchiveScene(storage, PREFIX, compression).settle(stream.describe(), start_at_ms=site.minutes[0] - MINUTE_MS)


def days(site: Site) -> list[Day]:
    """Return the days that the site's minutes lie on; more than one around midnight."""
    return sorted({day_of_ms(minute) for minute in site.minutes})


def test_what_two_processors_wrote_is_clean(
    site: Site, embedded_aws: EmbeddedAws, kinesis_client: "KinesisClient"
) -> None:
    """One is lost in the middle without a checkpoint, the other goes on: a whole chain, proven, each record once."""
    begin_early(site, Clients(kinesis_client, embedded_aws.s3_endpoint))
    site.put(40, minute=0)
    first = DaemonDouble(site.lease, site.processor_here(SystemClock()))
    first.start()
    first.deliver(25)
    site.put(40, minute=1)
    site.put(40, minute=2)
    site.archive_the_rest()
    for day in days(site):
        audit = audit_day(run_context(site, embedded_aws), day, so_far(site, 1)).audit
        assert (audit.verdict, audit.findings) == ("clean", ())
        whole = audit_day(run_context(site, embedded_aws), day, so_far(site)).audit
        assert {(found.code, found.severity) for found in whole.findings} <= {("unproven_end", "unknown")}
    total = sum(
        audit_day(
            run_context(site, embedded_aws), day, so_far(site)._replace(level="inventory")
        ).audit.equation.unique
        for day in days(site)
    )
    assert total == 120


def test_a_deleted_segment_of_the_consumer_is_a_broken_chain(
    site: Site, embedded_aws: EmbeddedAws, kinesis_client: "KinesisClient"
) -> None:
    """The link that the consumer wrote is the one that the audit follows."""
    begin_early(site, Clients(kinesis_client, embedded_aws.s3_endpoint))
    for minute in range(3):
        site.put(10, minute=minute)
    site.archive_the_rest()
    middle = [segment.key for segment in site.segments()][1]
    site.s3.delete_object(Bucket=site.name, Key=middle)
    codes = {
        finding.code
        for day in days(site)
        for finding in audit_day(
            run_context(site, embedded_aws), day, so_far(site)._replace(level="inventory")
        ).audit.findings
    }
    assert codes == {"broken_chain"}


def test_the_consumers_day_is_published_once(
    site: Site, embedded_aws: EmbeddedAws, kinesis_client: "KinesisClient"
) -> None:
    """Its objects, here of zstd, are compacted to as many rows as there were records."""
    begin_early(site, Clients(kinesis_client, embedded_aws.s3_endpoint), Compression.ZSTD)
    site.put(50, minute=0)
    site.put(50, minute=1)
    site.archive_the_rest()
    given = run_context(site, embedded_aws)
    out = StorePrefix(given.place.address, "tables/")
    rows = 0
    for day in days(site):
        done = compact_day(given, given.open(out.address), day, CompactOptions(so_far(site), out))
        assert done.manifest is not None
        rows += done.manifest.rows
    assert rows == 100
    assert {segment.key.rpartition(".")[2] for segment in site.segments()} == {"zst"}
