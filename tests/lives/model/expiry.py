"""`minutebook expire` in steps; what may go is decided by `consumer.expire`'s own rules."""

from typing import Final

from consumer.expire.apply import tombstone_of
from consumer.expire.command import SEEN_AFTER_DAYS
from consumer.expire.coverage import DayProof
from consumer.expire.plan import greatest_firsts, plan_expiry
from consumer.expire.published_day import JudgedGeneration
from minutebook.format.day import Day, day_of_ms
from minutebook.format.position import Position
from tests.corpus.model import PREFIX
from tests.fakes.stream import DAY_MS
from tests.lives.model.judgement import judge
from tests.lives.model.night import Site, Steps

LEAST_DAYS: Final = 2


def expire(site: Site, age_days: int) -> Steps[list[Day]]:
    """Delete the segments of days that are old enough, published and clean, newest first; return the days."""
    archive, done = site.archive, []
    newest = day_of_ms(site.now_ms - age_days * DAY_MS).shift(-1)
    later: dict[str, Position] = {}
    for number in range(1, SEEN_AFTER_DAYS + 1):
        later = _firsts(site, newest.shift(number), later)
    for number in range(newest.number, day_of_ms(site.world.begin_ms).number - 1, -1):
        day = Day(number)
        yield
        tombstone = archive.tombstones.get(day)
        listed = [entry.row.listed for entry in archive.listed(day, None)]
        stone = None if tombstone is None else tombstone[1]
        plan = plan_expiry(day.date, PREFIX, listed, _published(site, day), stone, later)
        later = _firsts(site, day, later)
        if plan.refusal or not plan.deletions:
            continue
        if stone is None:
            proof = yield from _prove(site, day)
            if proof.refusal:
                continue
            yield
            archive.put_tombstone(day, tombstone_of(plan, proof, writer=site.new_id(), now_ms=site.now_ms))
        deletions = plan.deletions
        for keys in (deletions[: len(deletions) // 2], deletions[len(deletions) // 2 :]):
            yield
            site.world.expire(key for key in keys if archive.get(key) is not None)
        done.append(day)
    return done


def _firsts(site: Site, day: Day, later: dict[str, Position]) -> dict[str, Position]:
    rows = (entry.row.parsed for entry in site.archive.by_day[day.number].values())
    return greatest_firsts([parsed for parsed in rows if parsed is not None], later)


def _published(site: Site, day: Day) -> JudgedGeneration | None:
    out = site.outputs.of(day)
    pointer, manifest = out.pointer, out.manifest
    if pointer is None or manifest is None:
        return None
    inventory = {row[0]: (row[1], row[2]) for row in out.inventories[pointer.manifest]}
    missing = out.damage(manifest, 0) or None
    return JudgedGeneration(pointer.generation, pointer.verdict, pointer.rules, pointer.until, inventory, missing)


def _prove(site: Site, day: Day) -> Steps[DayProof]:
    view = yield from site.view(day)
    facts = {entry.key: entry.facts for entry in view.entries}
    judged = judge(site.archive, view, [entry.row for entry in view.entries], facts)
    segments: dict[str, list[object]] = {}
    for entry in view.entries:
        if entry.metadata is not None:
            segments.setdefault(entry.metadata.shard_id, []).append(entry.metadata)
    return DayProof(segments, judged.judged, day)  # type: ignore[arg-type]  # metadata
