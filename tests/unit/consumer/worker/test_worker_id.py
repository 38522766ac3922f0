"""The stable worker id."""

import socket

from consumer.worker.worker_id import ECS_METADATA, stable_worker_id

TASK = "158d1c8083dd49d6b527399fd6414f5c"
URI = f"http://127.0.0.1:1/v4/{TASK}-4205190000"


def test_outside_ecs_the_host_name() -> None:
    """A host that comes back resumes its own leases."""
    assert stable_worker_id({}) == socket.gethostname()


def test_inside_ecs_the_task_id() -> None:
    """The task's id is the last part of its ARN."""
    asked = []

    def fetch(url: str) -> str:
        asked.append(url)
        return f'{{"TaskARN": "arn:aws:ecs:us-west-2:111122223333:task/default/{TASK}"}}'

    assert stable_worker_id({ECS_METADATA: URI}, fetch) == TASK
    assert asked == [URI + "/task"]


def test_without_an_answer_the_task_id_from_the_path() -> None:
    """The metadata endpoint may be slow at a task's start; its path names the task."""

    def fetch(url: str) -> str:
        raise TimeoutError(url)

    assert stable_worker_id({ECS_METADATA: URI}, fetch) == TASK


def test_an_answer_that_is_no_json() -> None:
    """A proxy's page is not a task."""
    assert stable_worker_id({ECS_METADATA: URI}, lambda _: "<html>") == TASK
