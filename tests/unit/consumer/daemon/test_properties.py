"""The daemon's own file: presets, the shared start, and how it is written."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import javaproperties
import pytest
from structlog.testing import capture_logs

from consumer.archived.application import KclStart
from consumer.daemon.properties import ReadSize, effective_properties, processor_command, write_effective
from consumer.settings.settings import LoadedSettings, Settings, load_settings
from minutebook.aws.access import Access
from minutebook.errors import SettingsError

SETTINGS = Settings(stream_name="s", application_name="a", region="eu-west-1", bucket="archive")


def effective(start: KclStart = KclStart(None), **kcl: str) -> dict[str, str]:  # noqa: B008 - a frozen value
    """Return the effective properties of a file that says `kcl`."""
    loaded = LoadedSettings(SETTINGS, {"streamName": "s", "applicationName": "a", **kcl}, {"bucket": "archive"})
    return effective_properties(loaded, start, worker_id="w", executable="/bin/minutebook-processor")


def test_kcl_asks_kinesis_as_the_streams_role(tmp_path: Path) -> None:
    """And its tables as this process; the processors read the same file, and take it for one thing said twice."""
    role = "arn:aws:iam::123456789012:role/reader"
    ours = {"bucket": "archive", "streamRoleArn": role, "streamRoleExternalId": "id:7"}
    settings = replace(SETTINGS, access=Access(stream_role_arn=role, stream_role_external_id="id:7"))
    loaded = LoadedSettings(settings, {"streamName": "s", "applicationName": "app"}, ours)
    values = effective_properties(loaded, KclStart(None), worker_id="w", executable="/bin/minutebook-processor")
    assert {name: value for name, value in values.items() if name.startswith("Aws")} == {
        "AwsCredentialsProvider": f"StsAssumeRoleCredentialsProvider|{role}|minutebook|endpointRegion=eu-west-1"
        "|externalId=id:7",
        "AwsCredentialsProviderDynamoDB": "DefaultCredentialsProvider",
        "AwsCredentialsProviderCloudWatch": "DefaultCredentialsProvider",
    }
    path = tmp_path / "effective.properties"
    write_effective(path, values)
    assert load_settings(path, {}).access == settings.access


def test_another_provider_beside_the_role_is_refused(tmp_path: Path) -> None:
    """Nobody could tell as whom KCL asks."""
    path = tmp_path / "mine.properties"
    path.write_text(
        "streamName = s\napplicationName = a\nregionName = eu-west-1\nminutebook.bucket = archive\n"
        "minutebook.streamRoleArn = arn:aws:iam::123456789012:role/reader\n"
        "AwsCredentialsProvider = DefaultCredentialsProvider\n"
    )
    with pytest.raises(SettingsError, match="both say as whom KCL asks Kinesis"):
        load_settings(path, {})


def test_presets() -> None:
    """What the user did not write is set so that nothing is lost and nothing is slow."""
    assert effective() == {
        "AwsCredentialsProvider": "DefaultCredentialsProvider",
        "applicationName": "a",
        "callProcessRecordsEvenForEmptyRecordList": "true",
        "executableName": "/bin/minutebook-processor",
        "initialPositionInStream": "TRIM_HORIZON",
        "isGracefulLeaseHandoffEnabled": "false",
        "leaseAssignmentIntervalMillis": "4000",
        "metricsLevel": "NONE",
        "minutebook.bucket": "archive",
        "regionName": "eu-west-1",
        "retrievalMode": "POLLING",
        "shardSyncIntervalMillis": "1000",
        "shutdownGraceMillis": "25000",
        "streamName": "s",
        "varianceBalancingFrequency": "15",
        "workerId": "w",
    }


def test_the_user_wins_over_presets() -> None:
    """A line in the file is kept."""
    values = effective(shutdownGraceMillis="5000", retrievalMode="FANOUT", workerId="mine")

    assert [values[name] for name in ("shutdownGraceMillis", "retrievalMode", "workerId")] == [
        "5000",
        "FANOUT",
        "mine",
    ]


def test_the_start_is_the_stored_one() -> None:
    """Whatever the file says of the initial position, all writers get the start stored beside the archive."""
    values = effective(KclStart(1_795_256_160), initialPositionInStream="TRIM_HORIZON")

    assert values["initialPositionInStreamExtended"] == "1795256160"
    assert "initialPositionInStream" not in values


def test_without_the_tick_nothing_starts() -> None:
    """Without empty calls an idle shard's last minute would stay uncommitted for ever."""
    with pytest.raises(SettingsError, match="callProcessRecordsEvenForEmptyRecordList"):
        effective(callProcessRecordsEvenForEmptyRecordList="false")


def test_the_file_is_whole_and_private(tmp_path: Path) -> None:
    """A second write replaces the first in one step; nobody else may read it; no draft stays."""
    path = tmp_path / "a.properties"
    write_effective(path, {"x": "1"})
    write_effective(path, {"minutebook.prefix": "a/", "y": "é=: #"})

    assert javaproperties.loads(path.read_text("ascii")) == {"minutebook.prefix": "a/", "y": "é=: #"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["a.properties"]  # noqa: PTH208 - names alone


def test_the_command_must_exist(tmp_path: Path) -> None:
    """A missing console script is said before the daemon fails on it."""
    with pytest.raises(SettingsError, match="missing or not executable"):
        processor_command(tmp_path / "python")


def test_the_command_must_not_hold_a_blank(tmp_path: Path) -> None:
    """The daemon splits its command at blanks."""
    folder = tmp_path / "my programs"
    folder.mkdir()
    script = folder / "minutebook-processor"
    script.write_text("")
    script.chmod(0o700)

    with pytest.raises(SettingsError, match="splits the command at blanks"):
        processor_command(folder / "python")


def test_who_ran_out_of_memory_reads_less_at_once() -> None:
    """It meets the same backlog when it is started again; and less still the second time, but never below a shard."""
    size, seen = ReadSize(), []
    for _ in range(4):
        values = size.bound({"workerId": "w"})
        seen.append((values.get("maxRecords"), values.get("idleTimeBetweenReadsInMillis")))
        size.ran_out()
    assert seen == [(None, None), ("1000", "500"), ("400", "250"), ("400", "250")]
    assert all(int(records or 0) / int(idle or 1) > 1 for records, idle in seen[1:])


def test_smaller_reads_leave_what_the_file_says_of_pauses_and_of_still_smaller_reads() -> None:
    """Others may read the shard, too: Kinesis counts the reads of all."""
    size = ReadSize()
    size.ran_out()
    paused = {"maxRecords": "5000", "idleTimeBetweenReadsInMillis": "2000"}
    with capture_logs() as logs:
        assert size.bound(paused) == {**paused, "maxRecords": "1000"}
        assert size.bound({"maxRecords": "700"}) == {"maxRecords": "700"}
    assert [(line["event"], line["max_records"], line["idle_millis"]) for line in logs] == [
        ("reads_made_smaller", 1000, 2000)
    ]
