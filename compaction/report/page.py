"""Render the HTML report: one file without external resources, printable, with all texts escaped.

It stays below 2 MB whatever the day's size, because shards and findings are folded.
"""

from functools import partial
from importlib.resources import files
from typing import Final

import msgspec
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from compaction.audit.conclusion import DayResult
from compaction.report.folding import Folded, fold_shards, group_findings, visible_text
from compaction.report.pictures import chains, heat_map, rate_and_lag, shown_minutes, trend_picture
from compaction.report.sketch import sketch
from compaction.report.trend import Trend, of_audit
from compaction.verdict.audit_document import Audit, Shard
from compaction.verdict.findings import Code, Finding
from minutebook.format.day import MINUTES_A_DAY, Day
from minutebook.format.minute import iso_time, parse_iso_time

_WORDS: Final = {"clean": "Clean", "defects": "Defects found", "unknown": "Could not prove"}
_SIGNS: Final = {"clean": "✓", "defects": "✗", "unknown": "?"}
_SENTENCES: Final = {
    "clean": "Every check of this level ran, and found each record of the day archived once, in whole chains.",
    "defects": "Something is wrong with the archive. Each finding names objects and a command that shows it again.",
    "unknown": "Nothing wrong was found, and something could not be checked. That is not the same as clean.",
}
_HOUR_MS: Final = 3_600_000
_OF_TIME: Final = frozenset(
    {Code.MISSING_START, Code.UNPROVEN_CONTINUITY, Code.UNPROVEN_END, Code.UNCOVERED, Code.MISSING_SHARD}
)
"""Codes of what a comparison with the stream proves."""
_MARKS: Final = {"pass": "✓", "fail": "✗", "unknown": "?", "warning": "!", "not_asked": "·"}


def render_page(result: DayResult, trend: Trend | None = None, generation: str | None = None) -> str:
    """Return the page.

    `trend`: the last published days; None: not read. `generation`: what this run published or found published; None:
    an audit, which publishes nothing.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=_finalized)
    environment.filters["seconds"] = _seconds
    environment.filters["repairable"] = partial(repairable_until, result.audit, result.retention_ms)
    template = environment.from_string(
        files("compaction.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    )
    audit = result.audit
    shards = fold_shards(_with_rows(audit), audit.findings)
    days = () if trend is None or trend.is_empty else (*trend.days[:-1], of_audit(audit))
    return template.render(
        audit=audit,
        beside=[Day.parse(audit.scope.day).shift(days) for days in (-1, 1)],
        pictures=_pictures(result, shards) if audit.shards else [],
        groups=group_findings(audit.findings),
        shards=shards,
        trend=trend,
        days=days,
        trend_picture=Markup(trend_picture(days)) if days else "",  # noqa: S704 - drawn here
        generation=generation,
        words=_WORDS,
        signs=_SIGNS,
        sentences=_SENTENCES,
        marks=_MARKS,
    )


def repairable_until(audit: Audit, retention_ms: int | None, about: Finding) -> str:
    """Return until when level stream can still prove a time: while the stream holds its records. Else nothing."""
    if about.severity != "unknown" or about.code not in _OF_TIME:
        return ""
    begin, end = about.begins or audit.scope.begins, about.until or audit.scope.until
    if retention_ms is None or not begin or not end:
        return "How long the stream keeps records could not be asked; while it does, level stream can prove this."
    now_ms = parse_iso_time(audit.audited_at)
    first_ms, last_ms = (parse_iso_time(text) + retention_ms for text in (begin, end))
    last, present = iso_time(last_ms), f"(it keeps records for {retention_ms / _HOUR_MS:g} hours now)"
    if now_ms < first_ms:
        return f"Level stream can prove all of it until {iso_time(first_ms)}, and its end until {last} {present}."
    if now_ms < last_ms:
        return f"A part of it has left the stream. Level stream can prove its end until {last} {present}."
    return f"The stream held it until {last} {present}: only later evidence can prove it, or a person accepts it."


def _with_rows(audit: Audit) -> list[Shard]:
    """Return the shards of the audit, and shards that only findings name, which were never read."""
    known = {shard.shard for shard in audit.shards}
    named = {finding.shard for finding in audit.findings if finding.shard is not None} - known
    nothing = {"objects": 0, "records": 0, "bytes": 0, "payload_bytes": 0, "start_proof": "", "end_proof": ""}
    without = {"first": None, "last": None, "lag_ms_median": None, "lag_ms_max": None}
    return [*audit.shards, *(msgspec.convert({"shard": name, **nothing, **without}, Shard) for name in sorted(named))]


def _pictures(result: DayResult, shards: Folded) -> list[tuple[str, str, Markup]]:
    """Return (title, note, SVG). The SVG is matplotlib's own, which escapes the texts in it."""
    audit, findings = result.audit, result.audit.findings
    day = Day.parse(audit.scope.day)
    drawn = sketch(result.minutes, {shard.shard for shard in shards.shown})
    shown = shown_minutes(day, drawn.minutes, findings)
    rest = " The hours that are not shown hold nothing." if len(shown) < MINUTES_A_DAY else ""
    folded = f" The last row is the average of {len(shards.folded):,} more." if shards.folded else ""
    worst = f" The {len(shards.shown):,} worst shards; {len(shards.folded):,} are not drawn." if shards.folded else ""
    return [
        (
            "Minutes and shards",
            "Each cell is one minute of one shard; light means many records, grey means none." + folded + rest,
            Markup(heat_map(day, shown, drawn, findings, shards)),  # noqa: S704 - drawn here
        ),
        (
            "Rate and delay",
            "Records per minute of arrival, and how long after a minute's end its objects were in the archive.",
            Markup(rate_and_lag(shown, drawn)),  # noqa: S704 - drawn here
        ),
        (
            "Chains",
            "A bar is a run of minutes with segments; beside it is written what proves its start and end. Grey: one "
            "of them is not proven. A cross: the chain breaks or forks there." + worst,
            Markup(chains(day, shown, drawn, findings, shards)),  # noqa: S704 - drawn here
        ),
    ]


def _finalized(value: object) -> object:
    """Return a value for the template; texts without characters that hide or reorder the text around them."""
    return visible_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _seconds(milliseconds: int | None) -> str:
    return "" if milliseconds is None else f"{milliseconds / 1000:,.1f} s"
