"""A worker id that stays the same over restarts of the daemon, so that KCL resumes its own leases at once.

With KCL's default, a random id, the leases of the dead worker must expire first, which takes minutes. A stable id is
safe only while one daemon per id lives: `consumer.worker.state_folder` locks it on one host, and an ECS task id names
one task.
"""

import http.client
import json
import socket
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

ECS_METADATA: Final = "ECS_CONTAINER_METADATA_URI_V4"
_ANSWER_SECONDS: Final = 2

Fetch = Callable[[str], str]


def stable_worker_id(environ: Mapping[str, str], fetch: Fetch | None = None) -> str:
    """Return the ECS task's id inside ECS, else the host's name.

    `fetch` GETs a URL and returns its body. When the metadata endpoint fails, the id is taken from its path, which
    starts with the task id.
    """
    uri = environ.get(ECS_METADATA)
    if not uri:
        return socket.gethostname()
    try:
        task = json.loads((fetch or _http_get)(uri.rstrip("/") + "/task"))
        return str(task["TaskARN"]).rsplit("/", 1)[-1]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return urlsplit(uri).path.rsplit("/", 1)[-1].split("-", 1)[0] or socket.gethostname()


def _http_get(url: str) -> str:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise OSError(f"{url} answered {answer.status}")
        return answer.read().decode()
    finally:
        connection.close()
