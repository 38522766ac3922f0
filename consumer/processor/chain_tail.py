"""The end of a shard's chain, as one processor knows it."""

from dataclasses import dataclass

from minutebook.format.metadata import ChainStart, Continuity, Predecessor
from minutebook.format.position import Position


@dataclass
class ChainTail:
    """What the next segment follows, and the continuity that it must record."""

    tail: Predecessor
    continuity: Continuity

    @property
    def archived_through(self) -> Position | None:
        """The last archived (or adopted) position; None if the shard has none."""
        return self.tail.adopted if isinstance(self.tail, ChainStart) else self.tail

    @property
    def is_unbroken(self) -> bool:
        """Return whether nothing can have been trimmed between the tail and the next record."""
        return self.continuity is Continuity.PROVEN

    def holds(self, position: Position) -> bool:
        """Return whether a position lies in the archived part."""
        through = self.archived_through
        return through is not None and position <= through

    def doubt(self, continuity: Continuity) -> None:
        """Take over a doubt; PROVEN changes nothing."""
        if continuity is not Continuity.PROVEN:
            self.continuity = continuity
