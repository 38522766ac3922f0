"""Draw the way of a record, for the home page: from a producer to a table that is proven.

    python -m docsite.way_of_a_record [docs/assets]

Two files, for light and for dark pages; they load nothing, and their texts are texts.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 980, 440
_SANS: Final = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_TITLE: Final = "The way of a record"
_DESCRIPTION: Final = (
    "Producers put records into a Kinesis shard. The KCL daemon hands them to a record processor, which commits one "
    "segment per minute to S3 by a conditional PUT, and only then checkpoints. Each night the segments are audited, "
    "with the verdict clean, defects found, or could not prove, and compacted into Parquet or Iceberg tables."
)


class Palette(NamedTuple):
    """Colours of a page."""

    page: str
    box: str
    line: str
    text: str
    quiet: str
    accent: str
    clean: str
    defects: str
    unknown: str


PALETTES: Final = {
    "light": Palette(
        "#ffffff", "#f3f5f7", "#8a95a1", "#1c2127", "#56606b", "#0b57b0", "#0b6b45", "#b3201c", "#7a5000"
    ),
    "dark": Palette(
        "#14181c", "#1e242a", "#7c8895", "#e7eaed", "#a5afb9", "#82b6f5", "#5ccb98", "#ff8d85", "#e9bd55"
    ),
}


def file_name(theme: str) -> str:
    """Return the name of the picture for pages of a theme."""
    return f"way-of-a-record-{theme}.svg"


def draw(colours: Palette) -> str:
    """Return the picture."""
    parts = [
        _box(colours, 8, 134, 146, 104, "Producers", ("send records; a retry", "is a record, too")),
        _box(
            colours,
            182,
            134,
            146,
            104,
            "Kinesis shard",
            ("stamps each record", "with its arrival,", "once and for all"),
        ),
        _box(
            colours,
            356,
            134,
            146,
            104,
            "KCL daemon",
            ("leases the shard,", "reads it, delivers", "again after a crash"),
        ),
        _box(colours, 530, 134, 146, 104, "Processor", ("one for each shard,", "cuts its records", "by minute")),
        _box(colours, 356, 14, 320, 62, "Checkpoint", ("KCL's lease table in DynamoDB",)),
        _box(colours, 830, 92, 142, 184, "S3", ("an object per shard", "and minute, which", "names the one before")),
        *(_segment(colours, 848, 184 + number * 29, f"10:1{4 + number}") for number in range(3)),
        _box(colours, 830, 332, 142, 96, "Nightly job", ("reads every line,", "checks every link")),
        _box(colours, 484, 332, 276, 96, "Audit verdict", ()),
        _box(
            colours,
            182,
            332,
            230,
            96,
            "Tables",
            ("Parquet or Iceberg:", "each record once,", "the verdict beside it"),
        ),
        _verdicts(colours),
        _arrow(colours, "M154 186H176"),
        _arrow(colours, "M328 186H350"),
        _arrow(colours, "M502 186H524"),
        _arrow(colours, "M676 186H823", strong=True),
        _arrow(colours, "M603 134V82"),
        _arrow(colours, "M429 76V128"),
        _arrow(colours, "M901 276V326"),
        _arrow(colours, "M830 380H766"),
        _arrow(colours, "M484 380H418"),
        _text(colours.accent, 751, 155, "conditional PUT", weight=650),
        _text(colours.quiet, 751, 173, "If-None-Match: *", size=12),
        _text(colours.quiet, 751, 207, "taken? The other", size=12),
        _text(colours.quiet, 751, 223, "writer's stays: go", size=12),
        _text(colours.quiet, 751, 239, "on after its end", size=12),
        _text(colours.quiet, 613, 103, "after the commit,", size=12, anchor="start"),
        _text(colours.quiet, 613, 118, "never before it", size=12, anchor="start"),
        _text(colours.quiet, 419, 110, "start here again", size=12, anchor="end"),
        _text(colours.quiet, 889, 306, "each night", size=12, anchor="end"),
    ]
    marker = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 .5 7 4 0 7.5z" fill="{colours.quiet}"/></marker>'
        '<marker id="strong" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="5" markerHeight="5" orient="auto">'
        f'<path d="M0 .5 7 4 0 7.5z" fill="{colours.accent}"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-labelledby="title description" font-family="{_SANS}">\n<title id="title">{_TITLE}</title>\n'
        f'<desc id="description">{_DESCRIPTION}</desc>\n{marker}\n<rect width="{WIDTH}" height="{HEIGHT}" rx="6" '
        f'fill="{colours.page}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _text(
    colour: str, x: float, y: float, text: str, *, size: int = 13, anchor: str = "middle", weight: int = 400
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{colour}">{escape(text)}</text>'
    )


def _box(colours: Palette, x: int, y: int, width: int, height: int, title: str, notes: Sequence[str]) -> str:
    middle = x + width / 2
    lines = [_text(colours.quiet, middle, y + 44 + 15 * number, note, size=12) for number, note in enumerate(notes)]
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{colours.box}" '
        f'stroke="{colours.line}"/>{_text(colours.text, middle, y + 24, title, size=15, weight=650)}{"".join(lines)}'
    )


def _segment(colours: Palette, x: int, y: int, minute: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="106" height="21" rx="2" fill="{colours.page}" stroke="{colours.accent}"/>'
        f"{_text(colours.text, x + 53, y + 15, minute, size=12)}"
        f'<path d="M{x + 14} {y}v-8" stroke="{colours.accent}" stroke-width="2"/>'
    )


def _verdicts(colours: Palette) -> str:
    words = (
        ("clean", 524, colours.clean),
        ("defects found", 604, colours.defects),
        ("could not prove", 704, colours.unknown),
    )
    signs = {
        "clean": '<circle r="9"/><path d="M-4 .5-1 3.5 4.5-3"/>',
        "defects found": '<path d="M-3.8-9h7.6L9-3.8v7.6L3.8 9h-7.6L-9 3.8v-7.6zM-3.5-3.5l7 7M3.5-3.5l-7 7"/>',
        "could not prove": '<path d="M0-10 10 0 0 10-10 0zM-2-2a2 2 0 1 1 2.8 1.9q-.8.4-.8 1.3M0 4.6v.1"/>',
    }
    return "".join(
        f'<g transform="translate({x} 380)" fill="none" stroke="{colour}" stroke-width="2" stroke-linecap="round" '
        f'stroke-linejoin="round">{signs[word]}</g>{_text(colours.text, x, 413, word, size=12)}'
        for word, x, colour in words
    )


def _arrow(colours: Palette, path: str, *, strong: bool = False) -> str:
    colour, width, head = (colours.accent, 2.5, "strong") if strong else (colours.quiet, 1.5, "head")
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" marker-end="url(#{head})"/>'


def main(arguments: Sequence[str]) -> None:
    """Write both pictures."""
    folder = Path(arguments[0] if arguments else "docs/assets")
    for theme, colours in PALETTES.items():
        (folder / file_name(theme)).write_text(draw(colours))


if __name__ == "__main__":
    main(sys.argv[1:])
