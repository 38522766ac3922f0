"""What readers of published days need of an audit; `compaction.verdict.audit_document` has all of it."""

from collections.abc import Mapping

import msgspec

from minutebook.errors import FormatError, SettingsError
from minutebook.format.minute import parse_iso_time
from minutebook.published.verdict import Verdict


class _Equation(msgspec.Struct, frozen=True):
    compacted: int | None


class _File(msgspec.Struct, frozen=True):
    key: str
    etag: str
    digest: str = ""


class _Basis(msgspec.Struct, frozen=True):
    judged_from: str | None = None
    clean_inventory: str = ""
    files: tuple[_File, ...] = ()


class _Scope(msgspec.Struct, frozen=True):
    stream: str = ""


class Judgement(msgspec.Struct, frozen=True):
    """A verdict, when and over how many rows it was given, and of which stream. Other fields are ignored."""

    verdict: Verdict
    equation: _Equation
    audited_at: str = ""
    basis: _Basis | None = None
    scope: _Scope = _Scope()

    @property
    def rows(self) -> int | None:
        """The rows of the Parquet files that were judged; None: no file was."""
        return self.equation.compacted

    @property
    def clean_inventory(self) -> str:
        """The key of the inventory that a day which is not clean was last published clean with; empty: none."""
        return "" if self.basis is None else self.basis.clean_inventory

    @property
    def files(self) -> Mapping[str, tuple[str, str]]:
        """The ETag and the SHA-256 (empty: not known) of the generation's files when they were published, by key."""
        files = () if self.basis is None else self.basis.files
        return {file.key: (file.etag, file.digest) for file in files}

    @property
    def judged_from(self) -> str | None:
        """The time before the first listing, in ISO 8601; in audits of earlier versions, when the audit ended."""
        judged_from = None if self.basis is None else self.basis.judged_from
        return judged_from or self.audited_at or None


def decode_judgement(body: bytes, key: str, next_step: str) -> Judgement:
    """Parse an audit's body; raises FormatError that names `key`."""
    try:
        judgement = msgspec.json.decode(body, type=Judgement)
        if judgement.judged_from is not None:
            parse_iso_time(judgement.judged_from)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, SettingsError) as exc:
        raise FormatError(f"{key} does not parse: {exc}", next_step=next_step) from exc
    return judgement
