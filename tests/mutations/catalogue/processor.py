"""Mutations of a shard's way from delivery to segment: runs, slots, LIST, and the rest of a lost run."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_RUNS: Final = "tests/unit/consumer/processor/test_runs.py"
_CLOCKS: Final = "tests/simulation/found/test_found_by_clocks.py"
_PROTOCOL: Final = "consumer/processor/protocol.py"
_PROCESSOR: Final = "consumer/processor/processor.py"
_ARCHIVER: Final = "consumer/processor/archiver.py"
_CUTTING: Final = "consumer/processor/cutting.py"
_SEQUENCE_STORE: Final = "consumer/processor/sequence_store.py"
_KEYS: Final = "archive/format/keys.py"

_MESSAGES: Final = "consumer/pipe/messages.py"
_LINES: Final = "tests/unit/consumer/processor/test_protocol.py"
_PIECES: Final = "tests/unit/consumer/pipe/test_messages.py"
_LOOKED_AT: Final = "consumer/pipe/pieces.py"
_TOGETHER: Final = "tests/unit/consumer/pipe/test_pieces.py"
_SLOTS: Final = "tests/unit/consumer/processor/test_slots.py"
_BUFFER: Final = "tests/unit/consumer/processor/test_buffer.py"

PROCESSOR: Final = (
    Mutation(
        "swallow an exception in process_records",
        Change(
            _PROTOCOL,
            "                self.processor.process_records(Batch(action, self.checkpointer))\n",
            "                try:\n"
            "                    self.processor.process_records(Batch(action, self.checkpointer))\n"
            "                except Exception as exc:\n"
            "                    print(exc)\n",
        ),
        tests=(f"{_SLOTS}::test_an_outage_ends_the_process_without_a_checkpoint",),
    ),
    Mutation(
        "commit before the rest of the message could be read",
        Change(_ARCHIVER, "            self._unread.check_rest()\n", "            pass\n"),
        tests=(f"{_LINES}::test_nothing_of_a_message_is_committed_whose_end_is_malformed",),
    ),
    Mutation(
        "take whichever list of records comes last",
        Change(
            _MESSAGES,
            "        if records[: place.decoded] != self._decode(self._begin, max(place.at - 1, self._begin)):\n",
            "        if False:\n",
        ),
        tests=(f"{_PIECES}::test_two_lists_of_records_are_refused_where_the_first_was_read",),
    ),
    Mutation(
        "leave brackets in a line that was read in pieces",
        Change(_MESSAGES, "line[begin - 1], line[end] = before, behind", "line[end] = behind"),
        tests=(f"{_PIECES}::test_what_is_still_to_come_can_be_checked_first",),
    ),
    Mutation(
        "believe that every piece ascends",
        Change(_LOOKED_AT, "    return all(map(lt, places, places[1:]))\n", "    return True\n"),
        tests=(f"{_TOGETHER}::test_user_records_of_one_aggregate_ascend_by_their_numbers_in_it",),
    ),
    Mutation(
        "take equal numbers for ascending ones",
        Change(_LOOKED_AT, "all(map(lt, numbers, numbers[1:]))", "sorted(numbers) == numbers"),
        tests=(f"{_TOGETHER}::test_user_records_of_one_aggregate_ascend_by_their_numbers_in_it",),
    ),
    Mutation(
        "take a comma within a number for one between two",
        Change(_LOOKED_AT, "        and together[size :: size + 1] == commas\n", ""),
        tests=(f"{_TOGETHER}::test_commas_and_lengths_that_only_add_up_are_no_usual_numbers",),
    ),
    Mutation(
        "look at the lengths of numbers and not at their digits",
        Change(_LOOKED_AT, "        and together.encode().translate(None, _DIGITS) == commas.encode()\n", ""),
        tests=(f"{_TOGETHER}::test_what_is_refused_and_what_ascends_is_what_each_says_by_itself",),
    ),
    Mutation(
        "let numbers begin with zeros",
        Change(_LOOKED_AT, '        and "0" not in together[:: size + 1]\n', ""),
        tests=(f"{_TOGETHER}::test_commas_and_lengths_that_only_add_up_are_no_usual_numbers",),
    ),
    Mutation(
        "sort by arrival time",
        Change(
            _ARCHIVER,
            "records, start = piece.records, 0",
            "records, start = sorted(piece.records, key=lambda record: record.arrival_ms), 0",
        ),
        tests=(f"{_BUFFER}::test_arrival_times_that_step_back_only_make_buffers_shorter",),
        mode="plain",
    ),
    Mutation(
        "LIST only after a start at a sentinel",
        Change(
            _ARCHIVER,
            "            self._sequences.load_minute(minute, self.chain.archived_through)\n",
            "            if isinstance(self.chain.tail, ChainStart):\n"
            "                self._sequences.load_minute(minute, self.chain.archived_through)\n",
        ),
        tests=(f"{_SLOTS}::test_a_checkpoint_inside_a_stored_span_is_found_by_list",),
        mode="plain",
    ),
    Mutation(
        "drop the rest of a lost buffer",
        Change(_ARCHIVER, "return self._recut(buffer, outcome.winner.last)", "return None"),
        tests=(f"{_SLOTS}::test_a_slot_lost_to_a_shorter_segment_leaves_the_rest",),
        mode="plain",
    ),
    Mutation(
        "take records out of order",
        Change(
            _CUTTING,
            "if delivered is not None and position <= delivered:",
            "if delivered is None and position.sequence < 0:",
        ),
        tests=(f"{_SLOTS}::test_a_record_twice_in_one_consumer_stops_the_shard",),
    ),
    Mutation(
        "LIST only after a start at a checkpoint",
        Change(
            _ARCHIVER,
            "            self._sequences.load_minute(minute, self.chain.archived_through)\n",
            "            if not isinstance(self.chain.tail, ChainStart):\n"
            "                self._sequences.load_minute(minute, self.chain.archived_through)\n",
        ),
        mode="plain",
        tests=(f"{_SLOTS}::test_a_restart_after_the_put_and_before_the_checkpoint_adds_nothing",),
    ),
    Mutation(
        "reuse the writer id",
        Change(_ARCHIVER, "writer=self._services.new_id(),", 'writer="writer-1",'),
        mode="plain",
        tests=(f"{_BUFFER}::test_each_commit_has_a_writer_of_its_own",),
    ),
    Mutation(
        "ignore where the winner ended",
        Change(_ARCHIVER, "self._adopt_tail(outcome.winner)", "self.chain.tail = metadata.last"),
        mode="plain",
        tests=(f"{_SLOTS}::test_a_slot_lost_to_a_longer_segment_skips_what_it_holds",),
    ),
    Mutation(
        "cut buffers anywhere but at minutes",
        Change("consumer/processor/buffer.py", "if minute != self.segment.minute:", "if minute < 0:"),
        tests=(f"{_BUFFER}::test_a_minute_that_changes_inside_a_batch_cuts_it",),
        mode="plain",
    ),
    Mutation(
        "compare the winner's end by its sequence number alone",
        Change(_CUTTING, "if at > position", "if at.sequence > position.sequence"),
        tests=(f"{_SLOTS}::test_a_slot_is_lost_in_the_middle_of_an_aggregate",),
    ),
    Mutation(
        "send the rest of a lost buffer whole",
        Change(_CUTTING, "if at > position", "if at"),
        tests=(f"{_SLOTS}::test_slots_are_lost_one_after_another",),
        mode="plain",
    ),
    Mutation(
        "never LIST",
        Change(_SEQUENCE_STORE, "if minute in self._loaded or", "if minute >= 0 or"),
        tests=(
            f"{_SLOTS}::test_a_wiped_lease_table_adds_nothing",
            f"{_BUFFER}::test_the_first_minutes_cost_one_list_each",
        ),
        mode="plain",
    ),
    Mutation(
        "LIST every minute for ever",
        Change(_SEQUENCE_STORE, "return start_ms < self._started_ms + SKEW_MS", "return True"),
        tests=(f"{_BUFFER}::test_a_steady_shard_minute_costs_one_put_and_nothing_else",),
        mode="plain",
    ),
    Mutation(
        "LIST the first minute by the clock alone",
        Change(
            _SEQUENCE_STORE, "(self._loaded and not self._may_be_stored(minute))", "not self._may_be_stored(minute)"
        ),
        mode="plain",
        tests=(f"{_CLOCKS}::test_a_clock_that_was_wrong_at_the_start_doubles_nothing",),
    ),
    Mutation(
        "key from first and last",
        Change(
            _SEQUENCE_STORE,
            "segment.minute, first, segment.compression)\n",
            "segment.minute, first, segment.compression)\n"
            '        slot = slot.replace(".jsonl", f"-L{metadata.last.sequence}_{metadata.last.sub}.jsonl")\n',
        ),
        Change(
            _KEYS,
            "    found = _SEGMENT.fullmatch(",
            '    key = re.sub(r"-L[0-9_]+", "", key)\n    found = _SEGMENT.fullmatch(',
        ),
        mode="plain",
        tests=(f"{_SLOTS}::test_a_slot_lost_to_a_shorter_segment_leaves_the_rest",),
    ),
)
