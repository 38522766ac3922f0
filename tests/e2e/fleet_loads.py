"""Loads of a fleet on the real parts: `python -m tests.e2e.fleet_loads backlog|identity`.

backlog    one stream of many shards, each with a backlog, beside three quiet streams that get a record a second. The
           stream answers from memory (`benchmarks/kinesis.cjs`, faster than Kinesis may: no bound of 2 MB a second);
           the quiet ones are in the embedded Kinesis. With the product's own presets, and the heap that Java takes
           where `--java` does not say
identity   credentials are those of a web identity (AWS_WEB_IDENTITY_TOKEN_FILE) from an STS on loopback, and last for
           `--life` seconds; DynamoDB and S3 refuse those that have expired. One stream's child is killed, and all
           read on when the credentials of that time have expired. Then STS is away until all have, and a child is
           killed again, unless `--no-outage`. Java's SDK renews credentials in the last five minutes of their life,
           boto3 in the last fifteen: those of a shorter life are renewed with almost every request

Exit code 0 only if what the trial is about was seen. Times are printed; they are those of a machine with other work.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import boto3
from botocore.exceptions import ClientError

from benchmarks.fleet import PRESET
from benchmarks.heap import JvmWatch
from benchmarks.processes import cpu_by_kind
from benchmarks.whole_path import Peak, properties, stream
from demo.bootstrap import ensure_java
from demo.embedded import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedAws
from demo.ledger import RecordRef
from demo.readback import broken_links, doubtful_links, read_archive
from minutebook.clock import SystemClock
from minutebook.format.position import Position
from minutebook.store.s3 import S3Store
from tests.e2e.fleet import FleetSite
from tests.e2e.fleet_trials import Load, is_once, kill_child, say
from tests.e2e.leases import read_leases, seed_leases
from tests.e2e.test_fleet import await_checkpoint
from tests.e2e.web_identity import WebIdentity
from tests.e2e.worker import Worker
from tests.witness.waiting import wait_until

_CLOCK: Final = SystemClock()
_QUIET: Final = ("quiet0", "quiet1", "quiet2")
_NAMES: Final = ("killed", "other", "third")
_AFTER_SECONDS: Final = 15
_AWAY_SECONDS: Final = 30
_BEHIND_SECONDS: Final = 90
_PATIENCE_SECONDS: Final = 900
_PAYLOAD: Final = 1000
_FIRST: Final = 49680430009993180326445188721472315949130085524050018306
_BASE: Final = 10**40
"""Sequence numbers of `kinesis.cjs`: the first of all, and the distance of two shards; in a shard each is followed by
the next number."""
Check = tuple[str, bool]


def backlog(aws: EmbeddedAws, folder: Path, options: argparse.Namespace) -> list[Check]:
    """Let a stream catch up beside quiet ones."""
    site = FleetSite(aws, folder, _QUIET)
    site.write(**PRESET)
    site.seed()
    load = Load(site.apps)
    environment = {"JAVA_TOOL_OPTIONS": options.java} if options.java else {}
    with stream(options.shards, options.megabytes, _PAYLOAD) as (kinesis, last):
        name = _add_loaded(aws, site, kinesis)
        begun = _CLOCK.monotonic()
        with site.consume(environment=environment) as worker:
            memory, jvm = Peak(worker.pid), JvmWatch(worker.pid)
            for quiet in _QUIET:
                worker.events.wait("shard_opened", properties=quiet)
            load.start()
            worker.events.wait("shard_opened", properties="loaded")
            opened, opened_cpu = _CLOCK.monotonic() - begun, cpu_by_kind(worker.pid)
            begun = _CLOCK.monotonic()
            # Not by the processors' log: one that is killed does not say what it has written last.
            wait_until(lambda: _caught_up(aws, name) == set(last), "all is checkpointed", seconds=_PATIENCE_SECONDS)
            seconds, cpu = _CLOCK.monotonic() - begun, cpu_by_kind(worker.pid)
            peak, seen = memory.stop(), jvm.stop()
            load.stop()
            for quiet in _QUIET:
                await_checkpoint(worker, quiet, site.apps[quiet])
            stopping = _CLOCK.monotonic()
            worker.terminate()
            code = worker.wait()
            stopping = _CLOCK.monotonic() - stopping
        ends = [each for what in ("daemon_out_of_memory", "daemon_restarting") for each in worker.events.all(what)]
        daemons, small = worker.events.all("daemon_started"), worker.events.all("fleet_heap_small")
        lost, wrong = _compare_loaded(aws, name, last)
    first, final = (_ages(worker, load, which) for which in ("first", "last"))
    say("shards, MB of each, options of the JVM", [options.shards, options.megabytes, options.java or "none"])
    say("seconds until a shard of it is open, and from then on until all is checkpointed", _round(opened, seconds))
    say("peak PSS in MB by kind", {kind: round(mib * 1.048576) for kind, mib in peak.items()})
    say("peak RSS of the JVM in MB; its CPU s, and those of its collector",
        _round(seen["peak_mib"] * 1.048576, seen["cpu"], seen["collector"]))  # fmt: skip
    say("CPU s of the catch-up by kind", {kind: round(cpu[kind] - opened_cpu.get(kind, 0.0), 1) for kind in cpu})
    say("quiet streams, seconds from put to commit of the first record of a segment (median, worst)",
        _round(sorted(first)[len(first) // 2], max(first)))  # fmt: skip
    say("the same of the last record of a segment (median, worst)",
        _round(sorted(final)[len(final) // 2], max(final)))  # fmt: skip
    say("records of the quiet streams, and of the loaded one", [len(load.put_at), sum(_counts(last))])
    say("heap called small; seconds of the stop; load", [bool(small), *_round(stopping, os.getloadavg()[0])])
    return [
        ("the daemon never ended", not ends and len(daemons) == 1),
        ("exit code 0", code == 0),
        (f"quiet streams are less than {_BEHIND_SECONDS} s behind", max(first) < _BEHIND_SECONDS),
        (f"0 lost, 0 doubled: loaded ({lost} lost, {wrong} wrong)", not (lost or wrong)),
        *((f"0 lost, 0 doubled: {each}", is_once(app.verdict())) for each, app in site.apps.items()),
    ]


def identity(aws: EmbeddedAws, folder: Path, options: argparse.Namespace) -> list[Check]:
    """Let credentials expire, with STS and without."""
    site = FleetSite(aws, folder, _NAMES, flushSeconds=2, checkpointIntervalSeconds=1)
    site.write()
    site.seed()
    who, load = WebIdentity(options.life), Load(site.apps)
    with (
        who.sts() as sts,
        who.before("dynamodb", aws.dynamodb_endpoint) as dynamodb,
        who.before("s3", aws.s3_endpoint) as s3,
    ):
        for file in site.streams_folder.iterdir():
            text = file.read_text().replace(aws.dynamodb_endpoint, dynamodb)
            file.write_text(text.replace(aws.s3_endpoint, s3))
        with site.consume(environment=who.environment(folder, sts)) as worker:
            for name in _NAMES:
                worker.events.wait("shard_opened", properties=name)
            load.start()
            (java,) = worker.daemons()
            _CLOCK.sleep(5)
            seconds = [kill_child(worker, "killed")]
            _sleep_until(who.last_expiry + _AFTER_SECONDS)
            _await_news(worker)
            issued, stale = dict(who.issued), dict(who.refused)
            is_refused = _is_refused(dynamodb, who.first_key)
            others = {name: len(worker.events.all("shard_opened", properties=name)) for name in _NAMES[1:]}
            if options.outage:
                who.is_away = True
                _sleep_until(who.last_expiry + _AWAY_SECONDS)
                begun, who.is_away = _CLOCK.monotonic(), False
                _await_news(worker)
                say(
                    "seconds until all streams have archived anew after STS is back",
                    _round(_CLOCK.monotonic() - begun),
                )
                seconds.append(kill_child(worker, "killed"))
                _await_news(worker)
            load.stop()
            for name in _NAMES:
                await_checkpoint(worker, name, site.apps[name])
            is_same = [each.pid for each in worker.daemons()] == [java.pid]
            opened = {name: len(worker.events.all("shard_opened", properties=name)) for name in _NAMES}
            worker.terminate()
            code = worker.wait()
    say("seconds from SIGKILL of a child until its shard is open", _round(*seconds))
    say("seconds of life; credentials issued by SDK until those of the kill had expired", [options.life, issued])
    say("requests served, and refused but for the trial's own", [who.served, stale])
    say("shard_opened by stream, in all", opened)
    return [
        ("credentials came from STS for both SDKs", set(issued) == {"boto3", "Java"}),
        ("no request bore expired ones", not stale and sum(who.refused.values()) == 1),
        ("expired ones are refused: the trial's own request is", is_refused),
        ("the other streams opened once until then", set(others.values()) == {1}),
        ("the JVM is the same process", is_same),
        ("exit code 0", code == 0),
        *((f"0 lost, 0 doubled: {each}", is_once(app.verdict())) for each, app in site.apps.items()),
    ]


def _is_refused(endpoint: str, key: str) -> bool:
    """Ask DynamoDB with these credentials; tell whether it says that they have expired."""
    client = boto3.client(
        "dynamodb", endpoint_url=endpoint, region_name=REGION, aws_access_key_id=key, aws_secret_access_key="none"
    )
    try:
        client.list_tables()
    except ClientError as exc:
        return exc.response["Error"]["Code"] == "ExpiredTokenException"
    return False


def _sleep_until(epoch_seconds: float) -> None:
    _CLOCK.sleep(max(0.0, epoch_seconds - _CLOCK.now_ms() / 1000))


def _await_news(worker: Worker) -> None:
    """Wait until each stream has archived in a later segment what is put from now on."""
    mark = worker.events.mark()
    for name in _NAMES:
        first = worker.events.wait("segment_committed", seconds=_PATIENCE_SECONDS, since=mark, properties=name)
        worker.events.wait(
            "segment_committed",
            seconds=_PATIENCE_SECONDS,
            since=mark,
            where=lambda event, first=first: event is not first,  # type: ignore[misc]
            properties=name,
        )


def _add_loaded(aws: EmbeddedAws, site: FleetSite, kinesis: str) -> str:
    """Add the loaded stream's file, bucket and lease table; return its application."""
    name = f"loaded-{_CLOCK.now_ms()}"
    aws.s3_client().create_bucket(Bucket=name)
    values = properties(aws, kinesis, name, {})
    lines = "".join(f"{key} = {value}\n" for key, value in values.items())
    (site.streams_folder / "loaded.properties").write_text(lines)
    client = boto3.client(
        "kinesis",
        endpoint_url=kinesis,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )
    shards = client.list_shards(StreamName=values["streamName"])["Shards"]
    seed_leases(aws.dynamodb_client(), name, shards, {shard["ShardId"]: values["workerId"] for shard in shards})
    return name


def _caught_up(aws: EmbeddedAws, name: str) -> set[str]:
    """Return the sequence numbers of the checkpoints of all shards."""
    return {lease.checkpoint.partition(":")[0] for lease in read_leases(aws.dynamodb_client(), name).values()}


def _ages(worker: Worker, load: Load, which: str) -> list[float]:
    """Return the seconds from the put of the `first` or `last` record of each quiet segment to its commit."""
    events = [each for each in worker.events.all("segment_committed") if each["properties"] in _QUIET]
    puts = [load.put_at[event["properties"], str(event[which])] for event in events]
    at = [datetime.fromisoformat(event["timestamp"]).timestamp() for event in events]
    return [now - put for now, put in zip(at, puts, strict=True)]


def _counts(last: Sequence[str]) -> list[int]:
    """Return the number of records of each shard, by the last sequence number of each."""
    return [int(sequence) - _FIRST - number * _BASE + 1 for number, sequence in enumerate(last)]


def _compare_loaded(aws: EmbeddedAws, name: str, last: Sequence[str]) -> tuple[int, int]:
    """Return how many records are lost; and those doubled or unknown, with broken links."""
    segments = read_archive(S3Store(aws.s3_client(), name), "raw/")
    archived = Counter(record.ref for segment in segments for record in segment.records)
    sent = {
        RecordRef(f"shardId-{number:012d}", Position(_FIRST + number * _BASE + index))
        for number, count in enumerate(_counts(last))
        for index in range(count)
    }
    chains = [segment.metadata for segment in segments]
    wrong = len(archived.keys() - sent) + sum(times > 1 for times in archived.values())
    return len(sent - archived.keys()), wrong + len(broken_links(chains)) + len(doubtful_links(chains))


def _round(*values: float) -> list[float]:
    return [round(value, 1) for value in values]


def main(arguments: Sequence[str]) -> int:
    """Play one or more trials."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.e2e.fleet_loads", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("trials", nargs="+", choices=sorted(_TRIALS))
    parser.add_argument(
        "--shards", type=int, default=61, help="of the loaded stream (default 61: 64 with the others)"
    )
    parser.add_argument("--megabytes", type=float, default=12, help="backlog of each of its shards (default 12)")
    parser.add_argument("--life", type=float, default=95, help="seconds of credentials (default 95)")
    parser.add_argument("--outage", action=argparse.BooleanOptionalAction, default=True, help="of STS (default yes)")
    parser.add_argument("--java", default="", help="options for the JVM, such as -Xmx512m")
    options = parser.parse_args(arguments)
    os.environ["PATH"] = f"{ensure_java().parent}:{os.environ['PATH']}"
    is_well = True
    for name in options.trials:
        with tempfile.TemporaryDirectory() as folder, EmbeddedAws(Path(folder) / "aws") as aws:
            for what, held in _TRIALS[name](aws, Path(folder), options):
                say(f"{name}: {what}", "yes" if held else "NO")
                is_well = is_well and held
    return 0 if is_well else 1


_TRIALS: Final[Mapping[str, Callable[[EmbeddedAws, Path, argparse.Namespace], list[Check]]]] = {
    "backlog": backlog,
    "identity": identity,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
