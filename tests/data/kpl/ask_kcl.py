"""Ask KCL itself what it delivers of an aggregate: `python -m tests.data.kpl.ask_kcl` writes answers.json again.

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
_BARE = "software.amazon.kinesis.retrieval.AggregatorUtil"
_OURS = "minutebook.BoundedAggregatorUtil"
_BRIEF = 300
JAVAC = ("javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
"""Compiled quickly instead of well: it runs for a second."""
THROWN = "thrown java.lang.NoClassDefFoundError"

Answer = list[tuple[int, str, str]] | str
"""(sub-sequence number, partition key, data in base64) of each user record; or `THROWN`."""


def ask_kcl(shapes: Iterable[Shape], classes: Path | None) -> list[Answer]:
    """Return what is delivered of each shape, by KCL with our classes in that folder, or by KCL alone."""
    questions = "".join(
        f"{base64.b64encode(shape.data).decode() or '='} {shape.first_hash_key} {shape.last_hash_key}\n"
        for shape in shapes
    )
    jars = [*map(str, find_jars()), *([] if classes is None else [str(classes)])]
    with tempfile.TemporaryDirectory() as folder:
        class_path = os.pathsep.join([folder, *jars])
        subprocess.run(
            [*JAVAC, "-cp", class_path, "-d", folder, str(HERE / "KclAnswers.java")], check=True, timeout=120
        )
        answers = subprocess.run(
            [*_java(), "-cp", class_path, "KclAnswers", _BARE if classes is None else _OURS],
            input=questions,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=240,
        )
    # Between the answers stands KCL's log.
    return [_answer(line.removeprefix("> ")) for line in answers.stdout.splitlines() if line.startswith("> ")]


def _java() -> list[str]:
    return [str(find_java(os.environ).program), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


def _answer(line: str) -> Answer:
    if line.startswith("thrown "):
        return line
    users = [part.split(",") for part in line.split()]
    return [(int(sub), base64.b64decode(key).decode(), data) for sub, key, data in users]


def as_kept(name: str, answer: Answer) -> object:
    """Return an answer as answers.json keeps it: a plain record is not repeated, a long text is a digest."""
    if isinstance(answer, str):
        return answer
    plain = [(0, OUTER_KEY, base64.b64encode(SHAPES[name].data).decode())]
    return "plain" if answer == plain else [[sub, _brief(key), _brief(data)] for sub, key, data in answer]


def _brief(text: str) -> str:
    return text if len(text) < _BRIEF else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _document(with_shims: Sequence[Answer], without: Sequence[Answer]) -> dict[str, object]:
    return {
        name: {
            "sha256": hashlib.sha256(shape.data).hexdigest(),
            "answer": as_kept(name, answer),
            **({"without_shims": bare if bare == THROWN else "user records"} if bare != answer else {}),
        }
        for (name, shape), answer, bare in zip(SHAPES.items(), with_shims, without, strict=True)
    }


if __name__ == "__main__":
    document = _document(ask_kcl(SHAPES.values(), find_shims()), ask_kcl(SHAPES.values(), None))
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(kept)}" for name, kept in document.items())
    (HERE / "answers.json").write_text(f"{{\n{lines}\n}}\n")
