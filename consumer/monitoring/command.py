"""`minutebook health`: whether the task of this worker, on this host or in this container, does its work."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from consumer.monitoring.health_file import health_path, read_verdict
from consumer.settings.settings import load_with_kcl
from consumer.worker.state_folder import default_state_folder, file_name
from consumer.worker.worker_id import stable_worker_id
from minutebook.clock import SystemClock

UNHEALTHY: Final = 7


def run_health(path: Path | None, environ: Mapping[str, str], state_folder: Path | None) -> int:
    """Print one line; return 0 when all is well, 7 when it is not, or when there is no task.

    It asks no service: a container may be checked every few seconds.

    Raises:
        SettingsError: the settings are wrong, so it cannot be known whose health is asked for.
    """
    loaded = load_with_kcl(path, environ)
    worker_id = loaded.kcl.get("workerId") or stable_worker_id(environ)
    state = (state_folder or default_state_folder()) / file_name(loaded.settings.application_name)
    verdict = read_verdict(health_path(state, file_name(worker_id)), SystemClock().monotonic())
    sys.stdout.write(f"{verdict.sentence}\n")
    return 0 if verdict.is_healthy else UNHEALTHY
