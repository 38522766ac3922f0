"""The tail row: the end of a shard's chain in the dedupe table. It is only a hint.

    t:<stream>/<shard>   position S     the end of the chain's last segment
                         minute N       the minute of that segment, and
                         first S        its first position: with the shard they are its key
                         watermarks S   the producer watermarks there, unless they are too long

DynamoDB refuses items above 400 KB, names and values together ("Service quotas", DynamoDB Developer Guide): about 690
producers with 32 intervals each. The archive holds the state, too, so a row without it only says where; for the same
reason an unreadable row counts as absent.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from consumer.dedupe.watermarks import Watermarks
from minutebook.errors import FormatError
from minutebook.format.position import Position

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

LONGEST_STATE_BYTES: Final = 350_000
"""Longer watermarks are left out of the row."""


class ShardTail(NamedTuple):
    """The end of a shard's chain.

    `watermarks` are those at `position`; None if only the archive has them. `slot` is the minute and the first
    position of the segment that ends there; None in rows of older versions.
    """

    position: Position
    watermarks: Watermarks | None
    slot: tuple[int, Position] | None = None


def tail_item(shard: str, tail: ShardTail) -> "dict[str, AttributeValueTypeDef]":
    """Return the item. `shard` is `<stream>/<shardId>`."""
    item: dict[str, AttributeValueTypeDef] = {
        "id": {"S": f"t:{shard}"},
        "position": {"S": str(tail.position)},
    }
    if tail.slot is not None:
        minute, first = tail.slot
        item |= {"minute": {"N": str(minute)}, "first": {"S": str(first)}}
    text = "" if tail.watermarks is None else tail.watermarks.encode()
    if text and len(text) <= LONGEST_STATE_BYTES:
        item["watermarks"] = {"S": text}
    return item


def decode_tail(item: Mapping[str, Any]) -> ShardTail:
    """Read an item that `tail_item` wrote; raises FormatError for any other."""
    try:
        position = Position.parse(item["position"]["S"])
        state = Watermarks.decode(item["watermarks"]["S"]) if "watermarks" in item else None
        slot = (int(item["minute"]["N"]), Position.parse(item["first"]["S"])) if "first" in item else None
    except (KeyError, TypeError, ValueError) as exc:
        raise FormatError(f"the fields are not those of a tail row: {exc!r}") from exc
    return ShardTail(position, state, slot)
