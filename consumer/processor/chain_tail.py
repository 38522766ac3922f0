"""The end of a shard's chain, as one processor knows it."""

from dataclasses import dataclass

from minutebook.format.metadata import ChainStart, Continuity, Predecessor
from minutebook.format.position import Position


@dataclass
class ChainTail:
    """What the next segment follows, and the continuity that it has to carry."""

    tail: Predecessor
    continuity: Continuity

    @property
    def archived_through(self) -> Position | None:
        """The last archived (or adopted) position; None while the shard has none."""
        return self.tail.adopted if isinstance(self.tail, ChainStart) else self.tail

    @property
    def is_unbroken(self) -> bool:
        """Tell whether nothing may have been trimmed between the tail and what comes next."""
        return self.continuity is Continuity.PROVEN

    def holds(self, position: Position) -> bool:
        """Tell whether a position lies in the archived part."""
        through = self.archived_through
        return through is not None and position <= through

    def doubt(self, continuity: Continuity) -> None:
        """Take a doubt over; a proof elsewhere takes none away."""
        if continuity is not Continuity.PROVEN:
            self.continuity = continuity
