"""How long the property ring searches, and that it does so quietly.

`TESTS_SEARCH=deep` searches with fresh randomness and fifty times as long, `first` stops at the first history
that breaks a rule instead of looking for its simplest form; the default repeats the same histories everywhere.
"""

import logging
import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile(
    "ci",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=80,
    stateful_step_count=40,
    suppress_health_check=_SLOW,
)
settings.register_profile(
    "deep",
    database=None,
    deadline=None,
    max_examples=4000,
    stateful_step_count=80,
    suppress_health_check=_SLOW,
    print_blob=True,
)
settings.register_profile("first", parent=settings.get_profile("ci"), phases=[Phase.generate])
settings.load_profile(os.environ.get("TESTS_SEARCH", "ci"))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep the processors' log lines out of thousands of histories."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)
