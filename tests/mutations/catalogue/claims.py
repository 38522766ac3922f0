"""Mutations of producer deduplication by claims, and of the lines that it drops."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_PROCESSOR: Final = "consumer/processor/processor.py"
_RETRY: Final = "archive/retry.py"
_DEDUPE_START: Final = "consumer/processor/dedupe_start.py"
_SEQUENCE_STORE: Final = "consumer/processor/sequence_store.py"
_CUTTING: Final = "consumer/processor/cutting.py"
_TABLE: Final = "consumer/dedupe/table.py"
_BATCHES: Final = "consumer/dedupe/claim_batches.py"
_DEDUPLICATOR: Final = "consumer/dedupe/deduplicator.py"

_ARCHIVER: Final = "consumer/processor/archiver.py"
_CONFLICTS: Final = "consumer/dedupe/conflicts.py"
_PAYLOAD: Final = "archive/format/payload.py"

_PAYLOADS: Final = "tests/unit/archive/format/test_payload.py"
_IDS: Final = "tests/unit/compaction/tasks/test_event_ids.py"
_SAME_RULE: Final = "test_an_id_is_what_the_consumer_takes_for_one"
_FOUND: Final = "tests/simulation/found/test_found_by_producers.py"
_DEDUPE: Final = "tests/unit/consumer/processor/test_dedupe.py"
_CLAIMS: Final = "tests/unit/consumer/processor/test_claims.py"

CLAIMS: Final = (
    Mutation(
        "a claim is as old as the processor's retention",
        Change(_PROCESSOR, "lambda: retention.retention_ms,\n", "lambda: start.identity.retention_ms,\n"),
        tests=(f"{_FOUND}::test_a_claim_lives_as_long_as_a_raised_retention_needs",),
        mode="claims",
    ),
    Mutation(
        "an unknown claim is somebody else's",
        Change(
            _RETRY,
            "            if not backoff.wait():\n",
            "            if what == 'a claim':\n"
            "                from consumer.dedupe.table import Owner\n"
            "                return Owner('flights/shardId-000000000000/1:0', None)\n"
            "            if not backoff.wait():\n",
        ),
        mode="claims",
        tests=(f"{_DEDUPE}::test_lost_answers_of_the_table_change_nothing",),
    ),
    Mutation(
        "a position without its shard owns a claim",
        Change(
            _DEDUPE_START, "{settings.stream_name}/{self._shard_id}", "{settings.stream_name}/shardId-000000000000"
        ),
        mode="claims",
    ),
    Mutation(
        "a claim ends with the retention",
        Change(_DEDUPE_START, "self._retention_ms() // 1000 + DAY_SECONDS,", "self._retention_ms() // 2000,"),
        mode="claims",
        tests=(f"{_FOUND}::test_a_claim_lives_as_long_as_a_raised_retention_needs",),
    ),
    Mutation(
        "dropped lines are thrown away",
        Change(
            _SEQUENCE_STORE,
            "if segment.dropped:\n            key = duplicates_key(",
            "if segment.dropped < 0:\n            key = duplicates_key(",
        ),
        mode="claims",
        tests=(f"{_DEDUPE}::test_a_second_copy_is_left_out_and_kept_beside",),
    ),
    Mutation(
        "dropped lines go without their segment's writer",
        Change(
            _SEQUENCE_STORE,
            "duplicates_key(self._prefix, self._shard_id, segment.minute, first, writer, ",
            'duplicates_key(self._prefix, self._shard_id, segment.minute, first, "w", ',
        ),
        mode="claims",
        tests=(f"{_DEDUPE}::test_a_second_copy_is_left_out_and_kept_beside",),
    ),
    Mutation(
        "the rest of a lost buffer forgets its dropped lines",
        Change(_CUTTING, "in merge(kept, dropped, key=itemgetter(0)) if at > position", "in kept if at > position"),
        mode="claims",
    ),
    Mutation(
        "claim without a condition",
        Change(_TABLE, "                ConditionExpression=_CONDITION,\n", ""),
        mode="claims",
    ),
    Mutation(
        "claim without an owner",
        Change(_TABLE, " OR #owner = :me OR ", " OR "),
        Change(
            _BATCHES,
            'return Owner(_text(item, "owner", event_id),',
            'return Owner(_text(item, "owner", event_id) + "+",',
        ),
        mode="claims",
    ),
    Mutation(
        "a claim is owned by a process",
        Change(_DEDUPLICATOR, "{self._shard}/{record.position}", "{self._shard}/{record.position}/{id(self)}"),
        tests=(f"{_DEDUPE}::test_a_crash_between_judgement_and_commit_changes_nothing",),
        mode="claims",
    ),
    Mutation(
        "a claim is owned by a shard",
        Change(_DEDUPLICATOR, "{self._shard}/{record.position}", "{self._shard}/0:0"),
        mode="claims",
        tests=(f"{_DEDUPE}::test_a_second_copy_is_left_out_and_kept_beside",),
    ),
    Mutation(
        "a position without its sub-sequence number owns a claim",
        Change(_DEDUPLICATOR, "{self._shard}/{record.position}", "{self._shard}/{record.position.sequence}:0"),
        mode="claims",
    ),
    Mutation(
        "claim after the segment",
        Change(
            _DEDUPLICATOR,
            "        owners = self._owners(list(wanted.values()))\n",
            "        owners = {each: self._peek(claim) for each, claim in wanted.items()}\n"
            "        self.pending = [*getattr(self, 'pending', []), *wanted.values()]\n",
        ),
        Change(
            _DEDUPLICATOR,
            '        """Nothing to write: claims precede the commit."""\n',
            '        """Claim what was committed."""\n'
            "        for wanted in getattr(self, 'pending', []):\n"
            "            self._claim(wanted)\n"
            "        self.pending = []\n"
            "\n"
            "    def _peek(self, claim):\n"
            "        key, table = {'id': {'S': f'e:{claim.event_id}'}}, self._table\n"
            "        read = lambda: table._client.get_item(TableName='', Key=key, ConsistentRead=True)\n"
            "        answer = until_known(lambda: table._ask(read, 'peek'), self._backoff(), 'peek')\n"
            "        item = answer.get('Item', {'owner': {'S': claim.owner}, 'digest': {'S': claim.digest}})\n"
            "        return Owner(item['owner']['S'], item['digest']['S'])\n",
        ),
        mode="claims",
    ),
    Mutation(
        "two copies in one slice claim side by side",
        Change(
            _DEDUPLICATOR,
            "self._verdict(claim, owners[claim.event_id]) for",
            "self._verdict(claim, Owner(claim.owner, None) if any(each and each.owner == "
            "owners[claim.event_id].position for each in claims) else owners[claim.event_id]) for",
        ),
        tests=(f"{_DEDUPE}::test_a_second_copy_is_left_out_and_kept_beside",),
        mode="claims",
    ),
    Mutation(
        "records without an id are one event",
        Change(
            _DEDUPLICATOR, "= self._event_id.text(record.data)\n", '= self._event_id.text(record.data) or "none"\n'
        ),
        mode="claims",
        tests=(f"{_DEDUPE}::test_records_without_an_id_are_kept",),
    ),
    Mutation(
        "an id alone makes a copy",
        Change(_DEDUPLICATOR, "owner.digest is not None and owner.digest != claim.digest", "False"),
        mode="claims",
        tests=(f"{_CLAIMS}::test_an_event_under_the_id_of_another_is_kept_and_told",),
    ),
    Mutation(
        "a claim without a digest is not believed",
        Change(_DEDUPLICATOR, "owner.digest is not None and owner.digest", "owner.digest"),
        tests=(f"{_CLAIMS}::test_a_claim_without_a_digest_is_believed",),
    ),
    Mutation(
        "the last conflicts wait for their minute",
        Change(_CONFLICTS, "is_young and not is_last", "is_young"),
        tests=(f"{_CLAIMS}::test_no_conflict_is_left_untold_at_the_end",),
    ),
    Mutation(
        "conflicts of a quiet shard are told by the next record",
        Change(_ARCHIVER, "        self._tell()\n        if self._buffer is None", "        if self._buffer is None"),
        tests=(f"{_CLAIMS}::test_conflicts_of_a_shard_that_falls_quiet_are_told_when_the_minute_is_over",),
    ),
    Mutation(
        "every conflict is told",
        Change(_CONFLICTS, "now - self._told_at < _TELL_SECONDS", "now - self._told_at < 0"),
        tests=(f"{_CLAIMS}::test_conflicts_are_told_once_a_minute",),
    ),
    Mutation(
        "a fraction is an id",
        Change(_PAYLOAD, "isinstance(value, str | int)", "isinstance(value, str | int | float)"),
        tests=(f"{_CLAIMS}::test_ids_that_differ_behind_the_point_are_two_events", f"{_IDS}::{_SAME_RULE}"),
    ),
    Mutation(
        "payloads of any size are looked into",
        Change(_PAYLOAD, "if len(payload) > _LONGEST_PAYLOAD_BYTES:", "if False:"),
        tests=(f"{_PAYLOADS}::test_only_payloads_of_up_to_a_mebibyte_are_looked_into",),
    ),
)
