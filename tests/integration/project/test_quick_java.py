"""The class archives that `make test` prepares are those of the Java that tests run on."""

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from compaction.spark.session import class_archive_folder
from consumer.daemon.prepared.classes import find_classes
from consumer.preflight.java import find_jars, find_java
from minutebook.class_archive import use_options

_ARCHIVES: Final = Path(sys.prefix, "share", "minutebook")
_IS_PREPARED: Final = Path(sys.prefix, ".prepared").is_file() and any(_ARCHIVES.glob("*/classes-*.jsa"))

pytestmark = [
    pytest.mark.usefixtures("aws_environment"),
    pytest.mark.skipif(not _IS_PREPARED, reason="`make test` prepares them, where it can"),
]


def test_the_daemons_of_tests_find_their_archive() -> None:
    """Else each of their JVMs parses its classes anew, and nothing says so."""
    assert find_classes(find_java(os.environ).program, find_jars()).options


def test_the_archive_of_the_daemons_is_of_a_whole_life() -> None:
    """It holds what reads records, too: the start that `minutebook prepare` keeps reads none."""
    java, jars = find_java(os.environ).program, find_jars()
    [archive] = find_classes(java, jars).path[-1].parent.glob("classes-*.jsa")
    assert b"PrefetchRecordsPublisher$PrefetchRecordsRetrieved" in archive.read_bytes()


def test_the_spark_of_tests_finds_its_archive() -> None:
    """The same for each command of the nightly job."""
    assert use_options(class_archive_folder())
