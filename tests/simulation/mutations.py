"""Mutations of the product that the simulation must catch.

The mechanism is that of `tests.mutations`: a file, a text that occurs in it once, what it becomes.
`python -m tests.simulation.mutate` applies them one by one.
"""

from typing import Final

from tests.simulation.mutation import Change, Mutation


def _one(name: str, path: str, old: str, new: str) -> Mutation:
    return Mutation(name, (Change(path, old, new),))


MUTATIONS: Final = (
    _one(
        "commit without If-None-Match",
        "archive/store/s3.py",
        '                IfNoneMatch="*",\n',
        "",
    ),
    _one(
        "412 is success without HEAD",
        "archive/store/commit.py",
        'if until_known(put, backoff, f"PUT {key}") is PutOutcome.CREATED:',
        'if until_known(put, backoff, f"PUT {key}") in PutOutcome:',
    ),
    _one(
        "409 is 412",
        "archive/store/s3.py",
        "if _status(exc) == _PRECONDITION_FAILED:",
        "if _status(exc) in (409, _PRECONDITION_FAILED):",
    ),
    _one(
        "409 forgets the buffer",
        "archive/store/s3.py",
        "            if _status(exc) == _PRECONDITION_FAILED:\n                return PutOutcome.EXISTS\n",
        "            if _status(exc) == _PRECONDITION_FAILED:\n                return PutOutcome.EXISTS\n"
        "            if _status(exc) == 409:\n                return PutOutcome.CREATED\n",
    ),
    _one(
        "an unknown outcome is success",
        "archive/retry.py",
        "            if not backoff.wait():\n",
        "            if what.startswith('PUT'):\n                return PutOutcome.CREATED\n"
        "            if not backoff.wait():\n",
    ),
    _one(
        "an unknown outcome is a lost slot",
        "archive/retry.py",
        "            if not backoff.wait():\n",
        "            if what.startswith('PUT'):\n                return PutOutcome.EXISTS\n"
        "            if not backoff.wait():\n",
    ),
    _one(
        "checkpoint before commit",
        "consumer/processor/processor.py",
        "shard.checkpoints.offer(process_records_input.checkpointer, archiver.chain.tail, archiver.delivered)",
        "shard.checkpoints.offer(process_records_input.checkpointer, archiver.delivered, archiver.delivered)",
    ),
    _one(
        "checkpoint a winner's end before it was delivered",
        "consumer/processor/checkpoints.py",
        "or tail == self._last or delivered is None or tail > delivered:",
        "or tail == self._last or delivered is None:",
    ),
    _one(
        "checkpoint without the sub-sequence number",
        "consumer/processor/checkpoints.py",
        "(str(tail.sequence), tail.sub)",
        "(str(tail.sequence), 0)",
    ),
    _one(
        "ignore the sub-sequence number of records",
        "archive/format/record.py",
        "return Position(int(self.sequence_number), self.sub_sequence_number)",
        "return Position(int(self.sequence_number), 0)",
    ),
    _one(
        "never LIST",
        "consumer/processor/sequence_store.py",
        "if minute in self._loaded or (self._loaded and not self._may_be_stored(minute)):",
        "if minute >= 0:",
    ),
    _one(
        "LIST only after a start at a sentinel",
        "consumer/processor/archiver.py",
        "            self._sequences.load_minute(minute, self.chain.archived_through)\n",
        "            if isinstance(self.chain.tail, ChainStart):\n"
        "                self._sequences.load_minute(minute, self.chain.archived_through)\n",
    ),
    _one(
        "LIST only after a start at a checkpoint",
        "consumer/processor/archiver.py",
        "            self._sequences.load_minute(minute, self.chain.archived_through)\n",
        "            if not isinstance(self.chain.tail, ChainStart):\n"
        "                self._sequences.load_minute(minute, self.chain.archived_through)\n",
    ),
    _one(
        "LIST the first minute by the clock alone",
        "consumer/processor/sequence_store.py",
        "if minute in self._loaded or (self._loaded and not self._may_be_stored(minute)):",
        "if minute in self._loaded or not self._may_be_stored(minute):",
    ),
    _one(
        "LIST every minute for ever",
        "consumer/processor/sequence_store.py",
        "return start_ms < self._started_ms + SKEW_MS",
        "return True",
    ),
    _one(
        "reuse the writer id",
        "consumer/processor/archiver.py",
        "            writer=self._services.new_id(),\n",
        '            writer="writer-1",\n',
    ),
    Mutation(
        "accept LATEST",
        (
            Change(
                "consumer/processor/shard_start.py",
                'if sequence_number == "LATEST":\n            raise SettingsError(',
                'if sequence_number == "LATEST":\n            sequence_number = "TRIM_HORIZON"\n'
                '        if sequence_number == "never":\n            raise SettingsError(',
            ),
        ),
    ),
    Mutation(
        "accept LATEST, and forget where a shard was begun",
        (
            Change(
                "consumer/processor/shard_start.py",
                'if sequence_number == "LATEST":\n            raise SettingsError(',
                'if sequence_number == "LATEST":\n            sequence_number = "TRIM_HORIZON"\n'
                '        if sequence_number == "never":\n            raise SettingsError(',
            ),
            Change(
                "consumer/processor/shard_start.py", "        if begun == first:\n", "        if begun is not None:\n"
            ),
        ),
    ),
    _one(
        "ignore where the winner ended",
        "consumer/processor/archiver.py",
        "        self._adopt_tail(outcome.winner)\n",
        "        self.chain.tail = metadata.last\n",
    ),
    _one(
        "send the rest of a lost buffer whole",
        "consumer/processor/cutting.py",
        "if at > position",
        "if at",
    ),
    _one(
        "drop the rest of a lost buffer",
        "consumer/processor/archiver.py",
        "        return self._recut(buffer, outcome.winner.last)\n",
        "        return None\n",
    ),
    _one(
        "sort by arrival time",
        "consumer/processor/processor.py",
        "archiver.take(records, received_at)",
        "archiver.take(sorted(records, key=lambda record: record.arrival_ms), received_at)",
    ),
    _one(
        "cut buffers anywhere but at minutes",
        "consumer/processor/buffer.py",
        "if minute != self.segment.minute:",
        "if minute < 0:",
    ),
    _one(
        "go on after a refused checkpoint",
        "consumer/processor/processor.py",
        "        self._silent = True\n",
        "        self._silent = False\n",
    ),
    _one(
        "commit what is held when the lease is lost",
        "consumer/processor/processor.py",
        '        self._fall_silent("KCL says that the lease is lost")\n',
        '        self._opened().archiver.commit("lease_lost")\n'
        '        self._fall_silent("KCL says that the lease is lost")\n',
    ),
    _one(
        "no check of the stream's name",
        "consumer/archived/application.py",
        "if record.stream_arn != identity.arn:",
        "if not identity.arn:",
    ),
    _one(
        "no check of the stream's creation time",
        "consumer/archived/application.py",
        "if record.stream_created_ms != identity.created_ms:",
        "if not identity.created_ms:",
    ),
    _one(
        "no guard of a buffer's age",
        "consumer/processor/buffer.py",
        "if age > self._settings.max_segment_age_seconds:",
        "if age < 0:",
    ),
    _one(
        "count a buffer's age from its append",
        "consumer/processor/archiver.py",
        "self._services.settings, self._fresh_at)",
        "self._services.settings, self._services.clock.monotonic())",
    ),
    # Either check alone finds an open shard: it has an iterator left, too.
    Mutation(
        "answer a false end of an open shard",
        (
            Change(
                "consumer/processor/shard_end.py",
                "if info is not None and not info.closed:",
                "if info is not None and info.closed is None:",
            ),
            Change(
                "consumer/processor/shard_end.py",
                "if info is not None and not self._services.stream.ends_after(self._shard_id, last, since_ms):",
                "if info is not None and self._services.stream.ends_after(self._shard_id, last, since_ms) is None:",
            ),
        ),
    ),
    _one(
        "answer a false end with records left",
        "consumer/processor/shard_end.py",
        "if info is not None and not self._services.stream.ends_after(self._shard_id, last, since_ms):",
        "if info is not None and self._services.stream.ends_after(self._shard_id, last, since_ms) is None:",
    ),
    _one(
        "answer an end without a marker",
        "consumer/processor/processor.py",
        "        shard.end_proof.mark_end(archiver.chain.tail, unbroken=unbroken)\n",
        "        _ = unbroken\n",
    ),
    _one(
        "end a shard behind whole aggregates",
        "consumer/stream/kinesis.py",
        '        and count_user_records(record["Data"]) <= position.sub + 1\n',
        "",
    ),
    _one(
        "call every end proven",
        "consumer/processor/shard_end.py",
        "if info is not None and unbroken and (last is not None or not self._is_begun()):",
        "if info is not None:",
    ),
    Mutation(
        "key from first and last",
        (
            Change(
                "consumer/processor/sequence_store.py",
                "        slot = segment_key(self._prefix, self._shard_id, metadata.minute, metadata.first)\n",
                "        slot = segment_key(self._prefix, self._shard_id, metadata.minute, metadata.first)\n"
                '        slot = slot.replace(".jsonl", f"-L{metadata.last.sequence}_{metadata.last.sub}.jsonl")\n',
            ),
            Change(
                "archive/format/keys.py",
                "    found = _SEGMENT.fullmatch(",
                '    key = re.sub(r"-L[0-9_]+", "", key)\n    found = _SEGMENT.fullmatch(',
            ),
        ),
    ),
    _one(
        "no start marker",
        "consumer/processor/archiver.py",
        "self._on_chain_start(buffer.segment.span.first, chain_start, budget)",
        "Continuity.PROVEN",
    ),
    _one(
        "resume past retention without a mark",
        "consumer/processor/shard_start.py",
        "        return Continuity.UNPROVEN\n\n    def _read_marker",
        "        return Continuity.PROVEN\n\n    def _read_marker",
    ),
    _one(
        "a reader that was overtaken goes on",
        "consumer/processor/retention.py",
        "        if not self.is_unbroken(delivered):\n",
        "        if delivered == 0:\n",
    ),
    _one(
        "begin behind a stored range without a mark",
        "consumer/processor/archiver.py",
        "if isinstance(self.chain.tail, ChainStart) and stored.last < position:",
        "if self.chain.tail is None:",
    ),
)
