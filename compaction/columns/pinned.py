"""The columns by which a published day was written, in an object beside its manifest.

    dt=D/_manifest/G-W.columns.json     the canonical mapping, the window of event times, the rules

A person may edit the file of columns at any time. What comes late to an old day must still be read as its other rows
were, so the day keeps its own mapping (docs/decisions/0054-a-day-keeps-its-columns.md). The object is one of its own
because earlier versions reject unknown fields in manifests; and `--columns` takes it as a file.
"""

import json
from typing import Any, Final

import msgspec

from compaction.columns.columns import Column, Columns, EventTime
from compaction.columns.steps import canonical, parse_steps
from compaction.columns.types import parse_type
from minutebook.errors import FormatError, SettingsError
from minutebook.format.document import FORMAT, decode_document, encode_document

_NEXT_STEP: Final = "restore the object from a version of it; or give --columns the file of then"


class _Column(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    path: str
    type: str
    required: bool = False


class _EventTime(msgspec.Struct, frozen=True, kw_only=True):
    """The last column, which is not one of the file's."""

    name: str
    path: str
    type: str
    window_days: int


class PinnedColumns(msgspec.Struct, frozen=True, kw_only=True):
    """The object. `digest` is that of all of it but `schemas`, which are the files that the columns were made of.

    `decode` are the steps before the columns, with the schemas that they name. Unknown fields are ignored: what
    changes rows changes the digest, too.
    """

    format: int
    day: str
    generation: str
    rules: str
    digest: str
    columns: dict[str, _Column]
    event_time: _EventTime | None = None
    decode: list[Any] = []
    schemas: dict[str, str] = {}


def encode_pinned(day: str, generation: str, columns: Columns) -> bytes:
    """Return the body of the object."""
    named = columns.columns[1 if columns.multiplies else 0 : None if columns.event is None else -1]
    last, event = columns.columns[-1], columns.event
    return encode_document(
        PinnedColumns(
            format=FORMAT,
            day=day,
            generation=generation,
            rules=columns.rules,
            digest=columns.digest,
            columns={
                each.name: _Column(path=each.path, type=each.type.text, required=each.required) for each in named
            },
            event_time=None
            if event is None
            else _EventTime(name=last.name, path=last.path, type=last.type.text, window_days=event.window_days),
            decode=json.loads(canonical(columns.decode)),
            schemas=dict(columns.schemas),
        )
    )


def decode_pinned(body: bytes, key: str, day: str, generation: str) -> Columns:
    """Return the columns of an object; raises FormatError, also where it is of another day or has another digest."""
    pinned = decode_document(body, PinnedColumns, key, next_step=_NEXT_STEP)
    if (pinned.day, pinned.generation) != (day, generation):
        raise FormatError(f"{key} is of {pinned.day}, {pinned.generation}", next_step=_NEXT_STEP)
    try:
        columns = [
            Column(name, each.path, parse_type(each.type), each.required) for name, each in pinned.columns.items()
        ]
        steps, event = parse_steps(pinned.decode), pinned.event_time
        if event is not None:
            columns.append(Column(event.name, event.path, parse_type(event.type)))
    except SettingsError as exc:
        raise FormatError(f"{key}: {exc}", next_step=_NEXT_STEP) from exc
    found = Columns(
        tuple(columns),
        None if event is None else EventTime(event.window_days),
        pinned.rules,
        tuple(pinned.schemas.items()),
    ).decoded_by(steps)
    if not columns or found.digest != pinned.digest:
        raise FormatError(f"{key} is not what was written: its digest is another one", next_step=_NEXT_STEP)
    return found
