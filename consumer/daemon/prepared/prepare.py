"""`minutebook prepare`: let the daemon load its classes once, with those of a fleet's daemon, and archive them.

The daemon reads its properties, creates its clients and begins to set up its leases at a port of this host that
refuses connections. Then it is stopped, and writes the class archive as it ends. No service is used.
"""

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from consumer.daemon.prepared.classes import FLEET_CLASSES, LOADED_AHEAD, MAIN_CLASS, make_jar, prepared_folder
from consumer.daemon.prepared.jvm_flags import jvm_flags
from consumer.preflight.java import find_jars, find_java
from consumer.settings import shipped
from minutebook.class_archive import Making, filled
from minutebook.clock import Clock
from minutebook.errors import MinutebookError

_REFUSED: Final = b"Caught exception when initializing LeaseCoordinator"
"""KCL's log at the first refused connection (observed with 3.1.3)."""
_START_SECONDS: Final = 90
_DUMP_SECONDS: Final = 120
_POLL_SECONDS: Final = 0.2
_PROPERTIES: Final = """\
executableName = true
streamName = prepare
applicationName = prepare
workerId = prepare
processingLanguage = python
AwsCredentialsProvider = DefaultCredentialsProvider
initialPositionInStream = TRIM_HORIZON
regionName = us-east-1
metricsLevel = NONE
kinesisEndpoint = {endpoint}
dynamoDBEndpoint = {endpoint}
cloudWatchEndpoint = {endpoint}
"""
_CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "prepare", "AWS_SECRET_ACCESS_KEY": "prepare"}


def prepare_daemon(environ: Mapping[str, str], clock: Clock) -> Path:
    """Create the class archive of the daemon for this installation; return its path.

    Raises SettingsError without Java or KCL's jars, MinutebookError if the folder cannot be written or the daemon did
    not reach its leases.
    """
    java, jars = find_java(environ).program, find_jars()
    folder = prepared_folder(java, jars)
    with filled(folder):
        jar = make_jar(folder)
    making = Making(folder)
    with tempfile.TemporaryDirectory() as scratch, socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))  # bound but not listening: no other process can answer at this port
        properties = Path(scratch, "prepare.properties")
        properties.write_text(_PROPERTIES.format(endpoint=f"http://127.0.0.1:{refusing.getsockname()[1]}"))
        command = [
            *(str(java), *jvm_flags(environ), *making.options),
            *("-cp", os.pathsep.join(map(str, [*jars, jar])), LOADED_AHEAD, ",".join([*FLEET_CLASSES, MAIN_CLASS])),
            *("--properties-file", str(properties), "--log-configuration", str(shipped.logback())),
        ]
        _run_until_refused(command, {**environ, **_CREDENTIALS}, Path(scratch, "log"), clock)
    return making.keep(java)


def _run_until_refused(command: list[str], environ: Mapping[str, str], log: Path, clock: Clock) -> None:
    with log.open("wb") as output:
        daemon = subprocess.Popen(command, env=dict(environ), stdout=output, stderr=output, start_new_session=True)  # noqa: S603 - our own command line
    try:
        deadline = clock.monotonic() + _START_SECONDS
        while _REFUSED not in log.read_bytes():
            if daemon.poll() is not None or clock.monotonic() > deadline:
                raise MinutebookError(f"the daemon does not start: {_last_words(log)}", next_step="minutebook doctor")
            clock.sleep(_POLL_SECONDS)
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(_DUMP_SECONDS)
    except subprocess.TimeoutExpired:
        raise MinutebookError(f"the daemon does not end: {_last_words(log)}", next_step="run it again") from None
    finally:
        daemon.kill()
        daemon.wait()


def _last_words(log: Path) -> str:
    return " / ".join(log.read_text(errors="replace").splitlines()[-3:])[-600:]
