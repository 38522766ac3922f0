"""The HTML report: one file that opens without a network, prints, and escapes everything it shows."""

from importlib.resources import files
from typing import Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from archive.format.day import MINUTES_A_DAY, Day
from compaction.audit.examined import DayResult
from compaction.report.pictures import chains, heat_map, rate_and_lag, shown_minutes

_SHOWN: Final = 500
"""Findings in the page; audit.json holds all."""
_WORDS: Final = {"clean": "Clean", "defects": "Defects found", "unknown": "Could not prove"}
_SIGNS: Final = {"clean": "✓", "defects": "✗", "unknown": "?"}
_SENTENCES: Final = {
    "clean": "Every check of this level ran, and found each record of the day archived once, in whole chains.",
    "defects": "Something is wrong with the archive. Each finding names objects and a command that shows it again.",
    "unknown": "Nothing wrong was found, and something could not be checked. That is not the same as clean.",
}
_MARKS: Final = {"pass": "✓", "fail": "✗", "unknown": "?", "warning": "!", "not_asked": "·"}


def render(result: DayResult) -> str:
    """Return the page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["seconds"] = _seconds
    template = environment.from_string(
        files("compaction.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    )
    return template.render(
        audit=result.audit,
        pictures=_pictures(result) if result.audit.shards else [],
        words=_WORDS,
        signs=_SIGNS,
        sentences=_SENTENCES,
        marks=_MARKS,
        shown=_SHOWN,
    )


def _pictures(result: DayResult) -> list[tuple[str, str, Markup]]:
    """Return (title, note, SVG). The SVG is matplotlib's own, which escapes the texts in it."""
    audit, minutes = result.audit, result.minutes
    day = Day.parse(audit.scope.day)
    shown = shown_minutes(day, minutes, audit.findings)
    rest = " The hours that are not shown hold nothing." if len(shown) < MINUTES_A_DAY else ""
    return [
        (
            "Minutes and shards",
            "Each cell is one minute of one shard; light means many records, grey means none." + rest,
            Markup(heat_map(day, shown, minutes, audit.findings, audit.shards)),  # noqa: S704 - drawn here
        ),
        (
            "Rate and delay",
            "Records per minute of arrival, and how long after a minute's end its objects were in the archive.",
            Markup(rate_and_lag(shown, minutes)),  # noqa: S704 - drawn here
        ),
        (
            "Chains",
            (
                "A bar is a run of minutes with segments; beside it is written what proves its start and end. Grey: "
                "one of them is not proven. A cross: the chain breaks or forks there."
            ),
            Markup(chains(day, shown, minutes, audit.findings, audit.shards)),  # noqa: S704 - drawn here
        ),
    ]


def _seconds(milliseconds: int | None) -> str:
    return "" if milliseconds is None else f"{milliseconds / 1000:,.1f} s"
