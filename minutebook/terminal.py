"""The terminal: every table and sentence of a command is printed by this console.

A text is data, not markup, and is one line: unprintable characters are escaped here, because texts hold keys that
others chose (`minutebook.wording`). What needs several lines is a `Group` of texts.
"""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from minutebook.wording import printable


class TerminalConsole(Console):
    """A console for stdout, or what rich's options name."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - rich's options, passed on
        super().__init__(markup=False, highlight=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - rich's options, passed on
        """Return a text as an object of rich, escaped."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render an object; texts within it come here, too."""
        if isinstance(renderable, Text) and not renderable.plain.isprintable():
            renderable = renderable.blank_copy(printable(renderable.plain))
        return super().render(renderable, options)


def styled(text: str, style: str = "") -> Text:
    """Return a text in a style, escaped before it is measured: cells of a table get the width that they need."""
    return Text(printable(text), style)
