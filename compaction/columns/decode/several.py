"""The steps `documents`, `cloudwatch-logs` and `each`: several events in one record.

    documents          {"a":1}{"a":2}                              {"a":1}  and  {"a":2}
    each = "Records"   {"by":"x","Records":[{"a":1},{"a":2}]}      {"by":"x","Records":{"a":1}}  and ...

An event of a list is its record with the event in the list's place, so that columns reach the rest of the record.
"""

import json
import re
from typing import Any, Final

import msgspec

from compaction.columns.decode.outcome import MAX_BYTES, MAX_EVENTS, Events, Outcome, too_long, too_many, undecoded
from compaction.columns.decode.rewriting import encoded, object_of
from compaction.columns.documents import read_document, twice
from compaction.columns.misfits import Ambiguous, Misfit
from minutebook.format.payload import is_decodable

_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_raw_decode: Final = json.JSONDecoder(parse_int=len, parse_float=len).raw_decode
_HOLE: Final = msgspec.Raw(b"\0")
"""No byte of JSON text."""
_LOG_EVENTS: Final = ("logEvents",)


def from_documents(payload: bytes) -> Outcome:
    """Return JSON texts that stand one after another, with or without blanks between, as they were written."""
    if not is_decodable(payload):
        return undecoded("documents", f"{len(payload)} bytes of too many values", "too_long")
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return undecoded("documents", "not UTF-8 text", "not_utf8")
    found, at = list[bytes](), _behind_blanks(text, 0)
    while at < len(text):
        try:
            _, end = _raw_decode(text, at)
        except (ValueError, RecursionError) as exc:
            return undecoded("documents", f"document {len(found) + 1:,} is not JSON: {str(exc)[:80]}", "not_json")
        found.append(text[at:end].encode())
        if len(found) > MAX_EVENTS:
            return too_many("documents")
        at = _behind_blanks(text, end)
    return found


def _behind_blanks(text: str, at: int) -> int:
    return _BLANKS.match(text, at).end()  # type: ignore[union-attr]  # it matches no blank, too


def from_cloudwatch_logs(payload: bytes) -> Events | Misfit:
    """Return the events of a record of CloudWatch Logs' subscription; a CONTROL_MESSAGE is one, too."""
    document = object_of(payload, "cloudwatch-logs")
    if not isinstance(document, dict):
        return document
    if not isinstance(document.get("messageType"), str) or not isinstance(document.get("logEvents"), list):
        return undecoded("cloudwatch-logs", "no record of CloudWatch Logs: messageType or logEvents is missing")
    return _of_list(document, _LOG_EVENTS, "cloudwatch-logs")


def from_each(payload: bytes, path: tuple[str, ...]) -> Events | Misfit:
    """Return an event for each element of the list at a path; an empty path is the payload itself.

    An element that has a key twice is a reason, and the others are events all the same.
    """
    if not path:
        document, problems = read_document(payload)
        if type(document) is not list:
            return undecoded("each", problems[0].what if problems else "an object, not a list")
        return _elements(document, b"", b"", "each")
    document = object_of(payload, "each")
    return _of_list(document, path, "each") if isinstance(document, dict) else document


def _of_list(document: dict[str, Any], path: tuple[str, ...], step: str) -> Events | Misfit:
    holder: Any = document
    for name in path[:-1]:
        holder = holder.get(name) if isinstance(holder, dict) else None
    elements = holder.get(path[-1]) if isinstance(holder, dict) else None
    if isinstance(elements, Ambiguous):
        return undecoded(step, twice(elements.key), "duplicate_key")
    if not isinstance(elements, list):
        return undecoded(step, f"there is no list at {'.'.join(path)[:80]}")
    holder[path[-1]] = _HOLE
    around = encoded(document, step)
    if not isinstance(around, list):
        return around
    before, _, behind = around[0].partition(b"\0")
    return _elements(elements, before, behind, step)


def _elements(elements: list[Any], before: bytes, behind: bytes, step: str) -> Events | Misfit:
    if len(elements) > MAX_EVENTS:
        return too_many(step)
    events, size = Events(), 0
    for element in elements:
        text = encoded(element, step)
        if not isinstance(text, list):
            events.append(text)
            continue
        event = before + text[0] + behind
        size += len(event)
        if size > MAX_BYTES:
            return too_long(step)
        events.append(event)
    return events
