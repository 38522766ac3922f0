"""The pages of the exit codes, the metrics, the commands and the audit's document, each from the code itself."""

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from compaction.report.metric_line import METRICS, NIGHT_METRICS
from consumer.child_logs.processor_log import OPENED, ProcessorEvent
from consumer.monitoring.cloudwatch import COUNTED, GAUGES, LATENCY, OF_STREAM
from consumer.monitoring.labels import StreamLabels
from consumer.monitoring.watch import Watch
from docsite.tables import code, table
from minutebook import cli, errors
from minutebook.clock import SystemClock

_MADE: Final = "This page is made from the code of this version.\n\n"


def exit_codes_page() -> str:
    """Return the page: the codes as the command line names them, and the errors of each."""
    epilog = str(cli.app.info.epilog).removeprefix("Exit codes: ").rstrip(".")
    meanings = [item.partition(" ")[::2] for item in re.split(r", (?=\d)", epilog)]
    kinds = sorted(error_kinds(), key=lambda kind: (kind.exit_code, kind.__name__))
    rows = [
        (
            code(kind.__name__),
            "none" if kind is errors.LeaseLost else str(kind.exit_code),
            inspect.cleandoc(kind.__doc__ or ""),
        )
        for kind in kinds
    ]
    return "".join(
        [
            "# Exit codes\n\nEvery command ends with one of these. What to do: [runbook](../runbook.md).\n\n",
            _MADE,
            table(["code", "means"], meanings),
            "\n## Errors\n\nLog lines have the name as `kind`. `LeaseLost` ends no process.\n\n",
            table(["error", "code", "meaning"], rows),
        ]
    )


def error_kinds() -> Iterator[type[errors.MinutebookError]]:
    """Yield the errors that are raised as they are: not those that only others derive from."""
    for kind in vars(errors).values():
        if not (isinstance(kind, type) and issubclass(kind, errors.MinutebookError)):
            continue
        if not kind.__subclasses__() or (kind is not errors.MinutebookError and "exit_code" in vars(kind)):
            yield kind


def metrics_page() -> str:
    """Return the page: the metrics of a task with one shard, for Prometheus and for CloudWatch."""
    watch = Watch(SystemClock(), labels=StreamLabels("archive", "flights"))
    watch.note(ProcessorEvent(event=OPENED, shard="shardId-000000000000"))
    families = watch.metrics.registry.collect() if watch.metrics else ()
    rows = [
        (
            code(f"{family.name}_total" if family.type == "counter" else family.name),
            family.type,
            ", ".join(
                code(label) for label in sorted({label for each in family.samples for label in each.labels} - {"le"})
            ),
            family.documentation,
        )
        for family in sorted(families, key=lambda family: family.name)
    ]
    nightly = {**METRICS, **NIGHT_METRICS}
    names = {**GAUGES, **{counted.name: counted.unit for counted in COUNTED}, LATENCY: "Seconds"}
    dimensions = dict.fromkeys(OF_STREAM, "`Application`; `Application`, `Stream`")
    cloudwatch = [(code(name), unit, dimensions.get(name, "`Application`")) for name, unit in sorted(names.items())]
    return "".join(
        [
            "# Metrics\n\nMeanings and alarms: [Watching](../operations.md#metrics).\n\n",
            _MADE,
            "## For Prometheus\n\nWith `minutebook.metricsPort`.\n\n",
            table(["name", "type", "labels", "meaning"], rows),
            "\n## For CloudWatch\n\nWith `minutebook.metrics=emf`.\n\n",
            table(["name", "unit", "dimensions"], cloudwatch),
            "\n## Of the nightly job\n\nAlso with `minutebook.metrics=emf`, under `Application` and `Command`.\n\n",
            table(["name", "unit", "meaning"], [(code(name), *row) for name, row in nightly.items()]),
        ]
    )


def commands_page() -> str:
    """Return the page: each command with its help, its arguments and its options."""
    group: Any = typer.main.get_command(cli.app)
    parts = [f"# Commands\n\n{group.help}\n\n`minutebook COMMAND --help` says the same.\n\n", _MADE]
    for name, command in group.commands.items():
        parts += [f"## {name}\n\n{command.help}\n\n```\n{_usage(name, command)}\n```\n\n"]
        rows = [_parameter(parameter) for parameter in command.params if parameter.name != "help"]
        parts += [table(["argument, option", "default", "meaning"], rows), "\n"] if rows else []
    return "".join(parts)


def _usage(name: str, command: Any) -> str:  # noqa: ANN401 - typer brings its own click
    arguments = [_metavar(each) for each in command.params if each.param_type_name == "argument"]
    return " ".join(["minutebook", name, *arguments, "[OPTIONS]"])


def _metavar(parameter: Any) -> str:  # noqa: ANN401 - same
    text = str(parameter.metavar or parameter.name.upper())
    return text if parameter.required or text.startswith("[") else f"[{text}]"


def _parameter(parameter: Any) -> tuple[str, str, str]:  # noqa: ANN401 - same
    help_text = str(getattr(parameter, "help", "") or "")
    if parameter.param_type_name == "argument":
        return code(_metavar(parameter)), "", help_text
    names = ", ".join(code(name) for name in [*parameter.opts, *parameter.secondary_opts])
    takes = "" if parameter.is_flag else f" {code(str(parameter.metavar or parameter.name.upper()))}"
    plain = parameter.default if isinstance(parameter.default, str | int | float) else None
    default = "required" if parameter.required else "" if plain is None or plain is False else code(str(plain))
    return names + takes, default, help_text


def schema_page(schema: Path) -> str:
    """Return the page: the fields of `audit.json`, from its schema."""
    definitions = json.loads(schema.read_text(encoding="utf-8"))["$defs"]
    parts = [
        "# audit.json\n\nWhat `minutebook audit --json`, `--report` and a published day hold. ",
        "The same as a JSON Schema: [audit.schema.json](../audit.schema.json).\n\n",
        _MADE,
    ]
    for name, definition in definitions.items():
        needed = set(definition.get("required", []))
        parts += [f"## {name}\n\n{inspect.cleandoc(definition.get('description', ''))}\n\n"]
        rows = [
            (code(key), _type(value), "" if key in needed else "optional", value.get("description", ""))
            for key, value in definition.get("properties", {}).items()
        ]
        parts += [table(["field", "type", "", "meaning"], rows) if rows else f"{_type(definition)}\n", "\n"]
    return "".join(parts)


def _type(value: dict[str, Any]) -> str:  # noqa: PLR0911 - one return for each form of a schema
    match value:
        case {"$ref": str(target)}:
            name = target.rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"enum": list(words)}:
            return ", ".join(code(json.dumps(word)) for word in words)
        case {"anyOf": list(kinds)}:
            return " or ".join(_type(each) for each in kinds)
        case {"type": "array", "items": dict(item)}:
            return f"list of {_type(item)}"
        case {"type": "object", "additionalProperties": dict(item)}:
            return f"object of {_type(item)}"
        case {"const": word}:
            return code(json.dumps(word))
    return str(value.get("type", "any"))
