"""Keep the simulation's counting loggers to itself."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Put structlog back as it was."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
