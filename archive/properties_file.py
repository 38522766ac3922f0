"""Reading a Java properties file the way the daemon reads it, and refusing what it would read wrongly."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import javaproperties

from archive.errors import SettingsError

_ASCII = re.compile(r"[\x00-\x7f]*")
_UNUSABLE = re.compile("[\x00\ud800-\udfff]")


class PropertiesFile(NamedTuple):
    """What a file says: values by name, and the sentences about lines that cannot be taken as they are."""

    values: Mapping[str, str]
    errors: tuple[str, ...]


def read_properties(path: Path) -> PropertiesFile:
    """Read `path`.

    The daemon reads ISO-8859-1 and keeps the last of two equal names and all trailing blanks
    (java.util.Properties.load). Whoever wrote the file meant none of these three, so each is an error here.

    Raises:
        SettingsError: the file cannot be read, or is not a properties file at all.
    """
    try:
        text = path.read_bytes().decode("latin-1")
    except OSError as exc:
        raise SettingsError(
            f"{path}: {exc.strerror}", next_step="name a properties file; properties/ holds two to start from"
        ) from exc
    return parse_properties(text, str(path))


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
    return PropertiesFile(values, tuple(errors))
