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
from compaction.report.clearing import repairable_until
from compaction.report.folding import Folded, fold_shards, group_findings, visible_text
from compaction.report.pictures import chains, heat_map, rate_and_lag, shown_minutes, trend_picture
from compaction.report.sketch import sketch
from compaction.report.trend import Trend, of_audit
from compaction.verdict.audit_document import Audit, Shard
from minutebook.format.day import MINUTES_A_DAY, Day

_WORDS: Final = {"clean": "Clean", "defects": "Defects found", "unknown": "Could not prove"}
_SIGNS: Final = {"clean": "✓", "defects": "✗", "unknown": "?"}
_SENTENCES: Final = {
    "clean": "Every check of this level ran, and found each record of the day archived once, in whole chains.",
    "defects": "Something is wrong with the archive. Each finding names objects and a command that shows it again.",
    "unknown": "Nothing wrong was found, and something could not be checked. That is not the same as clean.",
}
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
