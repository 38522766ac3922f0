"""The comparison: what is said of others has a source that a reader can open, what is said of us is the code's."""

import re
from typing import Final

from compaction.job.scope import SETTLED_MS
from tests.unit.project.test_docs_text import CHECKOUT

_PAGE: Final = (CHECKOUT / "docs" / "explanation" / "comparison.md").read_text()
_OURS: Final = ("What Minutebook does not have", "Measured")
_SECTIONS: Final = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", _PAGE, re.MULTILINE))


def test_each_section_on_others_names_its_sources() -> None:
    """By links to pages of those who make it."""
    others = {title: text for title, text in _SECTIONS.items() if title not in _OURS}

    assert len(others) >= 5
    for title, text in others.items():
        assert re.search(r"\]\(https://[\w.-]+/", text), title


def test_each_product_that_reads_kafka_names_its_source() -> None:
    """A row begins with its link."""
    rows = re.findall(r"^\| ([^|\s].*?) \|", _SECTIONS["What reads Kafka, and not Kinesis"], re.MULTILINE)

    assert len(rows) >= 4
    assert all(re.match(r"\[[^\]]+\]\(https://", row) for row in rows)


def test_what_we_do_not_have_is_true() -> None:
    """The hours of today come as late as it says, and no command fills a table by the minute."""
    assert re.findall(r"(\d+) minutes after each has ended", _PAGE) == [str(SETTLED_MS // 60_000)]


def test_the_table_says_of_each_what_it_says_of_one() -> None:
    """Each row has a cell for each product."""
    rows = [line for line in _PAGE.splitlines() if line.startswith("|")]
    width = rows[0].count("|")

    assert len([row for row in rows if row.count("|") == width]) > 12
