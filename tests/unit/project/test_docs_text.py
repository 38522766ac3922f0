"""What the pages tell people to type: commands that exist, settings that exist, files that parse."""

import json
import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from ruamel.yaml import YAML

from consumer.settings.settings import load_settings
from minutebook import cli
from tests.witness.waiting import PATIENCE_SECONDS

CHECKOUT: Final = Path(__file__).resolve().parents[3]
PAGES: Final = sorted(
    [
        *(CHECKOUT / "docs").glob("*.md"),
        *(CHECKOUT / "docs").glob("[!dm]*/*.md"),  # decisions tell what was, the model has commands of its own
        *(CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    ]
)
_ORDER_OF_ECS: Final = "how-to/ecs.md"


def blocks(page: Path, *languages: str) -> list[str]:
    """Return the code blocks of a page in these languages, without the indentation of a list that they stand in."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(rf"(?m)^{indent}", "", text) for indent, language, text in found if language in languages]


def command_lines(page: Path) -> list[list[str]]:
    """Return the words after `minutebook` of each command line, in blocks and in the text."""
    lines = [
        re.sub(r"^\$ ", "", line)
        for block in blocks(page, "sh", "", "ini")
        for line in block.replace("\\\n", " ").splitlines()
    ]
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    lines += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]
    found = []
    for line in lines:
        called = re.match(r"(?:ExecStart=|sudo -u minutebook )?(?:\S+/bin/)?minutebook +([^>|]+)", line)
        if called:
            words = called[1].partition("     ")[0].replace('"$until"', "2026-11-22T10:00Z")
            found.append(shlex.split(words, comments=True))
    return found


@cache
def commands() -> Any:  # noqa: ANN401 - typer brings its own click
    """Return the commands by their names."""
    group: Any = typer.main.get_command(cli.app)
    return group.commands


_LINES: Final = [(page.name, words) for page in PAGES for words in command_lines(page)]


def test_the_pages_hold_commands() -> None:
    """A collection that finds nothing would pass for ever."""
    assert len(_LINES) > 60
    assert {words[0] for _, words in _LINES} >= set(commands()) - {"demo"}


@pytest.mark.parametrize(
    ("page", "words"), _LINES, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_a_command_line_is_understood(page: str, words: list[str]) -> None:  # noqa: ARG001 - names the test
    """By the command line's own parser: the command, its options, and their values."""
    head, *rest = cli.complete(words)
    if head == "COMMAND" or head.startswith("--"):
        return
    assert head in commands(), words
    options = [option for option in commands()[head].params if option.param_type_name == "option"]
    if rest and any(rest[-1] in option.opts and not option.is_flag for option in options):
        rest.append("2026-11-22T10:00:00Z")  # a page that only names the option
    missing = [option.opts[0] for option in options if option.required and option.opts[0] not in rest]
    with commands()[head].make_context(head, [*rest, *(word for name in missing for word in (name, "x"))]) as context:
        assert context.args == []


def test_a_command_line_that_is_wrong_is_noticed() -> None:
    """An option that does not exist is refused by the same parser."""
    with pytest.raises(Exception, match="--nonsense"):
        commands()["status"].make_context("status", ["my.properties", "--nonsense"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_structured_blocks_parse(page: Path) -> None:
    """JSON, YAML and Python that somebody will copy. Python is compiled only."""
    for text in blocks(page, "json"):
        for document in [text] if text.startswith("{\n") else text.splitlines():
            if "…" not in document and document.startswith(("{\n", '{"Effect')):
                json.loads(document if document.startswith("{\n") else text)
    for text in blocks(page, "yaml"):
        YAML(typ="safe").load(text)
    for text in blocks(page, "python"):
        compile(text, page.name, "exec")


@pytest.mark.parametrize("number", range(2))
def test_the_task_definitions_of_ecs_are_understood(number: int) -> None:
    """Their environment is settings enough, of the worker and of what follows it."""
    container = json.loads(blocks(CHECKOUT / "docs" / _ORDER_OF_ECS, "json")[number])
    settings = load_settings(None, {each["name"]: each["value"] for each in container["environment"]})

    assert container["command"][0] == ("consume", "follow")[number]
    assert (settings.stream_name, settings.bucket, settings.prefix) == ("flights", "minutes", "flights/")
    assert container["stopTimeout"] >= 45
    assert container["readonlyRootFilesystem"]


@pytest.mark.parametrize("number", range(2))
def test_the_manifests_of_eks_are_understood(number: int) -> None:
    """Their environment is settings enough, and they fit the image."""
    text = blocks(CHECKOUT / "docs" / "how-to" / "eks.md", "yaml")[number]
    pod = YAML(typ="safe").load(text)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    settings = load_settings(None, {each["name"]: each["value"] for each in container["env"]})

    assert settings.application_name == "flights-archive"
    assert container["args"][0] == ("consume", "follow")[number]
    assert f"--uid {pod['securityContext']['runAsUser']} " in (CHECKOUT / "Dockerfile").read_text()
    assert number or pod["terminationGracePeriodSeconds"] * 1000 > 25_000 + 15_000


UNITS: Final = ("minutebook.service", "minutebook-night.service", "minutebook-night.timer")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
def test_the_unit_is_understood_by_systemd(tmp_path: Path) -> None:
    """Each name and value; the program is one that this machine has."""
    units = []
    for name, text in zip(UNITS, blocks(CHECKOUT / "docs" / "how-to" / "systemd.md", "ini"), strict=True):
        unit = tmp_path / name
        unit.write_text(text.replace("/opt/minutebook/bin/minutebook", "/bin/true"))
        units.append(unit)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_waits_long_enough() -> None:
    """For what processors commit on SIGTERM, and 15 s on top."""
    text, *_ = blocks(CHECKOUT / "docs" / "how-to" / "systemd.md", "ini")
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    assert int(values["TimeoutStopSec"]) * 1000 > 25_000 + 15_000
    assert values["KillMode"] == "mixed"
    state = values["ExecStart"].split("--state-dir ")[1]
    assert Path(state).parent == Path("/var/lib", values["StateDirectory"])


def test_systemd_ends_no_night_before_its_budget_has() -> None:
    """The timer starts it when the day can be judged, and the last day that it begins has time to end."""
    _, night, timer = blocks(CHECKOUT / "docs" / "how-to" / "systemd.md", "ini")
    (hours,) = re.findall(r"^ExecStart=.* --budget (\d+)h", night, re.MULTILINE)
    (limit,) = re.findall(r"^TimeoutStartSec=(\d+)h$", night, re.MULTILINE)
    (minute,) = re.findall(r"^OnCalendar=\*-\*-\* 00:(\d\d):00 UTC$", timer, re.MULTILINE)

    assert int(limit) >= 2 * int(hours)
    assert int(minute) >= 20
