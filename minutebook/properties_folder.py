"""Which streams does FILE-or-FOLDER mean? A folder holds a properties file for each stream.

`shared.properties` of the folder lies under each of them: a file overrides its names. Other files are ignored, as
mappings of columns. For the nightly commands `s3://bucket/folder/` is a folder, too: by its last slash.
"""

import difflib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from minutebook.errors import MinutebookError, SettingsError
from minutebook.kcl_tables import kcl_tables
from minutebook.owner import parse_stream_arn
from minutebook.properties_file import (
    FILE_VARIABLE,
    TEXT_VARIABLE,
    PropertiesFile,
    Source,
    decode_properties,
    read_properties,
    with_variables,
)
from minutebook.remote_properties import fetch_properties, is_remote, list_properties
from minutebook.wording import ITEM

SHARED: Final = "shared.properties"
SUFFIX: Final = ".properties"
OF_ONE_STREAM: Final = (
    *("STREAM_NAME", "STREAM_ARN", "APPLICATION_NAME", "BUCKET", "PREFIX", "START", "DEDUPE", "DEDUPE_TABLE"),
    *("EVENT_ID", "PRODUCER_SEQUENCE", "PRODUCER_KEY", "PRODUCER_ORDERED", "COLUMNS", "EVENT_TIME", "EVENT_WINDOW"),
)
"""Variables, without `MINUTEBOOK_`, that would give all streams of a folder one place or one meaning of payloads."""
_EITHER: Final = {"streamName": "streamArn", "streamArn": "streamName"}
_FOLDER_NAME: Final = re.compile(r"[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*", re.ASCII)
"""An application's name that may be the name of a folder; KCL allows no other characters."""


class StreamFile(NamedTuple):
    """A stream of a folder: the stem of its file, and what that says with the shared names, or why it is unusable."""

    name: str
    properties: PropertiesFile | None
    error: MinutebookError | None = None

    @property
    def application(self) -> str:
        """Its KCL application; empty if the file does not say."""
        return "" if self.properties is None else self.properties.values.get("applicationName", "")

    @property
    def stream_name(self) -> str:
        """Its stream's name; empty if the file does not say."""
        values = {} if self.properties is None else self.properties.values
        arn = parse_stream_arn(values.get("streamArn", ""))
        return values.get("streamName") or (arn.name if arn else "")

    def settings(self) -> PropertiesFile:
        """Return what the loaders of settings take; raises the error of a file that cannot be used."""
        if self.properties is None or self.error is not None:
            raise self.error or SettingsError(f"{self.name} has no settings")
        return self.properties


class PropertiesFolder(NamedTuple):
    """The streams of a folder, by the names of their files."""

    name: str
    streams: tuple[StreamFile, ...]


class Remote(NamedTuple):
    """How folders at `s3://` are read: an object's bytes, and the addresses below a folder."""

    fetch: Callable[[str, Mapping[str, str]], bytes | None] = fetch_properties
    names: Callable[[str, Mapping[str, str]], Sequence[str]] = list_properties


_S3: Final = Remote()


def streams_of(
    file: Path | str | None, environ: Mapping[str, str], pick: str | None = None, *, remote: Remote = _S3
) -> Source | PropertiesFolder:
    """Return the folder if FILE or MINUTEBOOK_PROPERTIES is one, or the stream that `pick` names of it; else `file`.

    Raises SettingsError, before any request for a stream: the folder or its shared names cannot be used, two files
    share what belongs to one stream, or a variable gives all streams what belongs to one.
    """
    named = str(file) if file is not None else "" if environ.get(TEXT_VARIABLE) else environ.get(FILE_VARIABLE, "")
    try:
        is_folder = named.endswith("/") if is_remote(named) else bool(named) and Path(named).is_dir()
    except OSError:  # it lies in a folder that may not be entered: whoever reads it says so
        is_folder = False
    if not is_folder:
        if pick is not None:
            raise SettingsError("--stream needs a folder", next_step="it picks one of the streams that it holds")
        return file
    if environ.get(TEXT_VARIABLE):
        raise SettingsError(f"{named} and {TEXT_VARIABLE} are both given", next_step="keep one of them")
    _refuse_variables(named, environ)
    folder = PropertiesFolder(named, _read_all(named, environ, remote))
    _refuse_shared_places(folder)
    return folder if pick is None else _picked(folder, pick).settings()


def _refuse_variables(named: str, environ: Mapping[str, str]) -> None:
    given = [f"MINUTEBOOK_{name}" for name in OF_ONE_STREAM if environ.get(f"MINUTEBOOK_{name}")]
    if given:
        raise SettingsError(
            f"{', '.join(given)} would hold for every stream of {named}",
            next_step=f"unset it, and write the line into the streams' files; what all share belongs in {SHARED}",
        )


def _read_all(named: str, environ: Mapping[str, str], remote: Remote) -> tuple[StreamFile, ...]:
    read = _reader(environ, remote)
    files = {PurePath(each).name: each for each in _names(named, environ, remote)}
    shared = read(files.pop(SHARED)) if SHARED in files else None
    if shared is not None and shared.errors:
        raise SettingsError(
            ITEM.join([f"{shared.source}: {len(shared.errors)} error(s) in what all streams share", *shared.errors]),
            next_step="correct the lines named",
        )
    if not files:
        raise SettingsError(
            f"{named} holds no properties file of a stream",
            next_step=f"give it NAME{SUFFIX} for each stream; minutebook init prints one to start from",
        )
    streams = []
    for name, address in sorted(files.items()):
        stem = name.removesuffix(SUFFIX)
        try:
            file = with_variables(_laid_over(shared, read(address)), environ)
        except MinutebookError as exc:
            streams.append(StreamFile(stem, None, exc))
            continue
        stream = StreamFile(stem, file._replace(folder=named, stem=stem))
        streams.append(stream._replace(error=_name_error(stream, file.source)))
    return tuple(streams)


def _reader(environ: Mapping[str, str], remote: Remote) -> Callable[[str], PropertiesFile]:
    def read(address: str) -> PropertiesFile:
        if not is_remote(address):
            return read_properties(Path(address))
        body = remote.fetch(address, environ)
        if body is None:
            raise SettingsError(f"{address} was listed and is gone", next_step="run the command again")
        return decode_properties(body, address)

    return read


def _names(named: str, environ: Mapping[str, str], remote: Remote) -> list[str]:
    """Return the addresses of the properties files directly in the folder; hidden ones are none."""
    if is_remote(named):
        names: Sequence[str] = remote.names(named, environ)
    else:
        try:
            names = [entry.path for entry in os.scandir(named) if entry.is_file()]
        except OSError as exc:
            raise SettingsError(f"{named}: {exc.strerror}", next_step="let this user list the folder") from exc
    return [each for each in names if each.endswith(SUFFIX) and not PurePath(each).name.startswith((".", SUFFIX))]


def _laid_over(shared: PropertiesFile | None, own: PropertiesFile) -> PropertiesFile:
    if shared is None:
        return own
    hidden = {_EITHER[name] for name in own.values.keys() & _EITHER.keys()}
    below = {name: text for name, text in shared.values.items() if name not in hidden}
    return own._replace(values={**below, **own.values}, source=f"{own.source} (with {SHARED})")


def _name_error(stream: StreamFile, source: str) -> SettingsError | None:
    """Return why the application's name cannot be the name of a folder of its own below --out."""
    if not stream.application or _FOLDER_NAME.fullmatch(stream.application):
        return None
    return SettingsError(
        f"{source}: applicationName={stream.application} may hold letters, digits, '_', '.' and '-' alone",
        next_step="correct the name",
    )


def _refuse_shared_places(folder: PropertiesFolder) -> None:
    """Raise SettingsError if two files name one application, archive, table of KCL or table of claims."""
    users: dict[tuple[str, str], list[str]] = defaultdict(list)
    for stream in folder.streams:
        values = {} if stream.properties is None else stream.properties.values
        if stream.application:
            users["applicationName", stream.application].append(stream.name)
            for table in {*kcl_tables(stream.application, values).values()}:
                users["table of KCL", table].append(stream.name)
        if bucket := values.get("minutebook.bucket"):
            users["archive", f"s3://{bucket}/{values.get('minutebook.prefix', '')}"].append(stream.name)
        if values.get("minutebook.dedupe"):
            table = values.get("minutebook.dedupeTable") or f"{stream.application}-dedupe"
            users["dedupe table", table].append(stream.name)
    twice = [
        f"{' and '.join(f'{name}{SUFFIX}' for name in names)} name one {what}: {value}"
        for (what, value), names in users.items()
        if len(names) > 1
    ]
    if twice:
        raise SettingsError(
            ITEM.join([f"{folder.name}: what belongs to one stream is named by several files", *twice]),
            next_step="give each stream its own application, prefix and table, or keep one of the files",
        )


def _picked(folder: PropertiesFolder, pick: str) -> StreamFile:
    by_stem = {stream.name: stream for stream in folder.streams}
    if pick in by_stem:
        return by_stem[pick]
    named = [stream for stream in folder.streams if stream.stream_name == pick]
    if len(named) == 1:
        return named[0]
    if named:
        raise SettingsError(
            f"--stream {pick}: {' and '.join(stream.name for stream in named)} read streams of that name",
            next_step="give the stem of the file",
        )
    known = [*by_stem, *filter(None, (stream.stream_name for stream in folder.streams))]
    close = difflib.get_close_matches(pick, known, n=1)
    raise SettingsError(
        f"--stream {pick}: {folder.name} holds no such stream" + (f"; did you mean {close[0]}?" if close else ""),
        next_step="give the stem of a file, or the streamName in it",
    )
