"""Draw the pictures of a report as SVG, in the fonts and colours of its page: they follow its theme, width and print.

Horizontal places are percentages, so a picture is as wide as its page and its texts keep their size. Columns of a
heat map are a PNG of one colour that is more or less opaque, so it reads on a light and on a dark page. Nothing
depends on colours alone: findings differ by shape, verdicts by sign, what is not proven is hatched, and proofs are
text.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from markupsafe import escape
from numpy.typing import NDArray

from compaction.report.folding import Folded, clip, visible_text
from compaction.report.png import Colour, png_uri
from compaction.report.sketch import OVERVIEW_MINUTES, Sketch
from compaction.report.trend import TrendDay
from compaction.verdict.audit_document import Scope
from compaction.verdict.findings import Finding
from minutebook.format.day import MINUTES_A_DAY, MINUTES_AN_HOUR, Day
from minutebook.format.minute import MINUTE_MS, parse_iso_time, parse_minute_text

_HEAT: Final = (31, 119, 214)
"""Contrasts with a white and with a black page."""
_GREY: Final = (128, 134, 142)
_LEVELS: Final = 12
_FAINTEST: Final = 84
"""How opaque the fewest records are, of 255: still unlike none."""
_LEAST_RANGE: Final = 4.0
"""Most records over fewest that a scale spans at least: a steady day has one tone, not noise."""
_ROW_PIXELS: Final = ((8, 26), (40, 16))
_LOW: Final = 11
"""Pixels of a row: 26 of up to 8 rows, and so on; of more than the last, `_LOW`."""
_PAGE_PIXELS: Final = 800
"""A higher picture is printed smaller, so that no page cuts it."""
_MARKS: Final = 1_000
"""More marks or hatched times than these are drawn as fewer and longer ones: each adds 60 bytes to the page."""
_COARSE: Final = (1, 5, 15, 60, 240)
_TEN: Final = 10
_TICKS: Final = (1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360)
_MOST_TICKS: Final = 8
_NEARLY_ALL: Final = 5 / 6
"""A day with data and findings in so much of its scope is shown whole."""
_BREAKS: Final = frozenset({"broken_chain", "forked_chain"})
_TAIL: Final = 5
"""The last characters of a shard's name, which a narrow page shows."""
_SECONDS: Final = (
    (0.1, "0.1 s"),
    (1, "1 s"),
    (10, "10 s"),
    (60, "1 min"),
    (600, "10 min"),
    (3600, "1 h"),
    (36_000, "10 h"),
    (360_000, "100 h"),
)
_RATE_PIXELS, _LAG_PIXELS, _TREND_PIXELS, _UNITS = 120, 104, 130, 1000


def scope_minutes(day: Day, scope: Scope) -> range:
    """Return the minutes of the day that an audit is about; the whole day where it does not say."""
    begin = _column(day, scope.begins) if scope.begins else 0
    end = -(-(parse_iso_time(scope.until) - day.begin_ms) // MINUTE_MS) if scope.until else MINUTES_A_DAY
    begin, end = max(0, begin), min(MINUTES_A_DAY, end)
    return range(begin, end) if begin < end else range(MINUTES_A_DAY)


def shown_minutes(day: Day, scope: range, minutes: Sequence[int], findings: Sequence[Finding]) -> range:
    """Return the minutes of the scope to show: those with data, with findings, or not proven, and what lies between.

    They are whole hours, of less than an hour whole tens of minutes. A time that is proven to hold nothing is left
    out; one of which nothing is known is shown.
    """
    columns = [minute for minute in minutes if minute in scope]
    of_findings = [
        parse_minute_text(about.minute) - day.first_minute for about in findings if about.minute is not None
    ]
    columns += [column for column in of_findings if column in scope]
    for about in findings:
        begin, end = _span(day, about) if about.severity != "warning" else (0, 0)
        begin, end = max(begin, scope.start), min(end, scope.stop)
        columns += [begin, end - 1] if begin < end else []
    if not columns:
        return _rounded(scope, MINUTES_AN_HOUR)
    span = range(min(columns), max(columns) + 1)
    if len(span) >= _NEARLY_ALL * len(scope):
        span = scope
    return _rounded(span, MINUTES_AN_HOUR if len(span) > MINUTES_AN_HOUR else _TEN)


def _rounded(span: range, unit: int) -> range:
    return range(span.start // unit * unit, -(-span.stop // unit) * unit)


class Axis(NamedTuple):
    """The horizontal axis: minutes of the day, from left to right."""

    shown: range

    def at(self, minute: float) -> str:
        """Return the place of a minute."""
        return f"{100 * self._within(minute):.2f}%"

    def width(self, begin: float, end: float) -> str:
        """Return the width of a time."""
        return f"{100 * (self._within(end) - self._within(begin)):.2f}%"

    def _within(self, minute: float) -> float:
        return min(1.0, max(0.0, (minute - self.shown.start) / len(self.shown)))

    @property
    def ticks(self) -> list[int]:
        """Minutes to label."""
        step = next((step for step in _TICKS if len(self.shown) <= step * _MOST_TICKS), _TICKS[-1])
        return [minute for minute in range(self.shown.start, self.shown.stop + 1) if minute % step == 0]

    def lines(self, height: int) -> str:
        """Return a line for each label."""
        return "".join(
            f'<line class="grid" x1="{self.at(tick)}" x2="{self.at(tick)}" y2="{height}"/>' for tick in self.ticks
        )

    def labels(self) -> str:
        """Return the axis with its labels, as an element of its own."""
        texts = []
        for number, tick in enumerate(self.ticks):
            anchor = "start" if tick == self.shown.start else "end" if tick == self.shown.stop else "middle"
            every_other = ' class="alt"' if number % 2 else ""
            texts.append(
                f'<text{every_other} x="{self.at(tick)}" y="13" text-anchor="{anchor}">'
                f"{tick // MINUTES_AN_HOUR:02d}:{tick % MINUTES_AN_HOUR:02d}</text>"
            )
        return f'<svg class="axis" width="100%" height="18" aria-hidden="true">{"".join(texts)}</svg>'


class _Places(NamedTuple):
    """What findings tell of rows: marks by severity, and times that are not proven, each (row, begin, end)."""

    marks: Mapping[str, Sequence[tuple[int, int]]]
    unproven: Sequence[tuple[int, int, int]]

    @classmethod
    def of(cls, day: Day, shown: range, findings: Sequence[Finding], rows: Mapping[str, int]) -> "_Places":
        """Return those of the shown minutes, as many as a page can hold."""
        marks: dict[str, list[tuple[int, int]]] = {}
        times = []
        for about in findings:
            if about.shard is None or about.shard not in rows:
                continue
            row = rows[about.shard]
            begin, end = _span(day, about)
            if begin < end and about.severity != "warning":
                times.append((row, max(begin, shown.start), min(end, shown.stop)))
            if about.minute is not None:
                minute = parse_minute_text(about.minute) - day.first_minute
                if minute in shown:
                    marks.setdefault(about.severity, []).append((minute, row))
        return cls({severity: _fewer(places) for severity, places in marks.items()}, _fewer_times(times))


def _fewer(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return one place for all of a row that lie close together."""
    marks = sorted(set(places))
    for step in _COARSE:
        marks = sorted({(minute // step * step, row) for minute, row in marks})
        if len(marks) <= _MARKS:
            break
    return marks


def _fewer_times(times: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return times of a row that touch or lie close together as one."""
    hatched = sorted(time for time in set(times) if time[1] < time[2])
    for step in _COARSE:
        merged: list[tuple[int, int, int]] = []
        for row, begin, end in hatched:
            if merged and merged[-1][0] == row and begin < merged[-1][2] + step:
                merged[-1] = (row, merged[-1][1], max(end, merged[-1][2]))
            else:
                merged.append((row, begin, end))
        hatched = merged
        if len(hatched) <= _MARKS:
            break
    return hatched


class _Rows(NamedTuple):
    """Rows of a picture, one below the other."""

    axis: Axis
    number: int
    pixels: float

    @property
    def height(self) -> int:
        """The height of all."""
        return math.ceil(max(1, self.number) * self.pixels)

    def hatched(self, places: _Places) -> str:
        """Return the times that are not proven."""
        blocks: dict[tuple[int, int], list[list[int]]] = {}
        for row, begin, end in places.unproven:
            runs = blocks.setdefault((begin, end), [])
            if runs and self.pixels < _LOW and row <= runs[-1][1] + 1:  # rows that nobody tells apart
                runs[-1][1] = row
            else:
                runs.append([row, row])
        return "".join(
            f'<rect class="unproven" x="{self.axis.at(begin)}" y="{first * self.pixels:g}" '
            f'width="{self.axis.width(begin, end)}" height="{max(3.0, (last + 1 - first) * self.pixels):g}"/>'
            for (begin, end), runs in blocks.items()
            for first, last in runs
        )

    def marked(self, places: _Places) -> str:
        """Return the marks of findings, the worst last: on top."""
        return "".join(
            f'<use href="#mark-{severity}" x="{self.axis.at(minute + 0.5)}" y="{(row + 0.5) * self.pixels:g}"/>'
            for severity in ("warning", "unknown", "defect")
            for minute, row in places.marks.get(severity, ())
        )

    def between(self) -> str:
        """Return a line of the page's colour between rows."""
        return "".join(
            f'<line class="gap" x2="100%" y1="{row * self.pixels:g}" y2="{row * self.pixels:g}"/>'
            for row in range(1, self.number)
        )

    def image(self, pixels: NDArray[np.uint8], colours: Sequence[Colour]) -> str:
        """Return cells as an image that is stretched over the rows."""
        size = f'width="100%" height="{self.height}" preserveAspectRatio="none"'
        return f'<image href="{png_uri(pixels, colours)}" {size}/>'


def heat_map(day: Day, shown: range, drawn: Sketch, findings: Sequence[Finding], shards: Folded) -> str:
    """Draw records per minute and shard, with findings; the last row is the average of folded shards."""
    names = [shard.shard for shard in shards.shown]
    empty = np.zeros(MINUTES_A_DAY, dtype=np.int64)
    lines = [drawn.records.get(name, empty) for name in names]
    labels = [_name(name) for name in names]
    sums = [f"{int(line.sum()):,}" for line in lines]
    if shards.folded:
        lines.append(-(-drawn.rest // len(shards.folded)))
        labels.append(f'<span class="aside">{len(shards.folded):,} more, on average</span>')
        sums.append(f"{int(drawn.rest.sum()):,}")
    counts = np.stack(lines)[:, shown.start : shown.stop]
    rows = {shard.shard: len(names) for shard in shards.folded}
    rows |= {name: number for number, name in enumerate(names)}
    places = _Places.of(day, shown, findings, rows)
    scale = _Scale.of(counts)
    picture = _Rows(Axis(shown), len(labels), _row_pixels(len(labels)))
    body = picture.image(scale.levels(counts), _heat_colours()) + picture.between() + picture.hatched(places)
    what = f"Records per minute of {len(names):,} shard(s), from {_clock(shown.start)} to {_clock(shown.stop)} UTC"
    svg = _svg("Records per minute and shard, with findings", _description(what, places), picture, body, places)
    return _legend(scale, places) + _grid(picture, labels, svg, sums, "records")


def overview(day: Day, shown: range, drawn: Sketch, findings: Sequence[Finding]) -> str:
    """Draw all shards of a large stream: a line is the quietest of a few shards that are next to each other."""
    columns = slice(shown.start // OVERVIEW_MINUTES, -(-shown.stop // OVERVIEW_MINUTES))
    counts = -(-drawn.overview.quietest[:, columns] // OVERVIEW_MINUTES)
    lines = len(counts)
    picture = _Rows(Axis(shown), lines, max(1.0, 240 / lines))
    places = _Places.of(day, shown, findings, drawn.overview.lines)
    scale = _Scale.of(counts)
    body = picture.image(scale.levels(counts), _heat_colours()) + picture.hatched(places)
    what = f"Records per minute of all {len(drawn.overview.lines):,} shards in {lines:,} lines"
    svg = _svg("All shards of the day", _description(what, places), picture, body, places)
    first, last = min(drawn.overview.lines), max(drawn.overview.lines)
    ends = f'<div class="ends" aria-hidden="true"><span>{_name(first)}</span><span>{_name(last)}</span></div>'
    return f'{_legend(scale, places)}<div class="grid">{ends}{svg}{Axis(shown).labels()}</div>'


def rate_and_lag(shown: range, drawn: Sketch) -> str:
    """Draw the stream's records per minute, and the delay from a minute's end until its segments were archived."""
    axis, total = Axis(shown), drawn.total[shown.start : shown.stop]
    top = _round_up(max(1, int(total.max())))
    steps = "".join(f"V{_UNITS - _UNITS * int(value) // top}h1" for value in total)
    rate = (
        f'<svg class="stretched" width="100%" height="{_RATE_PIXELS}" viewBox="0 0 {len(shown)} {_UNITS}" '
        f'preserveAspectRatio="none"><path class="area" d="M0 {_UNITS}{steps}V{_UNITS}z"/></svg>'
    )
    levels = [(value, f"{value:,}") for value in (0, top // 2, top)]
    upper = _framed(
        "Records per minute of the whole stream",
        f"At most {int(total.max()):,}, on average {total.mean():,.0f} a minute",
        _RATE_PIXELS,
        axis.lines(_RATE_PIXELS) + rate + _levels([(1 - value / top, text) for value, text in levels], _RATE_PIXELS),
    )
    return _plotted('<p class="legend">records a minute</p>', upper) + _lag(axis, drawn)


def _lag(axis: Axis, drawn: Sketch) -> str:
    shown = axis.shown
    slowest, middle = drawn.slowest[shown.start : shown.stop], drawn.middle[shown.start : shown.stop]
    columns = np.flatnonzero(~np.isnan(slowest))
    if not len(columns):
        return _plotted("", axis.labels())
    low = max([at for at, _ in _SECONDS if at <= float(np.nanmin(middle))], default=_SECONDS[0][0])
    high = min([at for at, _ in _SECONDS if at > float(np.nanmax(slowest))], default=float(np.nanmax(slowest)))
    span = math.log(high / low)

    def height(seconds: float) -> float:
        return 1 - math.log(max(low, seconds) / low) / span

    def dots(values: NDArray[np.float64], name: str) -> str:
        path = "".join(f"M{column}.5 {_UNITS * height(values[column]):.0f}h.01" for column in columns)
        return f'<path class="{name}" d="{path}"/>'

    inner = (
        f'<svg class="stretched" width="100%" height="{_LAG_PIXELS}" viewBox="0 0 {len(shown)} {_UNITS}" '
        f'preserveAspectRatio="none">{dots(middle, "middle")}{dots(slowest, "slowest")}</svg>'
    )
    lines = [(height(at), text) for at, text in _SECONDS if low <= at <= high]
    lower = _framed(
        "Delay from a minute's end until its objects were archived",
        f"Slowest shard: at most {np.nanmax(slowest):,.1f} s; median shard: {np.nanmedian(middle):,.1f} s",
        _LAG_PIXELS,
        axis.lines(_LAG_PIXELS) + inner + _levels(lines, _LAG_PIXELS),
    )
    legend = (
        f'<p class="legend"><span>delay after the minute\'s end:</span>{_swatch("slowest", "slowest shard")}'
        f"{_swatch('middle', 'median shard')}</p>"
    )
    return _plotted(legend, lower) + _plotted("", axis.labels())


def chains(day: Day, shown: range, drawn: Sketch, findings: Sequence[Finding], shards: Folded) -> str:
    """Draw each shard's chain: minutes with segments, what links them, breaks, and the proofs of its ends."""
    axis, names = Axis(shown), [shard.shard for shard in shards.shown]
    none = np.zeros(MINUTES_A_DAY, dtype=np.bool_)
    rows = {name: number for number, name in enumerate(names)}
    breaks = [about for about in findings if about.code in _BREAKS or _span(day, about) != (0, 0)]
    places = _Places.of(day, shown, breaks, rows)
    picture = _Rows(axis, len(names), _row_pixels(len(names)))
    held = [drawn.segments.get(name, none)[shown.start : shown.stop] for name in names]
    cells = np.stack(
        [
            line.astype(np.uint8) * (1 if shard.start_proof and shard.end_proof else 2)
            for line, shard in zip(held, shards.shown, strict=True)
        ]
    )
    links = "".join(
        f'<line class="link" x1="{axis.at(shown.start + int(at[0]))}" x2="{axis.at(shown.start + int(at[-1]) + 1)}" '
        f'y1="{(row + 0.5) * picture.pixels:g}" y2="{(row + 0.5) * picture.pixels:g}"/>'
        for row, line in enumerate(held)
        if len(at := np.flatnonzero(line))
    )
    image = picture.image(cells, [Colour(0, 0, 0, 0), Colour(*_HEAT), Colour(*_GREY)])
    proofs = [
        f"{_clipped(shard.start_proof) or 'not proven'} → {_clipped(shard.end_proof) or 'not proven'}"
        for shard in shards.shown
    ]
    whole = sum(bool(shard.start_proof and shard.end_proof) for shard in shards.shown)
    what = f"{whole:,} of {len(names):,} chains have a proven start and end"
    svg = _svg(
        "The chain of each shard",
        _description(what, places),
        picture,
        links + image + _thick_gaps(picture) + picture.hatched(places),
        places,
    )
    legend = (
        f'<p class="legend">{_swatch("box held", "segments")}'
        f"{_swatch('box open', 'segments, start or end not proven')}"
        f"{_swatch('rule', 'linked, nothing arrived')}{_of_findings(places)}</p>"
    )
    return legend + _grid(picture, [_name(name) for name in names], svg, proofs, "start → end proven by")


def _thick_gaps(picture: _Rows) -> str:
    """Return lines that let bars be thinner than their rows."""
    return "".join(
        f'<line class="gap wide" x2="100%" y1="{row * picture.pixels:g}" y2="{row * picture.pixels:g}"/>'
        for row in range(picture.number + 1)
    )


def trend_picture(days: Sequence[TrendDay]) -> str:
    """Draw the rows of the days in order, each with the sign of its verdict."""
    top = max([day.rows for day in days], default=0) or 1
    share, bars = 100 / len(days), []
    for number, day in enumerate(days):
        height = max(2, (_TREND_PIXELS - 40) * day.rows // top) if day.verdict else 0
        middle, base = (number + 0.5) * share, _TREND_PIXELS - 18
        bars.append(
            f'<rect class="bar v-{day.verdict or "none"}" x="{number * share + share * 0.14:.2f}%" '
            f'width="{share * 0.72:.2f}%" y="{base - height}" height="{height}"/>'
            f'<use href="#verdict-{day.verdict or "none"}" class="v-{day.verdict or "none"}" '
            f'x="{middle:.2f}%" y="{base - height - 11}"/>'
            f'<text x="{middle:.2f}%" y="{_TREND_PIXELS - 4}" text-anchor="middle"><tspan class="long">'
            f"{escape(day.day[5:8])}</tspan>{escape(day.day[8:])}</text>"
        )
    description = "; ".join(f"{day.day}: {day.verdict or 'not published'}, {day.rows:,} rows" for day in days)
    base_line = f'<line class="base" x2="100%" y1="{_TREND_PIXELS - 18}" y2="{_TREND_PIXELS - 18}"/>'
    return _framed("The last days: rows and verdicts", description, _TREND_PIXELS, "".join(bars) + base_line)


class _Scale(NamedTuple):
    """A logarithmic scale from the fewest records to the most."""

    low: float
    high: float

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> "_Scale":
        """Return the scale of some numbers; zeros have no place on it."""
        some = counts[counts > 0]
        high = float(some.max()) if len(some) else 1.0
        low = float(some.min()) if len(some) else 1.0
        return cls(max(1.0, min(low, high / _LEAST_RANGE)), high)

    def levels(self, counts: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return 0 for none, and 1 to `_LEVELS` from the fewest to the most."""
        span = math.log(self.high / self.low) or 1.0
        logs = np.log(np.maximum(counts, self.low) / self.low) / span
        levels = 1 + np.minimum(_LEVELS - 1, (logs * _LEVELS)).astype(np.uint8)
        return np.where(counts > 0, levels, 0).astype(np.uint8)


def _heat_colours() -> list[Colour]:
    step = (255 - _FAINTEST) / (_LEVELS - 1)
    return [Colour(0, 0, 0, 0), *(Colour(*_HEAT, round(_FAINTEST + step * level)) for level in range(_LEVELS))]


def _legend(scale: _Scale, places: _Places) -> str:
    ramp = "".join(
        f'<rect x="{number * 8}" width="8" height="12" fill="rgb{_HEAT}" fill-opacity="{colour.alpha / 255:.2f}"/>'
        for number, colour in enumerate(_heat_colours()[1:])
    )
    return (
        f'<p class="legend"><span>{scale.low:,.0f}'
        f'<svg width="{_LEVELS * 8}" height="12" aria-hidden="true">{ramp}</svg>'
        f"{scale.high:,.0f} records a minute</span>{_swatch('box', 'nothing arrived')}{_of_findings(places)}</p>"
    )


def _of_findings(places: _Places) -> str:
    marks = "".join(
        f'<span><svg width="14" height="14" aria-hidden="true"><use href="#mark-{severity}" x="7" y="7"/></svg>'
        f"{severity}</span>"
        for severity in ("defect", "unknown", "warning")
        if places.marks.get(severity)
    )
    return marks + (_swatch("box hatch", "not proven") if places.unproven else "")


def _swatch(kind: str, text: str) -> str:
    shapes = {
        "slowest": '<path class="slowest" d="M11 6h.01"/>',
        "middle": '<path class="middle" d="M11 6h.01"/>',
        "rule": '<line class="link" x1="0" x2="22" y1="6" y2="6"/>',
        "box hatch": '<rect class="unproven" width="22" height="12"/>',
        "box held": f'<rect width="22" height="12" fill="rgb{_HEAT}"/>',
        "box open": f'<rect width="22" height="12" fill="rgb{_GREY}"/>',
        "box": '<rect class="none" width="22" height="12"/>',
    }
    return f'<span><svg width="22" height="12" aria-hidden="true">{shapes[kind]}</svg>{text}</span>'


def _description(what: str, places: _Places) -> str:
    """Return what a picture shows, for those who do not see it."""
    marks = [f"{len(marked):,} marked {severity}" for severity, marked in places.marks.items() if marked]
    if places.unproven:
        marks.append(f"{len(places.unproven):,} time(s) hatched as not proven")
    return f"{what}. {', '.join(marks) or 'No finding is marked'}."


def _svg(title: str, description: str, picture: _Rows, body: str, places: _Places) -> str:
    back = f'<rect class="none" width="100%" height="{picture.height}"/>'
    return _framed(title, description, picture.height, back + body + picture.marked(places))


def _framed(title: str, description: str, height: int, body: str) -> str:
    """Return an image with a title and a description for screen readers."""
    return (
        f'<svg class="plot" role="img" width="100%" height="{height}"><title>{escape(title)}</title>'
        f"<desc>{escape(description)}</desc>{body}</svg>"
    )


def _grid(picture: _Rows, labels: Sequence[str], svg: str, beside: Sequence[str], heading: str) -> str:
    """Return rows with their names on the left, and texts on the right where the page is wide."""
    style = f'style="--row:{picture.pixels:g}px" aria-hidden="true"'
    names = "".join(f"<span>{label}</span>" for label in labels)
    texts = "".join(f"<span>{text}</span>" for text in beside)
    return (
        f'<div class="grid{" tall" if picture.height > _PAGE_PIXELS else ""}"><small class="beside">{heading}</small>'
        f'<div class="names" {style}>{names}</div>{svg}<div class="names beside" {style}>{texts}</div>'
        f"{picture.axis.labels()}</div>"
    )


def _row_pixels(rows: int) -> int:
    return next((pixels for most, pixels in _ROW_PIXELS if rows <= most), _LOW)


def _plotted(name: str, svg: str) -> str:
    return f'<div class="grid"><div class="over">{name}</div>{svg}</div>'


def _levels(lines: Iterable[tuple[float, str]], height: int) -> str:
    """Return horizontal lines with their labels; each at a share of the height from above."""
    return "".join(
        f'<line class="grid" x2="100%" y1="{share * height:.1f}" y2="{share * height:.1f}"/>'
        f'<text x="-6" y="{share * height + 4:.1f}" text-anchor="end">{text}</text>'
        for share, text in lines
    )


def _round_up(number: int) -> int:
    """Return a round and even number that is not below another."""
    power = 10 ** (len(str(number)) - 1)
    steps = (10, 12, 16, 20, 30, 40, 60, 80, 100)
    top: int = next(step * power // 10 for step in steps if number * 10 <= step * power)
    return top + top % 2


def _column(day: Day, text: str) -> int:
    return (parse_iso_time(text) - day.begin_ms) // MINUTE_MS


def _span(day: Day, about: Finding) -> tuple[int, int]:
    """Return the columns of the time that a finding is about; none: (0, 0)."""
    if not about.begins or not about.until:
        return 0, 0
    return _column(day, about.begins), -(-(parse_iso_time(about.until) - day.begin_ms) // MINUTE_MS)


def _clock(minute: int) -> str:
    return f"{minute // MINUTES_AN_HOUR:02d}:{minute % MINUTES_AN_HOUR:02d}"


def _clipped(name: str) -> str:
    return str(escape(clip(visible_text(name), 40)))


def _name(name: str) -> str:
    """Return a shard's name, of which a narrow page shows the end."""
    text = clip(visible_text(name), 40)
    return f'<span class="long">{escape(text[:-_TAIL])}</span><b>{escape(text[-_TAIL:])}</b>'
