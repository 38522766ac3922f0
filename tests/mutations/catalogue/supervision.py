"""Mutations of what keeps every shard read: KCL's start, the age of a buffer, the supervisor and its watch."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_APPLICATION: Final = "consumer/archived/application.py"
_START: Final = "consumer/daemon/start.py"
_RULES: Final = "consumer/daemon/readers/rules.py"
_SUPERVISOR: Final = "consumer/daemon/supervisor.py"
_SUPERVISOR_TESTS: Final = "tests/integration/consumer/test_supervisor.py"
_DEATHS: Final = "tests/integration/consumer/test_supervisor_deaths.py"
_NOTES: Final = "consumer/daemon/run_notes.py"
_LOG: Final = "consumer/daemon/processor_log.py"
_BUFFER: Final = "consumer/processor/buffer.py"
_ARCHIVER: Final = "consumer/processor/archiver.py"

_SHARDS: Final = "consumer/daemon/watching/shards.py"

_METRIC_TESTS: Final = "tests/unit/consumer/daemon/watching/test_metrics.py"
_STARTS: Final = "tests/unit/consumer/archived/test_application.py"
_RULES_TESTS: Final = "tests/unit/consumer/daemon/readers/test_rules.py"
_LOCK_TESTS: Final = "tests/unit/consumer/daemon/readers/test_lock_memory.py"
_HISTORIES: Final = (
    "tests/simulation/coordinator/test_coordinator.py::test_every_shard_is_read_again_and_somebody_says_so"
)
_WATCH: Final = "tests/unit/consumer/daemon/test_processor_log.py"
_BUFFERS: Final = "tests/unit/consumer/processor/test_buffer.py"
_SKIPPED: Final = "tests/integration/consumer/test_supervisor_skipped.py"
_CLAIMS: Final = "tests/unit/consumer/processor/test_claims.py"
_DAEMON_STARTS: Final = "tests/unit/consumer/daemon/test_start.py"

_HANDED: Final = "tests/unit/consumer/leases/test_hand_over_request.py"
_LEAVING: Final = "tests/unit/consumer/leases/test_hand_over.py"

SUPERVISION: Final = (
    Mutation(
        "who dies behind the request to stop is looked at no more",
        Change(
            _LOG,
            "            self._look()  # also for",
            "            if self._gone_before:\n                self._look()  # also for",
        ),
        tests=(f"{_WATCH}::test_who_dies_behind_the_request_is_named",),
    ),
    Mutation(
        "a stop that lost a processor is one in order",
        Change("consumer/daemon/restart_policy.py", "    if ended.lost is not None:", "    if False:"),
        tests=(
            "tests/unit/consumer/daemon/test_restart_policy.py::test_a_stop_that_lost_a_processor_is_a_failure",
            f"{_DEATHS}::test_a_death_behind_the_request_is_told_however_the_daemon_ends",
        ),
    ),
    Mutation(
        "a daemon that ran out of memory reads as much again",
        Change("consumer/daemon/properties.py", "            self._deaths += 1", "            pass"),
        tests=("tests/unit/consumer/daemon/test_properties.py::test_who_ran_out_of_memory_reads_less_at_once",),
    ),
    Mutation(
        "nobody is told that the daemon ran out of memory",
        Change(_SUPERVISOR, "            self._plan.on_out_of_memory()", "            pass"),
        tests=(f"{_SUPERVISOR_TESTS}::test_the_daemons_log_is_passed_on_in_the_schema_of_all_lines",),
    ),
    Mutation(
        "a lease is handed over whoever owns it by then",
        Change(
            "consumer/leases/rows.py",
            "leaseOwner = :owner AND leaseCounter = :counter AND",
            "(leaseOwner = :owner OR leaseOwner <> :owner) AND leaseCounter = :counter AND",
        ),
        tests=(f"{_HANDED}::test_each_thing_that_was_seen_is_a_condition",),
    ),
    Mutation(
        "a lease is handed over though somebody renews it",
        Change(
            "consumer/leases/rows.py",
            "leaseOwner = :owner AND leaseCounter = :counter AND",
            "leaseOwner = :owner AND (leaseCounter = :counter OR leaseCounter <> :counter) AND",
        ),
        tests=(f"{_HANDED}::test_each_thing_that_was_seen_is_a_condition",),
    ),
    Mutation(
        "a lease is handed over though its checkpoint has moved",
        Change(
            "consumer/leases/rows.py",
            "AND leaseCounter = :counter AND checkpoint = :checkpoint ",
            "AND leaseCounter = :counter AND (checkpoint = :checkpoint OR checkpoint <> :checkpoint) ",
        ),
        tests=(f"{_HANDED}::test_each_thing_that_was_seen_is_a_condition",),
    ),
    Mutation(
        "a hand-over without an answer is asked again",
        Change("consumer/leases/table.py", "what, budget_seconds=0)", "what)"),
        tests=(f"{_HANDED}::test_it_is_sent_once",),
    ),
    Mutation(
        "a worker that stops stays among those who get leases",
        Change(
            "consumer/leases/hand_over.py",
            "            self._table.withdraw(self._worker_id)\n            plan",
            "            plan",
        ),
        tests=(f"{_LEAVING}::test_the_leases_the_report_and_the_lock_are_given_up",),
    ),
    Mutation(
        "leases are given away however the daemon ended",
        Change(
            _SUPERVISOR,
            "if decision.exit_code == 0 and ended.failure is None and self._plan.leaving",
            "if self._plan.leaving",
        ),
        tests=("tests/integration/consumer/test_supervisor.py::test_who_does_not_stop_in_order_keeps_its_leases",),
    ),
    Mutation(
        "an old start is the trim horizon whatever the rows say",
        Change(_APPLICATION, "if is_held or has_timestamp_rows else None", "if is_held else None"),
        tests=(f"{_STARTS}::test_an_older_start_stays_a_timestamp_while_a_row_waits_for_it",),
        mode="operations",
    ),
    Mutation(
        "the rows are not looked at before a start",
        Change(_START, "return with_rows if rows is not None and rows.has_timestamp_rows else plain", "return plain"),
        tests=(f"{_DAEMON_STARTS}::test_a_later_start_of_the_daemon_looks_again",),
    ),
    Mutation(
        "what waits is forgotten with the daemon",
        Change(
            _SHARDS,
            "shard.heard_at, shard.buffer_bytes = None, 0",
            "shard.heard_at, shard.buffer_bytes, shard.oldest_ms, shard.waits_since = None, 0, None, None",
        ),
        tests=(f"{_METRIC_TESTS}::test_what_a_dead_processor_held_is_still_behind",),
    ),
    Mutation(
        "a processor says what it received when it is done",
        Change(
            "consumer/processor/processor.py",
            "            shard.progress.received(first.arrival_ms)\n",
            "            pass\n",
        ),
        tests=(f"{_METRIC_TESTS}::test_a_processor_that_hangs_has_said_what_it_holds",),
    ),
    Mutation(
        "a lease of ours that nobody opened is no matter",
        Change(_RULES, "left = ours - look.opened", "left: set[str] = set()"),
        tests=(f"{_RULES_TESTS}::test_a_lease_of_ours_that_nobody_opened_is_found", _HISTORIES),
    ),
    Mutation(
        "a processor that hangs is no matter",
        Change(_RULES, "            *self._silent(look, waiting),\n", ""),
        tests=(f"{_RULES_TESTS}::test_a_processor_that_says_nothing_is_found",),
    ),
    Mutation(
        "a daemon that calls nobody is started again and again",
        Change(_RULES, '"restart" if is_called and seconds', '"restart" if seconds'),
        tests=(f"{_RULES_TESTS}::test_a_processor_that_says_nothing_is_found",),
    ),
    Mutation(
        "a lease that nobody renews is no matter",
        Change(_RULES, "            *self._unrenewed(look, waiting),\n", ""),
        tests=(f"{_RULES_TESTS}::test_a_lease_that_nobody_renews_is_found", _HISTORIES),
    ),
    Mutation(
        "the lock is forgotten with each daemon",
        Change(_RULES, "        self._ours.clear()\n", "        self._lock = None\n        self._ours.clear()\n"),
        tests=(f"{_RULES_TESTS}::test_a_lock_that_does_not_move_is_dead",),
    ),
    Mutation(
        "seconds of another start of the host count",
        Change("consumer/daemon/readers/lock_memory.py", "note.boot != self._boot or ", ""),
        tests=(f"{_LOCK_TESTS}::test_seconds_of_another_start_count_for_nothing",),
    ),
    Mutation(
        "a dead lock is left to KCL",
        Change(_RULES, "        if still < LOCK_SECONDS:", "        if still >= 0:"),
        tests=(_HISTORIES,),
    ),
    Mutation(
        "a row that was deleted is no matter",
        Change(_RULES, "            *self._rowless(look, leases),\n", ""),
        tests=(_HISTORIES,),
    ),
    Mutation(
        "rows are forgotten as soon as they are gone",
        Change(_RULES, "left = (look.opened | self._known) - leases.keys()", "left = look.opened - leases.keys()"),
        tests=(_HISTORIES,),
    ),
    Mutation(
        "whoever misses a row restarts",
        Change(_RULES, "ROW_SECONDS: Final = 900.0", "ROW_SECONDS: Final = 0.0"),
        tests=(_HISTORIES,),
    ),
    Mutation(
        "a lease that moves from hand to hand is well",
        Change(
            _RULES,
            "        return [*found, *self._unread(",
            "        return found\n        return [*found, *self._unread(",
        ),
        tests=(_HISTORIES,),
    ),
    Mutation(
        "a lease that is given away again and again counts as renewed",
        Change(_RULES, "lease.counter - before.counter >= 2 * fail_overs", "lease.counter > before.counter"),
        tests=(f"{_RULES_TESTS}::test_a_lease_that_moves_from_hand_to_hand_is_told",),
    ),
    Mutation(
        "a new leader has no time to give leases away",
        Change(_RULES, " and self.may_take_more and not is_new", " and self.may_take_more"),
        tests=(f"{_RULES_TESTS}::test_whoever_has_just_become_the_leader_has_time_to_give_leases_away",),
    ),
    Mutation(
        "nobody restarts for a lease that nobody renews",
        Change(_RULES, 'act: Act = "restart" if leads and', 'act: Act = "tell" if leads and'),
        tests=(_HISTORIES,),
    ),
    Mutation(
        "a child is wanted before its parents are finished",
        Change(
            _RULES,
            'all(leases[parent].checkpoint == "SHARD_END" for parent in lease.parents if parent in leases)',
            "True",
        ),
        tests=(f"{_RULES_TESTS}::test_a_child_waits_for_its_parents",),
    ),
    Mutation(
        "a skipped batch leaves no marker before the next daemon",
        Change(_SUPERVISOR, "failure=_try(self._plan.after_end) or self._notes.told", "failure=self._notes.told"),
        tests=(f"{_SKIPPED}::test_no_daemon_is_started_while_the_marker_cannot_be_stored",),
    ),
    Mutation(
        "a marker that cannot be stored is forgotten",
        Change(
            "consumer/archived/skipped.py",
            "            self._put(told)\n            with self._lock:\n                self._told.remove(told)\n",
            "            with self._lock:\n                self._told.remove(told)\n            self._put(told)\n",
        ),
        tests=("tests/unit/consumer/archived/test_skipped.py::test_a_marker_that_cannot_be_stored_is_loud",),
    ),
    Mutation(
        "a permission that KCL lacks is a crash like any other",
        Change(_NOTES, "event=DENIED, exit_code=2", "event=DENIED, exit_code=1"),
        tests=(
            "tests/unit/consumer/daemon/test_run_notes.py::test_a_missing_permission_comes_before_what_followed_from_it",
        ),
    ),
    Mutation(
        "a processor that was killed is not named",
        Change(
            _LOG,
            "if (polls > patience or pid in certain) and pid not in self._spoke",
            "if polls < 0 and pid not in self._spoke",
        ),
        tests=("tests/integration/consumer/test_supervisor.py::test_a_processor_that_is_killed_is_named",),
    ),
    Mutation(
        "a minute that keeps coming is held until it is too old",
        Change(_BUFFER, "self.seconds_left(now) <= self._settings.max_segment_age_seconds / 2", "False"),
        tests=(f"{_BUFFERS}::test_a_minute_that_keeps_coming_is_committed_in_good_time",),
    ),
    Mutation(
        "the age of a buffer is looked at only when a delivery ends",
        Change(
            _ARCHIVER, "if reason is None and self._buffer.is_aged(self._services.clock.monotonic()):", "if False:"
        ),
        tests=(f"{_CLAIMS}::test_claims_that_are_held_back_do_not_outlive_their_buffer",),
    ),
    Mutation(
        "all claims of a delivery are asked for before its age is looked at",
        Change(_ARCHIVER, "_JUDGED_AT_ONCE: Final = 250", "_JUDGED_AT_ONCE: Final = 10_000"),
        tests=(f"{_CLAIMS}::test_claims_that_are_held_back_do_not_outlive_their_buffer",),
    ),
    Mutation(
        "wait for processors that began after another's death",
        Change(_LOG, "self._beside[pid].isdisjoint(self._alive)", "not self._alive"),
        tests=(f"{_WATCH}::test_processors_that_began_after_a_death_are_not_waited_for",),
    ),
    Mutation(
        "wait for a processor that hangs as long as the daemon does",
        Change(_LOG, "polls > _FAREWELL_POLLS or ", ""),
        tests=(f"{_WATCH}::test_processors_that_were_there_have_the_time_to_leave",),
    ),
    Mutation(
        "take who ended well for dead",
        Change(
            _LOG,
            "                elif event.exit_code == 0:\n                    self._ended_well.add(event.pid)\n",
            "",
        ),
        tests=(f"{_WATCH}::test_who_ended_well_is_not_taken_for_dead",),
    ),
)
