"""Mutations of `restore`, `expire` and `doctor`."""

from typing import Final

from tests.mutations.mutation import Change, Mutation, in_mode

_PLAN: Final = "consumer.expire.plan"
_COMMAND: Final = "consumer.restore.command"
_RESTORE_PLAN: Final = "consumer.restore.plan"

_OPERATIONS: Final = in_mode(
    "operations",
    Mutation(
        "restore takes the newest minute for the tail",
        Change("consumer.archived.chain_ends:_first", "name.first", "(name.minute, name.first)"),
        tests=("test_the_tail_is_the_greatest_position_not_the_newest_minute",),
    ),
    Mutation(
        "restore while a worker lives",
        Change(f"{_COMMAND}:rebuild", "check_nobody_lives(before, table.read())", "table.read()"),
        tests=("test_a_slow_first_look_does_not_shorten_the_second",),
    ),
    Mutation(
        "the wait begins before the first look",
        Change(f"{_COMMAND}:rebuild", "before = table.read()", ("began = clock.monotonic()\nOLD")),
        Change(f"{_COMMAND}:rebuild", "read_at = clock.monotonic()", "read_at = began"),
        tests=("test_a_slow_first_look_does_not_shorten_the_second",),
    ),
    Mutation(
        "the second look comes at once",
        Change(
            f"{_COMMAND}:rebuild",
            "max(0.0, read_at + parts.failover_seconds + _MARGIN_SECONDS - clock.monotonic())",
            "0.0",
        ),
        tests=("test_a_slow_first_look_does_not_shorten_the_second",),
    ),
    Mutation(
        "restore beyond the tail",
        Change(
            f"{_RESTORE_PLAN}:_after_chain",
            new="return Position(chain_end.tail.last.sequence, chain_end.tail.last.sub + 1), 'beyond it', ()",
        ),
        tests=("test_a_shard_goes_on_after_its_tail",),
    ),
    Mutation(
        "restore at the sentinel",
        Change(
            f"{_RESTORE_PLAN}:_checkpoint",
            ("if chain_end is not None:\n    return _after_chain(facts, chain_end)"),
        ),
        tests=("test_a_missing_segment_is_read_again",),
    ),
    Mutation(
        "restore ends every closed shard",
        Change(
            f"{_RESTORE_PLAN}:_checkpoint",
            "archived.end is not None and _reaches(archived, chain_end, as_of=facts.as_of)",
            "info.closed and (archived.end is None or _reaches(archived, chain_end, as_of=facts.as_of))",
        ),
        tests=("test_a_closed_shard_without_proof_is_read_on",),
    ),
    Mutation(
        "expire inside retention",
        Change("consumer.expire.command:newest_day", "older_than_ms < retention_ms + MARGIN_MS", "older_than_ms < 0"),
        tests=("test_what_the_stream_may_still_hold_is_refused",),
    ),
    Mutation(
        "expire the day that retention ends in",
        Change(
            "consumer.expire.command:newest_day",
            "(archive.clock.now_ms() - older_than_ms) // DAY_MS - 1",
            "(archive.clock.now_ms() - older_than_ms) // DAY_MS + 2",
        ),
        tests=("test_what_the_stream_may_still_hold_is_refused",),
    ),
    Mutation(
        "expire the last segment of a chain",
        Change(f"{_PLAN}:_last_of_chains", "segment.first == greatest[segment.shard_id]", "segment is None"),
        tests=("test_the_last_segment_of_a_chain_stays",),
    ),
    Mutation(
        "expire what is not published",
        Change(f"{_PLAN}:_refusal", "f'not published: run minutebook compact --date {day}'", "None"),
        tests=("test_a_day_that_is_not_published_is_refused",),
    ),
    Mutation(
        "expire whatever the verdict",
        Change(f"{_PLAN}:_unfit", "published.verdict != CLEAN", "not published.verdict"),
        tests=("test_a_day_that_is_not_clean_is_refused",),
    ),
    Mutation(
        "expire what came after the verdict",
        Change(
            f"{_PLAN}:_difference", "return f'{fresh[0]} is newer than what was published: {remedy}'", "return None"
        ),
        tests=("test_an_object_newer_than_the_verdict_is_refused",),
    ),
    Mutation(
        "expire without a tombstone",
        Change(
            "consumer.expire.apply:DayDeleter.expire", ("if proof is not None:\n    self._put_tombstone(plan, proof)")
        ),
        tests=("test_the_tombstone_names_the_chains_ends",),
    ),
    Mutation(
        "expire the watermarks of segments that stay",
        Change("consumer.expire.command:SideObjects._of_day", "slot not in remaining", "True"),
        tests=("test_watermarks_of_a_segment_that_stays_can_be_read",),
    ),
)

OPERATORS: Final = (
    *_OPERATIONS,
    Mutation(
        "a lifecycle rule by a tag deletes nothing of ours",
        Change(
            "consumer.preflight.bucket_rules:_selecting",
            "any(wanted.items() <= carried.items() for carried in tags)",
            "False",
        ),
        tests=("test_rules_by_a_tag_that_our_objects_carry",),
    ),
    Mutation(
        "two tags of two objects add up to a rule's",
        Change(
            "consumer.preflight.bucket_rules:_selecting",
            "any(wanted.items() <= carried.items() for carried in tags)",
            "all(any(pair in carried.items() for carried in tags) for pair in wanted.items())",
        ),
        tests=("test_rules_by_tags_that_no_object_of_ours_carries",),
    ),
    Mutation(
        "a rule that archives is no matter",
        Change("consumer.preflight.bucket_rules:archiving_rules", "_UNREADABLE", "()"),
        tests=("test_rules_that_make_our_objects_unreadable",),
    ),
    Mutation(
        "restore looks for a chain as far back as the stream holds records today",
        Change(
            "consumer.archived.shard_markers:ArchivedShard.oldest_minute",
            "[int(written.timestamp() * 1000) - LONGEST_RETENTION_MS, application.stream_created_ms]",
            "[int(written.timestamp() * 1000) - DAY_MS]",
        ),
        tests=("test_a_tail_is_found_whatever_the_retention_is_now",),
    ),
    Mutation(
        "a plan is carried out unless --dry-run is given",
        Change("minutebook.apply_option:is_applied", "return apply", "return not dry_run"),
        tests=("test_only_apply_applies",),
    ),
    Mutation(
        "a plan of restore writes the rows",
        Change(f"{_COMMAND}:rebuild", ("if not apply:\n    return 0")),
        tests=("test_only_apply_writes_rows",),
    ),
    Mutation(
        "a plan of vacuum deletes",
        Change(
            "compaction.commands.vacuum.command:vacuum_output",
            "if apply:\n    delete_leftovers(output.storage, folder, left)",
            "delete_leftovers(output.storage, folder, left)",
        ),
        tests=("test_a_plan_says_the_same_and_deletes_nothing",),
    ),
    Mutation(
        "a key is printed as it is",
        Change("minutebook.terminal:TerminalConsole.render_str", "printable(text)", "text"),
        tests=("test_the_console_escapes_whatever_it_prints",),
    ),
    Mutation(
        "an error is printed as it is",
        Change("minutebook.wording:error_lines", "printable_message(message)", "message"),
        tests=("test_an_error",),
    ),
    Mutation(
        "let a reader of the archive pass over a misspelled name",
        Change("minutebook.archive_settings:read_texts", "not is_known(name)", "False"),
        tests=("test_the_consumer_and_the_readers_refuse_the_same",),
    ),
    Mutation(
        "send credentials that no header can hold",
        Change("minutebook.aws.credentials:_check_sendable", "not _SENDABLE.fullmatch(text)", "False"),
        tests=("test_a_line_end_of_a_mounted_file_is_named_and_never_told",),
    ),
    Mutation(
        "compare what has no value",
        Change(
            "compaction.columns.paths:_Interpreter.visit_comparator",
            "any(isinstance(side, Ambiguous | NotANumber) for side in sides)",
            "False",
        ),
        tests=("test_what_has_no_value_is_equal_to_nothing",),
    ),
    Mutation(
        "name the parts of a view as a column is named",
        Change("compaction.commands.latest:_unused", "word in known", "False"),
        tests=("test_no_name_of_the_view_hides_a_column",),
    ),
    Mutation(
        "count the elements of a list that do not fit as one",
        Change("compaction.columns.counts:Samples.add", "misfit.values", "1"),
        tests=("test_of_a_lists_elements_those_of_a_leaf_are_one_reason",),
    ),
)
