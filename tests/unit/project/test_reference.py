"""The pages that are made from the code name all that is there, by other means than those that made them."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from consumer.monitoring.health_file import UNHEALTHY
from docsite.code_pages import error_kinds
from docsite.events_page import NORMAL_LIFE, alarms, events_page, meaning
from docsite.hook import pages
from docsite.log_events import LogEvent, log_events
from docsite.settings_page import commented, kind
from minutebook.properties_file import KCL_VARIABLES
from minutebook.settings.kcl_properties import INEFFECTIVE, KCL_PROPERTIES
from minutebook.settings.names import OUR_PROPERTIES, environment_name

CHECKOUT: Final = Path(__file__).resolve().parents[3]
OPERATIONS: Final = (CHECKOUT / "docs" / "operations.md").read_text()
_CODE: Final = [
    path for name in ("consumer", "compaction", "minutebook") for path in (CHECKOUT / name).glob("**/*.py")
]
_COUNTERS: Final = frozenset({"counter", "Gauge", "Histogram", "GaugeMetricFamily", "_family"})


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """Return the pages."""
    return pages()


def test_every_setting_is_there(made: dict[str, str]) -> None:
    """Ours with a meaning, KCL's, the refused ones, and the variables."""
    page = made["reference/settings.md"]
    ours = {name: re.search(rf"^\| `minutebook\.{name}` \|(.+)\|$", page, re.MULTILINE) for name in OUR_PROPERTIES}

    assert [name for name, row in ours.items() if row is None or not row[1].split("|")[-1].strip()] == []
    assert [name for name in {**KCL_PROPERTIES, **INEFFECTIVE} if f"| `{name}` |" not in page] == []
    assert [name for name in OUR_PROPERTIES if f"| `{environment_name(name)}` |" not in page] == []
    assert [name for name in KCL_VARIABLES if f"| `{name}` |" not in page] == []


def test_every_kind_of_value_is_told() -> None:
    """A parser that takes anything is one that says so on purpose."""
    assert {name for name, parse in OUR_PROPERTIES.items() if kind(parse) == "any text"} == {
        "columns",
        "dedupeTable",
        "eventTime",
        "metricsHost",
    }


def test_a_comment_belongs_to_the_lines_below_it() -> None:
    """Also to several; a blank line or a heading ends it."""
    text = "# --- heading ---\n# One\n# two.\n#a = 1\n#b = 2\n# Three.\nc = 3\n\n# Four.\n\nd = 4\n"

    assert commented(text) == {"a": "One two.", "b": "One two.", "c": "Three.", "d": ""}


def test_every_event_is_there(made: dict[str, str]) -> None:
    """Found by a plain search: each quoted word behind a call of a logger."""
    call = re.compile(r"log(?:ger\(\))?\.(?:debug|info|warning|error|exception)\((?:\s*#.*\n)?\s*\"([a-z_]+)\"")
    searched = {event for path in _CODE for event in call.findall(path.read_text())}
    handed_on = {event for path in _CODE for event in re.findall(r"event=\"([a-z_]+)\"", path.read_text())}
    page = made["reference/log-events.md"]

    assert len(searched) > 30
    assert [event for event in sorted(searched | handed_on) if f"| `{event}` |" not in page] == []


def test_every_event_to_alarm_on_is_there(made: dict[str, str]) -> None:
    """With a link to its section of the runbook."""
    assert len(alarms(OPERATIONS)) > 10
    page = made["reference/log-events.md"]
    assert [event for event in alarms(OPERATIONS) if f"runbook.md#{event})" not in page] == []


def test_an_event_that_nobody_explained_is_noticed() -> None:
    """And an explanation of an event that is gone is, too."""
    with pytest.raises(KeyError, match="brand_new"):
        meaning(LogEvent("brand_new"), {})
    assert set(NORMAL_LIFE) - {event.name for event in log_events(CHECKOUT)} == set()


def test_the_level_of_an_event_is_the_one_that_operations_names() -> None:
    """Whoever alarms on errors misses none."""
    named = dict(re.findall(r"^\| `([a-z_]+)` \| (error|warning) \|", OPERATIONS, re.MULTILINE))
    found = {event.name: event.level for event in log_events(CHECKOUT)}

    assert {name: found.get(name) for name in named} == named


def test_every_metric_is_there(made: dict[str, str]) -> None:
    """Found by the calls that make them, and by the chapter on watching."""
    tree = ast.parse((CHECKOUT / "consumer" / "monitoring" / "metrics.py").read_text())
    names = {
        node.args[0].value.removeprefix("minutebook_")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") in _COUNTERS
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }
    watching = OPERATIONS.partition("\n## Watching\n")[2].partition("\n## ")[0]
    told = re.findall(r"^\| `(minutebook_\w+|[A-Z]\w+)` \|", watching, re.MULTILINE)
    page = made["reference/metrics.md"]

    assert len(names) > 10
    assert len(told) > 30
    assert [name for name in names if f"| `minutebook_{name}" not in page] == []
    assert [name for name in told if f"| `{name}` |" not in page] == []


def test_every_exit_code_is_there(made: dict[str, str]) -> None:
    """Those of the errors, of the audit, and of whoever watches; each error with its own."""
    page = made["reference/exit-codes.md"]
    kinds = list(error_kinds())
    codes = {0, 3, 4, UNHEALTHY, *(kind.exit_code for kind in kinds)}

    assert sorted(map(int, re.findall(r"^\| (\d) \|", page, re.MULTILINE))) == sorted(codes)
    assert [kind.__name__ for kind in kinds if f"| `{kind.__name__}` |" not in page] == []


def test_every_option_is_there(made: dict[str, str]) -> None:
    """Found in the text of the files that name them."""
    page = made["reference/commands.md"]
    files = (
        "minutebook/cli.py",
        "minutebook/cat/options.py",
        "minutebook/completeness/options.py",
        "consumer/command_line.py",
        "consumer/requests.py",
        "compaction/job/request.py",
    )
    options = {option for file in files for option in re.findall(r"\"(--[a-z-]+)\"", (CHECKOUT / file).read_text())}

    assert [
        option for option in sorted(options - {"--version", "--help", "--so-far=now"}) if f"`{option}`" not in page
    ] == []
    assert "## consume" in page


def test_every_field_of_the_audit_is_there(made: dict[str, str]) -> None:
    """By the names in the schema's text."""
    schema = (CHECKOUT / "docs" / "audit.schema.json").read_text()
    fields = {
        name for block in re.findall(r'"required": \[([^\]]+)\]', schema) for name in re.findall(r'"(\w+)"', block)
    }

    assert fields
    assert [name for name in sorted(fields) if f"| `{name}` |" not in made["reference/audit-json.md"]] == []


def test_links_out_of_a_table_lead_from_the_page_they_are_put_into() -> None:
    """docs/operations.md lies one folder above the pages that are made."""
    page = events_page(CHECKOUT)
    assert "](runbook.md" not in page
    assert "](../producer-duplicates.md)" in page
