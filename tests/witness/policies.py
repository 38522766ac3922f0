"""IAM policies as AWS judges requests by them: as much of it as the policies of `deploy/` use, and no more.

A request is allowed when a statement that allows it matches, and none that denies it. In a pattern `*` stands for any
text and `?` for one character (IAM User Guide, "Policy evaluation logic", "IAM JSON policy elements").
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

CHECKOUT: Final = Path(__file__).resolve().parents[2]
IAM: Final = CHECKOUT / "deploy" / "iam"
BUCKET_POLICY: Final = CHECKOUT / "deploy" / "bucket-policy.json"
KCL_REQUESTS: Final = CHECKOUT / "tests" / "data" / "kcl-requests.json"
Statement = Mapping[str, Any]


class Request(NamedTuple):
    """One request as IAM sees it: the action, the ARN of what it is sent to, and the condition keys that it has."""

    action: str
    resource: str
    context: Mapping[str, str] = {}


class Names(NamedTuple):
    """What the placeholders of a policy stand for."""

    stream: str = "flights"
    application: str = "flights-archive"
    other: str = "flights-reader"
    bucket: str = "minutes"
    prefix: str = "raw/"
    region: str = "us-east-1"
    account: str = "000000000000"


def command_names() -> list[str]:
    """Return what there is a policy for."""
    return sorted(path.stem for path in IAM.glob("*.json"))


def command_policy(command: str, names: Names) -> list[Statement]:
    """Read a policy of `deploy/iam` and fill in its placeholders."""
    statements: list[Statement] = json.loads(_filled((IAM / f"{command}.json").read_text(), names))["Statement"]
    return statements


def bucket_policy(names: Names, *, expire_role: str = "expire") -> list[Statement]:
    """Read the policy of the bucket and fill in its placeholders."""
    text = BUCKET_POLICY.read_text().replace("EXPIRE_ROLE", expire_role)
    statements: list[Statement] = json.loads(_filled(text, names))["Statement"]
    return statements


def kcl_requests(names: Names, *, seldom: bool) -> list[Request]:
    """Return what a daemon was seen to ask for, or what it asks for at times that no test has."""
    rows = json.loads(_filled(KCL_REQUESTS.read_text(), names))["seldom" if seldom else "requests"]
    return [Request(action, resource) for action, resource in rows]


def _filled(text: str, names: Names) -> str:
    for name, value in names._asdict().items():
        text = text.replace(name.upper(), value)
    return text


def actions_of(statement: Statement) -> list[str]:
    """Return the actions of a statement; none of ours names a pattern."""
    return _listed(statement["Action"])


def matches(statement: Statement, request: Request) -> bool:
    """Tell whether a statement is about a request."""
    if request.action not in actions_of(statement):
        return False
    if "NotResource" in statement:
        is_meant = not any(_like(pattern, request.resource) for pattern in _listed(statement["NotResource"]))
    else:
        is_meant = any(_like(pattern, request.resource) for pattern in _listed(statement["Resource"]))
    return is_meant and all(
        _CONDITIONS[kind](request.context.get(key), _listed(wanted))
        for kind, keys in statement.get("Condition", {}).items()
        for key, wanted in keys.items()
    )


def is_allowed(statements: Iterable[Statement], request: Request) -> bool:
    """Tell whether a request passes."""
    found = {statement["Effect"] for statement in statements if matches(statement, request)}
    return found == {"Allow"}


def _listed(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _like(pattern: str, text: str) -> bool:
    parts = {"*": ".*", "?": "."}
    return re.fullmatch("".join(parts.get(sign, re.escape(sign)) for sign in pattern), text, re.DOTALL) is not None


# What a condition says of a key's value; None: the request has no such key. "Not" operators hold for a missing key.
_CONDITIONS: Final[Mapping[str, Callable[[str | None, list[str]], bool]]] = {
    "StringLike": lambda value, wanted: value is not None and any(_like(each, value) for each in wanted),
    "StringEquals": lambda value, wanted: value is not None and value in wanted,
    "Bool": lambda value, wanted: value is not None and value in wanted,
    "ArnNotEquals": lambda value, wanted: value is None or value not in wanted,
    "Null": lambda value, wanted: wanted == ["true" if value is None else "false"],
}
