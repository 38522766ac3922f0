"""Mutations of forked processors: what each must have of its own, and who lives as long as whom."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_CHILD: Final = "consumer/forks/child.py"
_SERVER: Final = "consumer/forks/server.py"
_SERVING: Final = "consumer/serving.py"
_STUB: Final = "consumer/forks/stub.py"
_PROCESS: Final = "consumer/daemon/process.py"
_SUPERVISOR: Final = "consumer/daemon/supervisor.py"

_TESTS: Final = "tests/integration/consumer/test_forks.py"
_SUPERVISED: Final = "tests/integration/consumer/test_supervisor_forks.py"
_REHEARSAL: Final = "tests/integration/consumer/test_rehearsal.py"
_DEATH_TESTS: Final = "tests/unit/consumer/daemon/test_processor_log.py"
_DEATHS: Final = "tests/integration/consumer/test_supervisor_deaths.py"

FORKS: Final = (
    Mutation(
        "a stop that comes while a doomed daemon is killed is a stop that failed",
        Change(
            _SUPERVISOR,
            "asked=bool(signals.received) and not self._notes.killed_unasked",
            "asked=bool(signals.received)",
        ),
        tests=(f"{_DEATHS}::test_a_stop_while_a_deserted_daemon_is_killed_is_in_order",),
    ),
    Mutation(
        "a stop knows of a death by the fork server's word alone",
        Change(
            "consumer/daemon/processor_log.py",
            "self._gone_before = frozenset(self._died.union(self._silent))",
            "self._gone_before = frozenset(self._died)",
        ),
        tests=(f"{_DEATH_TESTS}::test_a_stop_knows_who_was_gone_before_without_a_fork_server",),
    ),
    Mutation(
        "a stop waits for processors that the ending daemon has started",
        Change(
            "consumer/daemon/processor_log.py",
            "and beside.isdisjoint(self._alive)",
            "and not self._alive",
        ),
        tests=(f"{_DEATH_TESTS}::test_a_stop_waits_for_nobody_who_began_behind_a_death",),
    ),
    Mutation(
        "a stop between two daemons keeps the leases",
        Change(
            _SUPERVISOR,
            'decision = Stop(0, "asked to stop while no daemon ran")',
            'return self._end(Stop(0, "asked to stop while no daemon ran"))',
        ),
        tests=(f"{_DEATHS}::test_a_stop_between_two_daemons_gives_the_leases_away",),
    ),
    Mutation(
        "a stop is in order though a processor was killed behind the request",
        Change(
            "consumer/daemon/processor_log.py",
            "is_over and self._silent.keys() <= self._gone_before - self._spoke",
            "is_over and self._silent.keys() <= self._died.union(self._silent) - self._spoke",
        ),
        tests=(f"{_DEATH_TESTS}::test_a_stop_waits_for_nobody_who_was_killed_before",),
    ),
    Mutation(
        "ids are made before the fork",
        Change(
            _SERVING,
            "    table: DynamoDedupeTable | None\n",
            "    table: DynamoDedupeTable | None\n    writer: str\n",
        ),
        Change(
            _SERVING,
            "        table=open_table(settings),\n",
            "        table=open_table(settings),\n        writer=new_id(),\n",
        ),
        Change(_SERVING, "rng, new_id, prepared.table, turn", "rng, lambda: prepared.writer, prepared.table, turn"),
        tests=(f"{_TESTS}::test_two_forked_processors_are_two_writers",),
    ),
    Mutation(
        "forked processors share the open file of their turn",
        Change(_SERVING, "    turn = FileTurn(prepared.path)\n", "    turn = prepared.turn\n"),
        Change(
            _SERVING,
            "    table: DynamoDedupeTable | None\n",
            "    table: DynamoDedupeTable | None\n    turn: FileTurn\n",
        ),
        Change(
            _SERVING,
            "        table=open_table(settings),\n",
            "        table=open_table(settings),\n        turn=FileTurn(path),\n",
        ),
        tests=(f"{_TESTS}::test_a_forked_processor_takes_turns_with_the_others",),
    ),
    Mutation(
        "forked processors outlive the fork server",
        Change(_CHILD, "    die_with(parent)\n", "    pass\n"),
        tests=(f"{_TESTS}::test_processors_die_with_the_fork_server",),
    ),
    Mutation(
        "a processor outlives its stub",
        Change(_SERVER, "                os.kill(pid, signal.SIGKILL)\n", "                pass\n"),
        tests=(f"{_TESTS}::test_a_killed_stub_ends_its_processor",),
    ),
    Mutation(
        "a fork server ends where nobody reads its lines",
        Change(_SERVER, "_unread: Final = suppress(OSError)", "_unread: Final = suppress()"),
        tests=(f"{_SUPERVISED}::test_a_fork_server_that_nobody_reads_waits_for_its_processors",),
    ),
    Mutation(
        "a processor is silent while it works",
        Change("consumer/processor/archiver.py", "            self._on_piece()\n", ""),
        tests=(
            "tests/unit/consumer/processor/test_claims.py::test_a_processor_that_claims_for_minutes_is_not_silent",
        ),
    ),
    Mutation(
        "a fork server waits for ever for a processor that hangs",
        Change(_SERVER, "if left is not None and left <= 0:", "if left is not None and left != left:"),
        tests=(f"{_SUPERVISED}::test_a_processor_that_hangs_does_not_outlive_its_supervisor",),
    ),
    Mutation(
        "a stub does not learn how its processor ended",
        Change(_SERVER, "code if code >= 0 else _SIGNALLED - code", "0"),
        tests=(f"{_TESTS}::test_a_killed_processor_ends_its_stub_and_nobody_else",),
    ),
    Mutation(
        "a stub whose fork server is gone ends well",
        Change(_STUB, "read -r code || exit {GONE};", "read -r code || exit 0;"),
        tests=(f"{_TESTS}::test_processors_die_with_the_fork_server",),
    ),
    Mutation(
        "a forked processor keeps what the fork server had open",
        Change(
            _CHILD,
            "    os.closerange(3, protocol)\n    os.closerange(protocol + 1, max(others) + 1)\n",
            "    _ = others\n",
        ),
        tests=(f"{_TESTS}::test_a_forked_processor_has_its_own_pipes_alone",),
    ),
    Mutation(
        "a forked processor's stdout is the protocol",
        Change(_CHILD, "    os.dup2(2, 1)\n", "    os.dup2(pipes.stdout, 1)\n"),
        tests=(f"{_TESTS}::test_a_stray_print_of_a_forked_processor_does_not_reach_the_protocol",),
    ),
    Mutation(
        "a signal ends a forked processor",
        Change(
            _CHILD,
            "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n",
            "    signal.signal(signal.SIGTERM, signal.SIG_DFL)\n",
        ),
        tests=(f"{_TESTS}::test_signals_do_not_cut_it_short",),
    ),
    Mutation(
        "a fork server that is asked to stop leaves its processors",
        Change(
            _SERVER,
            "        while self._listener is not None or self._processors:\n",
            "        while self._listener is not None:\n",
        ),
        tests=(f"{_TESTS}::test_a_fork_server_whose_parent_is_gone_waits_for_its_processors",),
    ),
    Mutation(
        "the rehearsal leaves its connections open",
        Change("consumer/forks/rehearsal.py", "            client.close()\n", "            pass\n"),
        tests=(f"{_REHEARSAL}::test_the_rehearsal_leaves_nothing_but_memory",),
    ),
    Mutation(
        "a processor is forked on what pipes there was room for",
        Change(_SERVER, "            if len(pipes) != PIPES:\n", "            if not pipes:\n"),
        Change(_SERVER, "Pipes(*pipes)", "Pipes(pipes[0], pipes[-1], pipes[-1])"),
        tests=(f"{_TESTS}::test_a_lack_of_descriptors_is_told",),
    ),
    Mutation(
        "processors turn their requests to the rehearsal's stage",
        Change("consumer/forks/rehearsal.py", "        turn.port = None\n", "        pass\n"),
        tests=("tests/unit/consumer/forks/test_turned.py::test_requests_are_turned_while_it_is_rehearsed",),
    ),
    Mutation(
        "the rehearsal is played on the archive",
        Change("consumer/forks/rehearsal.py", "            request.url = parts", "            _ = parts"),
        Change("consumer/forks/rehearsal.py", "        bucket=_NOBODYS, ", "        #"),
        Change("consumer/forks/rehearsal.py", "        stream_name=_NOBODYS,\n", ""),
        tests=(f"{_REHEARSAL}::test_the_rehearsal_touches_no_archive",),
    ),
    Mutation(
        "a daemon whose fork server is gone is waited for",
        Change(_SUPERVISOR, "            if run.has_lost_its_processors(is", "            if False and bool(is"),
        tests=(f"{_SUPERVISED}::test_a_daemon_whose_fork_server_is_gone_is_started_again",),
    ),
    Mutation(
        "a fork server that was told to stop, too, is missed",
        Change(_PROCESS, " and not (is_stopping and server.has_ended_in_order())", ""),
        tests=("tests/unit/consumer/daemon/test_process.py::test_a_fork_server_may_end_in_a_stop_alone",),
    ),
    Mutation(
        "a stop that everybody is told of turns shards away",
        Change("consumer/forks/program.py", "signal.signal(signal.SIGTERM, signal.SIG_IGN)", "pass"),
        tests=(f"{_TESTS}::test_a_shard_can_be_opened_when_everybody_is_told_to_stop",),
    ),
    Mutation(
        "forked processors outlive their daemon",
        Change(
            _PROCESS,
            "        code, *_ = [child.reap() for child in self._children()]\n",
            "        code = self._daemon.reap()\n",
        ),
        tests=(f"{_SUPERVISED}::test_forked_processors_do_not_outlive_their_daemon",),
    ),
)
