"""Tampering: copies of the demo's archive, each broken in one way, each audited as an operator would.

A proof that cannot fail proves nothing. Every copy lies under a prefix of its own in the same bucket, and the audit
compares it with the same stream; the archive itself is never touched.
"""

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.console import Console
from rich.table import Table

from demo.front_door import run_minutebook
from demo.readback import StoredSegment
from minutebook.errors import MinutebookError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_AUDIT_SECONDS = 300
_DEFECTS: Final = 3
_UNKNOWN: Final = 4
_LINES = 3
"""Lines that a segment needs before two in its middle can change places."""


class Tampered(NamedTuple):
    """One audit of a broken copy: what was done, the finding that must name it, what the audit said."""

    what: str
    expected: str
    exit_code: int
    found: frozenset[str]

    @property
    def is_named(self) -> bool:
        """Tell whether the audit refused the copy, under the right name."""
        if self.expected == "":
            return self.exit_code == _UNKNOWN
        return self.exit_code == _DEFECTS and self.expected in self.found


class _Copy:
    """One copy of the archive, and the segment in it that is tampered with."""

    def __init__(self, client: "S3Client", bucket: str, *, prefix: str, copy: str, victim: str) -> None:
        self._client = client
        self._bucket = bucket
        self._copy = copy
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for row in page.get("Contents", []):
                key = copy + row["Key"].removeprefix(prefix)
                client.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": row["Key"]})
        self.key = copy + victim.removeprefix(prefix)

    def delete(self) -> None:
        """Delete the segment."""
        self._client.delete_object(Bucket=self._bucket, Key=self.key)

    def double(self) -> None:
        """Store the segment a second time, in the folder of another shard."""
        minute, shard, name = self.key.rsplit("/", 2)
        other = f"{shard[:-1]}{(int(shard[-1]) + 1) % 10}"
        key, source = f"{minute}/{other}/{name}", f"{self._bucket}/{self.key}"
        self._client.copy_object(Bucket=self._bucket, Key=key, CopySource=source)

    def truncate(self) -> None:
        """Cut the body in its middle."""
        body, metadata = self._read()
        self._write(body[: len(body) // 2], metadata)

    def swap(self) -> None:
        """Let two lines change places."""
        body, metadata = self._read()
        lines = gzip.decompress(body).splitlines(keepends=True)
        middle = len(lines) // 2
        lines[middle - 1], lines[middle] = lines[middle], lines[middle - 1]
        self._write(gzip.compress(b"".join(lines)), metadata)

    def miscount(self) -> None:
        """Let the metadata count one record more than there is."""
        body, metadata = self._read()
        self._write(body, {**metadata, "records": str(int(metadata["records"]) + 1)})

    def leave(self) -> None:
        """Leave the copy as it is."""

    def _read(self) -> tuple[bytes, dict[str, str]]:
        stored = self._client.get_object(Bucket=self._bucket, Key=self.key)
        return stored["Body"].read(), stored["Metadata"]

    def _write(self, body: bytes, metadata: Mapping[str, str]) -> None:
        self._client.put_object(Bucket=self._bucket, Key=self.key, Body=body, Metadata=metadata)


class _Attack(NamedTuple):
    what: str
    expected: str
    act: Callable[[_Copy], None]
    overrides: Mapping[str, str] = {}


_ATTACKS: Final = (
    _Attack("a segment is deleted", "broken_chain", _Copy.delete),
    _Attack("a segment is stored again under another key", "identical_segment", _Copy.double),
    _Attack("a segment is cut in its middle", "unreadable_object", _Copy.truncate),
    _Attack("two lines change places", "out_of_order", _Copy.swap),
    _Attack("a segment's count is edited", "count_mismatch", _Copy.miscount),
    _Attack("the bucket cannot be read", "", _Copy.leave, {"MINUTEBOOK_BUCKET": "minutebook-demo-elsewhere"}),
)


def tamper(
    client: "S3Client",
    bucket: str,
    prefix: str,
    segments: list[StoredSegment],
    audit: Callable[[Mapping[str, str]], tuple[int, str]],
) -> list[Tampered]:
    """Break one copy after the other, and audit each.

    `audit` runs the command with these environment variables beside the settings; it returns the exit code and
    audit.json.

    Raises:
        MinutebookError: no segment is long enough to be tampered with.
    """
    victim = _victim(segments)
    done = []
    for number, attack in enumerate(_ATTACKS):
        place = f"tampered-{number}/"
        attack.act(_Copy(client, bucket, prefix=prefix, copy=place, victim=victim.key))
        code, text = audit({"MINUTEBOOK_PREFIX": place, **attack.overrides})
        done.append(Tampered(attack.what, attack.expected, code, _codes(text)))
    return done


def audit_command(
    properties: Path, options: list[str], environment: Mapping[str, str]
) -> Callable[[Mapping[str, str]], tuple[int, str]]:
    """Return what `tamper` audits with: `minutebook audit` with these options, in a process of its own."""

    def run(overrides: Mapping[str, str]) -> tuple[int, str]:
        words = ["audit", str(properties), *options, "--json"]
        done = run_minutebook(words, {**environment, **overrides}, _AUDIT_SECONDS)
        return done.returncode, done.stdout

    return run


def print_tampered(console: Console, results: list[Tampered]) -> None:
    """Print what was done to each copy, and how the audit called it."""
    table = Table(title="The same archive after tampering, audited again")
    for name in ("done to a copy", "exit", "findings"):
        table.add_column(name)
    for copy in results:
        colour = "green" if copy.is_named else "red"
        found = ", ".join(sorted(copy.found)) or ("could not prove" if copy.exit_code == _UNKNOWN else "")
        table.add_row(copy.what, f"[{colour}]{copy.exit_code}[/]", found)
    console.print(table)


def _victim(segments: list[StoredSegment]) -> StoredSegment:
    """Return a segment in the middle of its shard's chain: what is done to it has a neighbour on each side."""
    chains: dict[str, list[StoredSegment]] = {}
    for segment in sorted(segments, key=lambda segment: segment.metadata.first):
        chains.setdefault(segment.metadata.shard_id, []).append(segment)
    for _, chain in sorted(chains.items()):
        for segment in chain[1:-1]:
            if len(segment.records) >= _LINES:
                return segment
    raise MinutebookError("no shard has three segments; let the demo run longer")


def _codes(text: str) -> frozenset[str]:
    """Return the codes of all findings on a command's stdout: one audit.json after the other, one per day."""
    codes = set[str]()
    while text := text.lstrip():
        audit, end = json.JSONDecoder().raw_decode(text)
        codes.update(str(finding["code"]) for finding in audit["findings"])
        text = text[end:]
    return frozenset(codes)
