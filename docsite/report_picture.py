"""Photograph a report for the home page: an example day with a time that nothing proves.

    python -m docsite.report_picture [docs/assets]

Needs Chromium on the path, and Pillow, which the packages of `dev` bring. Run it when the report's looks change.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PIL import Image

from compaction.report.page import render_page
from tests.fakes.day_results import at, day_result, trend, uncovered

WIDTH, HEIGHT = 1000, 1164
THEMES: Final = {"light": 1, "dark": 0}
"""Chromium's numbers of the colours that a reader prefers."""
_COLOURS: Final = 192
_SECONDS: Final = 60


def file_name(theme: str) -> str:
    """Return the name of the picture for pages of a theme."""
    return f"report-{theme}.png"


def example_page() -> str:
    """Return the report of an example day."""
    result = day_result(6, [uncovered(2, at(14), at(16, 30))], gaps=[(2, at(14), at(16, 30))])
    return render_page(result, trend(result), "5b0f6c1d92ae7734")


def photograph(browser: str, page: Path, theme: str, picture: Path) -> None:
    """Write what a browser shows of a page, in few colours."""
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(  # noqa: S603 - a browser on our own page
            [
                browser,
                *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                f"--user-data-dir={profile}",
                f"--blink-settings=preferredColorScheme={THEMES[theme]}",
                f"--window-size={WIDTH},{HEIGHT}",
                f"--screenshot={picture}",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=_SECONDS,
        )
    with Image.open(picture) as taken:
        taken.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(picture, optimize=True)


def main(arguments: Sequence[str]) -> None:
    """Write both pictures."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium on the path: apt-get install chromium")
    folder = Path(arguments[0] if arguments else "docs/assets")
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "report.html"
        page.write_text(example_page(), encoding="utf-8")
        for theme in THEMES:
            photograph(browser, page, theme, (folder / file_name(theme)).absolute())


if __name__ == "__main__":
    main(sys.argv[1:])
