"""Our reader of aggregates and our shim against KCL's own code, where there is a javac to ask it with."""

import base64
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from archive.format.aggregate import HashRange, deaggregate
from consumer.preflight.java import OLDEST_JAVA, find_shims
from tests.data.kpl.ask_kcl import HERE, OUTER_KEY, THROWN, Answer, as_kept, ask_kcl
from tests.fakes.aggregates import LARGEST_HASH_KEY, SHAPES, Shape, random_aggregate

pytestmark = pytest.mark.skipif(shutil.which("javac") is None, reason="javac is missing")
_CONVERTER = find_shims() / "javax" / "xml" / "bind" / "DatatypeConverter.java"
_CALLER = """
import javax.xml.bind.DatatypeConverter;
class Caller {
    public static void main(String[] arguments) {
        for (int size = 0; size < 200; size++) {
            byte[] bytes = new byte[size];
            new java.util.Random(size).nextBytes(bytes);
            String raw = java.util.HexFormat.of().formatHex(bytes);
            System.out.println(raw + ":" + DatatypeConverter.printBase64Binary(bytes));
        }
    }
}
"""


def test_kcl_still_answers_as_recorded() -> None:
    """With the shims and without: the fixture is what the installed jars do."""
    kept = json.loads((HERE / "answers.json").read_text())
    answers = ask_kcl(SHAPES.values())
    bare = ask_kcl(SHAPES.values(), shims=False)
    found = {name: as_kept(name, answer) for name, answer in zip(SHAPES, answers, strict=True)}
    assert json.loads(json.dumps(found)) == {name: row["answer"] for name, row in kept.items()}
    thrown = {name for name, answer in zip(SHAPES, bare, strict=True) if answer == THROWN}
    assert thrown == {name for name, row in kept.items() if "without_shims" in row}


def test_our_reader_agrees_with_kcl_on_drawn_aggregates() -> None:
    """Odd fields, flipped bytes, wrong digests, on shards of any size."""
    rng = random.Random(343)
    ranges = ((0, LARGEST_HASH_KEY), (5, 6), (0, LARGEST_HASH_KEY // 2))
    shapes = [Shape(random_aggregate(rng), *rng.choice(ranges)) for _ in range(5_000)]
    differing = [
        (shape.data.hex(), answer)
        for shape, answer in zip(shapes, ask_kcl(shapes), strict=True)
        if ours(shape) != answer
    ]
    assert differing == []


@pytest.mark.parametrize("whose", ["kept", "compiled"])
def test_the_shim_prints_base64(tmp_path: Path, whose: str) -> None:
    """The class that is shipped, and the one that its source becomes, for the oldest Java that we run on."""
    (tmp_path / "Caller.java").write_text(_CALLER)
    if whose == "compiled":
        release = subprocess.run(
            ["javac", "--release", "11", "-d", str(tmp_path), str(_CONVERTER)], check=True, capture_output=True
        )
        assert (release.stdout, release.stderr) == (b"", b"")
    classes = str(tmp_path if whose == "compiled" else find_shims())
    subprocess.run(["javac", "-cp", classes, "-d", str(tmp_path), str(tmp_path / "Caller.java")], check=True)
    told = subprocess.run(["java", "-cp", f"{classes}:{tmp_path}", "Caller"], check=True, capture_output=True)
    pairs = [line.split(":") for line in told.stdout.decode().splitlines()]
    assert len(pairs) == 200
    assert [base64.b64encode(bytes.fromhex(raw)).decode() for raw, _ in pairs] == [text for _, text in pairs]


def ours(shape: Shape) -> Answer:
    """Return our reader's answer in KCL's form."""
    hash_range = HashRange(shape.first_hash_key, shape.last_hash_key)
    return [
        (user.sub, user.partition_key, base64.b64encode(user.data).decode())
        for user in deaggregate(OUTER_KEY, shape.data, hash_range).delivered
    ]


def test_the_class_runs_on_the_oldest_java() -> None:
    """A class file's version is that of its Java plus 44."""
    version = int.from_bytes(_CONVERTER.with_suffix(".class").read_bytes()[6:8], "big")
    assert version - 44 <= OLDEST_JAVA
