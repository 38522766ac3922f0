"""Processes that work: results, failures, deaths, and their end."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import forkserver
from pathlib import Path

import pytest

from compaction.local.workers import Workers, WorkersLost, each_here
from compaction.tasks.failures import TRIES
from minutebook.errors import FormatError, StoreUnavailable
from tests.witness.waiting import wait_until

_OWNER = """
import os
import sys
from compaction.local.workers import Workers
from tests.unit.compaction.local.test_workers import hang

for _ in Workers(2).each(hang, [sys.argv[1]] * 2):
    pass
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[Workers]:
    """Return two processes for the module: their server takes a second to start."""
    made = Workers(2)
    yield made
    made.close()


def doubled(number: int) -> int:
    """Work."""
    return 2 * number


def refuse(number: int) -> int:
    """Fail as no second try helps."""
    raise FormatError(f"line {number} is cut", next_step="restore it")


def later(task: tuple[Path, str]) -> int:
    """Fail in every try but the last; how is told by name."""
    path, kind = task
    with path.open("a") as file:
        file.write("x")
    tries = path.stat().st_size
    if tries == TRIES:
        return tries
    if kind == "died":
        os.kill(os.getpid(), signal.SIGKILL)
    raise StoreUnavailable("503", next_step="wait") if kind == "unavailable" else OSError(28, "No space left")


def hang(folder: str) -> None:
    """Tell the process's number, and never end."""
    Path(folder, str(os.getpid())).touch()
    threading.Event().wait(600)


def seen(name: str) -> str | None:
    """Return a variable of the environment."""
    return os.environ.get(name)


def is_bad(_: object) -> None:
    """Have a bug."""
    raise ZeroDivisionError


def test_results_come_with_their_index(shared: Workers) -> None:
    """Of each item once; the items are drawn as there is room."""
    drawn: list[int] = []

    def items() -> Iterator[int]:
        for number in range(50):
            drawn.append(number)
            yield number

    results = shared.each(doubled, items())
    first = next(results)
    assert len(drawn) <= 5
    assert sorted([first, *results]) == [(number, 2 * number) for number in range(50)]
    assert list(shared.each(doubled, [])) == []


def test_a_failure_is_raised_as_its_kind(shared: Workers) -> None:
    """With its next step; the processes work on."""
    with pytest.raises(FormatError, match="line 3 is cut") as caught:
        list(shared.each(refuse, [3]))
    assert caught.value.next_step == "restore it"
    with pytest.raises(ZeroDivisionError):
        list(shared.each(is_bad, [None]))
    assert list(shared.each(doubled, [1])) == [(0, 2)]


@pytest.mark.parametrize("kind", ["unavailable", "full", "died"])
def test_what_may_pass_is_tried_again(shared: Workers, tmp_path: Path, kind: str) -> None:
    """A store that is away, a full disk, and a process that is killed."""
    assert list(shared.each(later, [(tmp_path / "tries", kind)])) == [(0, TRIES)]


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [("unavailable", StoreUnavailable, "503"), ("full", WorkersLost, "No space left"), ("died", WorkersLost, "died")],
)
def test_what_does_not_pass_ends_the_job(
    shared: Workers, tmp_path: Path, kind: str, error: type[Exception], text: str
) -> None:
    """After the last try, with the others' results before it."""
    (tmp_path / "tries").write_text("x" * TRIES)
    with pytest.raises(error, match=text):
        list(shared.each(later, [(tmp_path / "tries", kind)]))


@pytest.mark.parametrize("kind", ["unavailable", "full"])
def test_without_processes_tries_and_errors_are_the_same(tmp_path: Path, kind: str) -> None:
    """A small day is worked at in this one: what may pass is tried again, and a full disk is no bug."""
    assert list(each_here(later, [(tmp_path / "tries", kind)])) == [(0, TRIES)]
    error, text = (StoreUnavailable, "503") if kind == "unavailable" else (WorkersLost, "No space left")
    with pytest.raises(error, match=text):
        list(each_here(later, [(tmp_path / "tries", kind)]))
    with pytest.raises(FormatError, match="line 3 is cut"):
        list(each_here(refuse, [3]))
    numbers = iter([1, 1, 0])
    (tmp_path / "tries").unlink()
    with pytest.raises(ZeroDivisionError):  # as a run ends that was asked to
        next(each_here(later, [(tmp_path / "tries", kind)], check=lambda: 1 // next(numbers)))
    assert (tmp_path / "tries").read_text() == "xx"


def test_a_process_has_the_environment_of_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may be older: credentials and endpoints change between runs."""
    monkeypatch.setenv("MINUTEBOOK_TEST_OF_WORKERS", "new")
    workers = Workers(1)
    assert list(workers.each(seen, ["MINUTEBOOK_TEST_OF_WORKERS"])) == [(0, "new")]
    workers.close()


def test_a_cancelled_run_ends_and_the_next_works(tmp_path: Path) -> None:
    """What is at work is killed at once."""
    workers = Workers(2)
    caught: list[BaseException] = []

    def work() -> None:
        try:
            list(workers.each(hang, [str(tmp_path)] * 3))
        except WorkersLost as exc:
            caught.append(exc)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2, "two processes at work")
    workers.cancel()
    thread.join(timeout=30)
    assert [str(error) for error in caught] == ["the work was cancelled"]
    workers.renew()
    assert list(workers.each(doubled, [4])) == [(0, 8)]
    workers.close()


def test_a_killed_owner_leaves_no_process(tmp_path: Path) -> None:
    """SIGKILL tells it nothing: the processes see its end."""
    with subprocess.Popen([sys.executable, "-c", _OWNER, str(tmp_path)]) as owner:
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2, "two processes at work")
        owner.kill()
    numbers = [int(path.name) for path in tmp_path.iterdir()]
    wait_until(lambda: not any(_is_alive(number) for number in numbers), "their end")


def _is_alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_files_of_the_users_are_no_part_of_the_work(tmp_path: Path) -> None:
    """A folder with modules of our packages' names: no process imports them."""
    for name in ("compaction", "minutebook", "structlog"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not ours')\n")
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "script"
    script.write_text(
        "from compaction.local.workers import Workers\n"
        "if __name__ == '__main__':\n"
        "    workers = Workers(1)\n"
        "    print(list(workers.each(str, [7])))\n"
        "    workers.close()\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[(0, '7')]\n", "")


@pytest.mark.parametrize("where", ["multiprocessing.forkserver.ensure_running", "ProcessPoolExecutor.submit"])
@pytest.mark.parametrize("error", [OSError("AF_UNIX path too long"), EOFError("unexpected EOF")])
def test_processes_that_cannot_be_started_are_no_bug(
    monkeypatch: pytest.MonkeyPatch, where: str, error: Exception
) -> None:
    """A long TMPDIR, a limit of processes: it is one day's, and names what to look at."""
    times = []

    def fail(*_: object, **__: object) -> None:
        times.append(1)
        raise error

    place, _, name = where.rpartition(".")
    monkeypatch.setattr(forkserver if "forkserver" in place else ProcessPoolExecutor, name, fail)
    workers = Workers(2)
    with pytest.raises(
        WorkersLost, match=r"2 processes cannot be started: .*(path too long|unexpected EOF)"
    ) as caught:
        list(workers.each(doubled, [1]))
    workers.close()
    assert (len(times), caught.value.exit_code, "TMPDIR" in caught.value.next_step) == (TRIES, 5, True)


def test_a_process_that_cannot_be_started_ends_no_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Days share the processes: what one meets at a limit leaves those of the others at work."""
    workers, spawn, calls = Workers(3), ProcessPoolExecutor._spawn_process, list[int]()  # type: ignore[attr-defined]

    def refused_once(pool: ProcessPoolExecutor) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise BlockingIOError("Resource temporarily unavailable")
        spawn(pool)

    monkeypatch.setattr(ProcessPoolExecutor, "_spawn_process", refused_once)
    found: dict[str, list[tuple[int, int]]] = {}

    def work(name: str) -> None:
        found[name] = sorted(workers.each(doubled, range(6)))

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    workers.close()
    assert found == {name: [(number, 2 * number) for number in range(6)] for name in "ab"}
