"""Mutations of producer deduplication and of the operator's commands; see `mutations`."""

from typing import Final

from tests.simulation.mutation import Change, Mutation


def _claims(name: str, path: str, old: str, new: str) -> Mutation:
    return Mutation(name, (Change(path, old, new),), "claims")


def _watermark(name: str, path: str, old: str, new: str) -> Mutation:
    return Mutation(name, (Change(path, old, new),), "watermark")


def _operations(name: str, path: str, old: str, new: str) -> Mutation:
    return Mutation(name, (Change(path, old, new),), "operations")


CLAIMS: Final = (
    _claims(
        "an unknown claim is somebody else's",
        "archive/retry.py",
        "            if not backoff.wait():\n",
        "            if what == 'a claim':\n                return 'flights/shardId-000000000000/1:0'\n"
        "            if not backoff.wait():\n",
    ),
    _claims(
        "claim without a condition",
        "consumer/dedupe/table.py",
        "                ConditionExpression=_CONDITION,\n",
        "",
    ),
    Mutation(
        "claim without an owner",
        (
            Change(
                "consumer/dedupe/table.py",
                '_CONDITION = "attribute_not_exists(id) OR #owner = :me OR expires < :now"',
                '_CONDITION = "attribute_not_exists(id) OR expires < :now"',
            ),
            Change(
                "consumer/dedupe/table.py",
                '            return _text(exc.response.get("Item"), "owner", event_id)\n',
                '            return _text(exc.response.get("Item"), "owner", event_id) + "+"\n',
            ),
        ),
        "claims",
    ),
    _claims(
        "a claim is owned by a process",
        "consumer/dedupe/deduplicator.py",
        'positions = [f"{self._shard}/{record.position}" for record in records]',
        'positions = [f"{self._shard}/{record.position}/{id(self)}" for record in records]',
    ),
    _claims(
        "a claim is owned by a shard",
        "consumer/dedupe/deduplicator.py",
        'positions = [f"{self._shard}/{record.position}" for record in records]',
        'positions = [f"{self._shard}/0:0" for record in records]',
    ),
    _claims(
        "a position without its shard owns a claim",
        "consumer/processor/dedupe_start.py",
        'shard = f"{settings.stream_name}/{self._shard_id}"',
        'shard = f"{settings.stream_name}/shardId-000000000000"',
    ),
    _claims(
        "a position without its sub-sequence number owns a claim",
        "consumer/dedupe/deduplicator.py",
        'positions = [f"{self._shard}/{record.position}" for record in records]',
        'positions = [f"{self._shard}/{record.position.sequence}:0" for record in records]',
    ),
    Mutation(
        "claim after the segment",
        (
            Change(
                "consumer/dedupe/deduplicator.py",
                "        owners = dict(zip(wanted, self._map_claims(self._claim, wanted.items()), strict=True))\n",
                "        owners = {each: self._peek(each) or position for each, position in wanted.items()}\n"
                "        self.pending = [*getattr(self, 'pending', []), *wanted.items()]\n",
            ),
            Change(
                "consumer/dedupe/deduplicator.py",
                '        """Nothing to do: claims precede the commit."""\n',
                '        """Claim what was committed."""\n'
                "        for wanted in getattr(self, 'pending', []):\n"
                "            self._claim(wanted)\n"
                "        self.pending = []\n\n"
                "    def _peek(self, event_id):\n"
                "        key, table = {'id': {'S': f'e:{event_id}'}}, self._table\n"
                "        read = lambda: table._client.get_item(TableName='', Key=key, ConsistentRead=True)\n"
                "        answer = until_known(lambda: table._ask(read, 'peek'), self._backoff(), 'peek')\n"
                "        return answer.get('Item', {}).get('owner', {}).get('S')\n",
            ),
        ),
        "claims",
    ),
    _claims(
        "a claim ends with the retention",
        "consumer/processor/dedupe_start.py",
        "lifetime_seconds=lambda: self._retention_ms() // 1000 + DAY_SECONDS,",
        "lifetime_seconds=lambda: self._retention_ms() // 2000,",
    ),
    _claims(
        "a claim is as old as the processor's retention",
        "consumer/processor/processor.py",
        "lambda: retention.retention_ms, self._map_claims",
        "lambda: start.identity.retention_ms, self._map_claims",
    ),
    _claims(
        "two copies in one slice claim side by side",
        "consumer/dedupe/deduplicator.py",
        "None if event_id is None or owners[event_id] == position else owners[event_id]",
        "None if event_id is None or owners[event_id] in positions else owners[event_id]",
    ),
    _claims(
        "records without an id are one event",
        "consumer/dedupe/deduplicator.py",
        "ids = [self._event_id.text(record.data) for record in records]",
        'ids = [self._event_id.text(record.data) or "none" for record in records]',
    ),
    _claims(
        "dropped lines are thrown away",
        "consumer/processor/sequence_store.py",
        "        if segment.dropped:\n            key = duplicates_key(",
        "        if segment.dropped < 0:\n            key = duplicates_key(",
    ),
    _claims(
        "dropped lines go without their segment's writer",
        "consumer/processor/sequence_store.py",
        "duplicates_key(self._prefix, self._shard_id, segment.minute, first, writer)",
        'duplicates_key(self._prefix, self._shard_id, segment.minute, first, "w")',
    ),
    _claims(
        "the rest of a lost buffer forgets its dropped lines",
        "consumer/processor/cutting.py",
        "in merge(kept, dropped, key=itemgetter(0)) if at > position",
        "in kept if at > position",
    ),
)

WATERMARK: Final = (
    _watermark(
        "watermarks are not loaded after a restart",
        "consumer/processor/dedupe_start.py",
        "state = self._at(shard_id, tail) if isinstance(tail, Position) else self._inherited(shard_id)",
        "state = Watermarks() if isinstance(tail, Position) else self._inherited(shard_id)",
    ),
    _watermark(
        "watermarks are taken from any tail row",
        "consumer/processor/dedupe_start.py",
        "if row is not None and row.position == position:",
        "if row is not None:",
    ),
    _watermark(
        "watermarks without gaps",
        "consumer/dedupe/watermarks.py",
        "        if ordered:\n",
        "        if ordered or intervals:\n",
    ),
    _watermark(
        "the oldest gap is closed when there are too many",
        "consumer/dedupe/watermarks.py",
        "    if len(intervals) > MAX_INTERVALS:\n        del intervals[0]\n",
        "    if len(intervals) > MAX_INTERVALS:\n        intervals[:2] = [(intervals[0][0], intervals[1][1])]\n",
    ),
    _watermark(
        "a merged shard closes its parents' gaps",
        "consumer/dedupe/watermarks.py",
        "if merged and low <= merged[-1][1] + 1:",
        "if merged:",
    ),
    _watermark(
        "the winner's watermarks are not adopted",
        "consumer/processor/archiver.py",
        "            self._dedupe.adopt(other, self._sequences.watermarks_of(other))\n",
        "            pass\n",
    ),
    _watermark(
        "a loser keeps its own watermarks",
        "consumer/processor/archiver.py",
        "        self._adopt_tail(outcome.winner)\n",
        "        self.chain.tail = outcome.winner.last\n",
    ),
    _watermark(
        "the loser of a slot judges nothing again",
        "consumer/processor/archiver.py",
        "            self._hold(rest, part)\n",
        "            rest.hold(part, ())\n",
    ),
    _watermark(
        "the tail row before the commit",
        "consumer/processor/archiver.py",
        "        key, metadata, outcome = self._sequences.commit(\n",
        "        if self._dedupe is not None:\n"
        '            self._dedupe.committed(segment.metadata(after=self.chain.tail, writer="early"))\n'
        "        key, metadata, outcome = self._sequences.commit(\n",
    ),
    _watermark(
        "a segment carries no numbers",
        "consumer/processor/archiver.py",
        "watermarks=None if self._dedupe is None else self._dedupe.watermarks(),",
        "watermarks=None if self._dedupe is None else type(self._dedupe.watermarks() or 0)(),",
    ),
    _watermark(
        "watermarks beside go without their segment's writer",
        "consumer/processor/sequence_store.py",
        "beside = watermarks_key(self._prefix, self._shard_id, segment.minute, first, writer)",
        'beside = watermarks_key(self._prefix, self._shard_id, segment.minute, first, "w")',
    ),
    _watermark(
        "children inherit nothing",
        "consumer/processor/dedupe_start.py",
        "        for parent in () if info is None else info.parents:\n",
        "        for parent in ():\n",
    ),
    _watermark(
        "a merged shard inherits from one parent",
        "consumer/processor/dedupe_start.py",
        "        for parent in () if info is None else info.parents:\n",
        "        for parent in () if info is None else info.parents[:1]:\n",
    ),
    _watermark(
        "children inherit from their parents alone",
        "consumer/processor/dedupe_start.py",
        "state.merge(self._inherited(parent) if last is None else self._at(parent, last))",
        "state.merge(Watermarks() if last is None else self._at(parent, last))",
    ),
    _watermark(
        "all producers are one",
        "consumer/dedupe/deduplicator.py",
        'producer = "" if self._paths.key is None else self._paths.key.text(record.data)',
        'producer = ""',
    ),
    _watermark(
        "records without a number are duplicates",
        "consumer/dedupe/deduplicator.py",
        "                missing += 1\n                verdicts.append(None)\n",
        '                missing += 1\n                verdicts.append("unknown")\n',
    ),
    _watermark(
        "a lost tail row stops the search",
        "consumer/processor/dedupe_start.py",
        "        found = self._find(shard_id, position)\n",
        "        found = None if row is None else self._find(shard_id, position)\n",
    ),
)

OPERATIONS: Final = (
    _operations(
        "restore while a worker lives",
        "consumer/restore/command.py",
        "        check_nobody_lives(before, table.read())\n",
        "        table.read()\n",
    ),
    _operations(
        "the second look comes at once",
        "consumer/restore/command.py",
        "clock.sleep(max(0.0, looked + parts.failover_seconds + _MARGIN_SECONDS - clock.monotonic()))",
        "clock.sleep(0.0)",
    ),
    Mutation(
        "the wait begins before the first look",
        (
            Change("consumer/restore/command.py", "    looked = clock.monotonic()\n", ""),
            Change(
                "consumer/restore/command.py",
                "    before = table.read()\n",
                "    looked = clock.monotonic()\n    before = table.read()\n",
            ),
        ),
        "operations",
    ),
    _operations(
        "restore beyond the tail",
        "consumer/restore/plan.py",
        "    return (\n        segment.last,\n",
        "    return (\n        Position(segment.last.sequence, segment.last.sub + 1),\n",
    ),
    _operations(
        "restore at the first record of the last segment",
        "consumer/restore/plan.py",
        "    return (\n        segment.last,\n",
        "    return (\n        segment.first,\n",
    ),
    _operations(
        "restore at the sentinel",
        "consumer/restore/plan.py",
        "    if found is not None:\n        return _after_chain(facts, found)\n",
        "",
    ),
    _operations(
        "restore ends every closed shard",
        "consumer/restore/plan.py",
        "if archived.end is not None and _reaches(archived, found, as_of=facts.as_of):",
        "if info.closed and (archived.end is None or _reaches(archived, found, as_of=facts.as_of)):",
    ),
    _operations(
        "restore takes the newest minute for the tail",
        "consumer/archived/chain_ends.py",
        "    return segment.first\n",
        "    return segment.minute, segment.first\n",
    ),
    _operations(
        "expire inside retention",
        "consumer/expire/command.py",
        "    if older_than_ms < retention_ms + MARGIN_MS:\n",
        "    if older_than_ms < 0:\n",
    ),
    _operations(
        "expire the day that retention ends in",
        "consumer/expire/command.py",
        "    return _EPOCH + dt.timedelta(days=(archive.clock.now_ms() - older_than_ms) // _DAY_MS - 1)\n",
        "    return _EPOCH + dt.timedelta(days=(archive.clock.now_ms() - older_than_ms) // _DAY_MS + 2)\n",
    ),
    _operations(
        "expire the last segment of a chain",
        "consumer/expire/plan.py",
        "    return frozenset(key for key, one in segments.items() if one.first == greatest[one.shard_id])\n",
        "    return frozenset(key for key, one in segments.items() if one is None)\n",
    ),
    _operations(
        "expire what is not published",
        "consumer/expire/plan.py",
        "    if published is None:\n",
        "    if published is None:\n        return None\n    if published is None:\n",
    ),
    _operations(
        "expire whatever the verdict",
        "consumer/expire/plan.py",
        "    if published.verdict != CLEAN:\n",
        "    if not published.verdict:\n",
    ),
    _operations(
        "expire what came after the verdict",
        "consumer/expire/plan.py",
        "    if fresh:\n",
        "    if fresh and day is None:\n",
    ),
    _operations(
        "expire without a tombstone",
        "consumer/expire/apply.py",
        "        if plan.tombstone is None:\n            self._bury(plan)\n",
        "",
    ),
    _operations(
        "expire the watermarks of segments that stay",
        "consumer/expire/side_objects.py",
        "if slot is not None and slot not in left and",
        "if slot is not None and",
    ),
)

SHARDED: Final = (*CLAIMS, *WATERMARK, *OPERATIONS)
