"""Mutations of the evidence that a shard was read, and of what KCL does not deliver."""

from typing import Final

from tests.mutations.mutation import Change, Mutation, in_mode

_TIP_WALK: Final = "consumer.evidence.tip_walk:TipWalk"

_DAYS: Final = in_mode(
    "days",
    Mutation(
        "pass over what is withheld of the tail's own aggregate",
        Change(
            f"{_TIP_WALK}._is_behind",
            "delivery.withheld or not delivered",
            "archived < 0 and (delivery.withheld or not delivered)",
        ),
    ),
    Mutation(
        "take evidence of any age for young",
        Change(
            "minutebook.coverage.continuity:is_young",
            "answered_ms - until_ms < SURELY_HELD_MS",
            "until_ms <= answered_ms",
        ),
        tests=("test_a_mark_from_more_than_a_day_ago_proves_nothing",),
    ),
    Mutation(
        "leave what follows another run to the reader",
        Change("consumer.evidence.shard_evidence:ShardEvidence.claim", "self._is_own", "True"),
        tests=("test_another_run_states_since_when_nothing_is_missing",),
    ),
    Mutation(
        "go on from a loss that an audit saw",
        Change("consumer.evidence.shard_evidence:ShardEvidence._marks_of", "not mark_evidence(mark).is_loss", "True"),
        tests=("test_a_loss_that_an_audit_saw_is_nothing_to_go_on_from",),
    ),
    Mutation(
        "mark a shard as read that holds more",
        Change(f"{_TIP_WALK}.take", "self._is_behind(record)", "self._is_behind(record) is None"),
        tests=("test_what_waits_behind_the_tail_is_no_tip",),
    ),
    Mutation(
        "take an empty answer for the tip",
        Change(
            "minutebook.aws.kinesis.answers:Answer.is_tip", "self.iterator is None or self.behind_ms == 0", "True"
        ),
        tests=("test_an_answer_that_is_empty_on_the_way_is_no_tip",),
    ),
    Mutation(
        "take a child that ended before for one that was born since",
        Change("consumer.evidence.birth:prove_birth", "since_ms=unborn_ms"),
        tests=("test_a_child_that_lived_and_ended_before_is_no_late_birth",),
    ),
    Mutation(
        "cover a shard up to its segment's last minute",
        Change(
            "minutebook.coverage.evidence:segment_link",
            "minute_ms - ARRIVAL_STEP_BACK_MS",
            "minute_ms + 2 * ARRIVAL_STEP_BACK_MS",
        ),
        tests=("test_a_segment_reaches_to_a_minute_before_its_own",),
    ),
)

EVIDENCE: Final = (
    *_DAYS,
    Mutation(
        "take an aggregate of nothing for a record behind the tail",
        Change(f"{_TIP_WALK}._is_behind", "delivered > archived + 1", "delivered > archived + 1 or not delivered"),
        tests=("test_what_kcl_would_not_deliver_does_not_keep_a_shard_from_ending",),
        mode="plain",
    ),
    Mutation(
        "name what is not delivered without keeping it",
        Change(
            "consumer.evidence.undelivered:_keep", "services.store.put_if_absent(key, encode_coverage_marker(kept))"
        ),
        tests=("test_what_kcl_would_not_deliver_does_not_keep_a_shard_from_ending",),
        mode="plain",
    ),
    Mutation(
        "expect every delivery to leave the same aggregates out at a shard's end",
        Change(
            "consumer.processor.shard_end:_compare",
            "behind is not None and str(behind.sequence) in before.undelivered",
            "not before",
        ),
        tests=("test_an_aggregate_that_only_one_delivery_brought_does_not_keep_a_shard_from_ending",),
        mode="operations",
    ),
    Mutation(
        "mark from the tail at each restart",
        Change("consumer.evidence.shard_evidence:ShardEvidence.found_tail", "self._is_tail = True"),
        tests=("test_redeploys_do_not_mark_what_a_mark_covers",),
        mode="month",
    ),
    Mutation(
        "mark a shard without a record at each restart",
        Change(
            "consumer.evidence.read_marks:ReadMarks._is_due_beyond",
            "self._evidence.look_up_beyond(tail, self._services)",
            "pass",
        ),
        tests=("test_redeploys_do_not_mark_a_shard_without_a_record_again",),
        mode="month",
    ),
    Mutation(
        "mark an hour after the last evidence",
        Change(
            "minutebook.coverage.continuity:is_mark_due",
            "(service_ms - AFTER_HOUR_MS - spread_of(shard_id)) // HOUR_MS * HOUR_MS",
            "service_ms - HOUR_MS - spread_of(shard_id)",
        ),
        tests=("test_at_twenty_past_every_shard_is_covered_up_to_the_hour",),
    ),
    Mutation(
        "judge the first shards alone",
        Change(
            "minutebook.coverage.frontier:_Descent._descend",
            "self._require(self._coverage(child), self._born_after(child), is_first=False)",
        ),
        tests=("test_every_child_is_judged",),
    ),
)
