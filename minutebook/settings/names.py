"""The names after `minutebook.`, the variables that override them, and what is said of a name that is none.

Whoever reads a properties file, the consumer or a reader of its archive, reads it by these.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from minutebook.aws.access import ACCESS_PROPERTIES
from minutebook.codec.library import SWITCH
from minutebook.properties_file import (
    FILE_VARIABLE,
    FORKS_VARIABLE,
    KCL_VARIABLES,
    STREAM_VARIABLE,
    SUPERVISED_VARIABLE,
    TEXT_VARIABLE,
    flag,
)
from minutebook.settings.kcl_properties import INEFFECTIVE, KCL_PROPERTIES
from minutebook.settings.values import (
    Parse,
    bucket,
    compression,
    endpoint,
    jmespath_expression,
    one_of,
    prefix,
    seconds,
    start,
    whole,
    word,
)
from minutebook.spans import parse_slot

OURS: Final = "minutebook."
_ENVIRONMENT: Final = "MINUTEBOOK_"
_GIB: Final = 1 << 30
_OF_KUBERNETES: Final = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_\w+)?)?)$")
_NO_OVERRIDES: Final = frozenset(
    {FILE_VARIABLE, TEXT_VARIABLE, SUPERVISED_VARIABLE, FORKS_VARIABLE, STREAM_VARIABLE, SWITCH, *KCL_VARIABLES}
)

OUR_PROPERTIES: Final[Mapping[str, Parse]] = {
    "bucket": bucket,
    "prefix": prefix,
    "s3Endpoint": endpoint,
    "checkpointIntervalSeconds": seconds(0, 3600),
    "lingerSeconds": seconds(0, 600),
    "flushSeconds": seconds(0.1, 3600),
    "maxSegmentBytes": whole(1, _GIB, "bytes"),
    "maxSegmentAgeSeconds": seconds(90, 21_600),
    "compression": compression,
    "start": start,
    "storeTimeoutSeconds": seconds(1, 3600),
    "dedupe": one_of("claims", "watermark"),
    "eventId": jmespath_expression,
    "producerSequence": jmespath_expression,
    "producerKey": jmespath_expression,
    "producerOrdered": flag,
    "dedupeTable": word,
    "adoptCheckpoint": flag,
    "releaseLeases": flag,
    "forkServer": flag,
    "logLevel": one_of("debug", "info", "warning", "error", "critical"),
    "metricsHost": word,
    "metricsPort": whole(1, 65_535, "(a TCP port)"),
    "metrics": one_of("emf"),
    "metricsIntervalSeconds": seconds(1, 3600),
    "maxUncommittedSeconds": seconds(1, 21_600),
    "completeSlotSeconds": parse_slot,
    "columns": word,
    "eventTime": word,
    "eventWindow": whole(0, 400, "days"),
    "glueEndpoint": endpoint,
    **ACCESS_PROPERTIES,
}
"""The names after `minutebook.`, each with its parser."""


def environment_name(name: str) -> str:
    """Return the variable that overrides `minutebook.<name>`: storeTimeoutSeconds -> ..._STORE_TIMEOUT_SECONDS."""
    return _ENVIRONMENT + snake(name).upper()


def snake(name: str) -> str:
    """Return a name as a field's: storeTimeoutSeconds -> store_timeout_seconds."""
    return re.sub(r"(?=[A-Z])", "_", name).lower()


def overrides(environ: Mapping[str, str]) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """Return setting -> (variable, text) for the overrides in the environment, and the errors."""
    known = {environment_name(name): name for name in OUR_PROPERTIES}
    texts: dict[str, tuple[str, str]] = {}
    errors: list[str] = []
    for variable, text in sorted(environ.items()):
        if not variable.startswith(_ENVIRONMENT) or variable in _NO_OVERRIDES:
            continue
        if variable not in known and _OF_KUBERNETES.search(variable):
            continue  # of a Service of such a name in the namespace of the pod
        if variable not in known:
            errors.append(
                f"environment variable {variable} is not a setting{_suggestion(variable, [*known, *_NO_OVERRIDES])}"
            )
        elif not text:
            errors.append(f"environment variable {variable} is empty: give it a value, or unset it")
        elif text != text.strip():
            errors.append(f"environment variable {variable} begins or ends with blanks: remove them")
        else:
            texts[known[variable]] = (variable, text)
    return texts, errors


def is_known(name: str) -> bool:
    """Return whether a file may name it, for KCL or for us."""
    return (
        name in KCL_PROPERTIES
        or name in INEFFECTIVE
        or (name.startswith(OURS) and name.removeprefix(OURS) in OUR_PROPERTIES)
    )


def unknown(name: str) -> str:
    """Return the error of a name that is none."""
    if "." in name and not name.startswith(OURS):
        return f"{name} is refused: nested names reach past the checks of this file; use the flat KCL names"
    known = [*(OURS + ours for ours in OUR_PROPERTIES), *KCL_PROPERTIES]
    return f"{name} is not a setting of KCL or Minutebook{_suggestion(name, known)}"


def _suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name; people may leave `minutebook.` out."""
    by_fold: dict[str, str] = {}
    for candidate in known:
        by_fold[candidate.lower()] = candidate
        if candidate.startswith(OURS):
            by_fold[candidate.lower().removeprefix(OURS)] = candidate
    close = difflib.get_close_matches(name.lower(), list(by_fold), n=1, cutoff=0.75)
    return f": did you mean {by_fold[close[0]]}?" if close else ": remove it"
