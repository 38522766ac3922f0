"""How errors about names and files are worded."""

import difflib
from collections.abc import Iterable

from archive.errors import SettingsError


def suggestion(name: str, known: Iterable[str], prefix: str) -> str:
    """Return how a message about an unknown name ends; `prefix` is one that people leave out."""
    by_fold: dict[str, str] = {}
    for candidate in known:
        by_fold[candidate.lower()] = candidate
        if candidate.startswith(prefix):
            by_fold[candidate.lower().removeprefix(prefix)] = candidate
    close = difflib.get_close_matches(name.lower(), list(by_fold), n=1, cutoff=0.75)
    return f": did you mean {by_fold[close[0]]}?" if close else ": remove it"


def settings_error(path: str, errors: list[str]) -> SettingsError:
    """Return one error for all that is wrong with a file."""
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    return SettingsError(
        "\n  - ".join([f"{path}: {count} in the settings", *errors]),
        next_step="correct the lines named; `minutebook init` prints a file that explains every name",
    )
