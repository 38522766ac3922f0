"""What the demo shows while it runs: its acts, and two counters that chase each other."""

from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from minutebook.clock import Clock

_SECONDS_BETWEEN_LINES = 15


class Screen:
    """A live picture on a terminal; plain lines elsewhere, such as in a CI log."""

    def __init__(self, console: Console, clock: Clock, *, total: int) -> None:
        self._console = console
        self._clock = clock
        self._total = total
        self._started = clock.monotonic()
        self._last_line = self._started
        self._act = ""
        self._sent = 0
        self._archived = 0
        self._live = Live(get_renderable=self._picture, console=console, refresh_per_second=4, transient=True)
        self._is_live = console.is_terminal

    def __enter__(self) -> Self:
        if self._is_live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live:
            self._live.stop()

    def act(self, text: str) -> None:
        """Begin an act of the scenario."""
        self._act = text
        self._console.print(f"[dim]{self._elapsed():5.0f} s[/]  {text}", highlight=False, soft_wrap=True)

    def result(self, text: str) -> None:
        """Say what came of the act."""
        self._console.print(f"[dim]{self._elapsed():5.0f} s[/]    [green]{text}[/]", highlight=False, soft_wrap=True)

    def count(self, *, sent: int, archived: int) -> None:
        """Show the counters."""
        self._sent, self._archived = sent, archived
        now = self._clock.monotonic()
        if not self._is_live and now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            self._console.print(
                f"{self._elapsed():5.0f} s    sent {sent:,}, archived {archived:,}", highlight=False, soft_wrap=True
            )

    def _elapsed(self) -> float:
        return self._clock.monotonic() - self._started

    def _picture(self) -> Group:
        table = Table.grid(padding=(0, 2))
        for name, value in (("sent", self._sent), ("archived", self._archived)):
            bar = ProgressBar(total=self._total, completed=min(value, self._total), width=40)
            table.add_row(Text(name), bar, Text(f"{value:,} of about {self._total:,}"))
        return Group(Text(f"{self._elapsed():5.0f} s  {self._act}", style="bold"), table)
