"""Run a command for each stream of a folder; end with one table over streams, or one JSON document.

A stream that fails is a row with its error, and the others go on. Exit code: the worst stream's.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import structlog
from rich.text import Text

from minutebook.errors import MinutebookError, worst
from minutebook.format.day import Day
from minutebook.properties_file import PropertiesFile
from minutebook.properties_folder import PropertiesFolder, StreamFile
from minutebook.store.parallel import in_parallel
from minutebook.terminal import Table, TerminalConsole, styled
from minutebook.wording import ITEM, printable_json

FORMAT: Final = 1
_SIGNALLED: Final = 128
"""Exit codes above it say which signal ended a command: it ends the run over streams, too."""


class StreamRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stream in the table. `stream` is the stem of its file, `outcome` the worst of what was found.

    `report` is the command's own document of this stream, as `--json` prints it for one file.
    """

    stream: str
    application: str = ""
    exit_code: int = 0
    outcome: str = ""
    next_step: str = ""
    report: Any = msgspec.UNSET


class StreamsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints for a folder."""

    format: int
    command: str
    exit_code: int
    streams: tuple[StreamRow, ...]


class StreamEnd(NamedTuple):
    """How a command ended for a stream; `cells` are more columns of its row."""

    exit_code: int = 0
    outcome: str = ""
    next_step: str = ""
    report: object = msgspec.UNSET
    cells: Sequence[str | Text] = ()


class StreamsRun(NamedTuple):
    """A command over the streams of a folder; `headings` name the columns of `StreamEnd.cells`.

    `at_once`: so many streams side by side, for commands that mostly wait, and print nothing themselves. `is_long`:
    the command prints what it does for a stream; its name stands above. `numbers` are the headings of columns
    that end at the right.
    """

    command: str
    folder: PropertiesFolder
    as_json: bool = False
    headings: tuple[str, ...] = ()
    at_once: int = 1
    is_long: bool = False
    numbers: tuple[str, ...] = ()

    def run(self, work: Callable[[StreamFile, PropertiesFile], StreamEnd]) -> int:
        """Work on the streams, show the table, and return the exit code; see `ends`."""
        return self.show(self.ends(work))

    def ends(self, work: Callable[[StreamFile, PropertiesFile], StreamEnd]) -> list[tuple[StreamFile, StreamEnd]]:
        """Work on the streams in the order of the folder; return how each ended, by name.

        A MinutebookError, of the settings or of the work, is the stream's outcome; so is any other exception, which
        is logged with its trace: a bug that one stream's data meets must not cost the others their night.
        """
        ended: list[tuple[StreamFile, StreamEnd]] = []
        if self.at_once > 1:
            ends = in_parallel(lambda each: _end_of(each, work), self.folder.streams, self.at_once)
            ended += zip(self.folder.streams, ends, strict=True)
        else:
            for each in self.folder.streams:
                if self.is_long and not self.as_json:
                    TerminalConsole().print(styled(each.name, "bold"))
                ended.append((each, _end_of(each, work)))
                if ended[-1][1].exit_code > _SIGNALLED:
                    break
        return sorted(ended, key=lambda pair: pair[0].name)

    def show(self, ended: Sequence[tuple[StreamFile, StreamEnd]]) -> int:
        """Print the table over streams, or the document; return the exit code."""
        code = _code(end.exit_code for _, end in ended)
        if self.as_json:
            rows = tuple(_row(each, end) for each, end in ended)
            summary = StreamsSummary(format=FORMAT, command=self.command, exit_code=code, streams=rows)
            sys.stdout.write(printable_json(msgspec.json.encode(summary).decode()) + "\n")
            return code
        table = Table("stream", "exit", *self.headings, numbers=("exit", *self.numbers))
        for each, end in ended:
            cells = [*end.cells, *[""] * (len(self.headings) - len(end.cells))]
            style = "bold red" if end.exit_code else ""
            told = [styled(part, style) for part in end.outcome.split(ITEM) if part]
            step = [styled(f"→ {end.next_step}", "dim")] if end.next_step else []
            table.add(each.name, str(end.exit_code), *cells, beside=[*told, *step])
        console = TerminalConsole()
        console.print(table)
        fine = sum(end.exit_code == 0 for _, end in ended)
        left = len(self.folder.streams) - len(ended)
        console.print(
            f"{fine} of {len(self.folder.streams)} stream(s) of {self.folder.name} ended with 0"
            + (f"; stopped before {left} of them: run the command again" if left else "")
        )
        return code


def in_turn(folder: PropertiesFolder, today: Day) -> PropertiesFolder:
    """Return the folder beginning with another stream each day: a budget that is spent leaves out other ones."""
    first = today.number % len(folder.streams)
    return folder._replace(streams=folder.streams[first:] + folder.streams[:first])


def _end_of(each: StreamFile, work: Callable[[StreamFile, PropertiesFile], StreamEnd]) -> StreamEnd:
    with structlog.contextvars.bound_contextvars(properties=each.name):
        try:
            return work(each, each.settings())
        except MinutebookError as exc:
            return StreamEnd(exc.exit_code, str(exc), exc.next_step)
        except Exception as exc:  # noqa: BLE001 - a bug that one stream's data meets; logged, and exit code 1
            next_step = "this is a bug: report it with this trace; the other streams went on"
            structlog.get_logger().exception("stream_failed", next_step=next_step)
            return StreamEnd(1, f"{type(exc).__name__}: {exc}", "a bug: the log has its trace")


def _row(each: StreamFile, end: StreamEnd) -> StreamRow:
    return StreamRow(
        stream=each.name,
        application=each.application,
        exit_code=end.exit_code,
        outcome=end.outcome,
        next_step=end.next_step,
        report=end.report,
    )


def _code(codes: Iterable[int]) -> int:
    """Return the worst code; a signal outweighs all others."""
    known = list(codes)
    return max((code for code in known if code > _SIGNALLED), default=0) or worst(known)
