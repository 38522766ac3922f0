"""The report: one file that needs nothing else, and that shows names as they are, never as markup."""

import re
from pathlib import Path

import pytest

from compaction.audit.audit import audit_day
from compaction.job.context import AuditOptions
from compaction.report.page import render_page
from minutebook.format.day import Day
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
    assert not [url for url in re.findall(r"(?:src|href)=\"([^\"]+)\"", page) if not url.startswith(("#", "data:"))]
    assert not re.findall(r"url\((?!#)", page)


def test_verdict_equation_pictures_and_findings_are_there(page: str) -> None:
    """What a person looks for: the verdict in words, the balance, three pictures, each finding with its command."""
    for wanted in ("Defects found", "raw lines", "rejected", "broken_chain", "unproven_end", "minutebook audit"):
        assert wanted in page
    assert page.count("<svg") == 3


def test_an_archive_without_shards_has_a_page(tmp_path: Path) -> None:
    """Nothing archived, nothing proven: the page says so without pictures."""
    corpus = Corpus(DAY)
    corpus.shards.clear()
    corpus.write(open_storage(Address(None, str(tmp_path))))
    result = audit_day(job_context(tmp_path), DAY, AuditOptions(level="inventory"))
    assert result.audit.verdict == "unknown"
    assert "<svg" not in render_page(result)
