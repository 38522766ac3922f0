"""Records of a shard as they come, page by page: from the polled stream, or by enhanced fan-out."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from compaction.stream.pace import Pace

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_kinesis.type_defs import RecordTypeDef

T = TypeVar("T")

_EMPTY_AT_TIP: Final = 3


class Asking(Protocol):
    """Sends a request until it is answered; `what` names it in errors."""

    def __call__(self, request: Callable[[], T], what: str) -> T:
        """Do it; raises StreamRefused, StreamUnavailable."""
        ...


class Page(NamedTuple):
    """Records in their shard's order, and how far behind the shard's tip (ms) the place is at which they end.

    The service gave them between two times of its own, epoch ms: `since_ms` and `until_ms`; None: it named none.
    """

    records: Sequence["RecordTypeDef"]
    behind_ms: int
    since_ms: int | None
    until_ms: int | None


class Reading(NamedTuple):
    """A shard that is being read: the service's time from before the first record was given, and what comes."""

    asked_ms: int | None
    pages: Generator[Page]


def up_to_the_tip(pages: Iterator[Page]) -> Iterator[Page]:
    """Yield pages until the shard's end, or until its tip has given nothing three times."""
    empty_at_tip = 0
    for page in pages:
        yield page
        at_tip = not page.records and page.behind_ms == 0
        empty_at_tip = empty_at_tip + 1 if at_tip else 0
        if empty_at_tip == _EMPTY_AT_TIP:
            return


def polled(client: "KinesisClient", shard_id: str, first: str, ask: Asking, pace: Pace) -> Generator[Page]:
    """Yield what GetRecords answers from an iterator on, until the shard's end."""
    iterator: str | None = first
    while iterator:
        pace.wait()
        answer = ask(
            lambda iterator=iterator: client.get_records(ShardIterator=iterator, Limit=pace.page_records),  # type: ignore[misc]
            f"GetRecords of {shard_id}",
        )
        pace.note(len(answer["Records"]), sum(len(record["Data"]) for record in answer["Records"]))
        at_ms = date_ms(answer)
        yield Page(answer["Records"], answer["MillisBehindLatest"], at_ms, at_ms)
        iterator = answer.get("NextShardIterator")


def date_ms(answer: Mapping[str, Any]) -> int | None:
    """Return the Date of an answer; None where it has none that can be read."""
    text = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
    try:
        return int(parsedate_to_datetime(text).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None
