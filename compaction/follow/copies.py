"""Refuse outputs whose nights leave producer duplicates out: which rows are copies is known when the day is over."""

from typing import Final

from minutebook.errors import FormatError, SettingsError
from minutebook.format.day import day_of_ms
from minutebook.published.generation import DayFolder, Manifest
from minutebook.published.reading import PublishedReader
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage

_LOOK_BACK_DAYS: Final = 3


def check_keeps_all(out: RetryingStorage, output: StorePrefix, now_ms: int) -> None:
    """Raise CopiesLeftOut if a night has left copies out of a recent day: follow would show them until then."""
    for days in range(_LOOK_BACK_DAYS):
        check_day_keeps_all(PublishedReader(out, DayFolder(output.prefix, day_of_ms(now_ms).shift(-days))))


def check_day_keeps_all(reader: PublishedReader) -> Manifest | None:
    """Return what is published of a day; raise CopiesLeftOut if copies were left out of it."""
    try:
        _, manifest = reader.published()
    except FormatError:  # a night tells it, and publishes the day anew
        return None
    if manifest is not None and manifest.removed:
        raise leaves_out(f"{reader.folder.day} was published without {manifest.removed:,} producer duplicates")
    return manifest


class CopiesLeftOut(SettingsError):  # noqa: N818 - it says what happened, as all errors do
    """Nights of the output leave producer duplicates out. It ends a service, too."""


def leaves_out(what: str) -> CopiesLeftOut:
    """Return the refusal of what leaves copies out."""
    return CopiesLeftOut(
        f"{what}: which rows are copies, a night knows alone, and the table would show them until then",
        next_step="follow into a table, with an output (--out), that no compact --drop-producer-duplicates has",
    )
