"""Log lines in CloudWatch's embedded metric format.

CloudWatch Logs extracts the metrics itself: no agent and no permission is needed where the log goes there.
Source: CloudWatch user guide, "Specification: Embedded metric format".
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from minutebook.format.minute import iso_time

NAMESPACE: Final = "Minutebook"


def emf_line(
    event: str,
    now_ms: int,
    names: Mapping[str, str],
    dimensions: Mapping[tuple[str, ...], Iterable[str]],
    metrics: Mapping[str, tuple[object, str]],
    properties: Mapping[str, object],
) -> bytes:
    """Return the line, with its line break.

    `dimensions` maps each set of dimensions, out of `names`, to the metrics that have it. `metrics` maps a name to a
    number, or a list of up to 100, and its unit. `properties` are added to the line but are no metrics.
    """
    directives = [
        {
            "Namespace": NAMESPACE,
            "Dimensions": [list(dimension)],
            "Metrics": [{"Name": name, "Unit": metrics[name][1]} for name in of],
        }
        for dimension, of in dimensions.items()
    ]
    entry = {
        "timestamp": iso_time(now_ms),
        "level": "info",
        "event": event,
        "_aws": {"Timestamp": now_ms, "CloudWatchMetrics": directives},
        **names,
        **{name: value for name, (value, _) in metrics.items()},
        **properties,
    }
    return msgspec.json.encode(entry) + b"\n"
