"""A day as the nightly job publishes it, as far as `archive.store.published` reads it: no row in it is real."""

import gzip
import json
from collections.abc import Iterable

from archive.format.document import FORMAT
from archive.store.published import GENERATION, RULES, digest_of

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
    }
    files = [{"key": part, "rows": 7, "bytes": len(PARQUET)}]
    return {
        part: PARQUET,
        f"{manifest}.inventory.jsonl.gz": gzip.compress(lines, 1, mtime=0),
        f"{manifest}.json": json.dumps({**said, "files": files, "inventory": digest_of(rows)}).encode(),
        f"{folder}_current.json": json.dumps({**said, "manifest": f"{manifest}.json"}).encode(),
    }
