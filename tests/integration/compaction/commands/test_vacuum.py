"""Vacuum on a real store: what its policy must allow, and uploads that nobody finished."""

import json
from pathlib import Path

import pytest

from compaction.commands.vacuum.command import PublishedOutput, run_vacuum, vacuum_output
from compaction.job.request import VacuumRequest
from demo.embedded import EmbeddedAws
from minutebook.clock import SystemClock, new_random
from minutebook.retry import Backoff
from minutebook.store.places import open_storage
from minutebook.store.retrying import RetryingStorage
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import PREFIX
from tests.fakes.stream import DAY_MS
from tests.integration.asking import check
from tests.integration.shell import Shell
from tests.witness.policies import Names, Request
from tests.witness.requests import hearing

_CLOCK = SystemClock()
_ROOT = f"{PREFIX}_parquet/"


def test_a_day_is_cleared_with_the_rights_of_the_policy(
    embedded_aws: EmbeddedAws, bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A day that was published twice, and an upload that nobody finished: a month later both are gone."""
    desk = Desk(Shell(embedded_aws, bucket, tmp_path).address, application=bucket)
    desk.out = desk.out._replace(prefix=_ROOT)
    desk.compact()
    desk.archive_more()
    desk.compact()
    waits = Backoff(_CLOCK, new_random(), budget_seconds=10)
    sink = desk.storage.open_write(f"{_ROOT}dt={DAY}/_gen-1/part-1.parquet", "x/y", lambda: waits)
    sink.write(bytes(6 << 20))
    sink.write(bytes(6 << 20))  # waits for the piece before
    capsys.readouterr()
    with hearing(Names(bucket=bucket, prefix=PREFIX)) as heard:
        assert run_vacuum(VacuumRequest(str(tmp_path / "my.properties"), dry_run=True, as_json=True), {}) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["objects"], told["applied"]) == (0, False), "all is young"
        storage = RetryingStorage(open_storage(desk.archive), lambda: waits)
        output = PublishedOutput(storage, PREFIX, storage, _ROOT)
        said = vacuum_output(output, _CLOCK.now_ms() + 30 * DAY_MS, 7 * DAY_MS, apply=False)
        assert len(desk.storage.open_uploads(_ROOT)) == 1
        done = vacuum_output(output, _CLOCK.now_ms() + 30 * DAY_MS, 7 * DAY_MS, apply=True)
    sink.abort()
    assert (said.days, done.uploads, done.exit_code) == (done.days, 1, 0)
    assert done.objects >= 4
    assert desk.storage.open_uploads(_ROOT) == []
    assert len(desk.published_rows()) == desk.corpus.records
    # A moment that no test on a real server meets: see tests/unit/compaction/commands/vacuum.
    audit = f"arn:aws:s3:::{bucket}/{_ROOT}dt={DAY}/_manifest/g-e.audit.json"
    check(
        "vacuum",
        heard,
        beside=[Request("s3:PutObject", audit, {"s3:if-none-match": "*", "s3:ObjectCreationOperation": "true"})],
    )
