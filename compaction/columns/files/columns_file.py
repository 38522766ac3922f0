"""Read the file of `--columns`: a mapping, a JSON Schema, or an Avro schema.

*.toml, *.json     {"columns": {"price": {"path": "order.price", "type": "decimal(10,2)", "required": true}}}
*.json             a JSON Schema: "properties" of an object
*.avsc, *.json     an Avro schema: "type": "record"

Each may hold `decode` beside that, a list of steps (`compaction.columns.steps`).
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from compaction.columns.columns import EVENT_INDEX, Column, Columns, checked, quoted
from compaction.columns.files.avro import columns_of_record
from compaction.columns.files.json_schema import columns_of_schema
from compaction.columns.steps import multiply, parse_steps
from compaction.columns.types import parse_type
from minutebook.errors import SettingsError

MAX_FILE_BYTES: Final = 4 << 20
_KEYS: Final = frozenset({"path", "type", "required"})
_NEXT_STEP: Final = "minutebook docs columns shows the three kinds of files; minutebook columns proposes one"


def read_columns(path: Path, envelope: Sequence[str]) -> Columns:
    """Read a file; `envelope` are reserved names. Raise SettingsError for an unreadable file or invalid columns."""
    source = f"--columns {path}"
    try:
        body = path.read_bytes()
    except OSError as exc:
        raise SettingsError(
            f"{source} cannot be read: {exc.strerror}", next_step="name a file that is there"
        ) from exc
    is_toml = path.suffix.lower() == ".toml"
    columns = parse_columns(body, source, envelope, is_toml=is_toml, folder=path.parent)
    if is_toml or _is_mapping(msgspec.json.decode(body)):
        return columns
    return columns._replace(schemas=((path.name, body.decode()),))


def parse_columns(
    body: bytes, source: str, envelope: Sequence[str], *, is_toml: bool, folder: Path | None = None
) -> Columns:
    """Read the content of a file in `folder`, which errors call `source`. Raises as `read_columns`."""
    if len(body) > MAX_FILE_BYTES:
        raise SettingsError(
            f"{source} has {len(body)} bytes; at most {MAX_FILE_BYTES} are read", next_step=_NEXT_STEP
        )
    document = _document(body, source, is_toml=is_toml)
    try:
        decode = parse_steps(document.get("decode", []), folder)
        columns = _columns(document)
    except SettingsError as exc:
        raise SettingsError(f"{source}: {exc}", next_step=exc.next_step or _NEXT_STEP) from exc
    except RecursionError as exc:
        raise SettingsError(f"{source} is nested too deeply", next_step=_NEXT_STEP) from exc
    reserved = [*envelope, EVENT_INDEX] if multiply(decode) else envelope
    return checked(columns, reserved, source).decoded_by(decode)


def _document(body: bytes, source: str, *, is_toml: bool) -> Mapping[str, Any]:
    try:
        document = tomllib.loads(body.decode()) if is_toml else msgspec.json.decode(body)
    except (ValueError, msgspec.MsgspecError, RecursionError) as exc:
        kind = "TOML" if is_toml else "JSON"
        raise SettingsError(f"{source} is not {kind}: {exc}", next_step=_NEXT_STEP) from exc
    if not isinstance(document, dict):
        raise SettingsError(f"{source} does not hold an object", next_step=_NEXT_STEP)
    return document


def _columns(document: Mapping[str, Any]) -> list[Column]:
    if _is_mapping(document):
        return [_mapped(name, spec) for name, spec in document["columns"].items()]
    if document.get("type") == "record":
        return columns_of_record(document)
    if "properties" in document or "$schema" in document:
        return columns_of_schema(document)
    raise SettingsError("it is neither a mapping with columns, nor a JSON Schema, nor an Avro record")


def _is_mapping(document: Mapping[str, Any]) -> bool:
    return isinstance(document.get("columns"), dict)


def _mapped(name: str, spec: object) -> Column:
    if isinstance(spec, str):
        spec = {"type": spec}
    if not isinstance(spec, dict):
        raise SettingsError(f"column {name!r}: expected path, type and required")
    if unknown := sorted(spec.keys() - _KEYS):
        raise SettingsError(f"column {name!r}: {unknown[0]!r} is not known; it takes path, type and required")
    path, kind, required = spec.get("path", quoted(name)), spec.get("type"), spec.get("required", False)
    if not isinstance(path, str) or not isinstance(kind, str) or not isinstance(required, bool):
        raise SettingsError(f"column {name!r}: path and type are texts, required is true or false")
    try:
        return Column(name, path, parse_type(kind), required)
    except SettingsError as exc:
        raise SettingsError(f"column {name!r}: {exc}", next_step=exc.next_step) from exc
