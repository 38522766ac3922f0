"""Today's hours beside published days: no row twice, and none of a day that is whole."""

from pathlib import Path

import pytest

from compaction.job.context import AuditOptions
from minutebook.errors import DayNotPublished, FormatError
from minutebook.reader import PublishedDays, published, read
from minutebook.reader.days import DayFolder, PublishedDay, day_with_hours
from tests.corpus.desk import DAY
from tests.unit.compaction.commands.vacuum.scene import vacuum
from tests.unit.compaction.hours.scene import HELD, Hours


def uri(desk: Hours) -> str:
    """Return the address of the output."""
    return desk.storage.uri("")


def look(desk: Hours) -> PublishedDays:
    """Return the day with its hours."""
    return published(uri(desk), str(DAY), str(DAY), intraday=True)


def test_a_day_that_is_not_published_is_its_hours(desk: Hours) -> None:
    """Only for who asks for them."""
    table = read(uri(desk), str(DAY), str(DAY), intraday=True).to_table()
    assert table.num_rows == desk.corpus.records
    assert set(table["dt"].to_pylist()) == {str(DAY)}
    day = look(desk).days[0]
    assert (day.hours, day.verdict, day.until) == (HELD, "clean", "2026-11-21T00:00:00.000Z")
    with pytest.raises(DayNotPublished):
        read(uri(desk), str(DAY), str(DAY))


def test_a_published_day_is_read_without_its_hours(desk: Hours) -> None:
    """Also where a pointer of an hour is left: the run was killed between the two, or came late."""
    pointer = desk.storage.get(desk.hour(10).folder.pointer)
    assert pointer is not None
    desk.publish()
    desk.storage.put_if_absent(desk.hour(10).folder.pointer, pointer.body, {}, "application/json")
    day = look(desk).days[0]
    assert (day.hours, day.rows) == ((), desk.corpus.records)


def test_hours_come_behind_a_day_so_far(desk: Hours) -> None:
    """Those that begin at its end or later; an hour that it cuts is left out."""
    until_ms = DAY.begin_ms + (10 * 60 + 30) * 60_000
    desk.publish(audit=AuditOptions(so_far_ms=until_ms))
    assert desk.publisher().current().pointer is not None
    assert look(desk).days[0].hours == (11, 23)
    table = read(uri(desk), str(DAY), str(DAY), columns=["segment"], intraday=True).to_table()
    assert {row["segment"] for row in table.to_pylist()} < desk.keys_of(*range(24))
    assert table.num_rows == len(desk.published_rows()) + 3 * len(desk.keys_of(11, 23))


def test_a_day_that_is_published_while_its_hours_are_read_is_read_instead(desk: Hours) -> None:
    """Else a reader would have some of the hours, whose pointers are taken away one by one."""
    asked: list[str] = []

    def one(folder: DayFolder) -> PublishedDay | None:
        asked.append(folder.name)
        if folder.hour is not None and folder.hour.number == HELD[1]:
            desk.publish()
        found = published(uri(desk), str(DAY), str(DAY), missing="skip", intraday=False).days
        if folder.hour is None:
            return found[0] if found else None
        pointer, manifest = desk.hour(folder.hour.number).published()
        if pointer is None or manifest is None:
            return None
        return PublishedDay(None, manifest.generation, "clean", manifest.rows, None, ())  # type: ignore[arg-type]

    found = day_with_hours(desk.publisher().storage, desk.publisher().folder, one)
    assert found is not None
    assert (found.hours, found.rows) == ((), desk.corpus.records)
    assert asked.count(str(DAY)) == 2


@pytest.mark.parametrize("is_published", [True, False])
def test_an_hour_that_is_vacuumed_while_it_is_read_is_no_error(desk: Hours, *, is_published: bool) -> None:
    """Its pointer was read, its manifest is gone: the day is published by now, and is read. Else it is one."""

    def one(folder: DayFolder) -> PublishedDay | None:
        if folder.hour is not None and is_published:
            desk.publish()
        if folder.hour is not None:
            raise FormatError("its manifest is missing")
        found = published(uri(desk), str(DAY), str(DAY), missing="skip").days
        return found[0] if found else None

    storage, folder = desk.publisher().storage, desk.publisher().folder
    if is_published:
        found = day_with_hours(storage, folder, one)
        assert found is not None
        assert (found.hours, found.rows) == ((), desk.corpus.records)
    else:
        with pytest.raises(FormatError, match="missing"):
            day_with_hours(storage, folder, one)


def test_vacuum_takes_hours_whose_day_is_published_and_no_others(desk: Hours) -> None:
    """Their files are the only ones of the day until then."""
    assert vacuum(desk).objects == 0
    desk.publish(10, zstd_level=3)
    before = {path.parent for path in desk.files(10, "part")}
    assert len(before) == 2
    assert vacuum(desk).exit_code == 0
    assert len({path.parent for path in desk.files(10, "part")}) == 1
    assert look(desk).days[0].rows == desk.corpus.records
    desk.publish()
    vacuum(desk)
    assert not list(desk.storage.list_objects(desk.publisher().folder.hours))
    desk.check_whole()
    assert all(Path(file.path).is_file() for file in look(desk).days[0].files)
