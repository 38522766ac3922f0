"""Which engine runs a night."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from compaction.commands import engines
from compaction.commands.engines import AutoEngine, engine_for, is_large
from compaction.local.engine import LocalEngine
from compaction.parquet.plan import RawObject, Task, single_groups
from compaction.shard_groups.local import LocalGroupSource
from compaction.spark.engine import MANY_GROUPS, LazySpark
from compaction.tasks.progress import no_progress
from compaction.tasks.task import Order, TaskResult
from minutebook.errors import SettingsError
from minutebook.format.position import Position
from minutebook.store.storage import Address

_MB = 1 << 20


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Return what is closed behind a run."""
    with ExitStack() as opened:
        yield opened


def made(stack: ExitStack, name: str = "auto", master: str | None = None) -> object:
    """Return the engine of a request."""
    return engine_for(name, master, stack, lambda: None, lambda: nullcontext(no_progress))


def orders(objects: int, size: int) -> list[Order]:
    """Return a day's task of so many objects of a size."""
    rows = [RawObject(f"{number}", "e", size, "shard", 0, Position(1)) for number in range(objects)]
    return [Order(Task(0, tuple(single_groups(rows))), Address(None, "/nowhere"))]


def test_the_engine_that_was_asked_for(stack: ExitStack) -> None:
    """By name, or by a master, which only Spark has."""
    assert isinstance(made(stack, "local"), LocalEngine)
    assert isinstance(made(stack, "spark"), LazySpark)
    assert isinstance(made(stack, master="local[1]"), LazySpark)
    assert isinstance(made(stack), AutoEngine)


def test_the_platforms_spark_is_used(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever submits a job to Spark wants it there, unless another engine is named."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert isinstance(made(stack), LazySpark)
    assert isinstance(made(stack, "local"), LocalEngine)


@pytest.mark.parametrize(("name", "master", "said"), [("spark", None, "--engine spark"), ("auto", "x", "--master")])
def test_spark_that_is_asked_for_and_not_installed(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, name: str, master: str | None, said: str
) -> None:
    """Told at once, before a day is listed, and without a word on Java."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SettingsError, match=f"{said} needs PySpark, which is not installed") as caught:
        made(stack, name, master)
    assert "leave it out" in caught.value.next_step
    assert isinstance(made(stack), AutoEngine)


@pytest.mark.parametrize(("name", "master", "said"), [("duckdb", None, "auto, local"), ("local", "x", "out")])
def test_an_engine_that_cannot_be(stack: ExitStack, name: str, master: str | None, said: str) -> None:
    """Exit code 2, and what to write."""
    with pytest.raises(SettingsError) as caught:
        made(stack, name, master)
    assert said in caught.value.next_step


@pytest.mark.parametrize(
    ("objects", "size", "cores", "large"),
    [
        (200_000, 1, 8, False),
        (200_001, 1, 8, True),
        (1_000, 28 * _MB, 2, False),
        (1_000, 29 * _MB, 2, True),
        (1_000, 29 * _MB, 4, False),
    ],
)
def test_a_large_day(objects: int, size: int, cores: int, large: bool) -> None:  # noqa: FBT001 - a parameter
    """Many objects, or more than twenty minutes of this machine's cores."""
    assert is_large(orders(objects, size), cores) is large


class Told:
    """Stands for an engine, and knows what it was given."""

    cores = 2

    def __init__(self, *, is_started: bool = False) -> None:
        self.runs = 0
        self.is_started = is_started

    def __call__(self, given: list[Order]) -> list[TaskResult]:
        """Count a run."""
        self.runs += len(given)
        return []

    def spread(self, work: object, items: list[int]) -> list[int]:
        """Count items."""
        del work
        self.runs += len(items)
        return items

    def group_source(self, groups: int) -> str:
        """Return the engine's own groups."""
        return f"{groups} of an engine"


def test_a_large_day_goes_to_spark_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each day of a run by its own size; what belongs to none goes where a session is."""
    monkeypatch.setattr(engines, "_MOST_OBJECTS", 10)
    local, spark = Told(), Told()
    auto = AutoEngine(local, spark)  # type: ignore[arg-type]
    auto(orders(10, 1))
    auto(orders(11, 1))
    assert (local.runs, spark.runs) == (1, 1)
    auto.spread(str, [1, 2])
    spark.is_started = True
    auto.spread(str, [1, 2, 3])
    assert (local.runs, spark.runs) == (3, 4)
    assert isinstance(auto.group_source(MANY_GROUPS - 1), LocalGroupSource)
    assert str(auto.group_source(MANY_GROUPS)) == f"{MANY_GROUPS} of an engine"


def test_a_large_day_without_spark_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done all the same."""
    monkeypatch.setattr(engines, "_MOST_OBJECTS", 10)
    local = Told()
    auto = AutoEngine(local, None)  # type: ignore[arg-type]
    with capture_logs() as logs:
        auto(orders(11, 1))
    assert (local.runs, [line["event"] for line in logs]) == (1, ["large_day_without_spark"])
    assert isinstance(auto.group_source(MANY_GROUPS), LocalGroupSource)


def test_without_pyspark_or_java_there_is_none(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not asked for anything."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    auto = made(stack)
    assert isinstance(auto, AutoEngine)
    assert auto._spark is None


@pytest.mark.parametrize("script", ["echo 'openjdk version \"1.8.0_452\"' >&2", "exit 1"])
def test_a_large_day_goes_on_alone_where_java_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    """Small nights have passed with it; it is asked with the first large day, once."""
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho x >> {tmp_path}/asked\n{script}\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(engines, "_MOST_OBJECTS", 10)
    local, spark = Told(), Told()
    auto = AutoEngine(local, spark)  # type: ignore[arg-type]
    auto(orders(10, 1))
    assert not (tmp_path / "asked").exists()
    with capture_logs() as logs:
        auto(orders(11, 1))
        auto(orders(11, 1))
    assert (local.runs, spark.runs, (tmp_path / "asked").read_text()) == (3, 0, "x\n")
    assert [line["event"] for line in logs] == ["spark_not_used", *["large_day_without_spark"] * 2]
    assert isinstance(auto.group_source(MANY_GROUPS), LocalGroupSource)
