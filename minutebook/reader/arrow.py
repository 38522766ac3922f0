"""A pyarrow Dataset of exactly the published files.

A file system handler verifies each file as it is opened, and returns pyarrow's native file: reads do not pass through
Python.
"""

from collections import deque
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Final, NamedTuple, Never

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from minutebook.aws.clients import aws_session
from minutebook.cut import Cut
from minutebook.errors import ObjectVanished, SettingsError, StoreRefused
from minutebook.published.schema import SCHEMA
from minutebook.reader.days import PublishedDay, PublishedDays
from minutebook.store.parallel import in_parallel
from minutebook.store.storage import Address

DAY_NAME: Final = "dt"
_DAY: Final = pa.field(DAY_NAME, pa.string())
_GREATEST_SUB: Final = 2**63 - 1
PLACE: Final = ("shard_id", "sequence_number", "sub_sequence_number")
"""The columns of a row's position."""
_REFRESHED: Final = frozenset({"container-role", "iam-role", "assume-role-with-web-identity"})
"""Credentials that pyarrow finds and refreshes by itself."""
_LATEST: Final[deque[pafs.PyFileSystem]] = deque(maxlen=16)
"""Held, so that Python frees them. One of Arrow's threads may have the last reference when a table is returned, and
would abort the process where Python ends meanwhile (apache/arrow issue 34314)."""


def open_dataset(
    published: PublishedDays, columns: Sequence[str] | None, *, before: Cut | None = None, after: Cut | None = None
) -> ds.Dataset:
    """Return the Dataset of the days' files; see `minutebook.reader.read`."""
    dataset, condition = open_files(published, columns, before=before, after=after)
    return dataset if condition is None else dataset.filter(condition)


class OpenedFiles(NamedTuple):
    """The Dataset of all files, and the condition that cuts make of its rows; None: there is no cut."""

    dataset: ds.FileSystemDataset
    condition: pc.Expression | None


def open_files(
    published: PublishedDays,
    columns: Sequence[str] | None,
    *,
    before: Cut | None = None,
    after: Cut | None = None,
    others: Sequence[pa.Schema] = (),
) -> OpenedFiles:
    """Return the Dataset of the days' files, in their order; `others` are schemas that its own holds, too."""
    if columns is not None and (before or after):
        columns = [*columns, *(name for name in PLACE if name not in columns)]
    sizes = {file.path: file.bytes for day in published.days for file in day.files}
    files = pafs.PyFileSystem(PublishedFiles(_file_system(published.address), sizes))
    _LATEST.append(files)
    schema = _schema(files, published.days, columns, others)
    parquet = ds.ParquetFileFormat()
    fragments = [
        parquet.make_fragment(file.path, files, pc.field(_DAY.name) == str(day.day))
        for day in published.days
        for file in day.files
    ]
    conditions = [] if before is None else [_lies_before(before)]
    conditions += [] if after is None else [~_lies_before(after)]
    condition = reduce(and_, conditions) if conditions else None
    return OpenedFiles(ds.FileSystemDataset(fragments, schema, parquet, files), condition)


def _lies_before(cut: Cut) -> pc.Expression:
    """Return the condition that a row lies before a cut.

    Decimal texts without leading zeros are compared by length, then by their digits: 56 of them exceed every integer.
    Each row is compared with the position of its own shard alone, so thousands of shards cost little. A shard that
    the cut does not divide has none: the comparison is null, and Kleene's `and` of false and null is false.
    """
    shard, number, sub = map(pc.field, PLACE)
    ended = [name for name in cut.shards if cut.has_ended(name)]
    has_ended = shard.isin(pa.array(ended, pa.string()))
    if not cut.positions:
        return has_ended
    names = pa.array(cut.positions, pa.string())
    at = pc.index_in(shard, value_set=names)
    text = pc.choose(at, *(pc.scalar(str(last.sequence)) for last in cut.positions.values()))
    last_sub = pc.choose(at, *(pc.scalar(min(last.sub, _GREATEST_SUB)) for last in cut.positions.values()))
    length, last_length = pc.utf8_length(number), pc.utf8_length(text)
    is_same = (number == text) & (sub <= last_sub)
    is_lower = (length < last_length) | ((length == last_length) & (number < text))
    return has_ended | (shard.isin(names) & (is_lower | is_same))


def _schema(
    files: pafs.FileSystem, days: Sequence[PublishedDay], columns: Sequence[str] | None, others: Sequence[pa.Schema]
) -> pa.Schema:
    """Return the columns of all days; one run writes a day's files, with one schema."""
    samples = [(day, file.path) for day in days for file in day.files[:1]]
    schemas = in_parallel(lambda pair: pq.read_schema(pair[1], filesystem=files).remove_metadata(), samples)
    schemas = [*schemas, *others] or [SCHEMA]
    if columns is not None:
        _check_known([*dict.fromkeys(name for schema in schemas for name in (*schema.names, _DAY.name))], columns)
        schemas = [pa.schema([field for field in schema if field.name in columns]) for schema in schemas]
    try:
        whole = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as exc:
        raise SettingsError(
            f"a column has types in these days that no common type holds: {exc}", next_step=_APART
        ) from exc
    for (day, _), schema in zip(samples, schemas, strict=False):
        _check_exact(day, schema, whole)
    if _DAY.name not in whole.names:
        whole = whole.append(_DAY)
    return whole if columns is None else pa.schema([whole.field(name) for name in columns])


def _check_known(names: Sequence[str], columns: Sequence[str]) -> None:
    if isinstance(columns, str) or not set(columns) <= set(names):
        raise SettingsError(f"there is no column {columns!r}", next_step=f"choose of {', '.join(names)}")


def _check_exact(day: PublishedDay, schema: pa.Schema, whole: pa.Schema) -> None:
    for field in schema:
        wide = whole.field(field.name).type
        if not _holds(wide, field.type):
            raise SettingsError(
                f"column {field.name} is {field.type} on {day.day}, and {wide}, which the other days ask for, does "
                "not hold its values exactly",
                next_step=_APART,
            )


_APART: Final = "read the days before and after the change one by one, or without the column: columns=[...]"
_MOST_BITS_IN_DOUBLES: Final = 32
_MOST_DIGITS: Final = 38


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Return whether a type holds each value of another one, for other engines, too.

    pyarrow also widens decimals to doubles, and rounds; and to more digits than DuckDB reads.
    """
    kinds = pa.types
    if kinds.is_struct(wide) and kinds.is_struct(narrow):
        return all(_holds(wide.field(field.name).type, field.type) for field in narrow)
    for is_kind, part in ((kinds.is_list, "value_type"), (kinds.is_map, "item_type")):
        if is_kind(wide) and is_kind(narrow):
            return _holds(getattr(wide, part), getattr(narrow, part))
    if kinds.is_floating(wide) and kinds.is_integer(narrow):
        return bool(narrow.bit_width <= _MOST_BITS_IN_DOUBLES)
    if kinds.is_floating(wide):
        return not kinds.is_decimal(narrow)
    if kinds.is_decimal(wide):  # beyond 38 digits other engines have none
        return not kinds.is_integer(narrow) and bool(wide.precision <= _MOST_DIGITS)
    return not (kinds.is_binary(wide) and kinds.is_string(narrow))


def _file_system(address: Address) -> pafs.FileSystem:
    if address.bucket is None:
        return pafs.LocalFileSystem()
    options: dict[str, str | None] = {"region": address.region}
    if address.endpoint is not None:
        scheme, _, host = address.endpoint.partition("://")
        options |= {"endpoint_override": host, "scheme": scheme}
    credentials = aws_session().get_credentials()
    if credentials is not None and credentials.method not in _REFRESHED:
        frozen = credentials.get_frozen_credentials()
        options |= {"access_key": frozen.access_key, "secret_key": frozen.secret_key}
        if frozen.token:
            options["session_token"] = frozen.token
    return pafs.S3FileSystem(**options)


class PublishedFiles(pafs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """A read-only file system of the published files alone. `sizes` are their bytes by path."""

    def __init__(self, files: pafs.FileSystem, sizes: dict[str, int]) -> None:
        self.files = files
        self.sizes = sizes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublishedFiles) and (self.files, self.sizes) == (other.files, other.sizes)

    __hash__ = None  # type: ignore[assignment]  # it holds a dict

    def get_type_name(self) -> str:
        """Return a name for messages."""
        return "minutebook"

    def normalize_path(self, path: str) -> str:
        """Return the path unchanged."""
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        """Return the sizes of the manifests, without a request."""
        return [
            pafs.FileInfo(path, pafs.FileType.File, size=self.sizes[path])
            if path in self.sizes
            else pafs.FileInfo(path, pafs.FileType.NotFound)
            for path in paths
        ]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        """Refuse: files are not listed."""
        raise self._refusal(selector.base_dir)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a published file; raises ObjectVanished if it is gone or has another size."""
        try:
            opened = self.files.open_input_file(path)
        except FileNotFoundError as exc:
            raise self._gone(path, "is gone") from exc
        if (size := opened.size()) != self.sizes.get(path):
            raise self._gone(path, f"has {size} bytes, and was published with {self.sizes.get(path)}")
        return opened

    open_input_stream = open_input_file

    def _gone(self, path: str, what: str) -> ObjectVanished:
        return ObjectVanished(
            f"{path} {what}",
            next_step="open the days again: a replaced generation is kept for three days, and pointers name the new "
            "one; if the new one is not whole, run minutebook compact for the day",
        )

    def _refusal(self, path: object) -> StoreRefused:
        return StoreRefused(f"{path}: published days are only read", next_step="write with minutebook compact")

    def _refuse(self, path: object = "", *_: object) -> Never:
        raise self._refusal(path)

    create_dir = delete_dir = delete_dir_contents = delete_file = move = copy_file = _refuse
    open_output_stream = open_append_stream = delete_root_dir_contents = _refuse
