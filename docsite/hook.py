"""MkDocs' hook: adds the pages that are made from the code, and completes the navigation.

A new decision record, how-to or explanation gets into the navigation by itself; a page at the root of docs/ needs a
line in mkdocs.yml, or the strict build fails.
"""

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docsite.code_pages import commands_page, exit_codes_page, metrics_page, schema_page
from docsite.events_page import events_page
from docsite.settings_page import settings_page

CHECKOUT: Final = Path(__file__).resolve().parents[1]
_FOLDERS: Final = {"How-to": "how-to", "Explanation": "explanation", "Decisions": "decisions"}
_OF_THE_ROOT: Final = ("CHANGELOG", "CONTRIBUTING", "SECURITY")
_ROOT_LINK: Final = re.compile(rf"\]\(\.\./((?:\.\./)*)({'|'.join(_OF_THE_ROOT)})\.md")
_OUTSIDE: Final = re.compile(r"\[([^\]]+)\]\((?:\.\./)*((?:README|tests/README|LICENSE|deploy/)[^)]*)\)")


def pages() -> dict[str, str]:
    """Return the pages that are made from the code, by their path in the site."""
    return {
        "reference/settings.md": settings_page(),
        "reference/log-events.md": events_page(CHECKOUT),
        "reference/metrics.md": metrics_page(),
        "reference/exit-codes.md": exit_codes_page(),
        "reference/commands.md": commands_page(),
        "reference/audit-json.md": schema_page(CHECKOUT / "docs" / "audit.schema.json"),
        **{f"{name.lower()}.md": _of_the_root(name) for name in _OF_THE_ROOT},
    }


def _of_the_root(name: str) -> str:
    """Return a page that lies beside docs/, with its links relative to docs/."""
    text = (CHECKOUT / f"{name}.md").read_text(encoding="utf-8").replace("](docs/", "](")
    return re.sub(rf"\]\(({'|'.join(_OF_THE_ROOT)})\.md", lambda match: f"]({match[1].lower()}.md", text)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of the folders to the navigation."""
    nav: Any = config.nav
    for section in nav:
        ((title, items),) = section.items() if isinstance(section, dict) else (("", []),)
        if title in _FOLDERS:
            named = {target for item in items for target in (item.values() if isinstance(item, dict) else [item])}
            folder = _FOLDERS[title]
            pages_in_folder = sorted(f"{folder}/{path.name}" for path in (CHECKOUT / "docs" / folder).glob("*.md"))
            items.extend(page for page in pages_in_folder if page not in named)
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the code."""
    for place, text in pages().items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs' signature
    """Point links to files beside docs/ to their pages; replace other links out of docs/ by names."""
    markdown = _ROOT_LINK.sub(lambda match: f"]({match[1]}{match[2].lower()}.md", markdown)
    return _OUTSIDE.sub(r"\1 (`\2` in the repository)", markdown)
