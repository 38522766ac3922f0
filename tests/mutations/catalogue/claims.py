"""Mutations of producer deduplication by claims, and of the lines that it drops."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_PROCESSOR: Final = "consumer/processor/processor.py"
_RETRY: Final = "archive/retry.py"
_DEDUPE_START: Final = "consumer/processor/dedupe_start.py"
_SEQUENCE_STORE: Final = "consumer/processor/sequence_store.py"
_CUTTING: Final = "consumer/processor/cutting.py"
_TABLE: Final = "consumer/dedupe/table.py"
_DEDUPLICATOR: Final = "consumer/dedupe/deduplicator.py"

_FOUND: Final = "tests/simulation/found/test_found_by_producers.py"
_DEDUPE: Final = "tests/unit/consumer/processor/test_dedupe.py"

CLAIMS: Final = (
    Mutation(
        "a claim is as old as the processor's retention",
        Change(_PROCESSOR, "lambda: retention.retention_ms, ", "lambda: start.identity.retention_ms, "),
        tests=(f"{_FOUND}::test_a_claim_lives_as_long_as_a_raised_retention_needs",),
        mode="claims",
    ),
    Mutation(
        "an unknown claim is somebody else's",
        Change(
            _RETRY,
            "            if not backoff.wait():\n",
            "            if what == 'a claim':\n"
            "                return 'flights/shardId-000000000000/1:0'\n"
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
            "duplicates_key(self._prefix, self._shard_id, segment.minute, first, writer)",
            'duplicates_key(self._prefix, self._shard_id, segment.minute, first, "w")',
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
            _TABLE,
            '(exc.response.get("Item"), "owner", event_id)',
            '(exc.response.get("Item"), "owner", event_id) + "+"',
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
            "        owners = dict(zip(wanted, self._map_claims(self._claim, wanted.items()), strict=True))\n",
            "        owners = {each: self._peek(each) or position for each, position in wanted.items()}\n"
            "        self.pending = [*getattr(self, 'pending', []), *wanted.items()]\n",
        ),
        Change(
            _DEDUPLICATOR,
            '        """Nothing to do: claims precede the commit."""\n',
            '        """Claim what was committed."""\n'
            "        for wanted in getattr(self, 'pending', []):\n"
            "            self._claim(wanted)\n"
            "        self.pending = []\n"
            "\n"
            "    def _peek(self, event_id):\n"
            "        key, table = {'id': {'S': f'e:{event_id}'}}, self._table\n"
            "        read = lambda: table._client.get_item(TableName='', Key=key, ConsistentRead=True)\n"
            "        answer = until_known(lambda: table._ask(read, 'peek'), self._backoff(), 'peek')\n"
            "        return answer.get('Item', {}).get('owner', {}).get('S')\n",
        ),
        mode="claims",
    ),
    Mutation(
        "two copies in one slice claim side by side",
        Change(_DEDUPLICATOR, "owners[event_id] == position else", "owners[event_id] in positions else"),
        tests=(f"{_DEDUPE}::test_a_second_copy_is_left_out_and_kept_beside",),
        mode="claims",
    ),
    Mutation(
        "records without an id are one event",
        Change(
            _DEDUPLICATOR, "self._event_id.text(record.data) for", 'self._event_id.text(record.data) or "none" for'
        ),
        mode="claims",
        tests=(f"{_DEDUPE}::test_records_without_an_id_are_kept",),
    ),
)
