"""Read a Java properties file as the daemon does, and reject what the daemon would misread.

The settings come from the first of these; MINUTEBOOK_STREAM_NAME and so on override the lines of the file:

    FILE                          the argument of a command
    MINUTEBOOK_PROPERTIES_TEXT    a whole file as text, for example in a task definition
    MINUTEBOOK_PROPERTIES         the path of a file
    MINUTEBOOK_STREAM_NAME ...    alone, without a file
"""

import codecs
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import javaproperties

from minutebook.errors import SettingsError

FILE_VARIABLE: Final = "MINUTEBOOK_PROPERTIES"
TEXT_VARIABLE: Final = "MINUTEBOOK_PROPERTIES_TEXT"
SUPERVISED_VARIABLE: Final = "MINUTEBOOK_SUPERVISED"
"""Set for processors below a supervisor, which reads all their lines and applies `minutebook.logLevel` itself."""
FORKS_VARIABLE: Final = "MINUTEBOOK_FORK_SERVER"
"""The fork server's socket, for the program that the daemon starts (consumer/forks/stub.py); not a setting."""
STREAM_VARIABLE: Final = "MINUTEBOOK_FLEET_STREAM"
"""The stem of a stream's file, for its processors in a fleet (consumer/fleet); not a setting."""
KCL_VARIABLES: Final[Mapping[str, str]] = {
    "MINUTEBOOK_STREAM_NAME": "streamName",
    "MINUTEBOOK_STREAM_ARN": "streamArn",
    "MINUTEBOOK_APPLICATION_NAME": "applicationName",
    "MINUTEBOOK_REGION_NAME": "regionName",
    "MINUTEBOOK_WORKER_ID": "workerId",
}
"""The properties of KCL that the environment overrides, by variable."""

_EITHER: Final = {"MINUTEBOOK_STREAM_NAME": "streamArn", "MINUTEBOOK_STREAM_ARN": "streamName"}
_BYTE_ORDER_MARKS: Final = {
    codecs.BOM_UTF8: "with a byte order mark",
    codecs.BOM_UTF16_LE: "in UTF-16",
    codecs.BOM_UTF16_BE: "in UTF-16",
}
_ASCII = re.compile(r"[\x00-\x7f]*")
_UNUSABLE = re.compile("[\x00\ud800-\udfff]")
_ONE_FILE: Final = "name one of its files: this command takes one stream (minutebook docs how-to/many-streams)"
_START: Final = "minutebook init > my.properties makes a file to start from"


class PropertiesFile(NamedTuple):
    """The values of a file by name, and an error sentence for each line that cannot be used.

    `source` names it in errors; `path` is None for settings from the environment. `override_errors` are about
    environment variables. `folder` and `stem` name the stream of a folder (`minutebook.properties_folder`).
    """

    values: Mapping[str, str]
    errors: tuple[str, ...]
    source: str
    path: Path | None = None
    override_errors: tuple[str, ...] = ()
    folder: str = ""
    stem: str = ""


Source = Path | str | PropertiesFile | None
"""One stream's settings: a file, or what was read of one before; None: the environment."""


def read_settings(path: Source, environ: Mapping[str, str]) -> PropertiesFile:
    """Read the settings of a command; raises SettingsError for none, two sources, or an unreadable file.

    What was read before, as the file of a stream in a folder, is returned as it is.
    """
    return path if isinstance(path, PropertiesFile) else with_variables(_find(path, environ), environ)


def with_variables(file: PropertiesFile, environ: Mapping[str, str]) -> PropertiesFile:
    """Return the file with the values of the variables that override properties of KCL."""
    values: dict[str, str] = dict(file.values)
    errors: list[str] = []
    overrides = {variable: environ[variable] for variable in KCL_VARIABLES if variable in environ}
    for variable in overrides:  # a stream is named by its name or its ARN: either replaces both of the file
        other = _EITHER.get(variable)
        if other and not any(KCL_VARIABLES[also] == other for also in overrides):
            values.pop(other, None)
    for variable, text in overrides.items():
        if not text or text != text.strip():
            errors.append(f"environment variable {variable} is empty, or begins or ends in blanks: correct it")
        elif not _ASCII.fullmatch(text):
            errors.append(f"environment variable {variable} holds characters beyond ASCII: correct it")
        else:
            values[KCL_VARIABLES[variable]] = text
    return file._replace(values=values, override_errors=tuple(errors))


def _find(path: Path | str | None, environ: Mapping[str, str]) -> PropertiesFile:
    text, named = environ.get(TEXT_VARIABLE), environ.get(FILE_VARIABLE)
    if path is not None and text:
        raise SettingsError(f"{path} and {TEXT_VARIABLE} are both given", next_step="keep one of them")
    if path is not None:
        return read_properties(Path(path))
    if text:
        return parse_properties(text, TEXT_VARIABLE)
    if named:
        return read_properties(Path(named))
    if any(variable in environ for variable in KCL_VARIABLES):
        return PropertiesFile({}, (), "the environment")
    raise SettingsError(
        f"no settings: name FILE.properties, or set {TEXT_VARIABLE} or MINUTEBOOK_STREAM_NAME and so on",
        next_step=_START,
    )


def read_properties(path: Path) -> PropertiesFile:
    """Read `path`; raises SettingsError if it cannot be read or is not a properties file.

    The daemon reads ISO-8859-1, keeps the last of two equal names, and keeps trailing blanks
    (java.util.Properties.load). The author of the file intended none of these, so each is an error here.
    """
    try:
        body = path.read_bytes()
    except IsADirectoryError as exc:
        raise SettingsError(f"{path}: {exc.strerror}", next_step=_ONE_FILE) from exc
    except OSError as exc:
        raise SettingsError(f"{path}: {exc.strerror}", next_step=f"name a properties file; {_START}") from exc
    return decode_properties(body, str(path))._replace(path=path)


def decode_properties(body: bytes, source: str) -> PropertiesFile:
    """Parse the bytes of a properties file; `source` names it in errors. Raises SettingsError."""
    for mark, how in _BYTE_ORDER_MARKS.items():
        if body.startswith(mark):
            raise SettingsError(f"{source} is written {how}", next_step="save it as plain ASCII, without such a mark")
    if b"\x00" in body[:2]:
        raise SettingsError(f"{source} is written in UTF-16, or is no text", next_step="save it as plain ASCII")
    if not body.strip():
        raise SettingsError(f"{source} is empty", next_step=_START)
    return parse_properties(body.decode("latin-1"), source)


def parse_properties(text: str, source: str) -> PropertiesFile:
    """Parse the text of a properties file; `source` names it in errors."""
    values: dict[str, str] = {}
    errors: list[str] = []
    try:
        elements = list(javaproperties.parse(text))
    except javaproperties.InvalidUEscapeError as exc:
        raise SettingsError(f"{source}: {exc}", next_step="write \\u and four hex digits, or \\\\u") from exc
    for element in elements:
        if not isinstance(element, javaproperties.KeyValue):
            continue
        if _UNUSABLE.search(element.key + element.value):
            errors.append(f"{element.key!a} holds a NUL or half a character (\\uD800 to \\uDFFF alone): remove it")
            continue
        if element.key in values:
            errors.append(f"{element.key} is given twice: keep one")
        elif not _ASCII.fullmatch(element.source):
            errors.append(f"{element.key}: write characters beyond ASCII as \\uXXXX: the daemon reads ISO-8859-1")
        elif element.value != element.value.rstrip():
            errors.append(f"{element.key} ends in blanks, which KCL takes as part of the value: remove them")
        values[element.key] = element.value.strip()
    return PropertiesFile(values, tuple(errors), source)


def flag(text: str) -> bool:
    """Parse true or false."""
    if text not in {"true", "false"}:
        raise ValueError(f"must be true or false, not {text!r}")
    return text == "true"
