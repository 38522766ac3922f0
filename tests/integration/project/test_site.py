"""The documentation's site: a strict build, read back from a folder and without a network, as by a reader."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest

from tests.witness.waiting import PATIENCE_SECONDS

CHECKOUT: Final = Path(__file__).resolve().parents[3]
_LOADED: Final = {"script": "src", "img": "src", "iframe": "src", "source": "src", "form": "action"}


class _Page(HTMLParser):
    """What one page loads, links to, and can be linked at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Sort an element's addresses."""
        values = {name: value for name, value in attrs if value}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "link" and values.get("rel") != "canonical":
            (self.links if values.get("rel") in {"prev", "next"} else self.loads).append(values["href"])
        if tag in _LOADED and _LOADED[tag] in values:
            self.loads.append(values[_LOADED[tag]])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, _Page]:
    """Build it as `make docs` does, and read its pages."""
    folder = tmp_path_factory.mktemp("site")
    words = ["build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", *words],
        cwd=CHECKOUT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return {path.resolve(): _Page(path.read_text()) for path in folder.glob("**/*.html")}


def test_each_page_of_docs_is_in_the_site(site: dict[Path, _Page]) -> None:
    """And the ones that are made from the code."""
    (home,) = (path for path in site if path.name == "index.html" and (path.parent / "search").is_dir())
    built = {path.relative_to(home.parent).with_suffix("").as_posix() for path in site}
    written = {
        path.relative_to(CHECKOUT / "docs").with_suffix("").as_posix().replace("model/README", "model/index")
        for path in (CHECKOUT / "docs").glob("**/*.md")
    }

    assert written - built == set()
    assert {"reference/settings", "reference/log-events", "reference/commands"} <= built


def test_lists_and_tables_are_lists_and_tables(site: dict[Path, _Page]) -> None:
    """A list that follows a line of text at once, or a table with too little before it, would stand there as text."""
    text = re.compile(r"<(p|li|td)>((?:(?!</\1>|<p>|<li>|<ul|<ol|<pre).)*)", re.DOTALL)
    lines = [
        (path.name, line)
        for path in site
        for match in text.finditer(path.read_text())
        for line in match[2].splitlines()[1:]
        if re.match(r"\s*(- |\* |\d+\. |\||```|#+ )", line)
    ]
    assert lines == []


def test_nothing_is_loaded_from_elsewhere(site: dict[Path, _Page]) -> None:
    """No font, no script, no picture: a reader without a network sees the same, and nobody learns what is read."""
    assert {address for page in site.values() for address in page.loads if urlsplit(address).netloc} == set()
    folder = min((path.parent for path in site), key=lambda path: len(path.parts))
    sheets = [path.read_text() for path in folder.glob("**/*.css")]
    assert sheets
    assert [found for text in sheets for found in re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", text)] == []


def test_each_link_leads_somewhere(site: dict[Path, _Page]) -> None:
    """To a file of the site, and to a heading of that page; nothing absolute but other people's addresses."""
    dead = []
    for path, page in site.items():
        for address in {*page.links, *page.loads}:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if path.name == "404.html" and parts.path.startswith("/"):
                continue
            if not target.is_file() or (
                parts.fragment and target in site and unquote(parts.fragment) not in site[target].anchors
            ):
                dead.append((path.name, address))
    assert dead == []
