"""Render the HTML report: one file without external resources, printable, with all texts escaped.

It stays below 2 MB whatever the day's size, because shards and findings are folded.
"""

import re
from functools import partial
from importlib.resources import files
from typing import Final

import msgspec
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from compaction.audit.conclusion import DayResult
from compaction.report import pictures
from compaction.report.cost import cost_of, dollars
from compaction.report.deadlines import deadline_of, nearest_deadline
from compaction.report.folding import Folded, fold_shards, group_findings, visible_text
from compaction.report.queries import parquet_folder, queries
from compaction.report.sketch import sketch
from compaction.report.trend import Trend, of_audit
from compaction.verdict.audit_document import Audit, Shard
from minutebook.format.day import Day
from minutebook.format.minute import iso_time, parse_iso_time

_WORDS: Final = {"clean": "Clean", "defects": "Defects found", "unknown": "Could not prove"}
_SENTENCES: Final = {
    "clean": "Every check of this level ran, and found each record of the day archived once, in whole chains",
    "defects": "Something is wrong with the archive. Each finding names objects and a command that shows it again",
    "unknown": "Nothing wrong was found, and something could not be checked. That is not the same as clean",
}
_ISO: Final = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d(?::(?!00\.)\d\d)?)(?::00)?\.\d+Z$", re.ASCII)
"""A time with milliseconds; seconds are kept where they are not zero."""
_CODE: Final = re.compile(r"`([^`]*)`")
_DRAWN: Final = 20
"""Shards of a large stream that are drawn at least."""
_MARKS: Final = {"pass": "✓", "fail": "✗", "unknown": "?", "warning": "!", "not_asked": "·"}


def render_page(result: DayResult, trend: Trend | None = None, generation: str | None = None) -> str:
    """Return the page.

    `trend`: the last published days; None: not read. `generation`: what this run published or found published; None:
    an audit, which publishes nothing.
    """
    audit = result.audit
    deadline = partial(deadline_of, audit, result.retention_ms)
    environment = new_environment()
    environment.filters |= {"seconds": _seconds, "deadline": deadline, "dollars": dollars, "code": _code}
    template = environment.from_string(shipped("page.html.j2"))
    shards = fold_shards(_with_rows(audit), audit.findings)
    days = () if trend is None or trend.is_empty else (*trend.days[:-1], of_audit(audit))
    published = None if trend is None or not trend.today.generation else (trend.where, trend.today)
    nearest_ms = nearest_deadline(map(deadline, audit.findings))
    return template.render(
        audit=audit,
        beside=[Day.parse(audit.scope.day).shift(days) for days in (-1, 1)],
        is_part=_is_part(audit),
        judged_from=audit.audited_at if audit.basis is None else audit.basis.judged_from,
        nearest="" if nearest_ms is None else iso_time(nearest_ms),
        pictures=_pictures(result, shards) if audit.shards else [],
        groups=group_findings(audit.findings),
        shards=shards,
        trend=trend,
        days=days,
        trend_picture=Markup(pictures.trend_picture(days)) if days else "",  # noqa: S704 - drawn here
        queries=queries(*published) if published else (),
        parquet_folder=parquet_folder(*published) if published else "",
        cost=cost_of(audit, None if trend is None else trend.today.files_bytes),
        generation=generation,
        words=_WORDS,
        sentences=_SENTENCES,
        marks=_MARKS,
        style=Markup(shipped("page.css")),  # noqa: S704 - our own file
    )


def new_environment() -> Environment:
    """Return how pages are rendered: texts are escaped, without characters that hide or reorder the text around."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=_finalized)
    environment.filters |= {"time": _time}
    return environment


def shipped(name: str) -> str:
    """Return a file that lies beside this module."""
    return files("compaction.report").joinpath(name).read_text(encoding="utf-8")


def _is_part(audit: Audit) -> bool:
    """Return whether the scope ends before the day does."""
    return bool(audit.scope.until) and parse_iso_time(audit.scope.until) < Day.parse(audit.scope.day).end_ms


def _with_rows(audit: Audit) -> list[Shard]:
    """Return the shards of the audit, and shards that only findings name, which were never read."""
    known = {shard.shard for shard in audit.shards}
    named = {finding.shard for finding in audit.findings if finding.shard is not None} - known
    nothing = {"objects": 0, "records": 0, "bytes": 0, "payload_bytes": 0, "start_proof": "", "end_proof": ""}
    without = {"first": None, "last": None, "lag_ms_median": None, "lag_ms_max": None}
    return [*audit.shards, *(msgspec.convert({"shard": name, **nothing, **without}, Shard) for name in sorted(named))]


def _pictures(result: DayResult, shards: Folded) -> list[tuple[str, str, Markup]]:
    """Return (title, note, picture); the pictures escape the texts in them."""
    audit, findings = result.audit, result.audit.findings
    day = Day.parse(audit.scope.day)
    shards = _drawn(shards, audit)
    drawn = sketch(result.minutes, {shard.shard for shard in shards.shown})
    scope = pictures.scope_minutes(day, audit.scope)
    shown = pictures.shown_minutes(day, scope, drawn.minutes, findings)
    rest = " What is not shown holds nothing." if len(shown) < len(scope) else ""
    folded = f" The last row is the average of {len(shards.folded):,} more." if shards.folded else ""
    worst = f" The {len(shards.shown):,} worst shards; {len(shards.folded):,} are not drawn." if shards.folded else ""
    drawings = [
        (
            "The worst shards" if shards.folded else "Minutes and shards",
            "Each cell is one minute of one shard; the stronger its colour, the more records." + folded + rest,
            pictures.heat_map(day, shown, drawn, findings, shards),
        ),
        (
            "Rate and delay",
            "Records per minute of arrival, and how long after a minute's end its objects were in the archive.",
            pictures.rate_and_lag(shown, drawn),
        ),
        (
            "Chains",
            "A bar is a run of minutes with segments; beside it is written what proves its start and end. Grey: one "
            "of them is not proven. A cross: the chain breaks or forks there." + worst,
            pictures.chains(day, shown, drawn, findings, shards),
        ),
    ]
    if shards.folded:
        together = -(-len(drawn.overview.lines) // max(1, len(drawn.overview.quietest)))
        lines = "Each line is one shard" if together == 1 else f"Each line is the quietest of {together} shards"
        note = f"{lines}, in the order of their names, each cell ten minutes.{rest}"
        drawings.insert(0, ("Minutes and shards", note, pictures.overview(day, shown, drawn, findings)))
    return [(title, note, Markup(drawing)) for title, note, drawing in drawings]  # noqa: S704 - drawn here


def _drawn(shards: Folded, audit: Audit) -> Folded:
    """Return the shards to draw in rows of their own: of a large stream, those with something to see, and a few."""
    if not shards.folded:
        return shards
    named = {about.shard for about in audit.findings}
    to_see = [row for row in shards.shown if row.shard in named or not (row.start_proof and row.end_proof)]
    return fold_shards([*shards.shown, *shards.folded], audit.findings, limit=max(_DRAWN, len(to_see)))


def _finalized(value: object) -> object:
    """Return a value for the template; texts without characters that hide or reorder the text around them."""
    return visible_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _seconds(milliseconds: int | None) -> str:
    return "" if milliseconds is None else f"{milliseconds / 1000:,.1f} s"


def _time(text: str) -> Markup:
    """Return an ISO time as people read it, to the second; other texts as they are."""
    shown = _ISO.sub(r"\1 \2", visible_text(text))
    return Markup('<time datetime="{}">{}</time>').format(visible_text(text), shown)


def _code(text: str) -> Markup:
    """Return a sentence of ours; what stands in backticks is code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped before
