"""The report: one file that needs nothing else, shows names as they are, no markup, and counts what it folds."""

import re
from array import array
from pathlib import Path

import msgspec
import pytest

from compaction.audit.audit import audit_day
from compaction.audit.conclusion import DayResult
from compaction.audit.shards.minutes import MinuteCounts, Minutes
from compaction.job.context import AuditOptions
from compaction.report.folding import SHARDS_SHOWN, clip, fold_shards, group_findings, visible_text
from compaction.report.page import render_page
from compaction.report.trend import Trend, TrendDay
from compaction.stream.kinesis import ListedShards
from compaction.verdict.audit_document import Audit, Shard
from compaction.verdict.findings import Code, Finding, Severity, finding, ordered
from minutebook.errors import StreamUnavailable
from minutebook.format.day import MINUTES_A_DAY, Day
from minutebook.format.minute import iso_time, minute_text
from minutebook.owner import read_application
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.chain_defects import missing_object, unproven_end
from tests.corpus.model import PREFIX, Corpus

DAY = Day.parse("2026-11-20")
HOSTILE = "<script>alert('1')</script>&\"<b>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the report on an archive with a broken chain, an open end and a hostile key."""
    folder = tmp_path_factory.mktemp("archive")
    corpus = Corpus(DAY)
    missing_object(corpus, corpus.shards[0], 3)
    unproven_end(corpus, corpus.shards[1], 0)
    corpus.objects[f"{DAY.path(PREFIX)}{HOSTILE.replace('/', '')}"] = (b"x", {})
    corpus.write(open_storage(Address(None, str(folder))))
    options = AuditOptions(level="inventory", stream=HOSTILE, application=HOSTILE)
    return render_page(audit_day(job_context(folder, corpus.checkpoints), DAY, options))


def test_everything_is_escaped(page: str) -> None:
    """Stream, application and object names never become markup."""
    assert "<script" not in page
    assert "<b>" not in page.replace("<b>", "", page.count("</b>"))
    assert "&lt;script&gt;" in page


def test_the_page_asks_for_nothing(page: str) -> None:
    """No script, style sheet, font or picture is fetched; a policy in the page forbids it, too."""
    assert "default-src 'none'" in page
    assert not re.findall(r"<(?:script|link|iframe|object|embed)\b", page)
    neighbours = re.compile(r"#|data:|audit-\d{4}-\d\d-\d\d\.html$")  # followed by a click alone
    assert not [url for url in re.findall(r"(?:src|href)=\"([^\"]+)\"", page) if not neighbours.match(url)]
    assert not re.findall(r"url\((?!#)", page)


def test_verdict_equation_pictures_and_findings_are_there(page: str) -> None:
    """What a person looks for: the verdict in words, the balance, three pictures, each finding with its command."""
    for wanted in ("Defects found", "raw lines", "rejected", "broken_chain", "unproven_end", "minutebook audit"):
        assert wanted in page
    assert page.count("<figure>") == 3


def test_an_archive_without_shards_has_a_page(tmp_path: Path) -> None:
    """Nothing archived, nothing proven: the page says so without pictures."""
    corpus = Corpus(DAY)
    corpus.shards.clear()
    corpus.write(open_storage(Address(None, str(tmp_path))))
    result = audit_day(job_context(tmp_path), DAY, AuditOptions(level="inventory"))
    assert result.audit.verdict == "unknown"
    assert "<figure>" not in render_page(result)


def shard_row(number: int, *, end_proof: str = "successor") -> Shard:
    """Return a shard of ten records."""
    return Shard(
        shard=f"shardId-{number:012d}",
        objects=2,
        records=10,
        bytes=100,
        payload_bytes=50,
        first="1:0",
        last="9:0",
        lag_ms_median=1000,
        lag_ms_max=2000,
        start_proof="link",
        end_proof=end_proof,
    )


def _about(number: int, severity: Severity = "defect", code: Code = Code.BROKEN_CHAIN, count: int = 1) -> Finding:
    shard = f"shardId-{number:012d}"
    return finding(code, "a gap", severity=severity, shard=shard, minute=minute_text(29_000_000), count=count)


def test_few_shards_are_all_shown_by_name() -> None:
    """Whatever was found of them."""
    shards = [shard_row(number) for number in reversed(range(SHARDS_SHOWN))]
    folded = fold_shards(shards, [_about(7)])
    assert [row.shard for row in folded.shown] == sorted(row.shard for row in shards)
    assert folded.folded == ()


def test_the_worst_of_many_come_first() -> None:
    """A defect before an unknown before a warning before what is not proven; then by name."""
    shards = [shard_row(number, end_proof="" if number == 50 else "successor") for number in range(200)]
    found = [_about(199, "warning"), _about(100, "unknown"), _about(150), _about(150, "warning")]
    folded = fold_shards(shards, found)
    assert [int(row.shard[-3:]) for row in folded.shown[:6]] == [150, 100, 199, 50, 0, 1]
    assert (len(folded.shown), len(folded.folded)) == (SHARDS_SHOWN, 80)


def test_what_is_folded_is_counted() -> None:
    """Also what was found of it: a page that hides a finding says so."""
    shards = [shard_row(number, end_proof="" if number > 197 else "link") for number in range(200)]
    folded = fold_shards(shards, [_about(number) for number in range(190)], limit=120)
    assert (folded.objects, folded.records, folded.payload_bytes) == (160, 800, 4000)
    assert (folded.with_findings, folded.unproven) == (70, 2)


def test_a_thousand_findings_are_a_few_groups() -> None:
    """Each counts its findings, their counts and its shards, and shows where most of them are."""
    found = [_about(number % 300, count=3) for number in range(1000)]
    found += [_about(7, "unknown", Code.UNCOVERED)] * 30
    broken, uncovered = group_findings(ordered(found))
    assert (broken.code, broken.findings, broken.total, broken.shards) == ("broken_chain", 1000, 3000, 300)
    assert (len(broken.by_shard), broken.by_shard[0].findings, broken.more) == (20, 4, 995)
    assert (uncovered.severity, uncovered.findings, uncovered.by_shard[0].shard[-3:]) == ("unknown", 30, "007")


def test_a_few_findings_are_shown_whole() -> None:
    """With every key; a key that is longer than S3 allows is cut, and says so."""
    one = finding(Code.FOREIGN_OBJECT, "x", keys=[*(f"k{number}" for number in range(19)), "y" * 5000])
    (group,) = group_findings([one])
    (sample,) = group.samples
    assert (group.more, len(sample.keys), sample.keys[0]) == (0, 20, "k0")
    assert sample.keys[-1].endswith("… (5,000 characters)")


def test_texts_cannot_hide_or_turn_what_stands_beside_them() -> None:
    """Controls and marks of direction become a sign; letters of any script stay."""
    assert visible_text("a\u202eb\x00c\x1b[1mü\u200f東") == "a�b�c�[1mü�東"
    assert clip("short") == "short"


HARMFUL = "<script>alert(1)</script>$\\frac{x$ \u202e\x00</svg>"
_MOST_BYTES = 2_000_000


def _audit(shards: list[Shard], findings: int) -> Audit:
    """Return an audit whose findings carry keys as long as S3 takes them."""
    found = [
        finding(
            list(Code)[number % len(Code)],
            HARMFUL * 20,
            shard=f"shardId-{number % 999:012d}",
            minute=minute_text(DAY.first_minute + number % MINUTES_A_DAY),
            keys=[f"{number}{HARMFUL}".ljust(1024, "x")] * 20,
        )
        for number in range(findings)
    ]
    nothing = {"raw": 0, "unique": 0, "duplicates": 0, "rejected": 0, "compacted": None, "removed": 0}
    scope = {"stream": HARMFUL, "application": HARMFUL, "archive": HARMFUL, "day": str(DAY), "day_is_over": True}
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
            "checks": [{"id": "c", "status": "unknown", "message": HARMFUL}],
            "findings": [msgspec.to_builtins(each) for each in ordered(found)],
        },
        Audit,
    )


@pytest.fixture(scope="module")
def large_page() -> str:
    """Return the page of 1,000 shards and 10,000 findings, with minutes everywhere and a trend that is hostile."""
    shards = [shard_row(number) for number in range(999)]
    shards.append(msgspec.structs.replace(shard_row(0), shard=HARMFUL, end_proof=HARMFUL))
    lags = array("i", [20] * MINUTES_A_DAY)
    minutes = {
        shard.shard: Minutes.packed_of(MinuteCounts(array("i", [1 + number] * MINUTES_A_DAY), lags))
        for number, shard in enumerate(shards)
    }
    days = tuple(
        TrendDay(str(DAY.shift(number)), "clean" if number % 3 else "unknown", 1000, (0, 1, 2), "gen")
        for number in range(-12, 0)
    )
    trend = Trend(HARMFUL, (*days, TrendDay(str(DAY), None, 0, None, "", HARMFUL)))
    return render_page(DayResult(_audit(shards, 10_000), minutes), trend, "0123456789abcdef")


def test_it_stays_small(large_page: str) -> None:
    """Below 2 MB, whatever the day holds."""
    assert len(large_page.encode()) < _MOST_BYTES


def test_nothing_of_it_is_markup(large_page: str) -> None:
    """Names, messages, keys and proofs are texts, in the pictures, too; and none turns the text around it."""
    assert not re.findall(r"<(?:script|link|iframe|object|embed)\b", large_page)
    assert "\u202e" not in large_page
    assert "\x00" not in large_page
    assert large_page.count("<svg") == large_page.count("</svg>")
    assert large_page.count("<figure>") == 5


def test_it_says_what_it_folds(large_page: str) -> None:
    """The shards that it leaves out, and what was found of them."""
    assert "The worst 120 of 1,000 shards are shown" in large_page
    assert "880 more, on average" in large_page
    assert "879 of them with findings" in large_page
    assert "more of this kind: audit.json holds all." in large_page


def test_it_names_the_generation_and_the_last_days(large_page: str) -> None:
    """What readers see, and the nights before."""
    assert "Published is generation <code>0123456789abcdef</code>" in large_page
    assert "The last days" in large_page
    assert "2026-11-08" in large_page


def test_it_links_the_reports_beside_it(page: str) -> None:
    """Those of the day before and the day behind, by the names under which they are written; nothing is fetched."""
    assert re.findall(r'<a href="(audit-[^"]+)"', page) == ["audit-2026-11-19.html", "audit-2026-11-21.html"]


def test_each_finding_names_what_to_do_about_it(page: str) -> None:
    """By the page of this version, which needs no network."""
    assert "minutebook docs how-to/findings broken_chain" in page
    assert "minutebook docs how-to/findings unproven_end" in page


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("retention_ms", "hours", "told"),
    [
        (24 * HOUR_MS, 0.5, "can prove all of it until 2026-11-21T12:00:00.000Z, and its end until 2026-11-21T13:"),
        (24 * HOUR_MS, 12.5, "A part of it has left the stream. Level stream can prove its end until 2026-11-21T13:"),
        (24 * HOUR_MS, 13.5, "The stream held it until 2026-11-21T13:00:00.000Z"),
        (None, 0.5, "How long the stream keeps records could not be asked"),
    ],
)
def test_what_is_unproven_says_until_when_it_can_be_repaired(
    retention_ms: int | None, hours: float, told: str
) -> None:
    """By the stream's retention: all of a time, or its end, or nothing any more."""
    gap = finding(Code.UNCOVERED, "not proven", severity="unknown", shard="shardId-000000000000")
    noon_ms = DAY.begin_ms + 12 * HOUR_MS
    gap = msgspec.structs.replace(gap, begins=iso_time(noon_ms), until=iso_time(noon_ms + HOUR_MS))
    now_ms = DAY.end_ms + int(hours * HOUR_MS)
    audit = msgspec.structs.replace(
        _audit([shard_row(0)], 0), audited_at=iso_time(now_ms), verdict="unknown", findings=(gap,)
    )
    assert told in " ".join(render_page(DayResult(audit, {}, retention_ms)).split())


def test_what_is_wrong_is_not_repaired_by_time() -> None:
    """A defect of which no time is known has no such sentence."""
    gap = finding(Code.BROKEN_CHAIN, "a gap", shard="shardId-000000000000")
    audit = msgspec.structs.replace(_audit([shard_row(0)], 0), findings=(gap,))
    assert "the stream" not in render_page(DayResult(audit, {}, 24 * HOUR_MS)).lower().split("findings")[1]


@pytest.mark.parametrize(
    ("retention_ms", "told"),
    [
        (48 * HOUR_MS, "The stream holds what arrived in 2026-11-20T09:00Z until 2026-11-22T09:00:00.000Z"),
        (24 * HOUR_MS, "What arrived in 2026-11-20T09:00Z left the stream at 2026-11-21T09:00:00.000Z"),
        (None, "How long the stream keeps records could not be asked; while it does, <code>minutebook restore"),
    ],
)
def test_lost_records_can_be_read_again_while_the_stream_holds_them(retention_ms: int | None, told: str) -> None:
    """By the minute of the finding."""
    minute = minute_text(DAY.first_minute + 9 * 60)
    gap = finding(Code.BROKEN_CHAIN, "a gap", shard="shardId-000000000000", minute=minute)
    audit = msgspec.structs.replace(
        _audit([shard_row(0)], 0), audited_at=iso_time(DAY.end_ms + 10 * HOUR_MS), findings=(gap,)
    )
    assert told in " ".join(render_page(DayResult(audit, {}, retention_ms)).split())


@pytest.mark.parametrize("is_listed", [True, False])
def test_the_retention_is_that_of_the_stream_where_it_can_be_asked(tmp_path: Path, is_listed: bool) -> None:  # noqa: FBT001 - a case
    """Not a default: a stream that keeps records for a year can prove a day for that long."""
    corpus = Corpus(DAY)
    unproven_end(corpus, corpus.shards[1], 0)
    corpus.write(open_storage(Address(None, str(tmp_path))))

    def listed() -> ListedShards:
        if not is_listed:
            raise StreamUnavailable("503")
        record = read_application(context.archive, context.place.prefix)
        assert record is not None
        return ListedShards(record.stream_arn, record.stream_created_ms, (), frozenset(), 8760 * HOUR_MS)

    context = job_context(tmp_path, corpus.checkpoints)._replace(shards=listed)
    result = audit_day(context, DAY, AuditOptions(level="inventory"))
    assert result.retention_ms == (8760 * HOUR_MS if is_listed else None)
    told = "keeps records for 8760 hours" if is_listed else "could not be asked"
    assert told in " ".join(render_page(result).split())
