"""What was accepted, and what a later judgement finds besides."""

from typing import Any

import msgspec
import pytest

from compaction.audit.shards.group_view import bounded
from compaction.verdict.acceptance import accept, still_holds
from compaction.verdict.findings import Code, Finding, finding

SHARD = "shardId-000000000000"


def many(*numbers: int) -> list[Finding]:
    """Return a defect for each number, as an audit reports them."""
    return bounded([finding(Code.COUNT_MISMATCH, "m", shard=SHARD, keys=[f"key-{number:03d}"]) for number in numbers])


def test_many_findings_are_accepted_as_they_are() -> None:
    """In whatever order they come."""
    acceptance = accept(many(*range(60)), (), "known", "t")
    assert len(acceptance.findings) == 1
    assert still_holds(acceptance, many(*reversed(range(60))), ())


def test_a_time_in_which_a_batch_was_skipped_was_not_accepted_without_it() -> None:
    """The marker of the batch came later. What an earlier release accepted named none, and goes on."""

    def open_time(begins: str, *skips: str) -> list[Finding]:
        about = finding(Code.UNPROVEN_END, "m", severity="unknown", shard=SHARD, contents=skips)
        return [msgspec.structs.replace(about, begins=begins, until="2026-11-21T00:00:00.000Z")]

    shorter = "2026-11-20T12:00:00.000Z"
    acceptance = accept(open_time("2026-11-20T00:00:00.000Z", "one"), (), "known", "t")
    assert still_holds(acceptance, open_time(shorter), ())
    assert still_holds(acceptance, open_time(shorter, "one"), ())
    assert not still_holds(acceptance, open_time(shorter, "one", "two"), ())
    earlier = accept(open_time("2026-11-20T00:00:00.000Z"), (), "known", "t")
    assert still_holds(msgspec.structs.replace(earlier, names_contents=False), open_time(shorter, "two"), ())


def test_one_of_many_that_is_another_one_was_not_accepted() -> None:
    """Their samples and their number are the same."""
    acceptance = accept(many(*range(60)), (), "known", "t")
    assert many(*range(59), 99)[0].keys == many(*range(60))[0].keys
    assert not still_holds(acceptance, many(*range(59), 99), ())
    assert not still_holds(acceptance, many(*range(61)), ())


def test_what_an_earlier_release_accepted_of_many_is_honoured_by_what_it_holds() -> None:
    """Samples and a number."""
    acceptance = accept(many(*range(60)), (), "known", "t")
    earlier = msgspec.structs.replace(
        acceptance, findings=tuple(msgspec.structs.replace(one, digest="") for one in acceptance.findings)
    )
    assert still_holds(earlier, many(*range(59), 99), ())
    assert not still_holds(earlier, many(*range(61)), ())


def test_a_few_are_accepted_by_their_keys() -> None:
    """One that is repaired since ends nothing."""
    acceptance = accept(many(1, 2, 3), (), "known", "t")
    assert still_holds(acceptance, many(1, 3), ())
    assert not still_holds(acceptance, many(1, 4), ())


@pytest.mark.parametrize("change", [{"contents": ("second",)}, {"count": 2}], ids=["content", "number"])
def test_many_with_another_content_or_number_were_not_accepted(change: dict[str, Any]) -> None:
    """Their keys are the same: altered objects that were edited again."""

    def altered(**fields: Any) -> list[Finding]:  # noqa: ANN401 - fields of a finding
        first = finding(Code.ALTERED_OBJECT, "m", shard=SHARD, contents=("first",))
        keys = [f"key-{number:03d}" for number in range(60)]
        return bounded([msgspec.structs.replace(first, **({"keys": (key,)} | fields)) for key in keys])

    acceptance = accept(altered(), (), "known", "t")
    assert still_holds(acceptance, altered(), ())
    others = [msgspec.structs.replace(about, count=60) for about in altered(**change)]
    assert not still_holds(acceptance, others, ())
