"""Data files of the package: the properties file to start from, the daemon's log configuration, the docs pages.

In a checkout they lie in `properties/` and `docs/`, in an installed package below `consumer/shipped/`, where
pyproject.toml copies them.
"""

import re
from pathlib import Path
from typing import Final

from minutebook.errors import SettingsError

_INSTALLED: Final = Path(__file__).resolve().parents[1] / "shipped"
_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_PAGES: Final = ("*.md", "how-to/*.md", "explanation/*.md")


def logback() -> Path:
    """Return the path of the daemon's log configuration."""
    return _shipped("logback.xml", "properties")


def production_properties() -> str:
    """Return the commented properties file to start from."""
    return _shipped("production.properties", "properties").read_text(encoding="ascii")


def page_names() -> list[str]:
    """Return the names of the documentation's pages: `operations`, `how-to/restore`."""
    folder = _INSTALLED / "docs" if _INSTALLED.is_dir() else _CHECKOUT / "docs"
    paths = [path for pattern in _PAGES for path in folder.glob(pattern)]
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in paths)


def page(name: str, section: str | None = None) -> str:
    """Return a page of the documentation, or only its section with this heading.

    Raises SettingsError if there is no such page or section.
    """
    if name not in page_names():
        raise SettingsError(f"there is no page {name!r}", next_step=f"name one of {', '.join(page_names())}")
    text = _shipped(f"{name}.md", "docs", "docs").read_text(encoding="utf-8")
    if section is None:
        return text
    headings = [(match.start(), len(match[1]), match[2]) for match in re.finditer(r"^(#+) (.+)$", text, re.MULTILINE)]
    for number, (begin, depth, heading) in enumerate(headings):
        if heading.casefold() == section.casefold():
            return text[begin : next((at for at, other, _ in headings[number + 1 :] if other <= depth), len(text))]
    known = ", ".join(heading for _, depth, heading in headings if depth > 1)
    raise SettingsError(f"the page {name} has no section {section!r}", next_step=f"name one of: {known}")


def _shipped(name: str, folder: str, installed: str = "") -> Path:
    for path in (_INSTALLED / installed / name, _CHECKOUT / folder / name):
        if path.is_file():
            return path
    raise SettingsError(f"{name} is missing in the installed package", next_step="install the package again")
