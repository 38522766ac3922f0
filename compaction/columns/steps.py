"""The list `decode` at the head of a file of columns: its steps, how each is written, and its canonical form. Pure.

    decode = ["gzip", {json-text = "Message"}]
    decode = [{avro = "order.avsc"}]

A step is a name, or a table of one name and its argument. Steps are applied in their order. Those that recognize
their own bytes are skipped where these are absent, because streams mix while a producer changes; all others must
succeed, or the row says why.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import jmespath

from minutebook.errors import SettingsError
from minutebook.format.payload import names_of

GLUE_REGISTRY: Final = "glue-registry"
SKIPPED: Final = ("gzip", "zstd", "bom", GLUE_REGISTRY)
"""Steps that are skipped where a payload does not begin with their magic bytes."""
MULTIPLYING: Final = ("documents", "cloudwatch-logs", "each")
"""Steps that may find several events in a record, or none."""
NEEDED: Final = ("base64", "json-text", "dynamodb", "avro", *MULTIPLYING)
"""Steps that must succeed on every payload."""
WITH_PATH: Final = frozenset({"json-text", "each"})
"""Steps that may name a path of the payload."""
MAX_STEPS: Final = 10
_AVRO: Final = "avro"
_IN_CHILD: Final = frozenset({_AVRO, GLUE_REGISTRY})
"""Steps that need fastavro."""
_EACH: Final = "each"
_WHOLE: Final = "@"
"""The path of a payload that is a list itself."""
_SCHEMA_FAULTS: Final = (OSError, ValueError, RecursionError, TypeError, LookupError, AttributeError)
"""What fastavro raises for JSON that is no schema, beside its own errors."""
_NEXT_STEP: Final = "minutebook docs columns shows the steps; minutebook columns --sniff proposes them"


class Step(NamedTuple):
    """A step; `path` are the names of the value that it is applied to (empty: the whole payload).

    `schema` is the Avro schema of the file that the step names, as JSON; without one `avro` reads object containers.
    """

    name: str
    path: tuple[str, ...] = ()
    schema: str = ""

    @property
    def text(self) -> str:
        """The step as it is written in a file of columns; a schema by its digest, in place of the file's name."""
        if self.schema:
            return f"{{{self.name} = schema {hashlib.sha256(self.schema.encode()).hexdigest()[:8]}}}"
        if not self.path and self.name != _EACH:
            return json.dumps(self.name)
        path = _path_text(self.path) or _WHOLE
        return f"{{{self.name} = {json.dumps(path, ensure_ascii=False)}}}"


Steps = tuple[Step, ...]


def canonical(steps: Iterable[Step]) -> str:
    """Return the one form of equal steps as JSON, with the contents of files: for digests and pins."""
    return json.dumps([_canonical(step) for step in steps])


def _canonical(step: Step) -> object:
    if step.schema:
        return {step.name: json.loads(step.schema)}
    return {step.name: list(step.path)} if step.path or step.name == _EACH else step.name


def multiply(steps: Iterable[Step]) -> bool:
    """Return whether a record may hold several events, or none: a file of Avro, too."""
    return any(step.name in MULTIPLYING or (step.name == _AVRO and not step.schema) for step in steps)


def parse_steps(value: object, folder: Path | None = None) -> Steps:
    """Return the steps of `decode`, also of its canonical form; raise SettingsError for what is none.

    Files that steps name lie relative to `folder`, that of the file of columns.
    """
    if not isinstance(value, list):
        raise SettingsError('decode is a list of steps, such as ["gzip"]', next_step=_NEXT_STEP)
    if len(value) > MAX_STEPS:
        raise SettingsError(f"decode has {len(value)} steps; at most {MAX_STEPS} are taken", next_step=_NEXT_STEP)
    return tuple(_step(each, folder or Path()) for each in value)


def written(steps: Iterable[Step]) -> str:
    """Return the line of a file of columns."""
    return f"decode = [{', '.join(step.text for step in steps)}]\n"


def _step(value: object, folder: Path) -> Step:
    if isinstance(value, str):
        if _known(value) == _EACH:
            raise SettingsError("decode: each needs the path of a list", next_step='write {each = "Records"}')
        if value in _IN_CHILD:
            _parser(value)
        return Step(value)
    if isinstance(value, Mapping) and len(value) == 1:
        name, argument = next(iter(value.items()))
        if _known(str(name)) == _AVRO:
            return Step(_AVRO, schema=_schema(folder, argument))
        if name not in WITH_PATH:
            raise SettingsError(f'decode: {name} takes no argument; write "{name}"', next_step=_NEXT_STEP)
        return Step(str(name), _names(str(name), argument))
    raise SettingsError(f"decode: {_shown(value)} is no step", next_step=_NEXT_STEP)


def _schema(folder: Path, given: Any) -> str:  # noqa: ANN401 - what a file holds
    """Read the file of an Avro schema, or take the schema itself; raise SettingsError if fastavro does not."""
    file = given if isinstance(given, str) else "the schema of avro"
    parse, unparsed, unknown = _parser(_AVRO)
    try:
        schema = json.loads((folder / given).read_bytes()) if isinstance(given, str) else given
        parse(schema)
    except (*_SCHEMA_FAULTS, unparsed, unknown) as exc:
        raise SettingsError(
            f"decode: {file} is no Avro schema: {exc}",
            next_step="name a file that is one, relative to that of the columns",
        ) from exc
    return _one_form(schema)


def _parser(step: str) -> tuple[Callable[[Any], object], type[Exception], type[Exception]]:
    """Return fastavro's parser of schemas, and what it raises; raise SettingsError where it is not installed."""
    try:
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema  # noqa: PLC0415 - an extra
    except ImportError as exc:
        raise SettingsError(
            f"decode: {step} needs the package fastavro", next_step="install the extra `compact` or `spark`"
        ) from exc
    return parse_schema, SchemaParseException, UnknownType


def _one_form(schema: object) -> str:
    """Return a schema as JSON: an object or a list, so that it is told from the name of a file."""
    return json.dumps({"type": schema} if isinstance(schema, str) else schema, separators=(",", ":"))


def _known(name: str) -> str:
    if name not in {*SKIPPED, *NEEDED}:
        raise SettingsError(
            f"decode: there is no step {name[:80]!r}; steps are {', '.join((*SKIPPED, *NEEDED))}",
            next_step=_NEXT_STEP,
        )
    return name


def _names(step: str, path: object) -> tuple[str, ...]:
    if step == _EACH and path in (_WHOLE, []):
        return ()
    if isinstance(path, list) and path and all(isinstance(name, str) for name in path):
        return tuple(path)
    try:
        names = names_of(jmespath.compile(path).parsed) if isinstance(path, str) else None
    except (ValueError, RecursionError):  # no JMESPath, or a number of thousands of digits, which Python reads not
        names = None
    if names is None:
        raise SettingsError(
            f"decode: {step} = {_shown(path)}: a path here is names alone, as in detail.body",
            next_step=_NEXT_STEP,
        )
    return tuple(names)


def _shown(value: object) -> str:
    try:
        return json.dumps(value, default=str)[:80]
    except ValueError:  # TOML has hexadecimal numbers of any length, and Python writes none of thousands of digits
        return "a number of thousands of digits"


def _path_text(path: tuple[str, ...]) -> str:
    return ".".join(name if name.isidentifier() and name.isascii() else json.dumps(name) for name in path)
