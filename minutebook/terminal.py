"""The terminal: every table and sentence of a command is printed by this console.

A text is data, not markup, and is one line: unprintable characters are escaped here, because texts hold keys that
others chose (`minutebook.wording`). What needs several lines is a `Group` of texts.

Lines end between words. A word that is longer than a line stays whole, and the terminal goes on with it below: a key
or a command can be copied. Where the output is no terminal, lines have no end but their own, so that each row of a
table is one line for `grep`; COLUMNS sets a width there, as for `ps`.
"""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from minutebook.wording import printable

if TYPE_CHECKING:  # a bar is one command's matter
    from rich.progress import Progress

_ENDLESS: Final = 1 << 20
"""The width of what is no terminal."""
_WORD: Final = re.compile(r"\S+")
_ELLIPSIS: Final = "…"
_GAP: Final = 2
_LEAST_CELLS: Final = 10
"""A cell is not shortened further: a day has as many."""
_LEAST_BESIDE: Final = 30
"""Sentences stand beside a row of a table from this width on."""


_BARS: Final[list["Progress"]] = []
"""Those that are shown."""


class TerminalConsole(Console):
    """A console for stdout, or what rich's options name."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - rich's options, passed on
        super().__init__(markup=False, highlight=False, emoji=False, **options)
        if not (self.is_terminal or "width" in options or os.environ.get("COLUMNS")):
            self.width = _ENDLESS

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 - as in rich
        """Print objects; a word that is longer than a line is not cropped.

        A progress bar of another console is taken away meanwhile: both write to one terminal, and rich knows of the
        bar's own console alone.
        """
        bars = [bar for bar in _BARS if bar.console is not self]
        for bar in bars:
            bar.stop()
        try:
            super().print(*objects, **{"crop": False, **options})
        finally:
            for bar in bars:
                bar.start()

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - rich's options, passed on
        """Return a text as an object of rich, escaped."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render an object; texts within it come here, too."""
        options = options or self.options
        if isinstance(renderable, Text):
            if not renderable.plain.isprintable():
                renderable = renderable.blank_copy(printable(renderable.plain))
            width, is_one_line = options.max_width, renderable.no_wrap or options.no_wrap
            lines = [renderable] if is_one_line else wrapped(renderable, width)
            if options.overflow == "fold":
                lines = [part for line in lines for part in line.wrap(self, width, overflow="fold", no_wrap=False)]
            renderable = Text("\n", no_wrap=True, overflow="ignore").join(lines)
        return super().render(renderable, options)

    def render_lines(
        self,
        renderable: RenderableType,
        options: ConsoleOptions | None = None,
        **more: Any,  # noqa: ANN401 - as in rich
    ) -> list[list[Segment]]:
        """Render an object for a live display or a cell, which crops its lines: longer words are folded before."""
        options = options or self.options
        if options.overflow is None and not options.no_wrap:
            options = options.update(overflow="fold")
        return super().render_lines(renderable, options, **more)


@contextmanager
def shown(bar: "Progress") -> Iterator[None]:
    """Show a progress bar; what any console prints meanwhile stands above it."""
    with bar:
        _BARS.append(bar)
        try:
            yield
        finally:
            _BARS.remove(bar)


def styled(text: str, style: str = "") -> Text:
    """Return a text in a style, escaped before it is measured: cells of a table get the width that they need."""
    return Text(printable(text), style)


def wrapped(text: Text, width: int) -> list[Text]:
    """Return the lines of a text, each indented as the first one; only a single word is longer than `width` cells."""
    indent = len(text.plain) - len(text.plain.lstrip(" "))
    breaks, begins, room = [], 0, width
    for word in _WORD.finditer(text.plain):
        if word.start() > max(begins, indent) and cell_len(text.plain[begins : word.end()]) > room:
            begins, room = word.start(), width - indent
            breaks.append(begins)
    first, *others = text.divide(breaks)
    lines = [first, *(Text(" " * indent).append_text(line) for line in others)]
    for line in lines[:-1]:
        line.rstrip()
    return lines


def shortened(texts: Iterable[str], width: int) -> dict[str, str]:
    """Return each text in at most `width` cells: an ellipsis stands for its middle, so that both ends stay.

    Different texts stay different: the ellipsis moves until they are, and what it cannot tell apart stays whole.
    """
    different = set(texts)
    middle = (width - 1) // 2
    best: dict[str, str] = {}
    for head in sorted(range(width), key=lambda head: abs(head - middle)):
        cut = {text: _cut(text, head, width - 1 - head) for text in different}
        best = max(best, cut, key=lambda found: len(set(found.values())))
        if len(set(best.values())) == len(different):
            break
    shown = Counter(best.values())
    return {text: cut if shown[cut] == 1 else text for text, cut in best.items()}


def _cut(text: str, head: int, tail: int) -> str:
    if cell_len(text) <= head + 1 + tail:
        return text
    begins = chop_cells(text, head)[0] if head else ""
    ends = chop_cells(text[::-1], tail)[0][::-1] if tail else ""
    return f"{begins}{_ELLIPSIS}{ends}"


class Table:
    """Rows of short values, each with sentences or keys beside it, or below it where they have no room there.

    Values are shortened where a row is longer than a line, but not those of columns with a heading of `whole`, or of
    `numbers`, which end at the right. Sentences and keys are whole.
    """

    def __init__(self, *headings: str, numbers: Collection[str] = (), whole: Collection[str] = ()) -> None:
        self._are_numbers = [heading in numbers for heading in headings]
        self._are_whole = [heading in {*numbers, *whole} for heading in headings]
        self._heading = [_Row([styled(heading, "bold") for heading in headings], [])] if any(headings) else []
        self._rows: list[_Row] = []

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def add(self, *cells: str | Text, beside: Iterable[str | Text] = ()) -> None:
        """Add a row."""
        self._rows.append(_Row(list(map(_as_text, cells)), list(map(_as_text, beside))))

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        rows = [*self._heading, *self._rows]
        if not rows:
            return
        columns = [list(column) for column in zip(*(row.cells for row in rows), strict=True)]
        widest, gap = self._fit([max(text.cell_len for text in column) for column in columns], options.max_width)
        # Of all columns together: values in one row are compared with each other, too.
        texts = (column for column, is_whole in zip(columns, self._are_whole, strict=True) if not is_whole)
        short = shortened((text.plain for column in texts for text in column), widest)
        fitted = [
            _padded([_replaced(text, short.get(text.plain, text.plain)) for text in column], is_number=is_number)
            for column, is_number in zip(columns, self._are_numbers, strict=True)
        ]
        for row, cells in zip(rows, zip(*fitted, strict=True), strict=True):
            for line in _Row(list(cells), row.sentences).lines(options.max_width, gap):
                line.no_wrap = True
                yield line

    def _fit(self, widths: Sequence[int], width: int) -> tuple[int, int]:
        """Return how wide a column may be that is not whole, and the gap between columns, so that a row fits.

        Narrow columns keep their width.
        """
        texts = [cells for cells, is_whole in zip(widths, self._are_whole, strict=True) if not is_whole]
        whole = sum(widths) - sum(texts)
        for gap in (_GAP, 1):
            widest, room = max(texts, default=0), width - whole - gap * (len(widths) - 1)
            while widest > _LEAST_CELLS and sum(min(cells, widest) for cells in texts) > room:
                widest -= 1
            if sum(min(cells, widest) for cells in texts) <= room:
                break
        return widest, gap


class _Row(NamedTuple):
    """The cells of a row, and what stands beside or below them."""

    cells: list[Text]
    sentences: list[Text]

    def lines(self, width: int, gap: int) -> Iterator[Text]:
        """Yield the lines; the cells have the widths of their columns."""
        begin = Text.assemble(*(part for cell in self.cells for part in (cell, " " * gap)))
        words = [cell_len(word) for text in self.sentences for word in text.plain.split()]
        least = max([*(min(_LEAST_BESIDE, text.cell_len) for text in self.sentences), *words], default=0)
        is_beside = least <= width - begin.cell_len
        indent = begin.cell_len if is_beside else _GAP
        lines = [line for text in self.sentences for line in wrapped(text, max(1, width - indent))]
        if is_beside and lines:
            begin.append_text(lines.pop(0))
        begin.rstrip()
        yield begin
        yield from (Text(" " * indent).append_text(line) for line in lines)


def _as_text(cell: str | Text) -> Text:
    return styled(cell) if isinstance(cell, str) else cell


def _replaced(text: Text, plain: str) -> Text:
    return text.copy() if text.plain == plain else Text(plain, text.style)


def _padded(column: Sequence[Text], *, is_number: bool) -> Sequence[Text]:
    """Give the cells of a column one width."""
    width = max(text.cell_len for text in column)
    for text in column:
        (text.pad_left if is_number else text.pad_right)(width - text.cell_len)
    return column
