"""The page over streams and days: hostile names stay text, nothing is fetched, and a year of 40 streams is small."""

import re
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote

import pytest

from compaction.report.calendar import WORDS, CalendarDay, StreamCalendar
from compaction.report.calendar_page import render_calendar, size_in_words
from minutebook.format.day import Day

LAST: Final = Day.parse("2026-11-27")
MADE_AT: Final = "2026-11-28T00:45:00.000Z"
HOSTILE: Final = "<script>alert('1')</script>&\"<b>\u202egpj"


def calendar(name: str = "orders", count: int = 3, **of_last: object) -> StreamCalendar:
    """Return clean days; `of_last` is changed in the last one."""
    written = "2026-11-28T00:40:00.000Z"
    days = [CalendarDay(LAST.shift(1 + number - count), "clean", 1000, written) for number in range(count)]
    days[-1] = days[-1]._replace(**of_last)  # type: ignore[arg-type]
    return StreamCalendar(name, f"app-{name}", "s3://out/app/", f"app-{name}/", days, 12_345_678)


def render(*calendars: StreamCalendar) -> str:
    """Return the page."""
    return render_calendar(calendars, MADE_AT, 30)


def test_names_and_errors_of_others_stay_text() -> None:
    """Streams, applications, addresses, errors and notes never become markup, nor links to elsewhere."""
    hostile = calendar(HOSTILE, word="unread", rows=None, note=HOSTILE)._replace(
        application=HOSTILE, where=HOSTILE, folder=f"{HOSTILE}/"
    )
    page = render(hostile, StreamCalendar("javascript:alert(1)", error=HOSTILE), calendar("a"))
    assert "<script" not in page
    assert "\u202e" not in page
    links = re.findall(r"(?:href|src)=\"([^\"]*)\"", page)
    assert all(link.startswith("#s") or re.search(r"audit-\d{4}-\d\d-\d\d\.html$", link) for link in links)
    assert not [link for link in links if ":" in link]
    assert set(re.findall(r"<(\w+)", page)) <= {
        *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "h1", "h2", "p"),
        *("strong", "b", "i", "a", "span", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "br"),
        *("small", "details", "summary", "code", "time"),
    }


def test_the_page_asks_for_nothing() -> None:
    """The policy of the report holds here, too."""
    page = render(calendar())
    report = files("compaction.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    (policy,) = re.findall(r"<meta http-equiv=\"Content-Security-Policy\".*>", report)
    assert policy in page
    assert not re.findall(r"url\((?!#)", page)


def test_a_published_day_leads_to_its_report() -> None:
    """In its application's folder; one that is not published leads nowhere."""
    page = render(calendar("a b", word="none", rows=None), calendar("c"))
    links = [PurePosixPath(unquote(link)) for link in re.findall(r"href=\"([^\"#][^\"]*)\"", page)]
    assert {str(link.parent) for link in links} == {"app-a b", "app-c"}
    assert links.count(PurePosixPath("app-a b/audit-2026-11-26.html")) == 2  # in the row, and in the calendar
    assert PurePosixPath("app-a b/audit-2026-11-27.html") not in links
    assert '<i class="none" title="2026-11-27: not published">27</i>' in page


def test_streams_that_need_somebody_come_first() -> None:
    """Those that could not be read before those with open days; the title says how many."""
    fine, open_day = calendar("a-fine"), calendar("b-open", word="defects")
    page = render(fine, open_day, StreamCalendar("c-denied", error="access denied"))
    assert re.findall(r"<th scope=\"row\"><a href=\"#s\d\">([^<]*)", page) == ["c-denied", "b-open", "a-fine"]
    assert "<title>2 of 3 streams need somebody: published days</title>" in page
    text = re.sub(r"</?span[^>]*>", "", page)
    assert "1 day(s) are neither clean nor accepted nor expired, up to 2026-11-27" in text


@pytest.mark.parametrize("word", ["clean", "accepted", "expired"])
def test_settled_days_need_nobody(word: str) -> None:
    """And the page says so in one line."""
    assert "<title>All 2 streams are settled: published days</title>" in render(calendar(word=word), calendar("b"))
    assert "<title>All days are settled: published days</title>" in render(calendar(word=word))


@pytest.mark.parametrize("word", ["none", "unknown", "defects", "unread"])
def test_other_days_need_somebody(word: str) -> None:
    """Each by its own look, which the legend names."""
    page = render(calendar(word=word))
    assert "<title>Somebody has to look: published days</title>" in page
    assert f'<span><i class="{word}">00</i>{WORDS[word]}</span>' in page  # type: ignore[index]
    style = files("compaction.report").joinpath("index.css").read_text(encoding="utf-8")
    assert f".days .{word}" in style


def test_a_part_of_a_day_is_no_whole_one() -> None:
    """The cell says until when."""
    assert 'title="2026-11-27: clean, 5 rows, so far until 10:00"' in render(calendar(until="10:00", rows=5))


def test_a_single_stream_shows_all_of_its_days_at_once() -> None:
    """Those of several are folded."""
    assert len(re.findall(r"<details open>", render(calendar(count=40)))) == 1
    assert " open>" not in render(calendar("a"), calendar("b"))


def test_nothing_is_published_yet() -> None:
    """A stream without a day is a row all the same."""
    page = render(StreamCalendar("new", "app", where="s3://out/"))
    assert "nothing" in page
    assert ">new<" in page


def test_forty_streams_over_four_hundred_days_are_two_megabytes() -> None:
    """A browser opens that in a second (docs/performance.md)."""
    assert len(render(*(calendar(f"stream-{number:02}", 400) for number in range(40))).encode()) < 2_200_000


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, ""), (0, "0 bytes"), (999, "999 bytes"), (12_345, "12.3 kB"), (42 * 10**14, "4,200.0 TB")],
)
def test_bytes_as_people_read_them(size: int | None, text: str) -> None:
    """In powers of ten, as prices are."""
    assert size_in_words(size) == text
