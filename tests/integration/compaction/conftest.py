"""Fixtures of the nightly job's integration tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.embedded import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedAws
from minutebook.store.places import StorePrefix
from minutebook.store.storage import Address
from tests.integration.lake import REST_JARS, Lake, local_lake
from tests.integration.rest_catalog import rest_catalog


@pytest.fixture(scope="session")
def rest_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start the REST catalog, where it is asked for."""
    if REST_JARS is None:
        yield
        return
    with (
        rest_catalog(Path(REST_JARS), tmp_path_factory.mktemp("rest")) as address,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("ICEBERG_REST_URI", address)
        yield


@pytest.fixture
def lake(tmp_path: Path, rest_uri: None) -> Lake:  # noqa: ARG001 - used for its effect
    """Return an empty lake in a folder."""
    return local_lake(tmp_path)


@pytest.fixture
def s3_lake(embedded_aws: EmbeddedAws, bucket: str, tmp_path: Path) -> Lake:
    """Return an empty lake on the embedded S3; its catalog is a local file."""
    properties = {
        "uri": f"sqlite:///{tmp_path / 'catalog.sqlite'}",
        "warehouse": f"s3://{bucket}/warehouse",
        "s3.endpoint": embedded_aws.s3_endpoint,
        "s3.region": REGION,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.force-virtual-addressing": "false",
    }
    return Lake(StorePrefix(Address(bucket, "", REGION, embedded_aws.s3_endpoint), "tables/"), properties)
