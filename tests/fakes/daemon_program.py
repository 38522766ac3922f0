"""A program in the place of the MultiLangDaemon: `python daemon_program.py FOLDER BEHAVIOUR...`.

The n-th start takes the n-th behaviour, the last one is repeated: `exit:N`, `fail:N` (a processor says that it
failed with N, the daemon exits 1 as the real one does), `run` (until SIGTERM, then 143), `slow` (the same, a second
later), `stubborn` (ignores SIGTERM), `orphan` (starts a child and dies by SIGKILL), `deserted` (a processor dies by
SIGKILL, and the daemon waits for ever), `bereft` (one of two does, and SIGTERM ends the other alone), `halved`
(SIGTERM ends one of two in order, the other is killed, and the daemon ends as asked), `quiet` (a processor ends well,
and the daemon goes on), `log:NAME` (prints a line of `tests/data/kcl-log`, then as `run`),
`last-words:NAME` (prints one, and exits 0). Each start leaves a file `start-N` with its pid.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

LINES = Path(__file__).parents[1] / "data" / "kcl-log"


def say(event: str, **fields: object) -> None:
    """Print one log line as a processor does."""
    head = {"timestamp": "2026-11-21T10:16:00Z", "level": "info", "event": event}
    sys.stderr.write(json.dumps({**head, **fields}) + "\n")
    sys.stderr.flush()


def wait_for_ever() -> NoReturn:
    """Wait until a signal ends it."""
    while True:
        signal.pause()


def lose_one_of_two() -> None:
    """Let one of two processors be killed; SIGTERM ends the other, and not the daemon."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    other, dead = (subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) for _ in range(2))
    for child in (other, dead):
        say("processor_started", pid=child.pid)
    dead.kill()
    dead.wait()
    say("processor_reaped", pid=dead.pid, exit_code=-9)
    say("child_gone")
    signal.sigwait([signal.SIGTERM])
    say("processor_ended", pid=other.pid)
    other.communicate()


def lose_one_while_stopping() -> NoReturn:
    """Let one of two processors be killed behind SIGTERM; the daemon ends as asked, a second later."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    other, dead = (subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) for _ in range(2))
    for child in (other, dead):
        say("processor_started", pid=child.pid)
    say("both_started")
    signal.sigwait([signal.SIGTERM])
    signal.setitimer(signal.ITIMER_REAL, 1)
    signal.signal(signal.SIGALRM, lambda *_: os._exit(143))
    say("processor_ended", pid=other.pid)
    other.communicate()
    threading.Timer(0.3, dead.kill).start()  # not in the instant of the request
    dead.wait()
    wait_for_ever()


def end_one(*, in_order: bool) -> None:
    """Let the one processor end, or be killed."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    say("processor_started", pid=child.pid)
    say("shard_opened", pid=child.pid, shard="shardId-000000000007")
    say("progress", pid=child.pid, shard="shardId-000000000007", level="debug")
    if in_order:
        say("processor_ended", pid=child.pid)
        child.communicate(b"\n")
    else:
        child.kill()
    child.wait()
    say("child_gone")


def main(folder: Path, behaviours: list[str]) -> None:  # noqa: C901 - a case for each behaviour
    """Act out one start."""
    number = len(list(folder.glob("start-*")))
    (folder / f"start-{number}").write_text(str(os.getpid()))
    behaviour, _, argument = behaviours[min(number, len(behaviours) - 1)].partition(":")
    if behaviour == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif behaviour == "slow":
        signal.signal(signal.SIGTERM, lambda *_: signal.setitimer(signal.ITIMER_REAL, 1))
        signal.signal(signal.SIGALRM, lambda *_: os._exit(143))
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    sys.stdout.write("line on stdout\n")
    sys.stdout.flush()
    say("fake_started", number=number, properties=os.environ.get("MINUTEBOOK_PROPERTIES"))
    match behaviour:
        case "exit":
            os._exit(int(argument))
        case "fail":
            say("processor_failed", exit_code=int(argument), error=f"reason {argument}", next_step="do something")
            os._exit(1)
        case "log":
            sys.stdout.buffer.write((LINES / argument).read_bytes())
            sys.stdout.flush()
            say("line_printed")
            wait_for_ever()
        case "last-words":
            sys.stdout.buffer.write((LINES / argument).read_bytes())
            sys.stdout.flush()
            os._exit(0)
        case "orphan":
            child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
            (folder / "child").write_text(str(child.pid))
            os.kill(os.getpid(), signal.SIGKILL)
        case "deserted" | "quiet":
            end_one(in_order=behaviour == "quiet")
            wait_for_ever()
        case "halved":
            lose_one_while_stopping()
        case "bereft":
            lose_one_of_two()
            wait_for_ever()
        case _:
            wait_for_ever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
