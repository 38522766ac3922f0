"""The pictures of the home page: drawn by scripts, light and dark, small, and without a request."""

import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from docsite.way_of_a_record import PALETTES, draw, file_name

ASSETS: Final = Path(__file__).resolve().parents[3] / "docs" / "assets"
_MOST_BYTES: Final = 150_000


@pytest.mark.parametrize("theme", sorted(PALETTES))
def test_the_way_of_a_record_is_what_its_script_draws(theme: str) -> None:
    """`python -m docsite.way_of_a_record` makes it again."""
    assert (ASSETS / file_name(theme)).read_text() == draw(PALETTES[theme])


@pytest.mark.parametrize("theme", sorted(PALETTES))
def test_it_is_text_for_every_reader(theme: str) -> None:
    """A title, a description, every part by its name, and nothing that is fetched."""
    body = draw(PALETTES[theme])
    texts = [element.text or "" for element in ET.fromstring(body).iter()]  # noqa: S314 - our own text
    for part in (
        "Producers",
        "Kinesis shard",
        "KCL daemon",
        "Processor",
        "conditional PUT",
        "Checkpoint",
        "Nightly job",
    ):
        assert part in texts
    assert {"clean", "defects found", "could not prove"} <= set(texts)
    assert not re.findall(r"(?:href|src)=", body)


def test_pictures_of_the_home_page_are_small() -> None:
    """Below 150 KB each."""
    pictures = [*ASSETS.glob("way-of-a-record-*"), *ASSETS.glob("report-*")]
    assert pictures
    assert all(path.stat().st_size < _MOST_BYTES for path in pictures)
