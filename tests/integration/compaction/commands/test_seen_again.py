"""The commands that findings print, run as they are printed: each shows its finding again."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from demo.embedded import EmbeddedAws
from minutebook.format.day import Day
from tests.corpus.chain_defects import forked_chain, missing_object, unproven_continuity
from tests.corpus.defects import break_shard
from tests.corpus.model import Corpus, Defect, Shape
from tests.corpus.object_defects import edited_minute
from tests.corpus.typed_day import typed_day
from tests.integration.shell import Shell, store_checkpoints
from tests.searching import only_deep

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

DAY = Day.parse("2026-11-20")
HARM: Sequence[Defect] = (
    missing_object,
    forked_chain,
    unproven_continuity,
    edited_minute,
)
COLUMNS = '[columns.carrier]\ntype = "string"\n[columns.time_hour]\ntype = "timestamp"\n'


@pytest.fixture
def shell(embedded_aws: EmbeddedAws, bucket: str, tmp_path: Path) -> Shell:
    """Return a shell with an empty bucket."""
    return Shell(embedded_aws, bucket, tmp_path)


def findings(shell: Shell, *words: str, path: str | None = None) -> list[dict[str, Any]]:
    """Run a command; return the findings of its report."""
    folder = shell.folder / f"report-{len(list(shell.folder.iterdir()))}"
    done = shell.run(*words, "--report", str(folder), path=path)
    assert done.returncode in {0, 3, 4}, done
    found: list[dict[str, Any]] = json.loads((folder / f"audit-{DAY}.json").read_text())["findings"]
    return found


def again(shell: Shell, reproduce: str, path: str | None = None) -> list[dict[str, Any]]:
    """Run a printed command line."""
    program, command, file, *options = shlex.split(reproduce)
    assert (program, file) == ("minutebook", str(shell.file))
    return findings(shell, command, *options, path=path)


def test_each_finding_of_an_audit_is_shown_again(
    shell: Shell, dynamodb_client: "DynamoDBClient", bucket: str
) -> None:
    """Of a broken archive until half an hour before midnight: the same finding, word by word, and its command."""
    corpus = Corpus(DAY, shape=Shape(shards=len(HARM) + 1))
    for number, defect in enumerate(HARM):
        break_shard(corpus, defect, number)
    shell.archive(corpus)
    store_checkpoints(dynamodb_client, bucket, corpus)
    options = (
        "--so-far",
        "2026-11-20T23:30Z",
        "--level",
        "inventory",
        "--published",
        f"s3://{bucket}/else where/",
        "--lookback",
        "3",
    )
    found = findings(shell, "audit", "--date", str(DAY), *options, path="/nonexistent")
    assert len({about["code"] for about in found}) >= 3
    shown = {command: again(shell, command, "/nonexistent") for command in {about["reproduce"] for about in found}}
    for about in found:
        assert about in shown[about["reproduce"]]


@only_deep("unit/compaction/audit/test_seen_again.py::test_each_defect_is_seen_again")
def test_each_finding_of_a_rewrite_is_shown_again(
    shell: Shell, dynamodb_client: "DynamoDBClient", bucket: str
) -> None:
    """Lines by an audit of their shard; payloads by another rewrite, although the day is published."""
    corpus, _ = typed_day(DAY, 180, 10)
    break_shard(corpus, unproven_continuity, 1)
    shell.archive(corpus)
    store_checkpoints(dynamodb_client, bucket, corpus)
    (shell.folder / "columns.toml").write_text(COLUMNS)
    options = ("--columns", "columns.toml", "--master", "local[1]")
    found = findings(shell, "compact", "--date", str(DAY), *options)
    assert {about["code"] for about in found} >= {"unproven_continuity", "unfit_payload"}
    shown = {command: again(shell, command) for command in {about["reproduce"] for about in found}}
    for about in found:
        same = [each for each in shown[about["reproduce"]] if each["code"] == about["code"]]
        assert {**about, "reproduce": ""} in [{**each, "reproduce": ""} for each in same]
