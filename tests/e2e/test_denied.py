"""A DynamoDB permission that KCL needs and the task's role lacks: a named error and exit 2, never a silent wait."""

from typing import TYPE_CHECKING

import pytest

from tests.e2e.harness import Application
from tests.fakes.denying_dynamodb import deny
from tests.searching import only_deep

if TYPE_CHECKING:
    from pathlib import Path

    from demo.embedded import EmbeddedAws

_TWO_LIVES_SECONDS = 400
_RECORDED = "integration/consumer/test_supervisor.py::test_a_permission_that_is_missing_ends_it_with_2"
"""With what KCL said without CreateTable, from a record."""


@pytest.mark.parametrize("action", [pytest.param("CreateTable", marks=only_deep(_RECORDED)), "UpdateItem"])
def test_it_ends_with_2(embedded_aws: "EmbeddedAws", tmp_path: "Path", action: str) -> None:
    """Without CreateTable KCL ends itself with 0; without UpdateItem it runs for ever and takes no lease."""
    app = Application(embedded_aws, tmp_path)
    if action != "CreateTable":
        app.seed_leases({})
    with deny(embedded_aws.dynamodb_endpoint, action) as dynamodb, app.consume(dynamodb=dynamodb) as worker:
        gave_up = worker.events.wait("gave_up", seconds=_TWO_LIVES_SECONDS)
        assert worker.wait() == 2

    assert f"not authorized to perform: dynamodb:{action} on" in gave_up["error"]
    assert "minutebook docs operations permissions" in gave_up["next_step"]
    assert all("nothing" not in event["next_step"] for event in worker.events.all("daemon_restarting"))
