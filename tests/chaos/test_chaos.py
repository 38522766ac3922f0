"""The short form of a chaos run, played once; each test states one thing that must be true of it.

The long form is `make chaos MINUTES=10 SEED=1`. In `make test` each kind of fault has a test of its own on the real
daemon: kills in `e2e/test_crashes.py`, a zombie in `e2e/test_zombie.py`, splits and merges in
`e2e/test_clean_life.py`, S3 that does not answer in `e2e/test_hanging_put.py`. Lost answers meet the processor in
`integration/consumer/test_processor_outage.py`.
"""

import pytest

from tests.chaos.report import Findings, table
from tests.chaos.run import Run
from tests.chaos.schedule import Kind
from tests.searching import only_deep

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    only_deep("e2e/test_crashes.py::test_every_record_is_archived_once"),
]

_SEED = 54
_SECONDS = 50
"""Of faults; start and drain come on top."""


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory, aws_environment: None) -> Findings:  # noqa: ARG001 - for Java
    """Play it; the table is printed for whoever looks at a failure."""
    folder = tmp_path_factory.mktemp("chaos")
    (found,) = Run(folder, seed=_SEED, seconds=_SECONDS, rate=15, is_loud=False).play()
    print(table(found), f"\n{folder}")  # noqa: T201 - shown by pytest when a test fails
    return found


def test_nothing_is_lost(findings: Findings) -> None:
    """Every record that Kinesis acknowledged is archived."""
    assert findings.verdict.lost == []


def test_nothing_is_archived_twice(findings: Findings) -> None:
    """Nor is anything archived that was never sent."""
    assert (findings.verdict.duplicated, findings.verdict.unknown) == ([], [])


def test_every_byte_is_right(findings: Findings) -> None:
    """Payload and partition key."""
    assert findings.verdict.altered == []


def test_every_chain_is_whole(findings: Findings) -> None:
    """From its start, without a break, reported or not: nothing was trimmed in this run."""
    assert findings.verdict.broken == []


def test_every_checkpoint_stood_at_a_segments_end(findings: Findings) -> None:
    """Also those that were seen in the midst of it."""
    assert findings.wrong_checkpoints == []


def test_what_boundaries_said_was_true_at_that_time(findings: Findings) -> None:
    """Whoever was killed, frozen or cut off, and whatever was split: one came each minute, in order."""
    assert findings.false_boundaries == []
    assert findings.boundaries


def test_nobody_refused_to_go_on(findings: Findings) -> None:
    """No fault of these is a reason to call a person."""
    assert findings.refusals == []


def test_the_workers_stop_in_order(findings: Findings) -> None:
    """After all that they have been through, SIGTERM ends them with 0."""
    assert set(findings.stop_codes) == {0}, [
        event for event in findings.events if event["event"] in {"processor_failed", "daemon_ended", "gave_up"}
    ]


def test_the_run_was_no_stroll(findings: Findings) -> None:
    """Processes were killed, shards cut, and connections failed on both sides of the server."""
    kinds = {strike.kind for strike in findings.strikes}
    assert kinds & {Kind.KILL_PROCESSOR, Kind.KILL_DAEMON, Kind.KILL_SUPERVISOR}
    assert kinds & {Kind.SPLIT, Kind.MERGE}
    assert all(sum(injected.values()) >= 5 for injected in findings.injected.values())
