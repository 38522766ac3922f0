"""What DynamoDB is asked for, read as it is sent: PartiQL statements, and the clauses of a condition."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

Item = Mapping[str, Any]
_INSERT: Final = re.compile(r'INSERT INTO "[^"]+" VALUE \{((?:\'[a-z]+\':\?,?)+)\}')
_UPDATE: Final = re.compile(r'UPDATE "[^"]+" ((?:SET "[a-z]+"=\? )+WHERE "id"=\?(?: AND "owner"=\?)?)')
_ABSENT, _PRESENT, _MINE = "attribute_not_exists(id)", "attribute_exists(id)", "#owner = :me"


class Flying(NamedTuple):
    """A put that may be applied later; an update changes what is there, and may show it when it fails."""

    item: Item
    condition: str | None
    values: Item
    is_update: bool = False
    shows: bool = False


def put_of(statement: Mapping[str, Any]) -> Flying:
    """Return what an INSERT or an UPDATE puts, and on which condition."""
    text, values = statement["Statement"], statement["Parameters"]
    insert, update = _INSERT.fullmatch(text), _UPDATE.fullmatch(text)
    names = (
        re.findall(r"'([a-z]+)':", insert[1]) if insert else re.findall(r'"([a-z]+)"=', update[1] if update else "")
    )
    if not names or len(names) != len(values):
        raise ValueError(f"the simulated DynamoDB does not know {text!r}")
    item = dict(zip(names, values, strict=True))
    if insert:
        return Flying(item, _ABSENT, {})
    is_mine = text.endswith(' AND "owner"=?')
    shows = statement.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
    return Flying(item, _MINE if is_mine else _PRESENT, {":me": item.get("owner")}, is_update=True, shows=shows)


def holds(clause: str, held: Item | None, values: Item) -> bool:
    """Tell whether one clause of a condition holds for what is there."""
    if clause == _ABSENT:
        return held is None
    if held is None:
        return False
    if clause == _PRESENT:
        return True
    if clause == _MINE:
        return bool(held["owner"] == values[":me"])
    if clause == "expires < :now":
        return int(held["expires"]["N"]) < int(values[":now"]["N"])
    raise ValueError(f"the simulated DynamoDB does not know {clause!r}")
