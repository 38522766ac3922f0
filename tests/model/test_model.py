"""The model of the commit protocol, checked by spin: see docs/model/README.md."""

from typing import Final

import pytest

from docs.model import run as model
from tests.searching import IS_DEEP

_RECORDS: Final = 3 if IS_DEEP else 2
"""`make model` always searches three, and breaks what takes three to be noticed."""


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    """Fail where spin or a compiler is missing: an unchecked model must not look like a checked one."""
    if sentence := model.missing_tool():
        pytest.fail(f"{sentence}; or leave this ring out: --ignore tests/model", pytrace=False)


@pytest.mark.timeout(1200)
def test_the_protocol_keeps_its_promises_in_every_history() -> None:
    """Two minutes, two writers: the whole space is searched. Three records take half a minute of one core's time."""
    assert model.check(model.VARIANTS[0]._replace(records=_RECORDS)).violated is None


@pytest.mark.parametrize(
    "variant",
    [variant for variant in model.VARIANTS if variant.expected and variant.records <= _RECORDS],
    ids=lambda variant: str(variant.name).lower(),
)
def test_a_broken_protocol_is_caught(variant: model.Variant) -> None:
    """Each rule that is taken away, and each assumption that is dropped, has a history that breaks a promise."""
    result = model.check(variant)
    assert result.violated == variant.expected
    assert result.history
