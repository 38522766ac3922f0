"""The step `avro`: records of one schema, bare or behind a single-object header, read in a child process.

The child has a limit on its memory, and of CPU time for each record. When it dies, the record that it did not answer
is given to a new child alone; if that dies, too, the record is the reason, and the others go on.
"""

import contextlib
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator, Sequence
from typing import IO, Final

from compaction.columns.decode.avro_child import NUMBER
from compaction.columns.decode.outcome import Outcome, too_long, undecoded

BATCH_BYTES: Final = 1 << 20
"""Payloads that are sent together: the child reads them all before it answers, so neither waits for the other."""
BATCH_RECORDS: Final = 1_000
_DIED: Final = "takes more memory or time than a record may"
_MODULE: Final = "compaction.columns.decode.avro_child"


class AvroReader:
    """Reads payloads of a schema (JSON text). The child starts with the first batch, and ends with this object."""

    def __init__(self, schema: str) -> None:
        self._schema = schema.encode()
        self._child: subprocess.Popen[bytes] | None = None

    def read(self, payloads: Sequence[bytes]) -> Iterator[Outcome]:
        """Yield an outcome for each payload, in order."""
        rest = list(payloads)
        while rest:
            answered = 0
            for outcome in self._answers(rest):
                answered += 1
                yield outcome
            rest = rest[answered:]
            if rest:
                yield next(self._answers(rest[:1]), undecoded("avro", _DIED, "too_long"))
                rest = rest[1:]

    def _answers(self, payloads: Sequence[bytes]) -> Iterator[Outcome]:
        """Yield outcomes until all are there or the child has died."""
        child = self._child or self._start()
        stdin, stdout = _pipes(child)
        answered = 0
        try:
            stdin.write(NUMBER.pack(len(payloads)) + b"".join(map(_framed, payloads)))
            stdin.flush()
            for _ in payloads:
                outcome = _outcome(stdout)
                if outcome is None:
                    break
                answered += 1
                yield outcome
        except BrokenPipeError:
            pass
        finally:
            if answered < len(payloads):  # it died, or the caller has seen enough
                self._child = None
                _end(child)

    def _start(self) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(  # noqa: S603 - this interpreter, with a module of ours
            [sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        weakref.finalize(self, _end, child)
        self._child = child
        stdin, _ = _pipes(child)
        stdin.write(_framed(self._schema))
        return child


def _pipes(child: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if child.stdin is None or child.stdout is None:
        raise ValueError("the child was started without pipes")
    return child.stdin, child.stdout


def _framed(data: bytes) -> bytes:
    return NUMBER.pack(len(data)) + data


def _outcome(stdout: IO[bytes]) -> Outcome | None:
    """Read one answer; None: the child has died."""
    head = stdout.read(1 + NUMBER.size)
    if len(head) <= NUMBER.size:
        return None
    size = NUMBER.unpack(head[1:])[0]
    text = stdout.read(size)
    if len(text) < size:
        return None
    if head[:1] == b"+":
        return [text]
    why = text.decode()
    return too_long("avro") if why.startswith("more than") else undecoded("avro", why)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child, whatever it does."""
    child.kill()
    stdin, stdout = _pipes(child)
    with contextlib.suppress(BrokenPipeError):  # what is not flushed is for nobody
        stdin.close()
    stdout.close()
    child.wait()
