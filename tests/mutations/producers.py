"""Mutations of producer deduplication in the consumer, and of `restore` and `expire`."""

from typing import Final

from tests.mutations.mutation import Mutation

_DEDUPE: Final = "tests/unit/consumer/processor/test_dedupe.py"
_WATERMARKS: Final = "tests/unit/consumer/dedupe/test_watermarks.py"
_EXPIRE: Final = "tests/unit/consumer/expire/test_command.py"
_RESTORE: Final = "tests/unit/consumer/restore/test_plan.py"
_FOUND: Final = "tests/simulation/test_found_by_producers.py"
_OPERATORS: Final = "tests/simulation/test_found_by_operators.py"

PRODUCERS: Final = (
    Mutation(
        "a claim is owned by a process",
        "consumer/dedupe/deduplicator.py",
        'positions = [f"{self._place}/{record.position}" for record in records]',
        'positions = [f"{self._place}/{record.position}/{id(self)}" for record in records]',
        (f"{_DEDUPE}::test_a_crash_between_judgement_and_commit_changes_nothing",),
    ),
    Mutation(
        "a claim is as old as the processor's retention",
        "consumer/processor/processor.py",
        "lambda: retention.retention_ms, self._claim_each",
        "lambda: start.identity.retention_ms, self._claim_each",
        (f"{_FOUND}::test_a_claim_lives_as_long_as_a_raised_retention_needs",),
    ),
    Mutation(
        "watermarks are not loaded after a restart",
        "consumer/processor/dedupe_start.py",
        "state = self._at(shard_id, tail) if isinstance(tail, Position) else self._inherited(shard_id)",
        "state = Watermarks() if isinstance(tail, Position) else self._inherited(shard_id)",
        (f"{_DEDUPE}::test_watermarks_are_found_in_the_archive_when_the_table_is_lost",),
    ),
    Mutation(
        "watermarks are taken from any tail row",
        "consumer/processor/dedupe_start.py",
        "if row is not None and row.position == position:",
        "if row is not None:",
        (f"{_DEDUPE}::test_a_tail_row_of_another_position_is_not_believed",),
    ),
    Mutation(
        "watermarks without gaps",
        "consumer/dedupe/watermarks.py",
        "        if ordered:\n",
        "        if ordered or intervals:\n",
        (f"{_WATERMARKS}::test_a_number_below_the_watermark_that_was_never_seen_is_new",),
    ),
    Mutation(
        "a merged shard closes its parents' gaps",
        "consumer/dedupe/watermarks.py",
        "if merged and low <= merged[-1][1] + 1:",
        "if merged:",
        (f"{_WATERMARKS}::test_a_merged_shard_has_seen_what_both_parents_saw",),
    ),
    Mutation(
        "the loser of a slot judges nothing again",
        "consumer/processor/archiver.py",
        "            self._write(rest, stretch)\n",
        "            rest.extend(stretch)\n",
        (f"{_DEDUPE}::test_the_loser_of_a_slot_judges_the_rest_again",),
    ),
    Mutation(
        "children inherit from their parents alone",
        "consumer/processor/dedupe_start.py",
        "state.merge(self._inherited(parent) if last is None else self._at(parent, last))",
        "state.merge(Watermarks() if last is None else self._at(parent, last))",
        (f"{_FOUND}::test_a_child_inherits_through_a_parent_that_ended_empty",),
    ),
    Mutation(
        "restore while a worker lives",
        "consumer/restore/command.py",
        "        check_nobody_lives(before, table.read())\n",
        "        table.read()\n",
        (f"{_OPERATORS}::test_a_slow_first_look_does_not_shorten_the_second",),
    ),
    Mutation(
        "the wait for signs of life begins before the first look",
        "consumer/restore/command.py",
        "    looked = clock.monotonic()\n",
        "    looked = clock.monotonic() - 60\n",
        (f"{_OPERATORS}::test_a_slow_first_look_does_not_shorten_the_second",),
    ),
    Mutation(
        "restore beyond the tail",
        "consumer/restore/plan.py",
        "    return (\n        segment.last,\n",
        "    return (\n        Position(segment.last.sequence, segment.last.sub + 1),\n",
        (f"{_RESTORE}::test_a_shard_goes_on_after_its_tail",),
    ),
    Mutation(
        "expire inside retention",
        "consumer/expire/command.py",
        "    if older_than_ms < retention_ms + MARGIN_MS:\n",
        "    if older_than_ms < 0:\n",
        (f"{_EXPIRE}::test_what_the_stream_may_still_hold_is_refused",),
    ),
    Mutation(
        "expire without a tombstone",
        "consumer/expire/apply.py",
        "        if plan.tombstone is None:\n            self._put_tombstone(plan)\n",
        "",
        (f"{_EXPIRE}::test_the_tombstone_names_the_chains_ends",),
    ),
    Mutation(
        "look for tombstones between the neighbours' days alone",
        "consumer/archived/chain_ends.py",
        "for day in (days[0] - timedelta(days=1), days[1] + timedelta(days=1)))",
        "for day in days)",
        (f"{_OPERATORS}::test_an_expired_segment_between_two_of_the_next_day_is_no_hole",),
    ),
)
