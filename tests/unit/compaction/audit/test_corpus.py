"""The audit on archives with seeded defects: exactly the right findings, which stay when a day is judged again."""

import random
from pathlib import Path
from typing import get_args

import pytest

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.verdict.audit_document import Audit, AuditLevel, decode_audit
from minutebook.compression import Compression
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import compare, job_context
from tests.corpus.defects import DEFECTS, break_shard, broken_shards, suits
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import Corpus, Defect, Expected, Seen, Shape
from tests.searching import one_in

LEVELS: dict[AuditLevel, Seen] = {"inventory": Seen.INVENTORY, "keys": Seen.KEYS}


def audit(corpus: Corpus, folder: Path, level: AuditLevel) -> Audit:
    """Write a corpus into a folder and audit it."""
    corpus.write(open_storage(Address(None, str(folder))))
    result = audit_day(job_context(folder, corpus.checkpoints), DAY, AuditOptions(level=level))
    return result.audit


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("compression", Compression)
def test_a_whole_archive_has_no_finding(tmp_path: Path, level: AuditLevel, compression: Compression) -> None:
    """Every shard's start and end is proven, the numbers balance, and it is clean where lines were read."""
    corpus = Corpus(DAY, shape=Shape(compression=compression))
    found = audit(corpus, tmp_path, level)
    assert (found.verdict, found.findings) == (verdict([], LEVELS[level]), ())
    assert (found.equation.raw, found.equation.unique) == (corpus.records, corpus.records)
    assert {shard.start_proof for shard in found.shards} == {"link"}
    assert [shard.end_proof for shard in found.shards] == ["successor", "end.json", "checkpoint"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("defect", "number"), broken_shards(), ids=lambda of: getattr(of, "__name__", None))
def test_each_defect_alone(tmp_path: Path, defect: Defect, level: AuditLevel, number: int) -> None:
    """One defect in one shard: exactly its findings, and the verdict that they call for. Each compression in turn."""
    corpus = Corpus(DAY, number + 1, Shape(compression=list(Compression)[number % 2]))
    expected = break_shard(corpus, defect, number)
    found = audit(corpus, tmp_path, level)
    compare(found.findings, expected, LEVELS[level])
    assert found.verdict == verdict(expected, LEVELS[level])


@pytest.mark.parametrize("seed", one_in(3, range(12)))
@pytest.mark.parametrize("level", LEVELS)
def test_defects_mixed(tmp_path: Path, level: AuditLevel, seed: int) -> None:
    """A defect in every shard but one: the union of their findings."""
    rng = random.Random(seed)
    corpus = Corpus(DAY, seed, Shape(shards=7, compression=list(Compression)[seed % 2]))
    expected: list[Expected] = []
    for number in range(6):
        expected += break_shard(
            corpus, rng.choice([candidate for candidate in DEFECTS if suits(candidate, number)]), number
        )
    found = audit(corpus, tmp_path, level)
    compare(found.findings, expected, LEVELS[level])
    assert found.verdict == verdict(expected, LEVELS[level])


def verdict(expected: list[Expected], level: Seen) -> str:
    """Return the verdict that these findings call for; by names alone no day is clean."""
    severities = {wanted.severity for wanted in expected if level in wanted.seen}
    return "defects" if "defect" in severities else "unknown" if severities or level is Seen.INVENTORY else "clean"


def test_levels_are_covered() -> None:
    """Each level but `stream`, which needs one, is tested here."""
    assert {*LEVELS, "stream"} == set(get_args(AuditLevel))


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_no_defect_is_forgotten(defect: Defect, tmp_path: Path) -> None:
    """Nothing has changed since, so the verdict is the one of the first run, and so are the findings."""
    corpus = Corpus(DAY)
    defect(corpus, corpus.shards[0], 3)
    desk = Desk(tmp_path, corpus)
    first = desk.compact(accept="known")
    assert first.result is not None
    again = desk.compact(accept="known")
    assert (again.state, again.verdict) == ("already", first.verdict)

    pointer = desk.publisher().current().pointer
    assert pointer is not None
    audit = desk.publisher().audit(pointer)
    assert audit is not None
    codes = sorted((about.code, about.shard) for about in first.result.audit.findings)
    assert sorted((about.code, about.shard) for about in decode_audit(audit).findings) == codes
