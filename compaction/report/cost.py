"""What a day costs by list prices: its requests to S3, and the bytes that stay there. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from compaction.verdict.audit_document import Audit
from minutebook.format.day import HOURS_A_DAY

LISTED_AT_ONCE: Final = 1_000
GIB: Final = 2**30


class Prices(NamedTuple):
    """US dollars. The same numbers stand in docs/how-to/cost.md."""

    per_1000_put_or_list: float = 0.005
    per_1000_get_or_head: float = 0.0004
    per_gb_month: float = 0.023


S3_STANDARD: Final = Prices()
"""S3 Standard in us-east-1, the first 50 TB; AWS counts a GB as 2**30 bytes."""


class CostLine(NamedTuple):
    """One row: what for, how many of which unit, and dollars: once, or for each month."""

    what: str
    number: str
    unit: str
    dollars: float
    is_monthly: bool = False


class DayCost(NamedTuple):
    """The rows of a day, and their sums."""

    lines: tuple[CostLine, ...]

    @property
    def once(self) -> float:
        """Dollars for the requests."""
        return sum(line.dollars for line in self.lines if not line.is_monthly)

    @property
    def monthly(self) -> float:
        """Dollars a month for what is stored."""
        return sum(line.dollars for line in self.lines if line.is_monthly)


def lists_of(objects: Sequence[int]) -> int:
    """Return how many LISTs read folders of so many objects: at least one each."""
    return sum(max(1, -(-number // LISTED_AT_ONCE)) for number in objects)


def cost_of(audit: Audit, parquet_bytes: int | None, prices: Prices = S3_STANDARD) -> DayCost:
    """Return what the day's segments and one judgement of it cost.

    `parquet_bytes`: those of the published files; None: not known. Not in it are the stream, checkpoints, read marks,
    and what was asked of neighbours and evidence.
    """
    objects = audit.scope.objects
    folders = [folder.objects for folder in audit.basis.folders] if audit.basis is not None else []
    lists = max(lists_of(folders), lists_of([0] * HOURS_A_DAY), -(-objects // LISTED_AT_ONCE))
    put, get = prices.per_1000_put_or_list / 1000, prices.per_1000_get_or_head / 1000
    how = "HEAD" if audit.level == "inventory" else "GET"
    lines = [
        CostLine("archive: a PUT for each segment", f"{objects:,}", "PUT", objects * put),
        CostLine("judge: list the day", f"{lists:,}", "LIST", lists * put),
        CostLine(
            "judge: names and metadata" if how == "HEAD" else "judge and compact: read each segment once",
            f"{objects:,}",
            how,
            objects * get,
        ),
        _stored("keep the raw segments", audit.scope.bytes, prices),
    ]
    if parquet_bytes is not None:
        lines.append(_stored("keep the published Parquet", parquet_bytes, prices))
    return DayCost(tuple(lines))


def _stored(what: str, size: int, prices: Prices) -> CostLine:
    return CostLine(what, readable_bytes(size), "stored", size / GIB * prices.per_gb_month, is_monthly=True)


def readable_bytes(size: int) -> str:
    """Return bytes in the largest unit that leaves a whole number before the point."""
    value, units = float(size), ("bytes", "KiB", "MiB", "GiB", "TiB")
    for unit in units[:-1]:
        if value < 1024:  # noqa: PLR2004 - the step between units
            return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} {units[-1]}"


def dollars(amount: float) -> str:
    """Return an amount with two digits that mean something, however small it is."""
    if amount == 0:
        return "$0"
    if amount < 0.000_1:  # noqa: PLR2004 - less than anybody is billed
        return "below $0.0001"
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.2g}" if amount < 0.01 else f"${amount:.3f}"  # noqa: PLR2004
