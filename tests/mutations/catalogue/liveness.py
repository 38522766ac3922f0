"""Mutations of what must not stop a shard in silence."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

LIVENESS: Final = (
    Mutation(
        "take a free lease from a worker that reports",
        Change("consumer.leases.hand_over:take_only_lease", "not others", "True"),
        tests=("test_what_others_may_want_is_left_to_the_leader",),
    ),
    Mutation(
        "take the first of several leases",
        Change(
            "consumer.leases.hand_over:take_only_lease",
            "[lease.owner for lease in leases] != [None]",
            "[lease.owner for lease in leases][:1] != [None]",
        ),
        tests=("test_what_others_may_want_is_left_to_the_leader",),
    ),
    Mutation(
        "others can move the state folder away",
        Change("consumer.worker.state_folder:prepare_state", "_refuse_movable(path)", "pass"),
        tests=("test_a_parent_that_everybody_may_write_to_is_refused",),
    ),
    Mutation(
        "wait for who failed at a stop until the grace is over",
        Change(
            "consumer.child_logs.processor_log:ProcessorWatch.only_failed_remain",
            "self._gone.keys() & self._last_lines",
            "frozenset[int]()",
        ),
        tests=("test_a_stop_waits_for_nobody_who_failed",),
    ),
    Mutation(
        "kill the others with who failed at a stop",
        Change(
            "consumer.child_logs.processor_log:ProcessorWatch.only_failed_remain",
            "self._peers[pid].isdisjoint(self._alive)",
            "True",
        ),
        tests=("test_a_stop_waits_for_nobody_who_failed",),
    ),
    Mutation(
        "an old start is the trim horizon whatever the rows say",
        Change("consumer.archived.application:kcl_start", "has_timestamp_rows", "False"),
        tests=("test_an_older_start_stays_a_timestamp_while_a_row_waits_for_it",),
        mode="operations",
    ),
    Mutation(
        "a dead lock is left to KCL",
        Change("consumer.liveness.rules:ReaderWatch._dead_lock", "unmoved < LOCK_SECONDS", "unmoved >= 0"),
        tests=("test_every_shard_is_read_again_and_somebody_says_so",),
    ),
    Mutation(
        "a skipped batch leaves no marker before the next daemon",
        Change("consumer.daemon.stream_run:StreamRun.ended", "attempt(self._plan.after_end)", "False"),
        tests=("test_no_daemon_is_started_while_the_marker_cannot_be_stored",),
    ),
    Mutation(
        "a permission that KCL lacks is a crash like any other",
        Change("consumer.daemon.run_notes:RunNotes.note_error", "2", "1"),
        tests=("test_a_missing_permission_comes_before_what_followed_from_it",),
    ),
    Mutation(
        "a processor that was killed is not named",
        Change(
            "consumer.child_logs.processor_log:ProcessorWatch.take_killed",
            "polls > patience or pid in certain",
            "polls < 0",
        ),
        tests=("test_a_processor_that_is_killed_is_named",),
    ),
    Mutation(
        "a minute that keeps coming is held until it is too old",
        Change(
            "consumer.processor.buffer:Buffer.is_aged",
            "self.seconds_left(now) <= self._settings.max_segment_age_seconds / 2",
            "False",
        ),
        tests=("test_a_minute_that_keeps_coming_is_committed_in_good_time",),
    ),
    Mutation(
        "the fork server serves no stream that was opened after its start",
        Change("consumer.forks.loaded:serve_forks", "prepared.get(stream)", "prepared[stream]"),
        tests=("test_a_stream_that_the_fork_server_was_not_told_of_is_archived",),
    ),
    Mutation(
        "a stream of a fleet that is tried again fails the health of all",
        Change(
            "consumer.fleet.outputs:FleetWatch.verdict",
            "[stream for stream in self._streams if stream.watch.view().is_up]",
            "[stream for stream in self._streams if not stream.has_given_up]",
        ),
        tests=("test_a_stream_that_does_not_run_does_not_fail_the_task",),
    ),
)
