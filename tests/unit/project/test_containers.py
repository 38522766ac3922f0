"""The container files, as far as they can be checked without an engine."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from ruamel.yaml import YAML

from consumer.monitoring.health import HealthVerdict
from consumer.settings.settings import load_settings
from demo.embedded import free_ports
from minutebook.metrics_server import serve_metrics
from tests.witness.waiting import PATIENCE_SECONDS

CHECKOUT = Path(__file__).resolve().parents[3]
COMPOSE = CHECKOUT / "docker-compose.yml"
CHECKER = Path(sys.executable).with_name("check-jsonschema")


def test_the_compose_file_fits_the_compose_schema() -> None:
    """Validated against the schema that the Compose project publishes."""
    done = subprocess.run(
        [CHECKER, "--builtin-schema", "vendor.compose-spec", COMPOSE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ports_are_published_on_loopback_only() -> None:
    """A laptop in a café serves nothing to its neighbours."""
    ports = [port for service in _compose()["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_servers_are_the_versions_that_the_tests_run() -> None:
    """The images' tags are the versions of the locks."""
    services = _compose()["services"]
    ministack = re.search(r"^ministack==(\S+)", (CHECKOUT / "requirements/ministack.lock").read_text(), re.MULTILINE)
    kinesis = re.search(
        r'"kinesis-local": "(\S+)"', (CHECKOUT / "requirements/kinesis-local/package.json").read_text()
    )
    assert ministack is not None
    assert kinesis is not None
    assert services["aws"]["image"].endswith(f":{ministack[1]}")
    assert services["kinesis"]["image"].endswith(f":{kinesis[1]}")


def test_the_consumer_accepts_the_properties_of_the_compose_file() -> None:
    """No name in it is unknown, none is missing. A file is mounted; a text would be copied, onto a read-only root."""
    config = _compose()["configs"]["properties"]
    assert config.keys() == {"file"}
    settings = load_settings(CHECKOUT / config["file"], {})
    assert (settings.stream_name, settings.bucket, settings.prefix) == ("flights", "minutebook-demo", "flights/")


def test_the_image_copies_what_exists_and_is_not_ignored() -> None:
    """Each source of a COPY is in the checkout and let through by .dockerignore."""
    sources = re.findall(r"^COPY (?!--from)(.+) \S+$", (CHECKOUT / "Dockerfile").read_text(), re.MULTILINE)
    allowed = (CHECKOUT / ".dockerignore").read_text().splitlines()
    for source in " ".join(sources).split():
        assert (CHECKOUT / source).exists(), source
        pattern = "!requirements/*.lock" if source.startswith("requirements/") else f"!{source}"
        assert pattern in allowed, source


def test_the_containers_do_not_run_as_root() -> None:
    """Both images stand on the one stage that changes the user, and nothing changes it back."""
    text = (CHECKOUT / "Dockerfile").read_text()
    assert re.findall(r"^USER (\S+)", text, re.MULTILINE) == ["minutebook"]
    assert re.findall(r"^FROM runtime AS (\S+)", text, re.MULTILINE) == ["nightly", "consumer"]


def test_every_service_of_ours_has_a_root_that_is_read_only() -> None:
    """With /tmp to write to, no capability, and no way to get one."""
    ours = {name: service for name, service in _compose()["services"].items() if "build" in service}
    assert set(ours) == {"provision", "consumer", "nightly", "follow"}
    for service in ours.values():
        assert service["read_only"]
        assert [mount.partition(":")[0] for mount in service["tmpfs"]] == ["/tmp"]  # noqa: S108 - in the container
        assert service["cap_drop"] == ["ALL"]


def test_nobody_waits_for_a_server_that_is_not_asked_how_it_is() -> None:
    """Each server has a health check, and whoever needs it waits for that."""
    services = _compose()["services"]
    needed = [(name, how) for service in services.values() for name, how in service.get("depends_on", {}).items()]
    assert {name for name, _ in needed} == {"kinesis", "aws", "provision"}
    for name, how in needed:
        ends = name == "provision"
        assert how == {"condition": "service_completed_successfully" if ends else "service_healthy"}
        assert ("test" in services[name]["healthcheck"]) != ends


def test_all_that_is_imported_is_compiled_into_the_image() -> None:
    """Ours after the last installation of each image, and Python's own library, which the official image lacks."""
    stages = dict(
        re.findall(
            r"^FROM \S+ AS (\S+)\n(.*?)(?=^FROM |\Z)", (CHECKOUT / "Dockerfile").read_text(), re.MULTILINE | re.DOTALL
        )
    )
    last = {name: re.findall(r"^RUN (.+?)$", text, re.MULTILINE)[-1:] for name, text in stages.items()}
    ours = "python -m compileall -q --invalidation-mode unchecked-hash /opt/minutebook/lib \\"

    assert last["build-consumer"] == last["build-nightly"] == [ours]
    assert all("&& minutebook prepare\n" in stages[name] for name in ("build-consumer", "build-nightly"))
    assert last["base"][0].endswith(" /usr/local/lib/python3.12")
    assert re.findall(r"COPY --from=(\S+) /opt/minutebook ", stages["nightly"]) == ["build-nightly"]
    assert re.findall(r"COPY --from=(\S+) /opt/minutebook ", stages["consumer"]) == ["build-consumer"]


def test_the_health_check_asks_the_supervisor() -> None:
    """It passes while the supervisor's server says that all is well, and not when nobody answers."""
    joined = (CHECKOUT / "Dockerfile").read_text().replace("\\\n", "")
    found = re.search(r"^HEALTHCHECK .* CMD (\[.+\])$", joined, re.MULTILINE)
    port = free_ports(1)[0]
    assert found is not None
    assert re.search(r"^ENV MINUTEBOOK_METRICS_PORT=\d+$", joined, re.MULTILINE)

    def check() -> int:
        words = [sys.executable, *json.loads(found[1])[1:]]
        environment = {"MINUTEBOOK_METRICS_PORT": str(port), "http_proxy": "http://127.0.0.1:1"}
        return subprocess.run(
            words, env=environment, capture_output=True, check=False, timeout=PATIENCE_SECONDS
        ).returncode

    before = check()
    healthy, registry = True, CollectorRegistry()
    _, stop = serve_metrics("127.0.0.1", port, registry, lambda: HealthVerdict(healthy, "told"))
    well = check()
    healthy = False
    ill = check()
    stop()
    assert (before, well, ill, check()) == (1, 0, 1, 1)


def test_the_nightly_job_asks_for_what_is_due() -> None:
    """Without being told, for whatever is due; so does the image."""
    command = _compose()["services"]["nightly"]["command"]
    assert command[-2:] == ["--due", "14d"]
    assert '"--due", "14d"]' in (CHECKOUT / "Dockerfile").read_text()


def _compose() -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe").load(COMPOSE.read_text())
    return loaded
