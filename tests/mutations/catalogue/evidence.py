"""Mutations of what a processor claims about times, and of the marks and markers that say so."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_CONTINUITY: Final = "archive/coverage/continuity.py"
_SHARD_EVIDENCE: Final = "consumer/evidence/shard_evidence.py"
_READ_MARKS: Final = "consumer/evidence/read_marks.py"
_TIP_WALK: Final = "consumer/evidence/tip_walk.py"
_CHAIN: Final = "archive/coverage/chain.py"
_FRONTIER: Final = "archive/coverage/frontier.py"
_BIRTH: Final = "consumer/evidence/birth.py"

_CHAIN_TESTS: Final = "tests/unit/archive/coverage/test_chain.py"
_CLAIMS: Final = "tests/unit/consumer/evidence/test_claims.py"
_MARKS: Final = "tests/unit/consumer/evidence/test_read_marks.py"
_RESTARTS: Final = "tests/unit/consumer/evidence/test_read_marks_after_restarts.py"

EVIDENCE: Final = (
    Mutation(
        "take evidence of any age for young",
        Change(_CONTINUITY, "return answered_ms - until_ms < SURELY_HELD_MS", "return until_ms <= answered_ms"),
        tests=(f"{_RESTARTS}::test_a_mark_from_more_than_a_day_ago_proves_nothing",),
        mode="days",
    ),
    Mutation(
        "leave what follows another run to the reader",
        Change(
            _SHARD_EVIDENCE,
            "        if self._is_own and self._base is not None:",
            "        if self._base is not None:",
        ),
        tests=(f"{_CLAIMS}::test_another_run_states_since_when_nothing_is_missing",),
        mode="days",
    ),
    Mutation(
        "stand on the winner of a slot as on a segment of one's own",
        Change(
            _SHARD_EVIDENCE,
            "        self._stand_on_segment(metadata, None)\n",
            "        self._stand_on_segment(metadata, None)\n        self._is_own = True\n",
        ),
        tests=(f"{_CLAIMS}::test_a_segment_behind_a_lost_slot_states_it",),
    ),
    Mutation(
        "take every shard that names parents for a child",
        Change(
            _BIRTH,
            "    return any(parent in named or _has_marker(services, parent) for parent in parents)",
            "    return True",
        ),
        tests=(f"{_CLAIMS}::test_a_shard_whose_parents_nobody_knows_began_with_the_application",),
    ),
    Mutation(
        "mark a shard as read that holds more",
        Change(
            _TIP_WALK, "            if self._is_behind(record):", "            if self._is_behind(record) is None:"
        ),
        tests=(f"{_MARKS}::test_what_waits_behind_the_tail_is_no_tip",),
        mode="days",
    ),
    Mutation(
        "take an empty answer for the tip",
        Change(
            "archive/kinesis/answers.py",
            "return not self.records and (self.iterator is None or self.behind_ms == 0)",
            "return not self.records",
        ),
        tests=(f"{_MARKS}::test_an_answer_that_is_empty_on_the_way_is_no_tip",),
        mode="days",
    ),
    Mutation(
        "mark up to the last answer's time",
        Change(
            _READ_MARKS,
            "asked_ms, position = walk.asked_ms,",
            "asked_ms, position = (walk.answered_ms or 0) + 60_000,",
        ),
        tests=(f"{_MARKS}::test_a_quiet_shard_is_marked_once_an_hour",),
    ),
    Mutation(
        "mark no position although the shard was begun",
        Change(_READ_MARKS, "(position is None and self._is_begun())", "position is self"),
        tests=(f"{_MARKS}::test_no_position_is_marked_once_the_shard_was_begun",),
    ),
    Mutation(
        "take a child that ended before for one that was born since",
        Change(_BIRTH, "stream.all_shards(since_ms=unborn_ms)", "stream.all_shards()"),
        tests=(f"{_CLAIMS}::test_a_child_that_lived_and_ended_before_is_no_late_birth",),
        mode="days",
    ),
    Mutation(
        "believe for ever what was seen once",
        Change(_SHARD_EVIDENCE, "now_ms - self._seen_ms < SEEN_MS", "now_ms > 0"),
        tests=(f"{_CLAIMS}::test_a_batch_after_the_machine_was_paused_is_not_proven_by_what_was_seen_before",),
    ),
    Mutation(
        "mark from the tail at each restart",
        Change(_SHARD_EVIDENCE, "            self._is_tail = True\n", ""),
        tests=(f"{_RESTARTS}::test_redeploys_do_not_mark_what_a_mark_covers",),
        mode="month",
    ),
    Mutation(
        "call a segment missing behind a stale checkpoint",
        Change(_CHAIN, " or (before is not None and link.after <= before.link.last)", ""),
        tests=(f"{_CHAIN_TESTS}::test_a_start_behind_a_stale_checkpoint_says_itself_that_it_proves_nothing",),
    ),
    Mutation(
        "keep all that is withheld at once",
        Change(_READ_MARKS, "_KEPT_A_CALL: Final = 10\n", "_KEPT_A_CALL: Final = 10_000\n"),
        tests=(f"{_MARKS}::test_many_withheld_records_are_kept_little_by_little",),
    ),
    Mutation(
        "mark a shard without a record at each restart",
        Change(
            _READ_MARKS,
            "            self._evidence.look_up_beyond(tail, self._services)\n        self._ev",
            "            pass\n        self._ev",
        ),
        tests=(f"{_RESTARTS}::test_redeploys_do_not_mark_a_shard_without_a_record_again",),
        mode="month",
    ),
    Mutation(
        "judge the first shards alone",
        Change(
            _FRONTIER,
            "        for child in children:\n            self._require",
            "        for child in ():\n            self._require",
        ),
        tests=("tests/unit/archive/coverage/test_verdict.py::test_every_child_is_judged",),
    ),
    Mutation(
        "carry what is proven over what is not",
        Change(
            _CHAIN,
            "        if link.claim is Continuity.UNPROVEN:\n            return Reason.UNPROVEN\n",
            "        if link.claim is Continuity.UNPROVEN:\n            return None\n",
        ),
        tests=(f"{_CHAIN_TESTS}::test_a_segment_that_proves_nothing_begins_an_interval",),
        mode="days",
    ),
    Mutation(
        "believe a claim without a floor",
        Change(_CHAIN, "min(max(from_ms, floor_ms), until_ms)", "min(from_ms, until_ms)"),
        tests=(f"{_CHAIN_TESTS}::test_no_claim_reaches_back_over_a_doubt",),
    ),
    Mutation(
        "take marks that prove nothing for proofs",
        Change(
            "archive/coverage/evidence.py",
            "Interval(self.from_ms if self.continuity is Continuity.PROVEN else self.until_ms,",
            "Interval(self.from_ms,",
        ),
        tests=("tests/unit/archive/coverage/test_evidence.py::test_only_what_is_proven_covers_backwards",),
    ),
    Mutation(
        "cover a shard up to its segment's last minute",
        Change(
            "archive/coverage/evidence.py",
            "until_ms=minute_ms - STEP_BACK_MS,",
            "until_ms=minute_ms + 2 * STEP_BACK_MS,",
        ),
        tests=("tests/unit/archive/coverage/test_evidence.py::test_a_segment_reaches_to_a_minute_before_its_own",),
        mode="days",
    ),
    Mutation(
        "end a shard that nothing proves as if it were",
        Change(
            "consumer/processor/shard_end.py",
            "continuity = Continuity.UNPROVEN if walk is None else evidence.judge_walk(tail, walk, services)",
            "continuity = Continuity.PROVEN",
        ),
        tests=(
            "tests/unit/consumer/processor/test_end.py::test_the_end_of_a_shard_that_is_not_listed_any_more_is_not_proven",
        ),
    ),
)
