"""The published schema of `audit.json` is the one that the code writes."""

import json
from pathlib import Path

from compaction.verdict.audit_document import (
    Audit,
    AuditCheck,
    Equation,
    Scope,
    audit_schema,
    decode_audit,
    encode_audit,
)

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
