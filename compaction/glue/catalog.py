"""Which table `--glue` means, and how it is opened."""

import re
from collections.abc import Callable
from typing import Final

from archive.aws import make_glue_client
from archive.errors import SettingsError
from archive.retry import Backoff
from archive.store.places import StorePrefix
from compaction.glue.register import GlueTable, TableName

_TABLE: Final = re.compile(r"[a-z0-9_-]{1,255}\.[a-z0-9_-]{1,255}", re.ASCII)


def parse_table(text: str) -> TableName:
    """Read `database.table`, in small letters as Glue and Athena keep names; raises SettingsError."""
    if _TABLE.fullmatch(text) is None:
        raise SettingsError(
            f"{text!r} is not a table of the catalog", next_step="write database.table in small letters: events.raw"
        )
    return TableName(*text.split("."))


def check_output(out: StorePrefix) -> None:
    """Raise SettingsError where the output is a folder: the catalog's engines read S3."""
    if out.address.bucket is None:
        raise SettingsError(
            f"the catalog cannot name {out.address.root}", next_step="publish to S3: --out s3://bucket/folder"
        )


def open_table(text: str, out: StorePrefix, new_backoff: Callable[[], Backoff]) -> GlueTable:
    """Return the table; it is made with the first day. Nothing is asked yet. Raises SettingsError."""
    table = parse_table(text)
    check_output(out)
    return GlueTable(make_glue_client(out.address.region, out.address.access), table, new_backoff)
