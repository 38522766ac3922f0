"""Mutations of what the supervisor tells of itself: health, metrics, shards without a reader."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_POLL: Final = "consumer/daemon/readers/poll.py"
_SHARDS: Final = "consumer/daemon/watching/shards.py"
_HEALTH_TESTS: Final = "tests/unit/consumer/daemon/watching/test_health.py"
_LOCK_TESTS: Final = "tests/unit/consumer/daemon/readers/test_lock_memory.py"
_POLL_TESTS: Final = "tests/unit/consumer/daemon/readers/test_poll.py"

WATCHING: Final = (
    Mutation(
        "a restart hides that a shard has no reader",
        Change(_POLL, "self._unread = found | ((self._unread & ours) - read)", "self._unread = found"),
        tests=(f"{_POLL_TESTS}::test_a_restart_does_not_hide_that_a_shard_has_no_reader",),
    ),
    Mutation(
        "every worker answers for a shard that nobody reads",
        Change(_POLL, "self._unread - ours - read if follows else frozenset()", "frozenset()"),
        tests=(f"{_POLL_TESTS}::test_the_leader_answers_for_what_nobody_has_opened",),
    ),
    Mutation(
        "records that are delivered again are progress",
        Change(_SHARDS, "event.oldest_ms > lost_ms", "event.oldest_ms != lost_ms"),
        tests=(f"{_HEALTH_TESTS}::test_what_comes_before_the_lost_record_is_no_progress",),
    ),
    Mutation(
        "an empty call after a crash is progress",
        Change(_SHARDS, "return event.behind_ms == 0 if event.oldest_ms", "return True if event.oldest_ms"),
        tests=(f"{_HEALTH_TESTS}::test_what_comes_before_the_lost_record_is_no_progress",),
    ),
    Mutation(
        "a processor that hangs again is not named again",
        Change(_POLL, "        self._told &= {(finding.event, finding.shard) for finding in findings}\n", ""),
        tests=(f"{_POLL_TESTS}::test_a_processor_that_hangs_is_named_each_time_it_does",),
    ),
    Mutation(
        "the lock is forgotten with each supervisor",
        Change(_POLL, "            watch.remember_lock(*recalled)\n", "            pass\n"),
        tests=(f"{_LOCK_TESTS}::test_a_dead_lock_is_removed_in_time_whatever_is_restarted",),
    ),
    Mutation(
        "a lock is removed whatever its version is by then",
        Change(_POLL, "finding.lock.owner, finding.lock.version", "finding.lock.owner"),
        tests=(f"{_POLL_TESTS}::test_a_lock_that_moved_after_the_look_stays",),
    ),
    Mutation(
        "nobody asks whether another daemon has our worker id",
        Change(_POLL, "        if renewed:\n", "        if False:\n"),
        tests=(f"{_POLL_TESTS}::test_another_daemon_with_this_worker_id_is_refused",),
    ),
)
