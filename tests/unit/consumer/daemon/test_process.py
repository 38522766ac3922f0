"""The daemon's command line."""

from pathlib import Path

from consumer.daemon.process import MAIN_CLASS, daemon_command
from consumer.preflight.java import find_shims

_COMMAND = daemon_command(
    Path("java"), [Path("a.jar"), Path("b.jar")], Path("state/w.properties"), Path("logback.xml")
)


def test_a_real_library_wins_over_our_classes() -> None:
    """They come last on the class path, behind all jars."""
    class_path = _COMMAND[_COMMAND.index("-cp") + 1].split(":")
    assert class_path == ["a.jar", "b.jar", "state", str(find_shims())]


def test_the_daemon_ends_when_memory_runs_out() -> None:
    """KCL would go on behind the batch that it could not hold; the option must come before the class."""
    assert _COMMAND.index("-XX:+ExitOnOutOfMemoryError") < _COMMAND.index(MAIN_CLASS)


def test_our_main_class_is_shipped() -> None:
    """In the folder that is on the class path."""
    assert (find_shims() / MAIN_CLASS.replace(".", "/")).with_suffix(".class").is_file()
