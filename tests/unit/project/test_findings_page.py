"""The page on findings has a section for each code, and the report leads there."""

import re
from pathlib import Path
from typing import Final

from compaction.verdict.findings import Code
from consumer.settings.shipped import page

CHECKOUT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = (CHECKOUT / "docs" / "how-to" / "findings.md").read_text()


def test_every_code_has_a_section() -> None:
    """And no other."""
    codes = [code.value for code in Code]
    assert sorted(re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)) == sorted(codes)


def test_the_reports_command_prints_the_section() -> None:
    """Whatever the code."""
    template = (CHECKOUT / "compaction" / "report" / "page.html.j2").read_text()
    assert "<code>minutebook docs how-to/findings {{ group.code }}</code>" in template
    for code in Code:
        assert page("how-to/findings", code.value).startswith(f"## {code.value}\n")
