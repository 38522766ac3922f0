"""The page of the settings: ours with KCL's beside them, from the parsers, the defaults and the commented file."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Final

from consumer.settings.settings import Settings
from consumer.settings.shipped import production_properties
from docsite.tables import code, plain, table
from minutebook.aws.access import Access
from minutebook.properties_file import KCL_VARIABLES
from minutebook.settings.kcl_properties import INEFFECTIVE, KCL_PROPERTIES
from minutebook.settings.names import OUR_PROPERTIES, environment_name
from minutebook.settings.values import Parse

_NO_VALUE: Final = "?!"
_WORDS: Final[Mapping[object, str]] = {None: "unset", (): "unset", "": "empty", False: "`false`"}
_HEAD: Final = """# Settings

One Java properties file holds KCL's own names and `minutebook.*`. Unknown names, values out of range and names that
KCL ignores are errors, all reported at once, before the first request. `minutebook init` prints a file with the
important settings and their defaults. Or use [settings without a file](../operations.md#settings-without-a-file).

This page is made from the code of this version.

"""


def settings_page() -> str:
    """Return the page."""
    meanings = commented(production_properties())
    defaults = {**Access._field_defaults, **{field.name: field.default for field in fields(Settings)}}
    ours = [
        (
            code(f"minutebook.{name}"),
            plain(kind(parse)),
            _default(defaults[_snake(name)]),
            plain(meanings[f"minutebook.{name}"]),
        )
        for name, parse in OUR_PROPERTIES.items()
    ]
    kcl = [
        (
            code(name),
            plain(kind(known.parse)),
            "" if known.default == "unset" else code(known.default),
            plain(meanings.get(name, "")),
        )
        for name, known in KCL_PROPERTIES.items()
        if name not in INEFFECTIVE
    ]
    variables = [(code(environment_name(name)), code(f"minutebook.{name}")) for name in OUR_PROPERTIES]
    variables += [(code(variable), code(name)) for variable, name in KCL_VARIABLES.items()]
    return "".join(
        [
            _HEAD,
            "## Minutebook's own\n\n",
            table(["name", "value", "default", "meaning"], ours),
            "\n## KCL's\n\nThe defaults are KCL's own. ",
            "Where the meaning names another, `minutebook consume` sets that one when the file has none. ",
            "KCL's own documentation explains names without a meaning here.\n\n",
            table(["name", "value", "default", "meaning"], kcl),
            "\n## Refused\n\nNames that do nothing, or something else than they say.\n\n",
            table(["name", "why, and what to do"], [(code(name), plain(why)) for name, why in INEFFECTIVE.items()]),
            "\n## In the environment\n\nA variable wins over the line of a file.\n\n",
            table(["variable", "sets"], variables),
        ]
    )


def commented(text: str) -> dict[str, str]:
    """Return the comment above each setting of a properties file, by its name."""
    meanings: dict[str, str] = {}
    comment: list[str] = []
    before = ""
    for line in text.splitlines():
        setting = re.match(r"#?([A-Za-z][\w.]*) =", line)
        if setting:
            meanings[setting[1]] = " ".join(comment)
        elif line.startswith("# ") and not line.startswith("# ---"):
            comment = [*(comment if before.startswith("# ") else []), line.removeprefix("# ")]
        else:
            comment = []
        before = line
    return meanings


def kind(parse: Parse) -> str:
    """Return what a parser accepts, taken from its error message."""
    try:
        parse(_NO_VALUE)
    except ValueError as exc:
        message = re.split(r", not |: write|: Invalid|: Bad|: Unknown", str(exc))[0]
        return re.sub(r"^must end", "text that ends", re.sub(r"^(must be |is not )", "", message))
    return "any text"


def _snake(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()


def _default(value: object) -> str:
    return "required" if value is MISSING else _WORDS.get(value) or code(str(value))
