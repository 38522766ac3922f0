"""What a verdict ends in: `audit.json`, of the published schema, and the exit code of a command."""

import json
from pathlib import Path

import pytest

from compaction.verdict.audit_document import (
    Audit,
    AuditCheck,
    Equation,
    Scope,
    audit_schema,
    decode_audit,
    encode_audit,
)
from compaction.verdict.exit_code import DayEnd, FailOn, exit_code

PUBLISHED = Path(__file__).parents[4] / "docs" / "audit.schema.json"


def test_the_published_schema_is_current() -> None:
    """To renew it: python -m compaction.verdict.audit_document > docs/audit.schema.json."""
    assert json.loads(PUBLISHED.read_text()) == json.loads(json.dumps(audit_schema()))


def test_audit_json_comes_back() -> None:
    """What is written is read."""
    audit = Audit(
        schema="minutebook-audit/1",
        version="1",
        audited_at="2026-11-21T00:00:00.000Z",
        level="keys",
        verdict="unknown",
        scope=Scope(
            stream="s",
            application="a",
            archive="s3://b/p/",
            day="2026-11-20",
            day_is_over=True,
            objects=1,
            bytes=2,
            inventory="0",
            generation=None,
        ),
        equation=Equation(raw=3, unique=1, duplicates=1, rejected=1, compacted=None, removed=0, balanced=True),
        shards=(),
        checks=(AuditCheck(id="x", status="unknown"),),
        findings=(),
    )
    assert decode_audit(encode_audit(audit)) == audit


CLEAN, UNKNOWN, DEFECTS = DayEnd("clean"), DayEnd("unknown"), DayEnd("defects")
HELD = DayEnd("unknown", is_done=False)


@pytest.mark.parametrize(
    ("days", "fail_on", "code"),
    [
        ([], "unknown", 0),
        ([CLEAN, CLEAN], "unknown", 0),
        ([CLEAN, UNKNOWN], "unknown", 4),
        ([UNKNOWN, DEFECTS, CLEAN], "unknown", 3),
        ([CLEAN, UNKNOWN], "defects", 0),
        ([UNKNOWN, DEFECTS], "defects", 3),
        ([CLEAN, HELD], "defects", 4),
        ([HELD, DEFECTS], "defects", 3),
        ([DayEnd("clean", is_done=False)], "defects", 4),
    ],
)
def test_the_worst_day_counts(days: list[DayEnd], fail_on: FailOn, code: int) -> None:
    """A defect always; what could not be proven unless told otherwise; what was not done always."""
    assert exit_code(days, fail_on) == code
