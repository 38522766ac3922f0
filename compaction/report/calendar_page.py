"""Render the page over streams and days: one file beside the reports, of what is published alone.

Each day that is published leads to its report, which is there if a night read the day with `--report`.
"""

from collections.abc import Sequence
from urllib.parse import quote

from markupsafe import Markup, escape

from compaction.report.calendar import WORDS, CalendarDay, StreamCalendar
from compaction.report.folding import visible_text
from compaction.report.page import new_environment, shipped


def render_calendar(calendars: Sequence[StreamCalendar], made_at: str, size_days: int) -> str:
    """Return the page, whose first streams are those that need somebody.

    `made_at` is the time in ISO 8601, `size_days` the number of days that `StreamCalendar.size` counts.
    """
    calendars = sorted(calendars, key=lambda each: (not each.error, not each.open_days))
    troubled = [each for each in calendars if each.error or each.open_days]
    last = max((each.days[-1].day for each in calendars if each.days), default=None)
    template = new_environment().from_string(shipped("index.html.j2"))
    return template.render(
        calendars=calendars,
        troubled=len(troubled),
        open_days=sum(each.open_days for each in calendars),
        made_at=made_at,
        size_days=size_days,
        last=last,
        words=WORDS,
        bytes=size_in_words,
        cell=cell,
        style=Markup(shipped("page.css") + shipped("index.css")),  # noqa: S704 - our own files
    )


def cell(day: CalendarDay, folder: str) -> Markup:
    """Return a day as a cell: a link where there may be a report."""
    number, about = str(day.day)[-2:], f'class="{day.word}" title="{escape(visible_text(day.label))}"'
    if day.rows is None:
        return Markup(f"<i {about}>{number}</i>")  # noqa: S704 - escaped above
    return Markup(f'<a {about} href="{quote(folder)}audit-{day.day}.html">{number}</a>')  # noqa: S704 - same


def size_in_words(size: int | None) -> str:
    """Return bytes as people read them, in powers of ten; nothing where they are not known."""
    if size is None:
        return ""
    value = float(size)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":  # noqa: PLR2004 - the next unit
            break
        value /= 1000
    return f"{value:,.0f} bytes" if unit == "bytes" else f"{value:,.1f} {unit}"
