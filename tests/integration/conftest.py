"""Fixtures of the integration ring."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.archive_site import Site

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws


@pytest.fixture
def site(embedded_aws: "EmbeddedAws", tmp_path: Path) -> Site:
    """Return a fresh bucket and stream with one shard."""
    return Site(embedded_aws, tmp_path)


@pytest.fixture
def unused_endpoint() -> Iterator[str]:
    """Return an address where connections are refused: bound, and nobody listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}"
