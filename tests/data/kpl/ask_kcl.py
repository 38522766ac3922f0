"""Ask KCL itself what it delivers of an aggregate: `python tests/data/kpl/ask_kcl.py` writes answers.json again.

Needs javac. KclAnswers.java is compiled against the installed jars and calls KCL's AggregatorUtil.
"""

import base64
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from consumer.preflight.java import find_jars, find_java, find_shims
from tests.fakes.aggregates import SHAPES, Shape

HERE = Path(__file__).parent
OUTER_KEY = "outer"
"""The partition key of the Kinesis record itself: a plain record keeps it."""
THROWN = "thrown java.lang.NoClassDefFoundError"

Answer = list[tuple[int, str, str]] | str
"""(sub-sequence number, partition key, data in base64) of each user record; or `THROWN`."""


def ask_kcl(shapes: Iterable[Shape], *, shims: bool = True) -> list[Answer]:
    """Return KCL's answer to each shape, with our shims behind its jars or without."""
    questions = "".join(
        f"{base64.b64encode(shape.data).decode() or '='} {shape.first_hash_key} {shape.last_hash_key}\n"
        for shape in shapes
    )
    jars = [*map(str, find_jars()), *([str(find_shims())] if shims else [])]
    with tempfile.TemporaryDirectory() as folder:
        class_path = os.pathsep.join([folder, *jars])
        subprocess.run(
            ["javac", "-cp", class_path, "-d", folder, str(HERE / "KclAnswers.java")], check=True, timeout=120
        )
        answers = subprocess.run(
            [find_java(os.environ).program, "-cp", class_path, "KclAnswers"],
            input=questions,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=240,
        )
    # Between the answers stands KCL's log.
    return [_answer(line.removeprefix("> ")) for line in answers.stdout.splitlines() if line.startswith("> ")]


def _answer(line: str) -> Answer:
    if line.startswith("thrown "):
        return line
    users = [part.split(",") for part in line.split()]
    return [(int(sub), base64.b64decode(key).decode(), data) for sub, key, data in users]


def as_kept(name: str, answer: Answer) -> object:
    """Return an answer as answers.json keeps it: a plain record is not repeated."""
    plain = [(0, OUTER_KEY, base64.b64encode(SHAPES[name].data).decode())]
    return "plain" if answer == plain else answer


def _document(with_shims: Sequence[Answer], without: Sequence[Answer]) -> dict[str, object]:
    return {
        name: {
            "sha256": hashlib.sha256(shape.data).hexdigest(),
            "answer": as_kept(name, answer),
            **({"without_shims": bare} if bare != answer else {}),
        }
        for (name, shape), answer, bare in zip(SHAPES.items(), with_shims, without, strict=True)
    }


if __name__ == "__main__":
    document = _document(ask_kcl(SHAPES.values()), ask_kcl(SHAPES.values(), shims=False))
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(kept)}" for name, kept in document.items())
    (HERE / "answers.json").write_text(f"{{\n{lines}\n}}\n")
