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
    address = f"http://127.0.0.1:{port}"
    hadoop = sorted((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar"))
    server = Child(
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
    try:
        server.wait_until(lambda: status(address, "GET", "/v1/config") == 200, seconds=60)
        yield address
    finally:
        server.kill()
