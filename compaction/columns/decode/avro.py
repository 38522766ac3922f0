"""Avro: records of a schema, bare or behind a single-object header, or object container files.

They are read in a child process.

The child has a limit on its memory, and of CPU time for each record. When it dies, the record that it did not answer
is given to a new child alone; if that dies, too, the record is the reason, and the others go on.
"""

import contextlib
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator, Sequence
from typing import IO, Final, NamedTuple

from compaction.columns.decode.avro_wire import NUMBER, READY, framed
from compaction.columns.decode.outcome import Outcome, undecoded
from minutebook.errors import SettingsError

BATCH_BYTES: Final = 1 << 20
"""Payloads that are sent together: the child reads them all before it answers, so neither waits for the other."""
BATCH_RECORDS: Final = 1_000
FILE_MAGIC: Final = b"Obj\x01"
"""With which an object container file begins."""
_DIED: Final = "takes more memory or time than a record may"
_MODULE: Final = "compaction.columns.decode.avro_child"


class Sealed(NamedTuple):
    """Avro that is still to be read, and its schema as JSON; an empty one: an object container file."""

    schema: str
    payload: bytes


class AvroReader:
    """Reads payloads, each of its own schema; `step` is named in reasons.

    The child starts with the first batch, and ends with this object. Raises SettingsError if it does not start: that
    is no payload's fault.
    """

    def __init__(self, step: str = "avro") -> None:
        self._step = step
        self._child: subprocess.Popen[bytes] | None = None

    def read(self, payloads: Sequence[Sealed]) -> Iterator[Outcome]:
        """Yield an outcome for each payload, in order."""
        rest = list(payloads)
        while rest:
            answered = 0
            for outcome in self._answers(rest):
                answered += 1
                yield outcome
            rest = rest[answered:]
            if rest:
                yield next(self._answers(rest[:1]), undecoded(self._step, _DIED, "too_long"))
                rest = rest[1:]

    def _answers(self, payloads: Sequence[Sealed]) -> Iterator[Outcome]:
        """Yield outcomes until all are there or the child has died."""
        child = self._child or self._start()
        stdin, stdout = _pipes(child)
        answered = 0
        try:
            stdin.write(_batch(payloads))
            stdin.flush()
            for _ in payloads:
                outcome = _outcome(stdout, self._step)
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
            [sys.executable, "-P", "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        weakref.finalize(self, _end, child)
        _, stdout = _pipes(child)
        if stdout.read(1) != READY:
            raise SettingsError(
                "avro cannot be read here: the process for it does not start, and says why on stderr",
                next_step="install the extra `compact` or `spark`, with fastavro, wherever tasks run",
            )
        self._child = child
        return child


def _pipes(child: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if child.stdin is None or child.stdout is None:
        raise ValueError("the child was started without pipes")
    return child.stdin, child.stdout


def _batch(payloads: Sequence[Sealed]) -> bytes:
    """Return what the child reads at once."""
    numbers = {schema: number for number, schema in enumerate(dict.fromkeys(each.schema for each in payloads))}
    parts = [NUMBER.pack(len(numbers)), *(framed(schema.encode()) for schema in numbers), NUMBER.pack(len(payloads))]
    for each in payloads:
        parts += (NUMBER.pack(numbers[each.schema]), framed(each.payload))
    return b"".join(parts)


def _outcome(stdout: IO[bytes], step: str) -> Outcome | None:
    """Read one answer; None: the child has died."""
    sign, head = stdout.read(1), stdout.read(NUMBER.size)
    if len(head) < NUMBER.size:
        return None
    (number,) = NUMBER.unpack(head)
    if sign == b"+":
        texts = [_text(stdout) for _ in range(number)]
        return None if None in texts else [text for text in texts if text is not None]
    why = stdout.read(number)
    if len(why) < number:
        return None
    return undecoded(step, why.decode(), "too_long" if sign == b"!" else "undecoded")


def _text(stdout: IO[bytes]) -> bytes | None:
    head = stdout.read(NUMBER.size)
    if len(head) < NUMBER.size:
        return None
    (size,) = NUMBER.unpack(head)
    text = stdout.read(size)
    return text if len(text) == size else None


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child, whatever it does."""
    child.kill()
    stdin, stdout = _pipes(child)
    with contextlib.suppress(BrokenPipeError):  # what is not flushed is for nobody
        stdin.close()
    stdout.close()
    child.wait()
