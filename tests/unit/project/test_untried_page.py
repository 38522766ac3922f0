"""Where a page says that something was not run, it leads to the page that says how to try it."""

import re
from pathlib import Path
from typing import Final

import pytest

from consumer.settings.shipped import page
from docsite.hook import CHECKOUT
from tests.unit.project.test_docs_text import PAGES, blocks

_PAGE: Final = CHECKOUT / "docs" / "how-to" / "untried.md"
_ADMITS: Final = re.compile(r"\bNot run\b|have not run\b|none of them was run|(?:was run|ran|not) on AWS")
_ADMITTING: Final = [each for each in PAGES if _ADMITS.search(each.read_text()) and each != _PAGE]


def test_pages_admit() -> None:
    """A search that finds none would pass for ever."""
    assert len(_ADMITTING) > 5


@pytest.mark.parametrize("admitting", _ADMITTING, ids=lambda each: each.name)
def test_a_page_that_admits_leads_to_how_to_try(admitting: Path) -> None:
    """By a link."""
    assert re.search(r"\]\((?:docs/)?(?:\.\./)?(?:how-to/)?untried\.md", admitting.read_text())


def test_each_row_of_the_table_leads_to_commands() -> None:
    """To a section of this page with a block to copy, or to another page."""
    rows = re.findall(r"^\| (?!what ran|---|\|)(.+?) \|.*\[(.+?)\]\((.+?)\) \|$", _PAGE.read_text(), re.MULTILINE)
    sections = {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-"): heading
        for heading in re.findall(r"^## (.+)$", _PAGE.read_text(), re.MULTILINE)
    }

    assert len(rows) > 8
    for what, _, target in rows:
        if target.startswith("#"):
            assert "```sh" in page("how-to/untried", sections[target[1:]]), what
        else:
            assert (_PAGE.parent / target).is_file(), what


def test_what_is_made_is_removed() -> None:
    """Each service in which a command makes something has its line in the last section."""
    *_, last = blocks(_PAGE, "sh")
    made = {
        service for block in blocks(_PAGE, "sh") for service in re.findall(r"aws ([\w-]+) (?:create|deploy)", block)
    }

    assert made >= {"kinesis", "s3api", "glue", "cloudformation"}
    for service in made:
        assert f"aws {service.removesuffix('api')} " in last
