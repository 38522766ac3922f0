"""A day as the nightly job publishes it, as far as it is read: no row in it is real."""

import gzip
import json
from collections.abc import Iterable

from minutebook.format.document import FORMAT
from minutebook.published.generation import GENERATION
from minutebook.published.inventory import inventory_digest
from minutebook.published.verdict import RULES

PARQUET = b"PAR1 a few rows PAR1"


def published_objects(
    root: str,
    day: str,
    raw: Iterable[tuple[str, str, int]],
    generation: str,
    verdict: str,
    *,
    rules: int = RULES,
    until: str | None = None,
) -> dict[str, bytes]:
    """Return what lies below `root` once a day of these raw objects (key, ETag, size) is published, by key."""
    rows = sorted(raw)
    folder = f"{root}dt={day}/"
    manifest = f"{folder}_manifest/{generation}-w"
    part = f"{folder}{GENERATION}{generation}/part-0.parquet"
    lines = "".join(json.dumps([*row, 0]) + "\n" for row in rows).encode()
    said = {
        "format": FORMAT,
        "day": day,
        "generation": generation,
        "verdict": verdict,
        "rows": 7,
        "rules": rules,
        "until": until,
        "writer": "w",
        "written_at": "2026-11-21T00:00:00.000Z",
        "audit": f"{manifest}.audit.json",
    }
    files = [{"key": part, "rows": 7, "bytes": len(PARQUET)}]
    return {
        part: PARQUET,
        f"{manifest}.inventory.jsonl.gz": gzip.compress(lines, 1, mtime=0),
        f"{manifest}.json": json.dumps(
            {**said, "files": files, "inventory": inventory_digest(rows), "ends": {}}
        ).encode(),
        f"{folder}_current.json": json.dumps({**said, "manifest": f"{manifest}.json"}).encode(),
    }
