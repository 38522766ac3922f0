"""Run our supervisor, with short waits, on `daemon_program.py`: `python supervise.py FOLDER BEHAVIOUR...`."""

import os
import sys
from pathlib import Path

import structlog

from archive.clock import SystemClock
from archive.logs import configure_logging
from consumer.daemon.restart_policy import RestartLimits
from consumer.daemon.supervisor import DaemonPlan, Supervisor

PROGRAM = Path(__file__).with_name("daemon_program.py")


def main(arguments: list[str]) -> int:
    """Return the supervisor's exit code."""
    configure_logging("info")
    plan = DaemonPlan(
        command=[sys.executable, str(PROGRAM), *arguments],
        environment={**os.environ, "MINUTEBOOK_PROPERTIES": "x.properties"},
        before_start=[lambda: structlog.get_logger().info("before_start")],
        grace_seconds=float(os.environ.get("TEST_GRACE_SECONDS", "30")),
    )
    limits = RestartLimits(first_wait_seconds=float(os.environ.get("TEST_WAIT_SECONDS", "0.01")), crashes_in_a_row=3)
    return Supervisor(plan, SystemClock(), limits=limits).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
