"""Iceberg's reference REST catalog as a process, with a SQLite file of its own behind it (`make catalogs`)."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pyspark

from demo.child import Child
from demo.embedded import free_ports, status
from minutebook.clock import SystemClock

_CLASS = "org.apache.iceberg.rest.RESTCatalogServer"


@contextlib.contextmanager
def rest_catalog(jars: Path, folder: Path) -> Iterator[str]:
    """Start the server on the jars of requirements/iceberg-rest/pom.xml; yields its address."""
    (port,) = free_ports(1)
    server = catalog_server(jars, folder, port)
    try:
        server.wait_until(lambda: is_serving(port), seconds=60)
        yield address(port)
    finally:
        server.kill()


def catalog_server(jars: Path, folder: Path, port: int) -> Child:
    """Start the server at a port, not waiting for it; it has what an earlier one in the folder had acknowledged."""
    hadoop = sorted((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar"))
    return Child(
        "the REST catalog",
        ["java", "-cp", ":".join(map(str, [jars / "*", *hadoop])), _CLASS],
        log=folder / "rest.log",
        clock=SystemClock(),
        environment={
            **{name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ},
            "CATALOG_REST_PORT": str(port),
            "CATALOG_WAREHOUSE": str(folder),
            "CATALOG_URI": f"jdbc:sqlite:{folder / 'rest.sqlite'}",
        },
    )


def address(port: int) -> str:
    """Return the address of the server at a port."""
    return f"http://127.0.0.1:{port}"


def is_serving(port: int) -> bool:
    """Tell whether it answers."""
    return status(address(port), "GET", "/v1/config") == 200
