"""A REST catalog that accepts a request and never answers: the step ends, and says so."""

import socket
from pathlib import Path

import pytest
from pyiceberg import catalog
from pyiceberg.utils.config import Config

from compaction.tables import timed_rest
from compaction.tables.catalog import opened_followed
from minutebook.errors import CatalogUnavailable
from minutebook.store.places import StorePrefix
from minutebook.store.storage import Address


@pytest.mark.parametrize("settings", [{"TYPE": "rest"}, {}], ids=["named", "inferred"])
def test_a_catalog_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    """From its very first request on, that of its configuration: pyiceberg would wait for ever."""
    monkeypatch.setattr(timed_rest, "ANSWER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for name, value in {**settings, "URI": f"http://127.0.0.1:{silent.getsockname()[1]}"}.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name}", value)
        monkeypatch.setattr(catalog, "_ENV_CONFIG", Config())  # read when it was imported
        place = StorePrefix(Address(None, str(tmp_path)), "")
        with pytest.raises(CatalogUnavailable, match="Read timed out"), opened_followed("events.raw", "lake", place):
            pass
