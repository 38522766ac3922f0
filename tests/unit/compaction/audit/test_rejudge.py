"""A published day that is judged again, by names and metadata, keeps what reading its lines had shown."""

from pathlib import Path

import pytest

from compaction.verdict.audit_document import decode_audit
from tests.corpus.defects import DEFECTS
from tests.corpus.desk import DAY, Desk
from tests.corpus.expected import Defect
from tests.corpus.model import Corpus


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_no_defect_is_forgotten(defect: Defect, tmp_path: Path) -> None:
    """Nothing has changed since, so the verdict is the one of the first run, and so are the findings."""
    corpus = Corpus(DAY)
    defect(corpus, corpus.shards[0], 3)
    desk = Desk(tmp_path, corpus)
    first = desk.compact(accept_defects=True)
    assert first.result is not None
    again = desk.compact(accept_defects=True)
    assert (again.state, again.verdict) == ("already", first.verdict)

    pointer = desk.publisher().current().pointer
    assert pointer is not None
    audit = desk.publisher().audit(pointer)
    assert audit is not None
    codes = sorted((about.code, about.shard) for about in first.result.audit.findings)
    assert sorted((about.code, about.shard) for about in decode_audit(audit).findings) == codes
