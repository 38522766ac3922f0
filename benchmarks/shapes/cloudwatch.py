"""Subscriptions of CloudWatch Logs: gzip, several log events a record, control messages; and messages with lists."""

import gzip
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.shapes.sent import (
    Event,
    Sent,
    Shape,
    as_json,
    at_microseconds,
    body,
    drawn,
    microseconds,
    moment,
    several,
    unread,
    word,
)

_COLUMNS: Final = """
decode = ["gzip", "cloudwatch-logs"]
[columns.id]
path = "logEvents.id"
type = "string"
[columns.kind]
path = "messageType"
type = "string"
[columns.log_group]
path = "logGroup"
type = "string"
[columns.at]
path = "logEvents.timestamp"
type = "timestamp(ms)"
[columns.message]
path = "logEvents.message"
type = "string"
[columns.tags]
path = "subscriptionFilters"
type = "list<string>"
"""
_LISTS: Final = """
decode = ["gzip", "cloudwatch-logs", {json-text = "logEvents.message"}, {each = "logEvents.message.requests"}]
[columns.id]
path = "logEvents.message.requests.id"
type = "string"
[columns.kind]
path = "messageType"
type = "string"
[columns.log_group]
path = "logGroup"
type = "string"
[columns.at]
path = "logEvents.timestamp"
type = "timestamp(ms)"
[columns.n]
path = "logEvents.message.requests.n"
type = "int64"
[columns.labels]
path = "logEvents.message.labels"
type = "map<string, int32>"
"""
_Values = dict[str, Any]
_DATA: Final = "DATA_MESSAGE"
_CONTROL: Final = "CWL CONTROL MESSAGE: Checking health of destination Kinesis stream."


def _record(kind: str, group: str, events: Sequence[_Values]) -> bytes:
    return body(
        {
            "messageType": kind,
            "owner": "000000000000",
            "logGroup": group,
            "logStream": "stream",
            "subscriptionFilters": ["all"],
            "logEvents": list(events),
        }
    )


def _log_event(seed: int, message: str) -> tuple[_Values, _Values]:
    """Return a log event as it is sent, and its columns."""
    when = microseconds(moment(drawn(seed))) // 1000
    sent: _Values = {"id": f"{seed:056d}", "timestamp": when, "message": message}
    return sent, {"id": sent["id"], "at": at_microseconds(when * 1000), "message": message}


def _common(kind: str, group: str) -> _Values:
    return {"kind": kind, "log_group": group, "tags": ["all"]}


def _zipped(text: bytes) -> bytes:
    return gzip.compress(text, mtime=0)


def _send(number: int, _: int) -> Sent:
    group = f"/aws/lambda/{number % 3}"
    made = [_log_event(number * 10 + each, word(drawn(each + number))) for each in range(number % 4)]
    logs, rows = [log for log, _ in made], [Event(_common(_DATA, group) | row) for _, row in made]
    at, why = number % 12, ""
    if at == 1:
        log, row = _log_event(number, _CONTROL)
        kind, group, logs = "CONTROL_MESSAGE", "", [log]
        text, rows = _record(kind, group, logs), [Event(_common(kind, group) | row)]
    elif at == 3:  # noqa: PLR2004 - of several events one has a time that is none
        logs[-1]["timestamp"] = "soon"
        rows[-1] = Event({**rows[-1].values, "at": None}, 'at: "soon" is not timestamp(ms)')
        text = _record(_DATA, group, logs)
    else:
        text = _record(_DATA, group, logs)
    payload = _zipped(text)
    match at:
        case 2:  # an agent of ours that does not compress
            payload = text
        case 5:
            payload, why = payload[:-9], " (gzip): the gzip stream is cut short"
        case 6:  # in members, as a shipper that flushes writes it
            payload = _zipped(text[:30]) + _zipped(text[30:])
        case 7:
            payload = _zipped(b'{"id":"x"}')
            why = " (cloudwatch-logs): no record of CloudWatch Logs: messageType or logEvents is missing"
        case 9:
            payload, why = b"hello", " (cloudwatch-logs): not JSON: Expecting value: line 1 column 1 (char 0)"
    return unread(payload, why) if why else several(payload, rows)


def _send_lists(number: int, _: int) -> Sent:
    """Return log events whose messages are JSON with a list each: its elements are the rows."""
    if number % 10 == 1:
        log, _row = _log_event(number, _CONTROL)
        why = " (json-text): logEvents.message is no string of JSON"
        return unread(_zipped(_record("CONTROL_MESSAGE", "", [log])), why)
    logs, rows, source = list[_Values](), list[Event](), drawn(number)
    for each in range(1 + number % 3):
        labels: _Values = {f"l{key}": source.randrange(1 << 31) for key in range(each)}
        requests = [
            {"id": f"r{number}-{key}", "n": source.randrange(-(1 << 63), 1 << 63)}
            for key in range(source.randrange(3))
        ]
        more: _Values = {}
        unfit: str | None = None
        if number % 10 == 4 and each == 1:  # noqa: PLR2004 - a label is none of its type: the map keeps the key
            more, unfit = {"x": "x", "nothing": None}, 'labels[]: "x" is not int32 (at [1])'
        log, row = _log_event(number * 10 + each, as_json({"labels": labels | more, "requests": requests}))
        common = {"kind": _DATA, "log_group": "/g", "at": row["at"], "labels": labels | dict.fromkeys(more)}
        if number % 10 == 2 and each == 2:  # noqa: PLR2004 - one of several is a plain line
            log["message"] = "plain"
            rows.append(Event({}, "payload (json-text): logEvents.message is no string of JSON"))
        else:
            rows += [Event(common | request, unfit) for request in requests]
        logs.append(log)
    return several(_zipped(_record(_DATA, "/g", logs)), rows)


CLOUDWATCH: Final = Shape("CloudWatch Logs", _COLUMNS, _send)
CLOUDWATCH_LISTS: Final = Shape("CloudWatch Logs, lists in messages", _LISTS, _send_lists)
