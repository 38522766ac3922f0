"""Mutations of how a day is published: generations, the swap of the pointer, sweeps."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

PUBLISHING: Final = (
    Mutation(
        "take the manifest that is found for one's own",
        Change(
            "minutebook.published.generation:DayFolder.manifest",
            "f'{self.manifests}{generation}-{writer}{_MANIFEST}'",
            "f'{self.manifests}{generation}{_MANIFEST}' if writer else ''",
        ),
        Change(
            "compaction.publish.publisher:Publisher.put_manifest",
            "self.storage.put_or_read(key, body) is not None",
            "self.storage.put_or_read(key, body) is body",
        ),
        tests=(
            "test_a_manifest_that_is_planted_beside_the_day_is_not_read",
            "test_the_manifest_of_files_that_are_gone_never_comes_back",
        ),
    ),
    Mutation(
        "read what comes late by the file of today",
        Change("compaction.night.mapping:mapping_of", "published._replace(rules=RULES)", "given or published"),
        tests=("test_what_comes_late_is_read_by_the_columns_of_then",),
    ),
    Mutation(
        "publish a day whose columns nobody knows",
        Change("compaction.night.rewrite:_Run.attempt", "not self.mapping.is_known", "self.mapping is None"),
        tests=("test_without_its_columns_a_day_stays_as_it_is",),
    ),
    Mutation(
        "compare columns, and not the leaves within them",
        Change("compaction.night.columns_again:_values", "{leaf.name: leaf for leaf in typed.leaves}", "{}"),
        tests=("test_a_leaf_with_fewer_values_is_named",),
    ),
    Mutation(
        "call a generation whole without looking for its files",
        Change("minutebook.published.reading:PublishedReader.damage", "self._missing(manifest, facts, rows)", "''"),
        tests=(
            "test_a_published_file_that_is_gone_is_made_again",
            "test_a_published_file_that_was_cut_is_made_again",
        ),
    ),
    Mutation(
        "publish whatever the equation says",
        Change("compaction.verdict.audit_document:publishable", "audit.equation.balanced", "True"),
        tests=("test_an_equation_that_does_not_balance_holds_the_day_back",),
    ),
    Mutation(
        "sweep each file by its own age",
        Change("compaction.publish.sweep:leftovers_of", "{*retained.generations, *young}", "{*retained.generations}"),
        tests=("test_a_generation_of_which_anything_is_young_is_not_swept",),
    ),
    Mutation(
        "delete hours that may be all there is of a day",
        Change(
            "compaction.commands.vacuum.day:find_leftovers",
            "left.all_files or left.beside or hours",
            "left.all_files or left.beside",
        ),
        tests=("test_hours_stay_where_no_raw_object_is_left",),
    ),
    Mutation(
        "believe a manifest of fewer rows than were judged",
        Change(
            "minutebook.published.reading:PublishedReader._misjudged",
            "first.rows != manifest.rows",
            "first.rows is None",
        ),
        tests=("test_a_manifest_that_names_a_file_too_few_is_not_believed",),
    ),
    Mutation(
        "replace a pointer of a later version",
        Change(
            "compaction.publish.publisher:Publisher.replaceable", "is_of_later_version(stored.body, Pointer)", "False"
        ),
        tests=("test_a_pointer_of_a_later_version_is_not_replaced",),
    ),
    Mutation(
        "keep a damaged audit under its name",
        Change("compaction.publish.publisher:Publisher.put_audit", "stored.body != body", "not stored.body"),
        tests=("test_what_is_damaged_is_made_again_from_the_raw_objects",),
    ),
    Mutation(
        "count the grace from the pointer's last verdict",
        Change(
            "compaction.publish.sweep:put_back_ms",
            "audit is not None and audit.last_modified_ms >= head.last_modified_ms - _SWAP_MS",
            "False",
        ),
        tests=("test_a_day_that_is_judged_each_night_is_swept",),
    ),
    Mutation(
        "sweep what a pointer that was put back has replaced",
        Change(
            "compaction.publish.sweep:put_back_ms",
            "audit is not None and audit.last_modified_ms >= head.last_modified_ms - _SWAP_MS",
            "audit is not None",
        ),
        tests=("test_a_pointer_that_was_put_back_is_young",),
    ),
    Mutation(
        "commit a generation that was replaced before its mark",
        Change(
            "compaction.tables.commit:TableCommitter._step",
            "self._is_current(goal) and view.replace(change, sizes, properties, goal.columns, table_properties)",
            "view.replace(change, sizes, properties, goal.columns, table_properties)",
        ),
        tests=("test_a_generation_that_was_swept_before_its_mark_is_not_committed",),
    ),
    Mutation(
        "believe a published file of another ETag",
        Change("minutebook.published.reading:PublishedReader._other_of", "rows[key].etag != etag", "False"),
        tests=(
            "test_a_published_file_that_is_overwritten_is_written_again",
            "test_a_file_of_an_expired_day_that_is_overwritten_is_named",
        ),
    ),
    Mutation(
        "forget the ETags of files with the next verdict",
        Change("compaction.night.rewrite:_Run._rejudge", "self._files_of(manifest, before)", "()"),
        tests=("test_a_day_of_an_earlier_release_takes_the_etags_of_its_files",),
    ),
    Mutation(
        "count a file that a table has twice once",
        Change("compaction.tables.plan:twice_named", "times[_place(file.uri)] > 1", "False"),
        tests=("test_a_file_that_is_there_twice_is_named_once",),
    ),
    Mutation(
        "sweep what only a table may name",
        Change("compaction.publish.sweep:leftovers_of", "{*retained.generations, *young}", "{*young}"),
        tests=("test_nothing_that_a_table_names_is_deleted_while_its_catalog_is_away",),
    ),
    Mutation(
        "forget with the next verdict that a pointer was put back",
        Change(
            "compaction.publish.publisher:Publisher._swap",
            "iso_time(put_ms) if put_ms else pointer.written_at",
            "pointer.written_at",
        ),
        tests=("test_nothing_that_a_table_names_is_deleted_while_its_catalog_is_away",),
    ),
    Mutation(
        "let what is published reach less far than before",
        Change("compaction.night.rewrite:compact_day", "max(until_ms, published_ms)", "until_ms"),
        tests=(
            "test_a_run_that_loses_judges_what_reaches_further",
            "test_whatever_the_next_run_reaches_it_withdraws",
        ),
    ),
    Mutation(
        "leave a part as it is where a longer scope is held",
        Change("compaction.night.rewrite:_Run._hold", "pointer is None or pointer.until == self._until", "True"),
        tests=("test_later_hours_that_are_held_leave_the_part_as_it_is",),
    ),
    Mutation(
        "hold a day for an hour that some shards cover",
        Change("compaction.job.so_far:_Reached.short_of", "self.until[shard] < hour_ms", "self.until[shard] == 0"),
        tests=("test_every_shard_must_reach_the_hour",),
    ),
    Mutation(
        "call the hours behind a published part late",
        Change("compaction.night.rewrite:_rows_before", "parsed.minute * MINUTE_MS < until_ms", "True"),
        tests=("test_hours_that_come_are_not_late",),
    ),
    Mutation(
        "sweep the facts that the next night reads",
        Change("compaction.publish.sweep:leftovers_of", "not _is_within(folder, row.key, pointer)", "True"),
        tests=("test_facts_that_the_next_night_reads_stay",),
    ),
    Mutation(
        "call an old verdict clean",
        Change("minutebook.reader.days:_aged", "parse_iso_time(day.judged_from) >= oldest_ms", "True"),
        tests=("test_a_verdict_that_is_too_old_counts_as_unknown",),
    ),
    Mutation(
        "believe files outside of their generation",
        Change(
            "minutebook.published.generation:contradiction",
            "not all((folder.is_file(key, manifest.generation) for key in keys))",
            "False",
        ),
        tests=("test_a_file_outside_of_its_generation_is_not_believed",),
    ),
    Mutation(
        "call a day clean whose swap was lost",
        Change(
            "compaction.night.rewrite:_Run._rejudge",
            ("if not self._pointer.swap(manifest, view.current, pointer.written_at, judged):\n    return None"),
            "self._pointer.swap(manifest, view.current, pointer.written_at, judged)",
        ),
        tests=("test_a_lost_swap_of_a_verdict_is_lost",),
    ),
    Mutation(
        "expire a day whose published files are gone",
        Change(
            "minutebook.published.reading:PublishedReader._missing_of",
            "sizes.get(file.key) != file.bytes",
            "file.bytes < 0",
        ),
        tests=("test_a_published_file_that_is_not_there_is_refused",),
    ),
    Mutation(
        "tell tables of one name apart by nothing",
        Change(
            "compaction.tables.commit:TableCommitter._mark",
            "_short(self._table.name, view.table_uuid)",
            "_short(self._table.name)",
        ),
        tests=("test_tables_of_one_name_in_two_catalogs_have_marks_of_their_own",),
    ),
    Mutation(
        "forget marks of an earlier release",
        Change(
            "compaction.tables.commit:TableCommitter._unmark",
            "{_short(name), _short(name, view.table_uuid)}",
            "{_short(name, view.table_uuid)}",
        ),
        tests=("test_marks_of_an_earlier_release_keep_files_until_the_table_has_left_them",),
    ),
    Mutation(
        "ask the store for a key that no store has",
        Change("minutebook.published.generation:DayFolder.is_beside", "len(name.encode()) <= _NAME_BYTES", "True"),
        tests=("test_a_pointer_that_names_a_key_which_no_store_has_is_damaged",),
    ),
)
