"""The page on waiting for an hour: an emulator of EventBridge and Step Functions runs its rule and state machine."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import boto3
import pytest

from demo.bootstrap import ensure_ministack
from demo.child import Child
from demo.embedded import ACCESS_KEY, LOOPBACK, REGION, SECRET_KEY, free_ports, status
from minutebook.clock import SystemClock
from minutebook.format.boundaries import marker_key, success_key
from tests.unit.project.test_docs_text import CHECKOUT, blocks
from tests.witness.waiting import wait_until

_PATTERN, _MACHINE = blocks(CHECKOUT / "docs" / "how-to" / "wait-for-an-hour.md", "json")
_BUCKET, _PREFIX = "minutes", "flights/"
_HOUR_MS: Final = 1_795_255_200_000  # 2026-11-21T10:00Z
_ROLE: Final = "arn:aws:iam::000000000000:role/any"
_ON_AWS: Final = "StepFunctions.ExecutionAlreadyExistsException"
_HERE: Final = "ExecutionAlreadyExists"
"""The emulator's name of that error."""


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    """Return the address of S3, EventBridge and Step Functions."""
    (port,) = free_ports(1)
    settings = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "STATE_DIR": str(tmp_path / "state"),
        "GATEWAY_PORT": str(port),
        "BIND_HOST": LOOPBACK,
        "SERVICES": "s3,events,states",
        "LOG_LEVEL": "WARNING",
        "MINISTACK_REGION": REGION,
    }
    child = Child(
        "events", [str(ensure_ministack())], log=tmp_path / "events.log", clock=SystemClock(), environment=settings
    )
    address = f"http://{LOOPBACK}:{port}"
    try:
        child.wait_until(lambda: status(address, "GET", "/_ministack/health") == 200, seconds=60)
        yield address
    finally:
        child.stop(grace_seconds=3)


def test_each_hour_starts_one_execution_however_often_it_is_told(endpoint: str) -> None:
    """S3 tells EventBridge of each object; markers start nothing."""

    def client(service: str) -> Any:  # noqa: ANN401 - boto3's types are generated
        keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
        return boto3.client(service, endpoint_url=endpoint, region_name=REGION, **keys)  # type: ignore[call-overload]

    s3, events, states = client("s3"), client("events"), client("stepfunctions")
    load = {"StartAt": "Load", "States": {"Load": {"Type": "Pass", "End": True}}}
    loading = _machine(states, "load-hour", json.dumps(load))
    definition = json.loads(_MACHINE)
    definition["States"]["Start"]["Parameters"]["StateMachineArn"] = loading
    (catch,) = definition["States"]["Start"]["Catch"]
    assert catch["ErrorEquals"] == [_ON_AWS]
    catch["ErrorEquals"] = [_HERE]
    starting = _machine(states, "start-hour", json.dumps(definition))
    s3.create_bucket(Bucket=_BUCKET)
    s3.put_bucket_notification_configuration(
        Bucket=_BUCKET, NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    events.put_rule(Name="complete-hour", EventPattern=_PATTERN)
    events.put_targets(Rule="complete-hour", Targets=[{"Id": "start", "Arn": starting, "RoleArn": _ROLE}])
    hour = success_key(_PREFIX, _HOUR_MS)
    for key in (marker_key(_PREFIX, _HOUR_MS), hour, hour, success_key(_PREFIX, _HOUR_MS + 3_600_000)):
        s3.put_object(Bucket=_BUCKET, Key=key, Body=b"{}")

    def ended() -> list[dict[str, Any]]:
        executions: list[dict[str, Any]] = states.list_executions(stateMachineArn=starting)["executions"]
        return [execution for execution in executions if execution["status"] != "RUNNING"]

    wait_until(lambda: len(ended()) == 3, "one execution for each object that ends an hour")
    assert {execution["status"] for execution in ended()} == {"SUCCEEDED"}
    started = states.list_executions(stateMachineArn=loading)["executions"]
    inputs = [json.loads(states.describe_execution(executionArn=one["executionArn"])["input"]) for one in started]
    assert sorted(given["hour"] for given in inputs) == ["2026-11-21T10", "2026-11-21T11"]


def _machine(states: Any, name: str, definition: str) -> str:  # noqa: ANN401 - boto3's types are generated
    arn: str = states.create_state_machine(name=name, roleArn=_ROLE, definition=definition)["stateMachineArn"]
    return arn
