"""The report on a stream of 1,000 shards whose names and findings mean harm."""

import re
from array import array

import msgspec
import pytest

from compaction.audit.conclusion import DayResult
from compaction.audit.shards.minutes import MinuteCounts, Minutes
from compaction.report.page import render_page
from compaction.report.trend import Trend, TrendDay
from compaction.verdict.audit_document import Audit, Shard
from compaction.verdict.findings import Code, finding, ordered
from minutebook.format.day import MINUTES_A_DAY, Day
from minutebook.format.minute import minute_text
from tests.unit.compaction.report.test_folding import shard_row

DAY = Day.parse("2026-11-20")
HOSTILE = "<script>alert(1)</script>$\\frac{x$ \u202e\x00</svg>"
_MOST_BYTES = 2_000_000


def _audit(shards: list[Shard], findings: int) -> Audit:
    """Return an audit whose findings carry keys as long as S3 takes them."""
    found = [
        finding(
            list(Code)[number % len(Code)],
            HOSTILE * 20,
            shard=f"shardId-{number % 999:012d}",
            minute=minute_text(DAY.first_minute + number % MINUTES_A_DAY),
            keys=[f"{number}{HOSTILE}".ljust(1024, "x")] * 20,
        )
        for number in range(findings)
    ]
    nothing = {"raw": 0, "unique": 0, "duplicates": 0, "rejected": 0, "compacted": None, "removed": 0}
    scope = {"stream": HOSTILE, "application": HOSTILE, "archive": HOSTILE, "day": str(DAY), "day_is_over": True}
    return msgspec.convert(
        {
            "schema": "s",
            "version": "1",
            "audited_at": "now",
            "level": "keys",
            "verdict": "defects",
            "scope": {**scope, "objects": 1, "bytes": 1, "inventory": "i", "generation": None},
            "equation": {**nothing, "balanced": True},
            "shards": [msgspec.to_builtins(shard) for shard in shards],
            "checks": [{"id": "c", "status": "unknown", "message": HOSTILE}],
            "findings": [msgspec.to_builtins(each) for each in ordered(found)],
        },
        Audit,
    )


@pytest.fixture(scope="module")
def page() -> str:
    """Return the page of 1,000 shards and 10,000 findings, with minutes everywhere and a trend that is hostile."""
    shards = [shard_row(number) for number in range(999)]
    shards.append(msgspec.structs.replace(shard_row(0), shard=HOSTILE, end_proof=HOSTILE))
    lags = array("i", [20] * MINUTES_A_DAY)
    minutes = {
        shard.shard: Minutes.packed_of(MinuteCounts(array("i", [1 + number] * MINUTES_A_DAY), lags))
        for number, shard in enumerate(shards)
    }
    days = tuple(
        TrendDay(str(DAY.shift(number)), "clean" if number % 3 else "unknown", 1000, (0, 1, 2), "gen")
        for number in range(-12, 0)
    )
    trend = Trend(HOSTILE, (*days, TrendDay(str(DAY), None, 0, None, "", HOSTILE)))
    return render_page(DayResult(_audit(shards, 10_000), minutes), trend, "0123456789abcdef")


def test_it_stays_small(page: str) -> None:
    """Below 2 MB, whatever the day holds."""
    assert len(page.encode()) < _MOST_BYTES


def test_nothing_of_it_is_markup(page: str) -> None:
    """Names, messages, keys and proofs are texts, in the pictures, too; and none turns the text around it."""
    assert not re.findall(r"<(?:script|link|iframe|object|embed)\b", page)
    assert "\u202e" not in page
    assert "\x00" not in page
    assert page.count("<svg") == page.count("</svg>") == 4


def test_it_says_what_it_folds(page: str) -> None:
    """The shards that it leaves out, and what was found of them."""
    assert "The worst 120 of 1,000 shards are shown" in page
    assert "880 more, on average" in page
    assert "879 of them with findings" in page
    assert "more of this kind: audit.json holds all." in page


def test_it_names_the_generation_and_the_last_days(page: str) -> None:
    """What readers see, and the nights before."""
    assert "Published is generation <code>0123456789abcdef</code>" in page
    assert "The last days" in page
    assert "2026-11-08" in page
