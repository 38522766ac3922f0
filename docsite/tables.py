"""Tables in Markdown."""

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; `|` and line breaks within cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines) + "\n"


def code(text: str) -> str:
    """Return `text` as code; nothing for an empty one."""
    return f"`{text}`" if text else ""


def plain(text: str) -> str:
    """Return `text` with Markdown and HTML escaped."""
    return re.sub(r"([*_`\[])", r"\\\1", text).replace("<", "&lt;")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
