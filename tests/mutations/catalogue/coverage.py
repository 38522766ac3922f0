"""Mutations of coverage as it is read and judged: what is looked for, and what a verdict rests on."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_SEARCH: Final = "archive/proof/search.py"
_GATHERED: Final = "archive/proof/gathered.py"
_READING: Final = "archive/proof/reading.py"
_COVERAGE: Final = "compaction/audit/coverage.py"
_AUDIT: Final = "compaction/audit/audit.py"
_AGAIN: Final = "compaction/audit/again.py"
_REWRITE: Final = "compaction/rewrite.py"
_RECHECK: Final = "compaction/recheck.py"
_GROWING: Final = "tests/unit/compaction/audit/test_growing.py"
_STREAM_MARKS: Final = "compaction/comparison/marks.py"

_READS: Final = "tests/unit/archive/proof/test_reading.py"
_FINDS: Final = "tests/unit/compaction/audit/test_coverage.py"
_JUDGES_AGAIN: Final = "tests/unit/compaction/publish/test_again.py"
_STATED: Final = "archive/proof/stated.py"
_TOPOLOGY: Final = "archive/coverage/topology.py"
_FRONTIER: Final = "archive/coverage/frontier.py"
_CIRCLES: Final = "tests/unit/archive/coverage/test_circles.py"
_STATEMENTS: Final = "tests/unit/archive/proof/test_statements.py"
_COMPARISON: Final = "compaction/comparison/records.py"
_LAGGING: Final = "tests/unit/compaction/comparison/test_lagging.py"
_STREAM: Final = "tests/unit/compaction/comparison/test_marks.py"

_CHAIN: Final = "archive/coverage/chain.py"
_BESIDE: Final = "tests/unit/archive/proof/test_beside.py"
_CHAINS: Final = "tests/unit/archive/coverage/test_chain.py"
_CONDENSED: Final = "archive/coverage/condensed.py"
_TAKEN_TOGETHER: Final = "tests/unit/archive/coverage/test_condensed.py"
_BUCKETS: Final = "tests/unit/compaction/audit/test_buckets.py"

COVERAGE: Final = (
    Mutation(
        "let chance say which segment of a slot counts that is held twice",
        Change("archive/coverage/evidence.py", "sorted(chain, key=_place) if has_doubles else chain", "chain"),
        tests=(f"{_CHAINS}::test_of_a_slot_that_is_held_twice_the_one_counts_that_claims_more",),
    ),
    Mutation(
        "take together what evidence stands on",
        Change(_CONDENSED, "            and not _is_named(named, chain[number - 1].last, link.last)\n", ""),
        tests=(f"{_TAKEN_TOGETHER}::test_what_is_taken_together_proves_the_same",),
    ),
    Mutation(
        "take together what a segment claims",
        Change(_CONDENSED, "        and link.claim is None\n", ""),
        tests=(f"{_TAKEN_TOGETHER}::test_what_is_taken_together_proves_the_same",),
    ),
    Mutation(
        "judge a bucket of objects that nobody listed",
        Change("compaction/shards/look.py", "        check_mark(self.rows, bucket.mark)\n", ""),
        tests=(f"{_BUCKETS}::test_a_bucket_that_was_listed_again_is_not_judged",),
    ),
    Mutation(
        "look for copies in each bucket alone",
        Change(
            "compaction/shards/strangers.py",
            "repeated = frozenset[bytes]().union(*found.values())",
            "repeated = frozenset[bytes]() if found else frozenset[bytes]()",
        ),
        tests=(f"{_BUCKETS}::test_buckets_of_one_shard_judge_as_one_bucket_does",),
    ),
    Mutation(
        "leave a segment under another shard's key to that shard",
        Change("compaction/shards/strangers.py", "strays[home].append((row, outcome))", "strays[home] = []"),
        tests=(f"{_BUCKETS}::test_buckets_of_one_shard_judge_as_one_bucket_does",),
    ),
    Mutation(
        "take an original in another bucket for one that nobody knows",
        Change("compaction/audit/passes.py", "            known |= found\n", "            known |= {}\n"),
        tests=(f"{_BUCKETS}::test_an_original_in_another_bucket_is_found",),
    ),
    Mutation(
        "stop the search where stamps step back behind it",
        Change(_SEARCH, "self._add(stood_on(self._names, chosen, self._known.ends))", "self._known.ends"),
        tests=(f"{_BESIDE}::test_what_the_first_segment_behind_an_outage_stands_on_may_carry_the_next_day",),
    ),
    Mutation(
        "look for what a mark stands on only if it proves something",
        Change(_SEARCH, "Interval(piece.from_ms, piece.until_ms).overlaps", "piece.interval.overlaps"),
        tests=(f"{_BESIDE}::test_a_mark_at_a_stale_checkpoint_finds_the_segment_that_was_read_again_from_before_it",),
    ),
    Mutation(
        "take what a stale mark names for the chain's beginning",
        Change(_SEARCH, "near = self._first_near(shard_id)", "near = self._known.heads.get(shard_id)"),
        tests=(f"{_BESIDE}::test_a_stale_mark_names_a_segment_far_before_those_beside_midnight",),
    ),
    Mutation(
        "look for one of the segments that marks name",
        Change(
            _SEARCH,
            "inside = (link.first for link in self._segments(shard_id) if link.begins_ms > self._scope.from_ms)",
            "inside = (link.first for link in self._segments(shard_id))",
        ),
        tests=(f"{_BESIDE}::test_each_segment_that_a_mark_names_is_looked_for",),
    ),
    Mutation(
        "call a segment missing that nobody looked far enough for",
        Change(_CHAIN, "position in self._view.unseen or bool", "bool"),
        tests=(f"{_CHAINS}::test_what_nobody_looked_far_enough_for_is_not_missing",),
    ),
    Mutation(
        "call a start behind a stale checkpoint broken, although a mark told of it",
        Change(
            _CHAIN,
            "return Node(link, link.from_ms, max(link.until_ms, link.from_ms), link.from_ms, before.torn_ms)",
            "return None",
        ),
        tests=(f"{_CHAINS}::test_a_start_behind_a_stale_checkpoint_goes_on_from_a_mark",),
    ),
    Mutation(
        "excuse a start that passed a segment over by a mark from before it",
        Change(_CHAIN, "link.from_ms < before.until_ms:", "link.from_ms < 0:"),
        tests=(f"{_CHAINS}::test_no_mark_from_before_a_segment_excuses_a_start_that_passed_it_over",),
    ),
    Mutation(
        "take a mark inside a segment for one whose segment is gone",
        Change(_CHAIN, "elif not chain.holds(piece.position):", "elif piece.position:"),
        tests=(f"{_CHAINS}::test_a_mark_inside_a_segment_proves_nothing_and_breaks_nothing",),
    ),
    Mutation(
        "believe a mark inside a segment",
        Change(_CHAIN, "    elif piece.continuity is Continuity.PROVEN:\n", "    elif piece.continuity is None:\n"),
        tests=(f"{_CHAINS}::test_a_mark_inside_a_segment_proves_nothing_and_breaks_nothing",),
    ),
    Mutation(
        "do not follow the marks of a quiet shard",
        Change(_SEARCH, "                self._follow(shard_id, position)\n", "                self._follow\n"),
        tests=(f"{_READS}::test_a_shard_that_was_quiet_for_weeks_is_found_by_its_marks",),
    ),
    Mutation(
        "believe the first look at a broken chain",
        Change(
            _READING, "if Reason.BROKEN_CHAIN not in judged.verdict.reasons or facts == before:", "if before is None:"
        ),
        tests=(f"{_READS}::test_a_missing_segment_is_looked_for_again_before_it_is_missing",),
    ),
    Mutation(
        "let an old tombstone say how far it reached",
        Change(_GATHERED, "run.until_ms or day.end_ms + STEP_BACK_MS", "run.until_ms or day.end_ms - STEP_BACK_MS"),
        Change(_GATHERED, "run=run_of(run.writer),", 'run=run_of(run.writer) or "run",'),
        tests=(f"{_READS}::test_an_expired_day_stands_for_its_segments",),
    ),
    Mutation(
        "call every gap the shadow of something else",
        Change(_COVERAGE, "if options.shard in {None, shard.shard_id} and not (", "if options.shard in {None} and ("),
        tests=(f"{_FINDS}::test_what_the_chains_do_not_show_is_never_clean",),
    ),
    Mutation(
        "pass over a hole in the hash keys",
        Change(_COVERAGE, "if doubt.shard_id in told and doubt.reason", "if doubt.shard_id is None and doubt.reason"),
        tests=(f"{_FINDS}::test_a_half_that_nobody_holds_is_missing",),
    ),
    Mutation(
        "judge a day once that changes while it is read",
        Change(_AUDIT, "    return again.digest() != seen.digest()\n", "    return again is seen\n"),
        tests=(f"{_FINDS}::test_segments_that_are_committed_while_the_day_is_read_are_no_defect",),
    ),
    Mutation(
        "forget what was found of the lines",
        Change(_AGAIN, "[*now.findings, *_of_lines(before, now)]", "[*now.findings]"),
        tests=(f"{_JUDGES_AGAIN}::test_what_was_found_of_the_lines_stands",),
    ),
    Mutation(
        "never withdraw a verdict",
        Change(_REWRITE, "if (pointer.verdict, pointer.audit) != judged:", 'if pointer.verdict != "clean":'),
        tests=(f"{_JUDGES_AGAIN}::test_a_clean_verdict_is_withdrawn_when_a_gap_shows",),
    ),
    Mutation(
        "let the pointer of a day that is held say clean",
        Change(_REWRITE, "is_told = self._pointing.withdraw(view.seen, manifest, result.audit)", "is_told = True"),
        tests=(f"{_JUDGES_AGAIN}::test_a_day_that_is_held_no_longer_says_clean",),
    ),
    Mutation(
        "judge no clean day again",
        Change(_RECHECK, "row.last_modified_ms > head.last_modified_ms", "row.last_modified_ms < 0"),
        tests=(f"{_JUDGES_AGAIN}::test_days_that_newer_evidence_touches_are_judged_again",),
    ),
    Mutation(
        "mark as compared what is a moment old",
        Change(_STREAM_MARKS, "read.asked_ms - STEP_BACK_MS, read.until_ms", "read.until_ms"),
        tests=(f"{_STREAM}::test_a_mark_ends_a_minute_before_the_stream_was_asked",),
    ),
    Mutation(
        "mark as compared what no record was asked for",
        Change(_STREAM_MARKS, "read.until_ms, scope.until_ms)", "scope.until_ms)"),
        tests=(f"{_STREAM}::test_a_mark_ends_where_records_were_no_longer_compared",),
    ),
    Mutation(
        "look once for what is missing behind the day",
        Change("compaction/audit/coverage.py", "range(_LOOKS)", "range(1)"),
        tests=(f"{_GROWING}::test_what_is_committed_between_two_listings_behind_the_day_is_no_gap",),
    ),
    Mutation(
        "mark a shard that the stream showed to be wrong",
        Change(_STREAM_MARKS, "if compared.findings or compared.to_come or", "if compared.to_come or"),
        tests=(f"{_STREAM}::test_a_comparison_that_found_something_proves_nothing",),
    ),
    Mutation(
        "believe that a shard is its own parent",
        Change(_STATED, "    if shard_id in kin:\n", "    if kin == shard_id:\n"),
        tests=(
            f"{_STATEMENTS}::test_a_marker_that_names_its_own_shard_as_kin_is_not_believed",
            f"{_FINDS}::test_a_shard_that_names_itself_as_its_parent_is_judged_whole",
        ),
    ),
    Mutation(
        "let a shard that is its own ancestor begin and end by its own evidence",
        Change(_TOPOLOGY, "            self._parents[shard] -= circle\n", ""),
        Change(_TOPOLOGY, "            self._children[shard] -= circle\n", "            continue\n"),
        tests=(f"{_CIRCLES}::test_a_shard_that_is_its_own_ancestor_is_required_as_long_as_any",),
    ),
    Mutation(
        "pass over shards that name each other as parents",
        Change(_FRONTIER, "for circle in self._topology.circles:", "for circle in self._topology.circles[:0]:"),
        tests=(
            f"{_CIRCLES}::test_a_circle_is_in_doubt_however_well_its_shards_are_covered",
            f"{_FINDS}::test_shards_that_name_each_other_as_parents_are_a_finding",
        ),
    ),
    Mutation(
        "call a record missing that a lagging consumer will bring",
        Change(
            _COMPARISON,
            "if self._bounds.is_to_come(sent.position):",
            "if self._bounds.end is not None and not self._bounds.is_to_come:",
        ),
        tests=(f"{_LAGGING}::test_a_record_behind_the_archives_end_is_to_come",),
    ),
    Mutation(
        "let the day's last segment be the archive's end",
        Change(_AUDIT, "[link.last for link in known.chain.links]", "[]"),
        Change(_AUDIT, "[link.metadata.last for link in links]", "[]"),
        tests=(f"{_LAGGING}::test_a_record_that_a_later_days_segment_passes_over_is_lost",),
    ),
    Mutation(
        "wait for a shard that was read to its end",
        Change(_COMPARISON, "return not self.is_ended and (", "return ("),
        tests=(f"{_LAGGING}::test_a_record_behind_the_end_of_a_shard_that_was_read_whole_is_lost",),
    ),
)
