"""Fixtures of the end-to-end ring."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder: it starts real daemons, and the first one of a story plays all of it."""
    for item in items:
        if "e2e" in item.path.parent.parts:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(900))
