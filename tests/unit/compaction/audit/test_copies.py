"""Producer duplicates in the nightly job: which are found, which stay, what the numbers say, and how many fit."""

import random
from pathlib import Path

import pytest

from compaction.audit.audit import audit_day
from compaction.audit.collecting import check_room
from compaction.event_ids.rows import NUMBERS, IdCollector, IdOrder
from compaction.job.context import AuditOptions
from compaction.verdict.audit_document import Audit
from minutebook.errors import SafetyRefusal
from minutebook.format.day import Day
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import compare, job_context
from tests.corpus.defects import DEFECTS, PRODUCER_DEFECTS, break_shard, suits
from tests.corpus.event_defects import repeated_after_midnight, repeated_event, repeated_in_another_shard
from tests.corpus.model import Corpus, Defect, Expected, Seen, Shape
from tests.corpus.object_defects import flipped_bit, swapped_lines

DAY = Day.parse("2026-11-20")


def audit(corpus: Corpus, folder: Path, event_id: str = "n", **options: object) -> Audit:
    """Write a corpus into a folder and audit it, with the path of the event id."""
    corpus.write(open_storage(Address(None, str(folder))))
    given = AuditOptions(event_id=event_id, **options)  # type: ignore[arg-type]
    return audit_day(job_context(folder, corpus.checkpoints), DAY, given).audit


def check_of(found: Audit, name: str) -> tuple[str, str]:
    """Return status and message of a check."""
    return next((check.status, check.message) for check in found.checks if check.id == name)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("defect", PRODUCER_DEFECTS, ids=lambda defect: defect.__name__)
def test_each_kind_of_copy_is_reported(tmp_path: Path, defect: Defect, number: int) -> None:
    """The copies and no others, in the shard where they stand; they break no promise, so the day is clean."""
    corpus = Corpus(DAY, seed=number + 1, shape=Shape(shards=4))
    expected = break_shard(corpus, defect, number)
    found = audit(corpus, tmp_path)
    compare(found.findings, expected, Seen.KEYS)
    assert found.verdict == "clean"
    assert found.equation.unique == found.equation.raw == corpus.records


@pytest.mark.parametrize("seed", range(8))
def test_copies_among_other_defects(tmp_path: Path, seed: int) -> None:
    """A defect or a copy in every shard but one: the union of their findings."""
    rng = random.Random(seed)
    corpus = Corpus(DAY, seed, Shape(shards=7))
    expected: list[Expected] = []
    for number in range(6):
        kinds = PRODUCER_DEFECTS if number % 2 else [candidate for candidate in DEFECTS if suits(candidate, number)]
        expected += break_shard(corpus, rng.choice(kinds), number)
    compare(audit(corpus, tmp_path).findings, expected, Seen.KEYS)


def test_a_finding_names_the_copies_and_the_original(tmp_path: Path) -> None:
    """Positions are those of the copies, the message names what the first repeats, the command finds it again."""
    corpus = Corpus(DAY)
    shard = corpus.shards[1]
    repeated_event(corpus, shard, 3)
    (found,) = audit(corpus, tmp_path).findings
    records = shard.segments[3].records
    assert found.positions == (str(records[2].position), str(records[4].position))
    assert f"repeats {shard.shard_id}/{records[0].position}" in found.message
    assert (found.severity, found.count, found.keys) == ("warning", 2, (shard.segments[3].key,))
    assert found.minute is not None
    assert found.reproduce.endswith(f"--date {DAY} --level keys --event-id n")


def test_nothing_is_looked_for_unless_asked(tmp_path: Path) -> None:
    """Without the path the check was not asked for, and says so."""
    corpus = Corpus(DAY)
    repeated_event(corpus, corpus.shards[1], 3)
    corpus.write(open_storage(Address(None, str(tmp_path))))
    found = audit_day(job_context(tmp_path, corpus.checkpoints), DAY, AuditOptions()).audit
    assert found.findings == ()
    assert check_of(found, "producer_duplicate")[0] == "not_asked"


def test_records_without_an_id_are_kept_and_counted(tmp_path: Path) -> None:
    """Payloads that are no JSON are equal to nothing, each other included."""
    corpus = Corpus(DAY)
    found = audit(corpus, tmp_path)
    binary = sum(
        not record.data.startswith(b"{")
        for shard in corpus.shards
        for index in shard.in_day(DAY)
        for record in shard.segments[index].records
    )
    assert binary > 0
    assert check_of(found, "producer_duplicate")[0] == "pass"
    assert check_of(found, "event_ids") == (
        "pass",
        f"{binary} of {corpus.records} lines have no id under 'n', and are kept",
    )


def test_a_path_that_finds_no_id_at_all_proves_nothing(tmp_path: Path) -> None:
    """A wrong path must not look like a day without copies."""
    found = audit(Corpus(DAY), tmp_path, "no.such.name")
    assert (found.verdict, check_of(found, "event_ids")[0]) == ("unknown", "unknown")


def test_damage_on_the_day_before_is_doubt(tmp_path: Path) -> None:
    """What cannot be read there may be the first of an event: unknown, never clean."""
    corpus = Corpus(DAY)
    flipped_bit(corpus, corpus.shards[0], 0)
    found = audit(corpus, tmp_path)
    assert found.verdict == "unknown"
    assert [(finding.code, finding.severity) for finding in found.findings] == [("producer_duplicate", "unknown")]
    assert "1 object(s) of 2026-11-19 are not whole" in found.findings[0].message


def test_what_is_out_of_order_on_the_day_before_is_nobodys_original(tmp_path: Path) -> None:
    """An event that is there in doubt alone has its first record on the day: only the second one repeats it."""
    corpus = Corpus(DAY)
    repeated_after_midnight(corpus, corpus.shards[1], 3)
    swapped_lines(corpus, corpus.shards[1], 0)
    found = audit(corpus, tmp_path).findings
    assert sorted((about.severity, about.count) for about in found) == [("unknown", 1), ("warning", 1)]


def test_an_object_in_doubt_is_nobodys_original(tmp_path: Path) -> None:
    """Lines that are out of order have a finding of their own, and decide nothing: doubt keeps."""
    corpus = Corpus(DAY, shape=Shape(shards=4))
    expected = repeated_event(corpus, corpus.shards[1], 3)
    repeated_in_another_shard(corpus, corpus.shards[0], 3)
    expected += swapped_lines(corpus, corpus.shards[3], corpus.shards[3].in_day(DAY)[0])
    compare(audit(corpus, tmp_path).findings, expected, Seen.KEYS)


def test_yesterdays_copies_among_themselves_are_yesterdays(tmp_path: Path) -> None:
    """The day before is read for its ids; what repeats there is reported by its own audit."""
    corpus = Corpus(DAY)
    repeated_event(corpus, corpus.shards[1], 0)
    assert audit(corpus, tmp_path).findings == ()


def test_an_expired_day_before_that_is_published_nowhere_is_doubt(tmp_path: Path) -> None:
    """Its ids are not known: unknown, with the place that was looked at."""
    corpus = Corpus(DAY)
    repeated_after_midnight(corpus, corpus.shards[1], 3)
    corpus.objects["raw/_expired/2026-11-19.json"] = (_TOMBSTONE, {})
    found = audit(corpus, tmp_path, published=StorePrefix(Address(None, str(tmp_path / "out")), "tables/"))
    assert found.verdict == "unknown"
    assert "is expired, and not published at" in found.findings[0].message


_TOMBSTONE = (
    b'{"format":1,"day":"2026-11-19","generation":"g","segments":0,"bytes":0,"shards":{},"writer":"w",'
    b'"written_at":"t"}'
)


def test_days_of_more_objects_than_numbers_are_refused() -> None:
    """Before a line is read."""
    check_room(NUMBERS)
    with pytest.raises(SafetyRefusal, match="hold 4,294,967,297 objects"):
        check_room(NUMBERS + 1)


@pytest.mark.parametrize("order", [IdOrder("n", 0, 1).of(4, 2), IdOrder("n", NUMBERS - 2, 1)])
def test_a_task_with_more_objects_than_numbers_is_refused(order: IdOrder) -> None:
    """Its last objects would have the numbers of the next task's first ones, or none that fits."""
    IdCollector(order, ["a", "b"])
    with pytest.raises(SafetyRefusal, match="a task has 3 objects"):
        IdCollector(order, ["a", "b", "c"])
