"""Mutations of `minutebook restore` and `minutebook expire`."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_CHAIN_ENDS: Final = "consumer/archived/chain_ends.py"
_MARKERS: Final = "consumer/archived/shard_markers.py"
_RESTORE: Final = "consumer/restore/command.py"
_RESTORE_PLAN: Final = "consumer/restore/plan.py"
_EXPIRE: Final = "consumer/expire/command.py"
_EXPIRE_PLAN: Final = "consumer/expire/plan.py"
_APPLY: Final = "consumer/expire/apply.py"
_EXPIRE_COVERAGE: Final = "consumer/expire/coverage.py"
_SIDE_OBJECTS: Final = "consumer/expire/side_objects.py"

_FOUND: Final = "tests/simulation/found/test_found_by_operators.py"
_PLANS: Final = "tests/unit/consumer/restore/test_plan.py"
_REFUSALS: Final = "tests/unit/consumer/expire/test_refusals.py"
_EXPIRES: Final = "tests/unit/consumer/expire/test_command.py"
_EXPIRE_PROOF: Final = "tests/unit/consumer/expire/test_coverage.py"
_SIDE: Final = "tests/unit/consumer/expire/test_side_objects.py"
_CHAIN_ENDS_TESTS: Final = "tests/unit/consumer/archived/test_chain_ends.py"

OPERATORS: Final = (
    Mutation(
        "believe the verdict of a day that is expired",
        Change(_EXPIRE_COVERAGE, "if verdict.state is State.COVERED:", "if verdict:"),
        tests=(f"{_EXPIRE_PROOF}::test_a_day_of_which_a_batch_was_skipped_stays",),
    ),
    Mutation(
        "say nothing of how far an expired chain reached",
        Change(_APPLY, "until_ms=until_ms(ordered[end - 1])", "until_ms=0"),
        tests=(f"{_EXPIRES}::test_the_tombstone_names_the_chains_ends",),
    ),
    Mutation(
        "look for tombstones between the neighbours' days alone",
        Change(
            _CHAIN_ENDS, "for day in (days[0] - timedelta(days=1), days[1] + timedelta(days=1)))", "for day in days)"
        ),
        tests=(f"{_FOUND}::test_an_expired_segment_between_two_of_the_next_day_is_no_hole",),
    ),
    Mutation(
        "take a segment that names an older place for one behind a hole",
        Change(_CHAIN_ENDS, "after.after <= before.last)", "after.after == before.last)"),
        tests=(f"{_CHAIN_ENDS_TESTS}::test_a_segment_that_names_an_older_one_is_no_hole",),
    ),
    Mutation(
        "restore takes the newest minute for the tail",
        Change(_CHAIN_ENDS, "return segment.first", "return segment.minute, segment.first"),
        tests=(f"{_CHAIN_ENDS_TESTS}::test_the_tail_is_the_greatest_position_not_the_newest_minute",),
        mode="operations",
    ),
    Mutation(
        "restore while a worker lives",
        Change(_RESTORE, "check_nobody_lives(before, table.read())", "table.read()"),
        tests=(f"{_FOUND}::test_a_slow_first_look_does_not_shorten_the_second",),
        mode="operations",
    ),
    Mutation(
        "the wait begins before the first look",
        Change(_RESTORE, "    looked = clock.monotonic()\n", ""),
        Change(
            _RESTORE, "    before = table.read()\n", "    looked = clock.monotonic()\n    before = table.read()\n"
        ),
        tests=(f"{_FOUND}::test_a_slow_first_look_does_not_shorten_the_second",),
        mode="operations",
    ),
    Mutation(
        "the second look comes at once",
        Change(_RESTORE, "max(0.0, looked + parts.failover_seconds + _MARGIN_SECONDS - clock.monotonic())", "0.0"),
        tests=(f"{_FOUND}::test_a_slow_first_look_does_not_shorten_the_second",),
        mode="operations",
    ),
    Mutation(
        "restore beyond the tail",
        Change(
            _RESTORE_PLAN,
            "    return (\n        segment.last,\n",
            "    return (\n        Position(segment.last.sequence, segment.last.sub + 1),\n",
        ),
        tests=(f"{_PLANS}::test_a_shard_goes_on_after_its_tail",),
        mode="operations",
    ),
    Mutation(
        "restore at the first record of the last segment",
        Change(_RESTORE_PLAN, "    return (\n        segment.last,\n", "    return (\n        segment.first,\n"),
        mode="operations",
        tests=(f"{_PLANS}::test_a_shard_goes_on_after_its_tail",),
    ),
    Mutation(
        "restore at the sentinel",
        Change(_RESTORE_PLAN, "    if found is not None:\n        return _after_chain(facts, found)\n", ""),
        mode="operations",
        tests=(f"{_PLANS}::test_a_missing_segment_is_read_again",),
    ),
    Mutation(
        "restore ends every closed shard",
        Change(
            _RESTORE_PLAN,
            "if archived.end is not None and _reaches(archived, found, as_of=facts.as_of):",
            "if info.closed and (archived.end is None or _reaches(archived, found, as_of=facts.as_of)):",
        ),
        mode="operations",
        tests=(f"{_PLANS}::test_a_closed_shard_without_proof_is_read_on",),
    ),
    Mutation(
        "expire inside retention",
        Change(_EXPIRE, "if older_than_ms < retention_ms + MARGIN_MS:", "if older_than_ms < 0:"),
        tests=(f"{_EXPIRES}::test_what_the_stream_may_still_hold_is_refused",),
        mode="operations",
    ),
    Mutation(
        "expire the day that retention ends in",
        Change(_EXPIRE, "older_than_ms) // _DAY_MS - 1)", "older_than_ms) // _DAY_MS + 2)"),
        mode="operations",
        tests=(f"{_EXPIRES}::test_what_the_stream_may_still_hold_is_refused",),
    ),
    Mutation(
        "expire the last segment of a chain",
        Change(_EXPIRE_PLAN, "if found.first == greatest[found.shard_id]", "if found is None"),
        mode="operations",
        tests=(f"{_EXPIRES}::test_the_last_segment_of_a_chain_stays",),
    ),
    Mutation(
        "expire what is not published",
        Change(
            _EXPIRE_PLAN,
            '        return f"not published: run minutebook compact --date {day}"\n',
            "        return None\n",
        ),
        mode="operations",
        tests=(f"{_REFUSALS}::test_a_day_that_is_not_published_is_refused",),
    ),
    Mutation(
        "expire whatever the verdict",
        Change(_EXPIRE_PLAN, "if published.verdict != CLEAN:", "if not published.verdict:"),
        mode="operations",
        tests=(f"{_REFUSALS}::test_a_day_that_is_not_clean_is_refused",),
    ),
    Mutation(
        "expire what came after the verdict",
        Change(_EXPIRE_PLAN, "if fresh:", "if fresh and day is None:"),
        mode="operations",
        tests=(f"{_REFUSALS}::test_an_object_newer_than_the_verdict_is_refused",),
    ),
    Mutation(
        "expire without a tombstone",
        Change(_APPLY, "        if proof is not None:\n            self._put_tombstone(plan, proof)\n", ""),
        tests=(f"{_EXPIRES}::test_the_tombstone_names_the_chains_ends",),
        mode="operations",
    ),
    Mutation(
        "expire the watermarks of segments that stay",
        Change(_SIDE_OBJECTS, "if slot is not None and slot not in left and", "if slot is not None and"),
        tests=(f"{_SIDE}::test_watermarks_of_a_segment_that_stays_can_be_read",),
        mode="operations",
    ),
    Mutation(
        "expire dropped lines that name a producer's number",
        Change(_SIDE_OBJECTS, "(folder == WATERMARKS or self._names_positions(key))", "key"),
        tests=(f"{_SIDE}::test_lines_that_name_a_producers_number_stay",),
    ),
    Mutation(
        "expire beside days that are not expired",
        Change(
            _SIDE_OBJECTS,
            "tombstone_key(self.prefix, day)) is None:\n                return\n",
            "tombstone_key(self.prefix, day)) is None:\n                pass\n",
        ),
        tests=(f"{_SIDE}::test_nothing_goes_beside_a_day_without_tombstone",),
    ),
    Mutation(
        "restore looks for a chain as far back as the stream holds records today",
        Change(
            _MARKERS,
            "written.timestamp() * 1000) - LONGEST_RETENTION_MS, application.stream_created_ms]",
            "written.timestamp() * 1000) - _DAY_MS]",
        ),
        tests=(f"{_PLANS}::test_a_tail_is_found_whatever_the_retention_is_now",),
    ),
    Mutation(
        "an adopted checkpoint lies behind the application's start",
        Change(_MARKERS, " and self.start.chain_start().adopted is None:", ":"),
        tests=(f"{_PLANS}::test_the_search_ends_where_the_application_or_the_stream_began",),
    ),
)
