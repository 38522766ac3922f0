"""What the page over streams and days tells, on an archive and an output in folders."""

import json
from pathlib import Path
from typing import Any

import pytest

from compaction.job.context import AuditOptions
from compaction.job.settings import JobSettings
from compaction.night.days.page import NAME, PublishedPage
from compaction.night.days.published import read_calendar
from compaction.report.calendar import CalendarDay, StreamCalendar
from minutebook.aws.access import PLAIN
from minutebook.properties_file import PropertiesFile
from minutebook.properties_folder import PropertiesFolder, StreamFile
from minutebook.store.places import open_storage
from tests.corpus.chain_defects import missing_object
from tests.corpus.desk import DAY, Desk, expire
from tests.corpus.model import PREFIX
from tests.fakes.archive_scene import APPLICATION
from tests.fakes.clock import ManualClock

BEFORE = DAY.shift(-1)
KNOWN = StreamCalendar("flights", APPLICATION)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return two days that are published, two days later."""
    desk = Desk(tmp_path)
    desk.clock.advance(2 * 86_400)
    desk.corpus.write_marks(open_storage(desk.archive))
    for day in (BEFORE, DAY):
        assert desk.compact(day=day).verdict == "clean"
    return desk


def read(desk: Desk, **options: int) -> StreamCalendar:
    """Read the calendar."""
    return read_calendar(desk.context(), desk.out, KNOWN, **options)


def words(desk: Desk) -> dict[str, str]:
    """Return what is told of each day."""
    return {str(day.day): day.word for day in read(desk).days}


def test_every_day_from_the_archives_first_to_the_newest_settled_one(desk: Desk) -> None:
    """Also one that no night has published; where it is, when the newest was published, how large they are."""
    found = read(desk)
    assert [(str(each.day), each.word) for each in found.days][-4:] == [
        (str(BEFORE), "clean"),
        (str(DAY), "clean"),
        (str(DAY.shift(1)), "none"),
        (str(DAY.shift(2)), "none"),
    ]
    assert found.error == ""
    assert found.newest is not None
    assert found.newest.day == DAY
    assert found.newest.written_at.startswith("2026-11-2")
    assert found.where == open_storage(desk.out.address).uri(desk.out.prefix)
    sizes = [path.stat().st_size for path in (Path(desk.out.address.root) / desk.out.prefix).rglob("part-*.parquet")]
    assert found.size == sum(sizes)
    assert found.days[-3].rows == desk.corpus.records


def test_only_the_last_days_are_read(desk: Desk) -> None:
    """The others are no part of the page."""
    assert [each.day for each in read(desk, days=2).days] == [DAY.shift(1), DAY.shift(2)]


def test_a_day_that_is_not_over_is_no_open_one(desk: Desk) -> None:
    """Its folder is there before it is published: what `follow` writes, or a run that died."""
    desk.storage.put_if_absent(f"{desk.out.prefix}dt={DAY.shift(3)}/_live/part", b"", {}, "application/json")
    assert [each.day for each in read(desk, days=2).days] == [DAY.shift(2)]


def test_an_accepted_day_is_told_from_one_that_nobody_accepted(tmp_path: Path) -> None:
    """By its audit: the pointer's verdict stays what it is."""
    desk = Desk(tmp_path)
    desk.clock.advance(2 * 86_400)
    missing_object(desk.corpus, desk.corpus.shards[0], 3)
    desk = _again(desk, tmp_path)
    assert desk.compact().verdict == "defects"
    assert words(desk)[str(DAY)] == "none"
    desk.compact(accept="lost in incident 42")
    assert words(desk)[str(DAY)] == "accepted"


def test_a_pointer_that_cannot_be_read_is_its_days_own_matter(desk: Desk) -> None:
    """The others are told."""
    (Path(desk.out.address.root) / f"{desk.out.prefix}dt={DAY}" / "_current.json").write_text("{")
    found = {each.day: each for each in read(desk).days}
    assert (found[DAY].word, found[BEFORE].word) == ("unread", "clean")
    assert "_current.json" in found[DAY].note


def edit_pointer(desk: Desk, **fields: object) -> None:
    """Change fields of the day's pointer."""
    path = Path(desk.storage.uri(desk.publisher().folder.pointer))
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_verdict_by_older_rules_is_none(desk: Desk) -> None:
    """The reader says `unknown`, and so does the page, also of days that it reads the pointer of alone."""
    edit_pointer(desk, rules=1)
    assert words(desk)[str(DAY)] == "unknown"
    desk.clock.advance(100 * 86_400)
    assert words(desk)[str(DAY)] == "unknown"


@pytest.mark.parametrize(("verdict", "word"), [("clean", "expired"), ("unknown", "unknown"), ("defects", "defects")])
def test_an_expired_day_is_settled_while_its_verdict_stands(desk: Desk, verdict: str, word: str) -> None:
    """A night withdraws it where its output is not what it was expired with, and names it each time."""
    expire(desk, "whatever", days=0)
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    audit = Path(desk.storage.uri(pointer.audit))
    audit.write_text(json.dumps(json.loads(audit.read_text()) | {"verdict": verdict}))
    edit_pointer(desk, verdict=verdict)
    day = next(each for each in read(desk).days if each.day == DAY)
    assert (day.word, day.is_open) == (word, word != "expired")


@pytest.mark.parametrize("what", ["audit", "manifest"])
def test_a_verdict_without_what_it_was_given_for_is_none(desk: Desk, what: str) -> None:
    """The night that could not make it again has a row, and the page does not say `clean` beside it."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    Path(desk.storage.uri(getattr(pointer, what))).unlink()
    assert words(desk)[str(DAY)] == {"audit": "unknown", "manifest": "unread"}[what]


def test_an_audit_with_another_verdict_is_named(desk: Desk) -> None:
    """Somebody put an older pointer back."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    path = Path(desk.storage.uri(pointer.audit))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"verdict": "defects"}))
    day = next(each for each in read(desk).days if each.day == DAY)
    assert (day.word, "says clean, and its audit" in day.note) == ("unread", True)


def test_a_settled_day_that_is_published_in_part_is_open(tmp_path: Path) -> None:
    """Today's part needs nobody; the same part needs somebody when the day is over."""
    desk = Desk(tmp_path)
    desk.compact(audit=AuditOptions(so_far_ms=DAY.begin_ms + 3 * 3_600_000))
    day = next(each for each in read(desk).days if each.day == DAY)
    assert (day.word, day.until is None, day.is_open) == ("clean", False, True)
    assert "so far until 2026-11-20T03:00:00.000Z" in day.label
    edge_ms = DAY.end_ms - 3_600_000
    desk.clock = ManualClock(edge_ms)
    day = next(each for each in read(desk).days if each.day == DAY)
    assert (day.word, day.is_open) == ("clean", False)


def test_an_expired_day_is_expired_and_still_published(desk: Desk) -> None:
    """Whatever its pointer says; its report stays."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    expire(desk, "whatever", days=1)
    day = next(each for each in read(desk).days if each.day == BEFORE)
    assert (day.word, day.rows is None) == ("expired", False)


@pytest.mark.parametrize(("body", "word"), [(None, "none"), ("{", "unread")])
def test_an_expired_day_that_readers_do_not_see_is_open(desk: Desk, body: str | None, word: str) -> None:
    """Its rows were the last copy: the night names it, and so does the page."""
    expire(desk, "whatever", days=1)
    path = Path(desk.out.address.root) / f"{desk.out.prefix}dt={BEFORE}" / "_current.json"
    path.unlink() if body is None else path.write_text(body)
    day = next(each for each in read(desk).days if each.day == BEFORE)
    assert (day.word, day.is_open) == (word, True)


def test_what_is_wrong_with_the_stream_is_told_in_its_row(desk: Desk, tmp_path: Path) -> None:
    """Another application's archive; one where nothing is."""
    assert "app" in read_calendar(desk.context(), desk.out, KNOWN._replace(application="other")).error
    empty = Desk(tmp_path / "empty")
    storage = open_storage(empty.archive)
    storage.delete([row.key for row in storage.list_objects(PREFIX)])
    assert read(empty).error == "nothing is archived or published there"


def test_the_page_of_a_folder_tells_of_every_stream(desk: Desk, tmp_path: Path) -> None:
    """Of one whose settings are wrong, too: an absent stream would look like one that nobody archives."""
    names = ("broken", "flights")
    files = (StreamFile(name, PropertiesFile({}, (), name)) for name in names)
    page = PublishedPage(str(tmp_path / "reports"), PropertiesFolder("streams", tuple(files)))
    with page.showing(desk.context(), settings(stem="flights"), desk.out, nothing):
        pass
    assert page.write() == 0
    html = (tmp_path / "reports" / NAME).read_text()
    assert f'href="{APPLICATION}/audit-{DAY}.html"' in html
    assert "not looked at: its settings are wrong" in html


def test_the_page_of_one_stream_lies_beside_its_reports(desk: Desk, tmp_path: Path) -> None:
    """It is written also where the night failed; a stream that is picked of a folder has a folder of its own."""
    for stem, where in (("", "reports"), ("flights", f"reports/{APPLICATION}")):
        page = PublishedPage(str(tmp_path / "reports"))
        with pytest.raises(ZeroDivisionError), page.showing(desk.context(), settings(stem=stem), desk.out, nothing):
            raise ZeroDivisionError
        assert page.write() == 0
        assert f'href="audit-{DAY}.html"' in (tmp_path / where / NAME).read_text()


def test_without_a_place_of_reports_nothing_is_read(desk: Desk) -> None:
    """And nothing is written."""
    page = PublishedPage(None)
    context: Any = None  # nobody may ask it
    with page.showing(context, settings(), desk.out, nothing):
        pass
    assert page.write() == 0


def test_a_page_that_cannot_be_written_is_an_exit_code(desk: Desk, tmp_path: Path) -> None:
    """The days are done: 2, and what to do is in the log."""
    (tmp_path / "file").write_text("")
    page = PublishedPage(str(tmp_path / "file"))
    with page.showing(desk.context(), settings(), desk.out, nothing):
        pass
    assert page.write() == 2


def nothing() -> None:
    """Nothing has stopped the requests."""


def settings(stem: str = "") -> JobSettings:
    """Return the settings of the stream."""
    return JobSettings(
        stream_name="flights",
        application_name=APPLICATION,
        region="us-east-1",
        bucket="b",
        prefix="raw/",
        s3_endpoint=None,
        access=PLAIN,
        account="",
        kinesis_endpoint=None,
        dynamodb_endpoint=None,
        lease_table=APPLICATION,
        path="streams",
        stem=stem,
    )


def _again(desk: Desk, folder: Path) -> Desk:
    """Return a desk of the corpus as it is now."""
    storage = open_storage(desk.archive)
    storage.delete([row.key for row in storage.list_objects("")])
    again = Desk(folder, desk.corpus)
    again.clock.advance(2 * 86_400)
    return again


def test_a_day_knows_whether_it_is_open() -> None:
    """None, unknown, defects and unread are."""
    assert [word for word in ("clean", "none") if CalendarDay(DAY, word).is_open] == ["none"]  # type: ignore[arg-type]
