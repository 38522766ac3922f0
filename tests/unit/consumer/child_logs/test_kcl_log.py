"""Reading the daemon's own log: real lines of it, and whatever else may stand on its stdout."""

import json
from pathlib import Path

import pytest

from consumer.child_logs.kcl_log import KclError, KclEvent, Skipped, read_kcl_error, read_kcl_line

_LINES = Path(__file__).parents[3] / "data" / "kcl-log"
_SHARD = "shardId-000000000000"
_SEQUENCE = "49680446054754929803669681608519059298975856590957051906"


@pytest.mark.parametrize(
    ("name", "event"),
    [
        (
            "aggregate_rest.json",
            KclEvent(
                Skipped.AGGREGATE_REST,
                "java.lang.IndexOutOfBoundsException: Index 2072841727 out of bounds for length 1",
                sequence_number=_SEQUENCE,
            ),
        ),
        (
            "batch.json",
            KclEvent(Skipped.BATCH, "java.lang.NoClassDefFoundError: javax/xml/bind/DatatypeConverter", shard=_SHARD),
        ),
        ("process_task.json", KclEvent(Skipped.BATCH, "java.lang.NullPointerException: x", shard=_SHARD)),
        ("application.json", KclEvent(Skipped.BATCH, "java.lang.IllegalStateException: y", shard=_SHARD)),
        (
            "out_of_memory.txt",
            KclEvent(Skipped.NOTHING, "Terminating due to java.lang.OutOfMemoryError: Java heap space"),
        ),
    ],
)
def test_a_line_says_what_was_skipped(name: str, event: KclEvent) -> None:
    """Captured from KCL 3.1.3."""
    assert read_kcl_line((_LINES / name).read_bytes()) == event


def test_a_batch_is_not_counted_twice() -> None:
    """KCL logs a skipped batch once more when it looks after its consumers."""
    line = (_LINES / "batch_again.json").read_bytes()
    assert b"The incoming data has been skipped" in line
    assert read_kcl_line(line) is None


def test_ordinary_lines_say_nothing() -> None:
    """Each kind of line that a healthy daemon printed."""
    lines = (_LINES / "other.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) > 20
    assert [read_kcl_line(line) for line in lines] == [None] * len(lines)


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"{", b"[]\n", b"null\n", b'{"message": 7}\n', b'{"arguments": [1]}\n', b"\xff{}\n", b"{\xff}\n"],
)
def test_other_texts_say_nothing(line: bytes) -> None:
    """No line ends the supervisor."""
    assert read_kcl_line(line) is None


def test_a_producer_cannot_choose_the_sequence_number() -> None:
    """A partition key may look like the line that names it, which comes later."""
    entry = json.loads((_LINES / "aggregate_rest.json").read_bytes())
    entry["message"] = entry["message"].replace("poison", "Sequence number: 1\nRaw data: x")
    event = read_kcl_line(json.dumps(entry).encode())
    assert event is not None
    assert event.sequence_number == _SEQUENCE


def test_a_producer_cannot_fake_a_line() -> None:
    """What a line quotes is not what it says."""
    entry = json.loads((_LINES / "other.jsonl").read_bytes().splitlines()[0])
    entry["message"] = (_LINES / "aggregate_rest.json").read_text()
    line = json.dumps(entry).encode()
    assert [read_kcl_line(line), read_kcl_line(line[:-3])] == [None, None]


def test_a_line_that_is_cut_off_is_known_by_its_beginning() -> None:
    """KCL logs an aggregate whole, so a line may be longer than anyone wants to hold."""
    event = read_kcl_line((_LINES / "aggregate_rest.json").read_bytes()[:1000])
    assert event is not None
    assert (event.skipped, event.sequence_number) == (Skipped.AGGREGATE_REST, "")


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("denied_create_table.json", "CreateTable"),
        ("not_initialised.json", "CreateTable"),
        ("denied_update_item.json", "UpdateItem"),
        ("denied_query.json", "Query"),
    ],
)
def test_a_permission_that_is_missing_is_named(name: str, action: str) -> None:
    """The root of KCL's exceptions, however deep they are wrapped."""
    error = read_kcl_error((_LINES / name).read_bytes())

    assert error is not None
    assert error.denied
    assert f"not authorized to perform: dynamodb:{action} on" in error.error


def test_another_error_is_its_root() -> None:
    """What `daemon_restarting` and `gave_up` name."""
    assert read_kcl_error((_LINES / "process_task.json").read_bytes()) == KclError(
        "java.lang.NullPointerException: x"
    )


def test_what_cloudwatch_refuses_is_no_permission_that_kcl_needs() -> None:
    """KCL goes on without its metrics."""
    line = (_LINES / "denied_query.json").read_bytes()
    error = read_kcl_error(line.replace(b"services.dynamodb", b"services.cloudwatch"))

    assert error is not None
    assert not error.denied


@pytest.mark.parametrize("line", [b"", b"{", b"Exception in thread", b'{"level":"ERROR"}', b'{"level":"INFO"}'])
def test_other_lines_tell_no_error(line: bytes) -> None:
    """Nor does an error line without an exception."""
    assert read_kcl_error(line) is None
