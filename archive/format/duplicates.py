"""What `duplicate_of` says of a dropped record: the place of the record that was kept, or a producer's number.

Mode `claims` writes `<stream>/<shard>/<position>`: that record can be looked for. Mode `watermark` writes `producer
<key> number <n>`, which no position belongs to: whether that number was archived can be said by nobody who has only
the archive.
"""

import re
from typing import Final

from archive.format.position import Position

_PLACE: Final = re.compile(r"[^/]+/(?P<shard>[a-zA-Z0-9_.-]+)/(?P<position>[0-9]+:[0-9]+)", re.ASCII)


def original_of(duplicate_of: str) -> tuple[str, Position] | None:
    """Return shard and position of the record that was kept; None when a producer's number is all that is known.

    Raises:
        FormatError: a place whose position is none.
    """
    place = _PLACE.fullmatch(duplicate_of)
    return None if place is None else (place["shard"], Position.parse(place["position"]))
