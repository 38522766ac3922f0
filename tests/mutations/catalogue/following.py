"""Mutations of how an archive is followed into a table."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_AT_A_REQUEST: Final = "test_what_another_process_does_at_a_request_of_a_tick_is_kept"

FOLLOWING: Final = (
    Mutation(
        "swap the live pointer whatever it is now",
        Change(
            "compaction.live.day:LiveDay._swap",
            "state.etag",
            "self._pointer()[1]",
        ),
        tests=(_AT_A_REQUEST,),
    ),
    Mutation(
        "read the pointers before the table is loaded",
        Change(
            "compaction.tables.commit:TableCommitter.commit",
            "view = self._table.look(self._publisher.folder.day)",
            "early = self._publisher.published()\n"
            "early_columns = DayColumns(lambda _: (), None)\n"
            "files = LiveFiles() if self._live is None else self._live.shown(early[0], early_columns, 'u')\n"
            "view = self._table.look(self._publisher.folder.day)",
        ),
        Change(
            "compaction.tables.commit:TableCommitter.commit",
            "pointer, manifest = self._publisher.published()",
            "pointer, manifest = early",
        ),
        Change(
            "compaction.tables.commit:TableCommitter.commit",
            "LiveFiles() if self._live is None else self._live.shown(pointer, columns, view.table_uuid)",
            "files",
        ),
        Change(
            "compaction.tables.commit:TableCommitter._is_current",
            "is_same and (self._live is None or self._live.is_current(goal.live))",
            "True",
        ),
        tests=(_AT_A_REQUEST,),
    ),
    Mutation(
        "drop the rest of a live part that is covered in part",
        Change("compaction.live.day:LiveDay.shown", "of_day.cut.items()", "{}.items()"),
        tests=("test_a_part_of_a_day_takes_over_its_minutes_alone",),
    ),
    Mutation(
        "let live parts leave the table when a night comes",
        Change(
            "compaction.tables.commit:TableCommitter.commit",
            "LiveFiles() if self._live is None else self._live.shown(pointer, columns, view.table_uuid)",
            "LiveFiles() if self._live is None or pointer is not None "
            "else self._live.shown(pointer, columns, view.table_uuid)",
        ),
        tests=("test_a_part_of_a_day_takes_over_its_minutes_alone",),
    ),
    Mutation(
        "show segments that overlap",
        Change("compaction.follow.choosing:choose", "overlapped(span, others)", "''"),
        tests=("test_overlapping_segments_are_left_out_and_named",),
    ),
    Mutation(
        "expire a day's newest snapshot",
        Change("compaction.tables.history:expirable", "kept |= _newest_of_days(branch)", "pass"),
        tests=("test_only_follows_own_old_snapshots_expire_and_no_days_newest",),
    ),
    Mutation(
        "keep snapshots for a day whatever the table says",
        Change(
            "compaction.tables.table:IcebergTable._snapshot_age_ms",
            "table.properties.get(_SNAPSHOT_AGE, '86400000')",
            "'86400000'",
        ),
        tests=("test_a_table_says_itself_how_long_its_snapshots_are_kept",),
    ),
    Mutation(
        "expire what tells a rollback",
        Change("compaction.tables.history:expirable", "kept |= {child.snapshot_id, parent.snapshot_id}", "pass"),
        tests=("test_what_a_rollback_has_left_stays_left_when_snapshots_expire",),
    ),
    Mutation(
        "stamp a snapshot before the last change",
        Change("compaction.tables.table:_stamped", "update.snapshot.timestamp_ms >= after_ms", "True"),
        tests=("test_times_of_a_table_never_step_back",),
    ),
    Mutation(
        "believe what a table was told that was set back",
        Change(
            "compaction.tables.commit:TableCommitter.commit", "bool(since) and not view.goes_on_from(since)", "False"
        ),
        tests=("test_a_table_that_is_made_anew_or_set_back_is_complete_no_more",),
    ),
    Mutation(
        "let a night make a followed table one by event",
        Change(
            "compaction.tables.table:IcebergTable._check_partitions",
            "fields == [shape.ARRIVAL] and self._by_event and history.ROWS_UNTIL in table.properties",
            "False",
        ),
        tests=("test_no_night_makes_a_followed_table_one_by_event",),
    ),
    Mutation(
        "show live parts whose files are gone",
        Change("compaction.follow.day:FollowedDay.list_new", "self._live.look_for_files()", "pass"),
        tests=("test_a_live_file_that_went_without_its_facts_is_written_again",),
    ),
    Mutation(
        "expire what another engine's snapshot rests on",
        Change(
            "compaction.tables.history:expirable",
            "kept |= _newest_of_days(branch_of(metadata, snapshot) if at is None else branch[at:])",
            "pass",
        ),
        tests=("test_a_table_that_is_set_back_to_another_engines_snapshot_goes_on",),
    ),
    Mutation(
        "let rows leave with a live pointer that was set back",
        Change("compaction.live.day:LiveDay._open", "self._vanished.update(self._opened[key].segments)", "pass"),
        tests=("test_no_row_leaves_with_a_live_pointer_that_a_person_sets_back",),
    ),
    Mutation(
        "let one object that is refused hold the others",
        Change("compaction.follow.day:FollowedDay._refused", "refused if is_one else []", "[]"),
        tests=("test_an_object_that_the_store_refuses_is_left_out_alone",),
    ),
    Mutation(
        "delete live files in the run that replaces them",
        Change("compaction.night.rewrite:_Run._commit", "commit.state == 'already'", "True"),
        tests=("test_live_files_outlast_the_run_that_replaces_them",),
    ),
    Mutation(
        "call a table complete over days that it lacks",
        Change("compaction.follow.follower:Follower._first_ms", "not self._is_in_table(Day(number))", "False"),
        tests=("test_a_table_that_lacks_a_day_is_not_complete",),
    ),
    Mutation(
        "keep in a table what was deleted from the archive",
        Change("compaction.live.day:LiveDay._gone", "behind & checked.gone", "set()"),
        tests=("test_a_segment_that_was_deleted_before_a_night_leaves_the_table",),
    ),
    Mutation(
        "keep in a table what overlaps a published segment",
        Change("compaction.live.day:LiveDay._gone", "overlapped(spans[key], others)", "''"),
        tests=("test_a_segment_that_overlaps_what_a_night_published_leaves_the_table",),
    ),
    Mutation(
        "call a table complete whatever the poll has listed",
        Change(
            "compaction.follow.windows:complete_ms", "begins_ms <= floor_ms < boundary_ms", "floor_ms < boundary_ms"
        ),
        tests=("test_a_table_is_complete_until_a_boundary_that_was_read_before_the_poll",),
    ),
    Mutation(
        "join live parts of unequal columns",
        Change("compaction.live.day:LiveDay.join", "part.part.columns", "''"),
        tests=("test_parts_of_unequal_columns_are_not_joined",),
    ),
    Mutation(
        "let live parts bring columns that the table does not take",
        Change("compaction.tables.fitting:DayColumns.add", "uri in self._present", "True"),
        tests=("test_a_column_that_the_table_does_not_take_is_left_out_until_the_night",),
    ),
    Mutation(
        "sweep live parts that the table names",
        Change("compaction.live.sweep:sweep_live", "row.key.rpartition('/')[2] not in names", "True"),
        tests=("test_a_file_that_the_table_names_is_not_swept",),
    ),
    Mutation(
        "believe that two metadata files tell all snapshots between them",
        Change("compaction.tables.formers:_Told.tells_all_since", "made == self.last - earlier.last", "True"),
        tests=("test_no_snapshot_is_overlooked",),
    ),
    Mutation(
        "take metadata of a name that ours has for ours",
        Change("compaction.tables.orphans:_checked_alone", "uri not in ours", "name_of(uri) not in once_current"),
        tests=("test_another_tables_metadata_of_the_same_name_is_looked_at",),
    ),
    Mutation(
        "believe numbers that were given twice",
        Change("compaction.tables.formers:_Told.of", "len({*given}) == len(given)", "True"),
        tests=("test_a_number_that_was_given_twice_is_not_believed",),
    ),
    Mutation(
        "look at no snapshot that expired lately",
        Change("compaction.tables.named:NamedFiles.add", "self._add_expired(io, snapshot)", "pass"),
        tests=("test_a_snapshot_that_was_expired_lately_stays_whole",),
    ),
    Mutation(
        "look for overlaps in no part",
        Change("compaction.live.day:LiveDay.may_hold", "low <= slot <= high", "False"),
        tests=("test_a_segment_that_overlaps_rows_of_an_earlier_tick_is_left_out",),
    ),
    Mutation(
        "show parts that the night covers",
        Change("compaction.live.day:LiveDay.shown", "pointer is None", "True"),
        tests=("test_a_night_takes_over_and_the_next_one_takes_what_came_late",),
    ),
    Mutation(
        "believe a second loss to be the first",
        Change("compaction.follow.day:FollowedDay._read", "not vanished <= self._lost", "not self._is_lost"),
        tests=("test_a_second_loss_while_rows_come_back_takes_no_row_along",),
    ),
    Mutation(
        "write others before what was shown",
        Change(
            "compaction.follow.day:FollowedDay._batch",
            "self._waiting.keys() & self._lost or self._waiting",
            "self._waiting",
        ),
        tests=("test_what_was_shown_comes_back_before_what_overlaps_it",),
    ),
    Mutation(
        "write before what was lost is listed",
        Change("compaction.follow.day:FollowedDay.write", "self._is_lost and not self._is_listed_again", "False"),
        tests=("test_what_was_shown_comes_back_before_what_overlaps_it",),
    ),
    Mutation(
        "tell the table of a poll while rows of yesterday are lost",
        Change(
            "compaction.follow.follower:Follower._commit",
            "self._is_whole(days)",
            "self._exit_code == 0",
        ),
        tests=("test_the_table_is_told_nothing_while_rows_of_yesterday_are_lost",),
    ),
    Mutation(
        "count deletes that are older than all data",
        Change(
            "compaction.tables.frugal:DayPlanner.plan_manifest_entries",
            "self._check_sequence_number(least, manifest)",
            "True",
        ),
        tests=("test_deletes_count_that_are_younger_than_some_data",),
    ),
    Mutation(
        "join parts that a night has taken over",
        Change("compaction.live.day:LiveDay.join", "part.key not in leaving", "True"),
        tests=("test_parts_that_a_night_has_taken_over_are_not_joined",),
    ),
    Mutation(
        "keep parts in the live pointer that a night has taken over",
        Change("compaction.live.day:LiveDay.add", "each.key not in self._checked.leaving", "True"),
        tests=("test_parts_that_a_night_has_taken_over_are_not_joined",),
    ),
    Mutation(
        "call a table complete that lacks a day that is held",
        Change("compaction.follow.day:FollowedDay.commit", "done is not None and done.state == 'held'", "False"),
        tests=("test_a_table_is_not_complete_while_a_day_is_held",),
    ),
    Mutation(
        "tell the table of the snapshot before",
        Change(
            "compaction.tables.table:IcebergDay.replace",
            "snapshot._snapshot_id",
            "self._table.metadata.current_snapshot_id",
        ),
        tests=("test_a_table_that_is_set_back_by_its_last_snapshot_is_complete_no_more",),
    ),
    Mutation(
        "hold all parts in memory that are to be joined",
        Change("compaction.live.parts:Held.add", "size > self._most_bytes", "False"),
        tests=("test_parts_are_joined_as_far_as_they_fit_into_memory",),
    ),
    Mutation(
        "show rows of live parts that are published in another segment",
        Change("minutebook.reader.live:LiveDays._published", "beside and table.num_rows", "False"),
        tests=("test_readers_see_no_record_twice_whose_deleted_segment_was_shown",),
    ),
    Mutation(
        "join nothing beside a part that leaves no room",
        Change("compaction.live.day:LiveDay._held", "not fits and held.bytes > _JOIN_BYTES // 2", "False"),
        Change("compaction.live.day:LiveDay.join", "held.bytes > _JOIN_BYTES // 2", "False"),
        tests=("test_joined_parts_stop_no_later_join",),
    ),
    Mutation(
        "list ten minutes behind an object that was gone for a moment",
        Change("compaction.follow.day:FollowedDay._name", "Listed()", "self._listed"),
        tests=("test_an_object_that_is_gone_for_a_moment_is_listed_again",),
    ),
    Mutation(
        "tell rows-until while a day is held",
        Change(
            "compaction.follow.follower:Follower._is_whole",
            "day.is_behind or day.has_changed_objects or day.lacks_rows",
            "day.is_behind or day.has_changed_objects",
        ),
        tests=("test_no_rows_until_is_told_of_a_day_that_is_held_at_midnight",),
    ),
    Mutation(
        "let a lost row go whose object is gone for a moment",
        Change("compaction.follow.day:FollowedDay._restored", "not self.has_changed_objects", "True"),
        tests=("test_a_lost_row_stays_while_its_object_is_gone_for_a_moment",),
    ),
    Mutation(
        "read all large parts to learn that no two can be joined",
        Change("compaction.live.day:LiveDay._held", "misfits > _MISFITS", "False"),
        tests=("test_joined_parts_stop_no_later_join",),
    ),
    Mutation(
        "look for each row of a batch in the published files",
        Change("minutebook.reader.live:LiveDays._published", "table.filter(is_beside)", "table"),
        Change(
            "minutebook.reader.live:LiveDays._published",
            "pc.replace_with_mask(is_beside, is_beside, is_twice)",
            "pc.and_(is_beside, is_twice)",
        ),
        tests=("test_readers_look_for_rows_beside_a_published_segment_alone",),
    ),
    Mutation(
        "take true for a decimal's digits",
        Change("compaction.columns.files.avro:_complex", "type(number) is int", "isinstance(number, int)"),
        tests=("test_a_decimal_of_avro_has_1_to_38_digits",),
    ),
    Mutation(
        "forget a day at midnight whose commits are refused",
        Change("compaction.follow.day:FollowedDay.commit", "(False, True)", "(False, False)"),
        tests=("test_no_rows_until_is_told_of_a_day_whose_commits_are_refused",),
    ),
    Mutation(
        "let a night delete live files that another table was shown",
        Change("compaction.live.day:LiveDay.shown", "table_uuid not in state.tables", "False"),
        tests=("test_two_followed_tables_keep_each_others_files",),
    ),
    Mutation(
        "let a night delete live files that a renamed table names",
        Change("compaction.live.sweep:sweep_live", "{*table}.issuperset(state.tables)", "True"),
        tests=("test_a_renamed_table_keeps_its_files",),
    ),
    Mutation(
        "call a table complete behind what a person accepted so far",
        Change("compaction.follow.day:FollowedDay.list_new", "pointer.verdict != DEFECTS", "True"),
        tests=("test_what_was_accepted_so_far_is_not_complete",),
    ),
    Mutation(
        "call a table complete by a verdict of older rules",
        Change("compaction.follow.day:FollowedDay.list_new", "proven_verdict(pointer)", "pointer.verdict"),
        tests=("test_a_verdict_by_older_rules_makes_no_table_complete",),
    ),
    Mutation(
        "take a table that was set back behind an expired snapshot for one that goes on",
        Change("compaction.tables.table:IcebergDay.goes_on_from", "at >= int(sequence_number)", "True"),
        tests=("test_a_table_set_back_whose_snapshots_have_expired_is_complete_no_more",),
    ),
    Mutation(
        "read an object that is gone again and again without a pause",
        Change("compaction.follow.day:FollowedDay.is_behind", "not self.has_changed_objects", "True"),
        tests=("test_an_object_that_is_listed_and_cannot_be_read_is_named",),
    ),
    Mutation(
        "commit what was joined with what comes next",
        Change(
            "compaction.follow.day:FollowedDay.write",
            "(self._has_joined, self._version) = (True, '')",
            "self._has_joined = True",
        ),
        tests=("test_parts_are_joined_in_commits_of_their_own",),
    ),
    Mutation(
        "end all work where one process cannot be started",
        Change("compaction.local.workers:Workers._run", "BrokenProcessPool", "(BrokenProcessPool, _NotStartedError)"),
        tests=("test_a_process_that_cannot_be_started_ends_no_other_work",),
    ),
)
