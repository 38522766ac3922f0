"""The table of changes: of one change of an archive, whether the night sees it, and whether a fresh audit would."""

import functools
from typing import Final, NamedTuple

from compaction.audit.audit import audit_day
from compaction.night.due import find_due
from compaction.verdict.audit_document import Audit, decode_audit
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS
from tests.fakes.clock import ManualClock
from tests.fakes.published_archive import expire_published_now
from tests.lives.changes import Archive, Change
from tests.lives.memory import MemoryDirectory
from tests.lives.night import Site
from tests.lives.store import Interruptions
from tests.lives.world import FIRST_DAY, HOUR, World

DAY: Final = FIRST_DAY.shift(2)
Told = tuple[str, tuple[tuple[object, ...], ...]]


class Outcome(NamedTuple):
    """What a change did: `why` the night looks at the day, and whether the verdict or a finding is another one.

    `again` is why the night after that looks at it once more, though it is clean.
    """

    is_applied: bool
    why: str
    differs: bool
    before: Told
    after: Told
    again: str = ""


NOTHING: Final = Outcome(False, "", False, ("none", ()), ("none", ()))
"""There is nothing of the kind to change."""


class Stage:
    """A sound archive of a few days at the night after one of them: a quiet shard, a busy one, a reshard, drops."""

    def __init__(self, *, until: int, event_id: str | None = None, expires: bool = False) -> None:
        self.event_id = event_id
        self.world = World(None, 11, begin_ms=FIRST_DAY.begin_ms, shards=3)
        self.world.drops = 0.3
        self.world.has_ids = event_id is not None
        self.world.readings["shardId-000000000001"].quiet_until = DAY.begin_ms
        for number in range(6):
            self.world.plan_day(FIRST_DAY.shift(number))
        self.world.at(DAY.begin_ms + 10 * HOUR, lambda: self._quiet("shardId-000000000001"))
        self.world.at(DAY.begin_ms + 13 * HOUR + 5 * MINUTE_MS, self._reshard)
        self.site = Site(None, self.world, event_id=event_id)
        for number in range(1, until + 1):
            self.world.live_until(FIRST_DAY.shift(number).begin_ms + 40 * MINUTE_MS)
            if number < until or expires:
                self.site.night(3)
        if expires:
            expire_published_now(
                self.world.store, self.site.out, self.site.place, self.world.clock, "1d", FIRST_DAY.begin_ms
            )

    def _quiet(self, name: str) -> None:
        self.world.readings[name].quiet_until = DAY.shift(1).begin_ms + 15 * HOUR

    def _reshard(self) -> None:
        if not self.world.reshard("shardId-000000000002"):
            self.world.at(self.world.clock.now_ms() + 7 * MINUTE_MS, self._reshard)

    @functools.cache  # noqa: B019 - a stage lives as long as its tests
    def told(self) -> Told:
        """Return what a fresh audit says of the day."""
        return told(audit_day(self.site.context(), DAY, self.site.options.audit).audit)

    def copy(self) -> "Copy":
        """Return the same again, to be changed."""
        return Copy(self)


class Copy:
    """A copy of a stage: a night runs on it, and something changes before, while or after it runs."""

    def __init__(self, stage: Stage) -> None:
        self.world = World.__new__(World)
        self.world.__dict__ |= stage.world.__dict__
        clock = ManualClock(stage.world.clock.now_ms())
        self.world.clock = clock
        raw, out = stage.world.store, stage.site.out
        assert isinstance(raw, MemoryDirectory) and isinstance(out, MemoryDirectory)  # noqa: PT018 - for types alone
        self.world.store = raw.copy(clock)
        self.site = Site(None, self.world, event_id=stage.event_id, out=out.copy(clock))
        self.archive = Archive(self.world.store)
        self._stage_told = stage.told

    def told(self) -> Told:
        """Return what a fresh audit says of the day."""
        return told(audit_day(self.site.context(), DAY, self.site.options.audit).audit)

    def published(self) -> Told | None:
        """Return what the pointer's audit says."""
        publisher = self.site.publisher(DAY)
        pointer = publisher.current().pointer
        body = None if pointer is None else publisher.audit(pointer)
        return None if body is None else told(decode_audit(body))

    def why(self) -> str:
        """Return why the night looks at the day; empty: it does not."""
        self.world.clock.advance(600)
        due = find_due(self.site.context(), self.site.place, self.site.options.audit, 6)
        each = due.by_day[DAY]
        return each.why or each.damage or "; ".join(each.zombies)

    def again(self) -> str:
        """Let a night run, and return why the next one looks at the day, though it is clean."""
        self.site.night(6)
        published = self.published()
        return self.why() if published is not None and published[0] == "clean" else ""

    def after(self, change: Change, day: Day) -> Outcome:
        """Change something behind the last night."""
        self.world.clock.advance(60)
        if not change(self.archive, day):
            return NOTHING
        before, after = self._stage_told(), self.told()
        why, differs = self.why(), before != after
        return Outcome(True, why, differs, before, after, self.again() if why and not differs else "")

    def before(self, change: Change, day: Day) -> Outcome:
        """Change something before the night runs."""
        if not change(self.archive, day):
            return NOTHING
        self.world.clock.advance(60)
        return self._night(None)

    def during(self, change: Change, day: Day, at: int) -> Outcome:
        """Change something at a request of the night."""
        applied: list[bool] = []

        def act() -> None:
            self.world.clock.advance(1)
            applied.append(change(self.archive, day))
            self.world.clock.advance(1)

        outcome = self._night(Interruptions({at: act}))
        return outcome if any(applied) else NOTHING

    def _night(self, between: Interruptions | None) -> Outcome:
        """Let a night publish the day; `why` is what the next one would say."""
        self.site.night(6, between)
        self.world.clock.advance(60)
        before, after = self.published() or ("none", ()), self.told()
        return Outcome(True, self.why(), before != after, before, after)


def told(audit: Audit) -> Told:
    """Return verdict and findings without warnings, which break no promise."""
    findings = (
        (about.code, about.severity, about.shard, about.minute, about.keys, about.count, about.begins, about.until)
        for about in audit.findings
        if about.severity != "warning"
    )
    return audit.verdict, tuple(sorted(findings, key=str))
