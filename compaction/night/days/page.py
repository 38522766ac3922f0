"""Write the page over streams and days beside the reports, at the end of a night."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from compaction.job.context import JobContext
from compaction.job.settings import JobSettings
from compaction.night.days.published import SIZE_DAYS, read_calendar
from compaction.report.calendar import StreamCalendar
from compaction.report.reporter import ReportPlace, report_place
from minutebook.errors import StoreError
from minutebook.properties_folder import PropertiesFolder
from minutebook.store.places import StorePrefix

NAME: Final = "index.html"


class PublishedPage:
    """Collects what is published of each stream of a night; `report` is the place of reports, None: no page.

    `folder`: the streams of a night over several; each has a folder of reports beside the page, by its application.
    """

    def __init__(self, report: str | None, folder: PropertiesFolder | None = None) -> None:
        self._report = report
        self._folder = folder
        self._calendars: dict[str, StreamCalendar] = {}
        self._place: ReportPlace | None = None
        self._made_at = ""

    @contextmanager
    def showing(
        self, context: JobContext, settings: JobSettings, out: StorePrefix, go_on: Callable[[], None]
    ) -> Iterator[None]:
        """Read a stream's days at the end of the block, also of one that fails; `go_on` lets requests pass again."""
        try:
            yield
        finally:
            go_on()
            if self._report is not None:
                is_below = self._folder is not None
                name = settings.stem if is_below else settings.stream_name
                folder = f"{settings.application_name}/" if is_below else ""
                known = StreamCalendar(name, settings.application_name, folder=folder)
                self._calendars[name] = read_calendar(context, out, known)
                self._made_at = context.now()
                place = settings.place(self._report) if is_below else settings.below(self._report)
                self._place = self._place or report_place(context, place)

    def write(self) -> int:
        """Write the page; return the exit code of the error that kept it from being written, else 0."""
        if self._place is None:
            return 0
        names = self._calendars if self._folder is None else [each.name for each in self._folder.streams]
        unread = "not looked at: its settings are wrong, or it failed before; the night's table says why"
        calendars = [self._calendars.get(name, StreamCalendar(name, error=unread)) for name in sorted(names)]
        from compaction.report.calendar_page import render_calendar  # noqa: PLC0415 - loads jinja2 and numpy

        page = render_calendar(calendars, self._made_at, SIZE_DAYS)
        try:
            self._place.write(NAME, page.encode(errors="replace"))
        except StoreError as exc:
            structlog.get_logger().error("page_not_written", error=str(exc), next_step=exc.next_step)
            return exc.exit_code
        return 0
