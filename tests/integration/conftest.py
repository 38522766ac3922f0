"""Fixtures of the integration ring."""

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
