"""The page of the log: each event of the code, with what it means."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from docsite.log_events import LogEvent, log_events
from docsite.tables import code, table

NORMAL_LIFE: Final[Mapping[str, str]] = {
    "beside_expired": "objects of `_watermarks/` and `_duplicates/` were deleted with their segments",
    "boundaries_expired": "objects of `_until/` and `_complete/` of expired days were deleted",
    "checkpoint_adopted": "a shard begins behind another application's checkpoint, as `adoptCheckpoint` allows",
    "checkpoint_written": "KCL stored how far a shard is archived",
    "compression_settled_earlier": "`minutebook.compression` differs from the archive's compression and is ignored",
    "daemon_ended": "the daemon ended; `asked` says whether it was told to stop",
    "daemon_restarting": "the supervisor starts the daemon again, after a pause that grows with each crash in a row",
    "daemon_started": "KCL's MultiLangDaemon runs",
    "day_expired": "the raw segments of a day were deleted, and its tombstone stands",
    "day_published": "readers of the Parquet files now see this generation",
    "day_refused": "`expire` leaves a day alone, and says why",
    "first_start": "what the first start of an application waits for",
    "fork_server_ready": "the fork server has loaded everything, and forks a processor for each shard",
    "health_not_removed": "the state folder is read-only; `minutebook health` reads an old verdict there",
    "health_not_written": "the state folder, or the default one in /tmp, cannot be written to; `minutebook health` "
    "says unhealthy meanwhile, in the second case without `--state-dir` only",
    "first_shards_settled": "the shards that the application begins with are stored beside the archive",
    "large_day_without_spark": "a large day is compacted by this machine alone: there is no PySpark, or no Java",
    "leader_lock_kept": "the supervisor could not release the lock of its dead daemon; it expires after two minutes",
    "leader_lock_not_remembered": "the state folder is full or read-only: a restart waits for a dead leader anew",
    "lease_left_to_kcl": "the supervisor could not take the only free lease, and KCL's leader assigns it",
    "lease_taken": "the supervisor took the only free lease for its worker, which opens the shard seconds sooner",
    "leader_lock_released": "the supervisor released the lock of its dead daemon, so that another leads at once",
    "leases_released": "a worker that stops gave its leases to the others; `kept` are those that it could not give",
    "lease_lost": "another worker has the shard now; it reads again what was not committed here",
    "leases_unread": "the lease table could not be read; the watch for shards without a reader tries again",
    "metrics_not_written": "the task's stdout is closed; no more metrics go to CloudWatch",
    "metrics_served": "the server for Prometheus and for health checks answers",
    "night_progress": "how many tasks of a `phase` of the nightly job are done: at each tenth, or each minute",
    "no_event_id": "records without an event id were kept (`minutebook.dedupe=claims`)",
    "no_producer_sequence": "records without a producer's number were kept (`minutebook.dedupe=watermark`)",
    "preflight_passed": "everything that the task needs is there",
    "preflight_warning": "a check found something unusual; the task starts nevertheless",
    "printed": "text that a library printed; the lines after it say whether it matters",
    "processor_ended": "a processor ended in order",
    "processor_started": "the daemon started a processor",
    "progress": "how far a processor is, for the supervisor's metrics; shown at `logLevel=debug` only",
    "day_goes_on": "an earlier run was ended before it had published; its finished tasks are reused",
    "day_is_stale": "the published files are not made of the objects' present content, or lack lines that come back; "
    "the day is written again",
    "publish_lost": "another run published the day meanwhile; the day is listed again",
    "published_ends_not_trusted": "a published day's list of last segments is damaged, or contradicts its manifest; "
    "names are listed instead",
    "published_ends_out_of_reach": "the output cannot be read; names are listed instead, which costs more requests",
    "published_facts_out_of_reach": "the output cannot be read; level `inventory` counts no line of the day as read",
    "page_not_written": "the page over streams and days was not written; the days themselves are done",
    "published_day_not_trusted": "a published day and its files disagree; it is read and published again",
    "live_parts_cut": "live parts of which the night has published a part were written anew, without that, or "
    "without columns that the table does not take",
    "spark_not_used": "the Java of this machine does not run Spark: a large day is worked at without",
    "live_parts_lost": "a live pointer was set back, or a file that it names is gone; the rows are written again",
    "reads_made_smaller": "a daemon ran out of memory: the next one reads fewer records at once, `max_records`",
    "read_mark_written": "a quiet shard was read up to a time, and held no new record behind `last`; it covers what "
    "arrived from `covered_from_ms` to `covered_until_ms`",
    "read_mark_found": "a processor goes on behind the read mark of an earlier one; shown at `logLevel=debug` only",
    "rehearsal_failed": "the fork server could not warm up: each processor takes some 3 MB more",
    "processor_reaped": "a processor ended with this `exit_code`; below 0 by a signal",
    "rehearsed": "the fork server has warmed up, for all processors; `skipped` names what failed",
    "report_kept": "a worker that stops could not remove its report of its load to KCL; the report expires",
    "retention_unknown": "the stream's retention could not be read; the last known one is used",
    "segment_adopted": "another processor's segment became the end of the chain; shown at `logLevel=debug` only",
    "segment_committed": "a segment is durable in S3; with what is archived before `last` it covers what arrived "
    "from `covered_from_ms` to `covered_until_ms`",
    "serving": "`minutebook follow` serves its metrics and its health at this `port`",
    "shard_end_checkpointed": "KCL stored that a shard is archived to its end; its children may start",
    "shard_end_proven": "the end of a shard was proven and stored; `continuity` says whether it covers what arrived "
    "from `covered_from_ms` to `covered_until_ms`",
    "shard_opened": "a processor knows where its shard goes on",
    "skip_recorded": "a marker of a batch that KCL skipped is stored; its days stay unknown until level `stream`",
    "start_settled": "where the application begins is stored beside the archive",
    "start_settled_earlier": "`minutebook.start` differs from the archive's stored start and is ignored",
    "stopping": "the task was told to stop; processors commit what they hold",
    "fleet_ended": "the daemon of a fleet has ended with this `code`; its streams begin anew in the next one",
    "fleet_opening": "`consume DIR` runs the checks of its streams, and settles their starts",
    "fleet_stopped": "`consume DIR` has ended; `codes` are the exit codes of the streams that failed, by name",
    "stream_not_prepared": "the fork server cannot read the settings of a stream; its processors will say why",
    "stream_started": "the daemon of a fleet reads this stream from now on",
    "streams_late": "these streams had not ended half a minute after their daemon; their leases expire",
    "stored_ranges_found": "segments by which the processor recognises records that are delivered again",
    "supervisor_stopped": "`consume` ends as asked",
    "table_commit_repeated": "the Iceberg commit did not succeed; the table is loaded again",
    "event_files_written": "a published day was cut by the day of its events, for the Iceberg table",
    "event_record_not_trusted": "the record of a day's files by event cannot be read; the files are made anew",
    "table_committed": "what is published of the day, and its live parts, are in the Iceberg table",
    "table_left_to_kcl": "the lease table could not be made beforehand; KCL makes it, more slowly",
    "tail_row_unreadable": "a row of the dedupe table is not ours; the archive is read instead",
    "watermarks_missing": "a segment holds no watermarks: usual once, when watermark mode is switched on",
    "watermarks_unproven": "a child lacks a part of its parent's watermarks; copies may be kept for a while",
}
"""The meaning of events that need no alarm; docs/operations.md explains the others."""

_HEAD: Final = """# Log events

One JSON object per line: `timestamp` (UTC), `level`, `event`, and the keys below. A processor's lines have its
`shard`, too, and every warning or error has a `next_step`. KCL's own lines have the event
`kcl`, and text that a library printed has `printed`.

This page is made from the code of this version.

"""


def alarms(operations: str) -> dict[str, str]:
    """Return the meaning of each event that is worth an alarm, from docs/operations.md."""
    rows = re.findall(r"^\| `([a-z_]+)` \| (?:error|warning) \| (.+) \|$", operations, re.MULTILINE)
    return {name: re.sub(r"\]\((?!\.\./|[a-z]+:)", "](../", text) for name, text in rows}


def meaning(event: LogEvent, to_alarm_on: Mapping[str, str]) -> str:
    """Return the meaning of an event, with a link to the runbook where somebody has to act.

    Raises:
        KeyError: an event to alarm on belongs into docs/operations.md and docs/runbook.md, any other into
            `NORMAL_LIFE`.
    """
    if event.name in to_alarm_on:
        return f"{to_alarm_on[event.name]} ([what to do](../runbook.md#{event.name}))"
    return NORMAL_LIFE[event.name]


def events_page(checkout: Path) -> str:
    """Return the page."""
    to_alarm_on = alarms((checkout / "docs" / "operations.md").read_text(encoding="utf-8"))
    rows = [
        (
            code(event.name),
            event.level,
            meaning(event, to_alarm_on),
            ", ".join(code(key) for key in sorted(event.keys)),
        )
        for event in log_events(checkout)
    ]
    return _HEAD + table(["event", "level", "means", "keys"], rows)
