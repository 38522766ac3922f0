"""What of the nightly commands' options cannot be said of several streams at once."""

import pytest

from compaction.job.checks import one_streams_options, table_of_each, table_of_stream
from compaction.job.request import AuditRequest, CompactRequest
from minutebook.errors import SettingsError
from minutebook.properties_file import PropertiesFile
from minutebook.properties_folder import PropertiesFolder, StreamFile


def folder_of(*applications: str) -> PropertiesFolder:
    """Return a folder of streams."""
    files = (PropertiesFile({"applicationName": name}, (), name, stem=name) for name in applications)
    return PropertiesFolder("streams", tuple(map(StreamFile, applications, files)))


@pytest.mark.parametrize(
    ("request_", "option"),
    [
        (AuditRequest(date="yesterday", shard="shardId-000000000000"), "--shard"),
        (CompactRequest(date="yesterday", accept="lost in incident 42"), "--accept"),
    ],
)
def test_what_is_said_of_one_stream_needs_its_name(request_: AuditRequest | CompactRequest, option: str) -> None:
    """A reason accepts one stream's day; each stream has a shard of that name."""
    with pytest.raises(SettingsError, match=f"{option} is of one stream") as caught:
        one_streams_options(folder_of("a", "b"), request_)
    assert "--stream" in caught.value.next_step
    one_streams_options(None, request_)


def test_an_iceberg_table_is_one_streams() -> None:
    """A commit replaces its day: in one table, each stream would remove the others' rows."""
    with pytest.raises(SettingsError, match=r"a and b would be published in one table, events\.raw"):
        table_of_each(folder_of("a", "b"), "events.raw")
    table_of_each(folder_of("a", "b"), "events.{application}")
    table_of_each(folder_of("a"), "events.raw")
    table_of_each(None, "events.raw")
    with pytest.raises(SettingsError, match=r"one table, events\.a_b"):
        table_of_each(folder_of("a-b", "A.b"), "events.{application}")


def test_the_name_of_a_table_takes_no_dots_or_dashes_of_an_application() -> None:
    """They would be namespaces, or refused by the catalog."""
    assert table_of_stream("events.{application}", "Orders-v1.2") == "events.orders_v1_2"
    assert table_of_stream("events.raw", "orders") == "events.raw"
    assert table_of_stream(None, "orders") is None
