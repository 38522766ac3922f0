"""The report as its readers meet it: in both themes, on paper, on a phone, by keyboard and by screen reader."""

import itertools
import re
from html.parser import HTMLParser
from importlib.resources import files
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from compaction.report.page import render_page
from tests.fakes.day_results import DAY, HOUR_MS, at, broken_chain, day_result, trend, uncovered

STYLE: Final = files("compaction.report").joinpath("page.css").read_text(encoding="utf-8")
_FOUND: Final = (broken_chain(1, at(9, 17)), uncovered(2, at(14), at(16, 30)))
_THEMES: Final = {"light": 0, "dark": 1, "print": 2}
"""Where the colours of each are in the style sheet."""
_VOID: Final = frozenset({"meta", "br", "link", "img", "hr"})
_TEXTS: Final = [
    *itertools.product(("text", "quiet", "link", "clean", "defects", "unknown", "warning"), ("page", "panel")),
    ("on-tag", "defects"),
]
_SHAPES: Final = [("heat", "page"), ("late", "page"), ("unknown", "page"), ("none", "page")]


@pytest.fixture(scope="module")
def page() -> str:
    """Return the page of a day with a defect and a time that is not proven."""
    result = day_result(4, _FOUND)
    return render_page(result, trend(result), "")


def _colours(theme: str) -> dict[str, str]:
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    of_themes = [block for block in blocks if "--page:" in block]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", of_themes[_THEMES[theme]]))


def _luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", _THEMES)
def test_texts_and_shapes_can_be_told_from_what_is_behind_them(theme: str) -> None:
    """WCAG AA: 4.5 to 1 for texts, 3 to 1 for shapes; on a light page, on a dark one, and on paper."""
    colours = _colours(theme)
    for pairs, least in ((_TEXTS, 4.5), (_SHAPES, 3.0)):
        weak = {pair: round(ratio, 2) for pair in pairs if (ratio := _contrast(*(colours[n] for n in pair))) < least}
        assert weak == {}


def test_each_theme_has_every_colour() -> None:
    """One that a theme lacks would be taken from the other."""
    assert _colours("light").keys() == _colours("dark").keys() == _colours("print").keys()
    used = set(re.findall(r"var\(--([\w-]+)\)", STYLE + render_page(day_result(1))))
    assert used - {"sans", "mono", "small", "names", "beside", "row", "tone"} == _colours("light").keys()


class _Outline(HTMLParser):
    """Collects what a screen reader goes by, and whether elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.tables: list[list[str]] = []
        self.landmarks: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        named = dict(attrs)
        if tag not in _VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if "id" in named:
            self.ids.append(named["id"] or "")
        if tag in {"a", "use"}:
            self.targets.append(named.get("href") or "")
        if tag == "table":
            self.tables.append([])
        elif self.tables and tag in {"caption", "th"}:
            self.tables[-1].append(tag if tag == "caption" else f"th {named.get('scope')}")
        if tag in {"main", "header", "footer", "nav"}:
            self.landmarks.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that closes itself."""
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost element."""
        assert self.open.pop() == tag


def test_the_page_has_an_outline(page: str) -> None:
    """One title, no level left out, landmarks, tables with captions and heads, and links that lead somewhere."""
    outline = _Outline()
    outline.feed(page)
    assert outline.open == []
    assert outline.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(outline.headings))
    assert {"main", "header", "footer", "nav"} <= set(outline.landmarks)
    assert all(table[0] == "caption" and "th None" not in table and "th row" in table for table in outline.tables)
    assert len(outline.ids) == len(set(outline.ids))
    assert {target[1:] for target in outline.targets if target.startswith("#")} <= set(outline.ids)


def test_each_picture_has_a_title_and_says_what_it_shows(page: str) -> None:
    """For those who do not see it: numbers, and how many findings are marked."""
    pictures = re.findall(r'<svg class="plot" role="img".*?><title>(.+?)</title><desc>(.+?)</desc>', page)
    assert len(pictures) == page.count('role="img"') == 5
    assert (
        "1 marked defect, 1 time(s) hatched as not proven"
        in dict(pictures)["Records per minute and shard, with findings"]
    )


def test_pictures_are_well_formed(page: str) -> None:
    """Each by itself is XML."""
    figures = re.findall(r"</figcaption>\n(.*?)</figure>", page, re.DOTALL)
    assert len(figures) == 4
    for figure in figures:
        ET.fromstring(f"<div>{figure}</div>")  # noqa: S314 - our own text


def test_nothing_is_told_by_colour_alone(page: str) -> None:
    """A verdict has a word and a shape of its own, a finding a word and a mark, and what is not proven is hatched."""
    shapes = re.findall(r'id="((?:verdict|mark)-\w+)"[^>]*>?(.*?)(?=<g id|<path id|</defs>)', page, re.DOTALL)
    assert {name for name, _ in shapes} == {
        *("verdict-clean", "verdict-defects", "verdict-unknown", "verdict-none"),
        *("mark-defect", "mark-unknown", "mark-warning"),
    }
    assert "<strong>Defects found</strong>" in page
    assert 'href="#mark-defect"' in page
    assert "fill: url(#hatch)" in STYLE


def test_paper_gets_whole_pictures_and_the_addresses_of_links() -> None:
    """Rows, pictures and queries are not cut, folded parts are printed, and a printer uses the light colours."""
    printed = STYLE.partition("@media print")[2]
    assert re.search(r"figure[^{]*\{ break-inside: avoid; \}", printed)
    assert "attr(href)" in printed
    assert "::details-content" in printed
    assert "color-scheme: light" in printed


def _text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page.partition("<body>")[2]).split())


def test_a_page_says_what_is_judged_and_as_of_when() -> None:
    """A part of a day is named as one, also in its verdict."""
    result = day_result(hours=(0, 14), until_ms=DAY.begin_ms + 14 * HOUR_MS)
    text = _text(render_page(result, trend(result, until="2026-11-20T14:00:00.000Z")))
    assert "Clean, so far" in text
    assert "archived once, in whole chains, of what arrived until 2026-11-20 14:00" in text
    assert "True of the archive as of 2026-11-20 14:47" in text
    assert "It reaches until 2026-11-20 14:00 ." in text
    assert "24:00" not in text


def test_an_accepted_day_shows_whose_word_it_is() -> None:
    """The verdict stays, with the reason beside it."""
    result = day_result(4, _FOUND, accepted="incident 42: <lost>")
    page = render_page(result)
    assert "<strong>Defects found, accepted</strong>" in page
    assert "Accepted at 2026-11-21 09:47 : incident 42: &lt;lost&gt;" in _text(page)


def test_the_nearest_deadline_stands_at_the_verdict(page: str) -> None:
    """The first moment at which something that a repair needs leaves the stream."""
    assert "Until 2026-11-27 09:17 the stream holds what the next repair or proof needs." in _text(page)
    assert "until 2026-11-27T09:17:00.000Z (it keeps records for 168 hours now); what came before leaves" in _text(
        page
    )


@pytest.mark.parametrize(("shards", "most"), [(4, 100_000), (100, 200_000), (1_000, 250_000)])
def test_a_page_has_a_moderate_size(shards: int, most: int) -> None:
    """Bytes, of a busy day with findings: a mail takes it."""
    findings = [broken_chain(number, at(number % 24, 5)) for number in range(0, shards, 7)]
    result = day_result(shards, [*findings, uncovered(3, at(1), at(2))])
    assert len(render_page(result, trend(result), "").encode()) < most


def test_a_thousand_shards_are_one_picture() -> None:
    """All of them, with every finding marked; and the worst by themselves."""
    findings = [broken_chain(number, at(3, 5)) for number in (0, 500, 999)]
    page = render_page(day_result(1_000, findings))
    descriptions = dict(re.findall(r"<title>(.+?)</title><desc>(.+?)</desc>", page))
    assert (
        descriptions["All shards of the day"]
        == "Records per minute of all 1,000 shards in 500 lines. 3 marked defect."
    )
    assert "Each line is the quietest of 2 shards" in page
    assert "Records per minute of 20 shard(s)" in descriptions["Records per minute and shard, with findings"]
