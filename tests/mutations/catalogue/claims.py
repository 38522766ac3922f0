"""Mutations of the dedupe by claims, and of the lines that it leaves out."""

from typing import Final

from tests.mutations.mutation import Change, Mutation, in_mode

_BATCH: Final = "consumer.dedupe.claim_batches:StatementBatch"
_CLAIMS: Final = "consumer.dedupe.deduplicator:Claims"

CLAIMS: Final = in_mode(
    "claims",
    Mutation(
        "a statement that failed on the way is a claim",
        Change(f"{_BATCH}._answer", "Undecided.AGAIN", "Owner(claim.owner, claim.digest)"),
        tests=("test_a_statement_that_failed_claims_nothing",),
    ),
    Mutation(
        "an item that is there is ours",
        Change(
            f"{_BATCH}._answer",
            "item = entry['Error'].get('Item')",
            (
                "OLD\n"
                "if not _is_on(item, claim) or self._has_run_out(item):\n"
                "    return Owner(claim.owner, claim.digest)"
            ),
        ),
        tests=("test_only_a_claim_that_runs_tells_its_owner",),
    ),
    Mutation(
        "a claim is as old as the processor's retention",
        Change(
            "consumer.processor.processor:ShardProcessor.initialize",
            "retention.retention_ms",
            "start.identity.retention_ms",
        ),
        tests=("test_a_claim_lives_as_long_as_a_raised_retention_needs",),
    ),
    Mutation(
        "an unknown claim is somebody else's",
        Change(
            "minutebook.retry:until_known",
            "attempts += 1",
            (
                "if what == 'a claim':\n"
                "    from consumer.dedupe.table import Owner\n"
                "    return Owner('flights/shardId-000000000000/1:0', None)\n"
                "OLD"
            ),
        ),
        tests=("test_lost_answers_of_the_table_change_nothing",),
    ),
    Mutation(
        "a position without its shard owns a claim",
        Change(
            "consumer.processor.dedupe_start:DedupeStarter.open",
            "f'{settings.stream_name}/{self._shard_id}'",
            "f'{settings.stream_name}/shardId-000000000000'",
        ),
    ),
    Mutation(
        "a claim ends with the retention",
        Change(
            "consumer.processor.dedupe_start:DedupeStarter.open",
            "self._retention_ms() // 1000 + DAY_SECONDS",
            "self._retention_ms() // 2000",
        ),
        tests=("test_a_claim_lives_as_long_as_a_raised_retention_needs",),
    ),
    Mutation(
        "dropped lines are thrown away",
        Change(
            "consumer.processor.sequence_store:SequenceStore.commit",
            "store.put_if_absent(key, body, content_type=segment.compression.media_type)",
        ),
        tests=("test_a_second_copy_is_left_out_and_kept_beside",),
    ),
    Mutation(
        "dropped lines go without their segment's writer",
        Change(
            "consumer.processor.sequence_store:SequenceStore.commit",
            "duplicates_key(self._prefix, self._shard_id, segment.minute, first, writer, segment.compression)",
            "OLD.replace(writer, 'w')",
        ),
        tests=("test_a_second_copy_is_left_out_and_kept_beside",),
    ),
    Mutation(
        "the rest of a lost buffer forgets its dropped lines",
        Change("consumer.processor.cutting:slices_behind", "merge(kept, dropped, key=itemgetter(0))", "kept"),
    ),
    Mutation(
        "claim without a condition",
        Change("consumer.dedupe.table:DynamoDedupeTable.claim", "ConditionExpression=_CONDITION"),
    ),
    Mutation(
        "claim without an owner",
        Change(
            "consumer.dedupe.table:_CONDITION",
            "'attribute_not_exists(id) OR #owner = :me OR expires < :now'",
            "'attribute_not_exists(id) OR expires < :now'",
        ),
        Change(
            "consumer.dedupe.claim_batches:owner_in",
            "_text(item, 'owner', event_id)",
            "_text(item, 'owner', event_id) + '+'",
        ),
    ),
    Mutation(
        "a claim is owned by a process",
        Change(
            f"{_CLAIMS}._claim_of",
            "f'{self._shard}/{record.position}'",
            "f'{self._shard}/{record.position}/{id(self)}'",
        ),
        tests=("test_a_crash_between_judgement_and_commit_changes_nothing",),
    ),
    Mutation(
        "a claim is owned by a shard",
        Change(f"{_CLAIMS}._claim_of", "f'{self._shard}/{record.position}'", "f'{self._shard}/0:0'"),
        tests=("test_a_second_copy_is_left_out_and_kept_beside",),
    ),
    Mutation(
        "a position without its sub-sequence number owns a claim",
        Change(
            f"{_CLAIMS}._claim_of",
            "f'{self._shard}/{record.position}'",
            "f'{self._shard}/{record.position.sequence}:0'",
        ),
    ),
    Mutation(
        "two copies in one slice claim side by side",
        Change(
            f"{_CLAIMS}.judge",
            "owners[claim.event_id]",
            "Owner(claim.owner, None) if any(each and each.owner == OLD.position for each in claims) else OLD",
        ),
        tests=("test_a_second_copy_is_left_out_and_kept_beside",),
    ),
    Mutation(
        "records without an id are one event",
        Change(
            f"{_CLAIMS}._claim_of", "self._event_id.text(record.data)", "self._event_id.text(record.data) or 'none'"
        ),
        tests=("test_records_without_an_id_are_kept",),
    ),
    Mutation(
        "an id alone makes a copy",
        Change(f"{_CLAIMS}._verdict", "owner.digest is not None and owner.digest != claim.digest", "False"),
        tests=("test_an_event_under_the_id_of_another_is_kept_and_told",),
    ),
)
