"""What a page of a large stream shows, and that it counts what it does not."""

from compaction.report.folding import SHARDS_SHOWN, clip, fold_shards, group_findings, visible_text
from compaction.verdict.audit_document import Shard
from compaction.verdict.findings import Code, Finding, Severity, finding, ordered
from minutebook.format.minute import minute_text


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
