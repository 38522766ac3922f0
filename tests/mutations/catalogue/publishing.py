"""Mutations of what the nightly job publishes: generations and Iceberg tables."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_PUBLISHER: Final = "compaction/publish/publisher.py"
_SWEEP: Final = "compaction/publish/sweep.py"
_GENERATION: Final = "compaction/publish/generation.py"
_REWRITE: Final = "compaction/rewrite.py"
_PUBLISHABLE: Final = "compaction/verdict/publishable.py"
_FINISHED: Final = "compaction/tasks/finished.py"
_S3: Final = "archive/store/s3_storage.py"
_PUBLISHED: Final = "archive/store/published.py"
_EXPIRE_APPLY: Final = "consumer/expire/apply.py"
_EXPIRE_PLAN: Final = "consumer/expire/plan.py"
_ICEBERG_PLAN: Final = "compaction/iceberg/plan.py"
_ICEBERG_TABLE: Final = "compaction/iceberg/table.py"
_ICEBERG_COMMIT: Final = "compaction/iceberg/commit.py"

_AWS: Final = "archive/aws.py"
_AGAIN: Final = "compaction/audit/again.py"
_ENDS: Final = "compaction/publish/ends.py"
_QUIET_SHARDS: Final = "compaction/inventory/quiet_shards.py"
_QUIET: Final = "tests/unit/compaction/publish/test_quiet_shards.py"
_JUDGED_AGAIN: Final = "tests/unit/compaction/publish/test_again.py"
_FAILING: Final = "tests/integration/compaction/test_failing_writes.py"
_PUBLISHES: Final = "tests/unit/compaction/publish/test_publisher.py"
_TRUST: Final = "tests/unit/compaction/publish/test_trust.py"
_LAYOUT: Final = "tests/unit/compaction/publish/test_layout.py"
_MARKS: Final = "tests/unit/compaction/publish/test_marks.py"
_FOOTER: Final = "tests/unit/compaction/tasks/test_footer.py"
_UPLOAD: Final = "tests/unit/archive/store/test_upload.py"
_EXPIRE_REFUSALS: Final = "tests/unit/consumer/expire/test_refusals.py"
_PLANS: Final = "tests/unit/compaction/iceberg/test_plan.py"
_ICEBERG: Final = "tests/integration/compaction/test_iceberg.py"

PUBLISHING: Final = (
    Mutation(
        "name an audit by its evidence alone",
        Change(_AGAIN, "        repr(found),\n", "        repr(found)[:0],\n"),
        Change(_AGAIN, "        audit.verdict,\n        repr", "        repr"),
        tests=(
            f"{_JUDGED_AGAIN}::test_the_audit_that_a_pointer_names_gave_its_verdict",
            f"{_JUDGED_AGAIN}::test_an_object_that_is_damaged_later_is_told_by_the_audit",
        ),
    ),
    Mutation(
        "give a night up when S3 has waited too long for a write",
        Change(_AWS, '        "RequestTimeout",\n', ""),
        tests=(f"{_FAILING}::test_a_write_that_fails_once_costs_at_most_the_run",),
    ),
    Mutation(
        "sweep a generation as soon as it is replaced",
        Change(_PUBLISHER, "written_ms(pointer) >= now_ms - grace_ms", "written_ms(pointer) >= now_ms + grace_ms"),
        tests=(f"{_PUBLISHES}::test_a_generation_stays_for_the_grace_after_it_was_replaced",),
    ),
    Mutation(
        "call a generation whole without looking for its files",
        Change(_PUBLISHER, "return all(in_parallel(holds, manifest.files))", "return bool(holds) or bool(manifest)"),
        tests=(
            f"{_TRUST}::test_a_published_file_that_is_gone_is_made_again",
            f"{_TRUST}::test_a_published_file_that_was_cut_is_made_again",
        ),
    ),
    Mutation(
        "look for a published file without its size",
        Change(_PUBLISHER, "head is not None and head.size == file.bytes", "head is not None"),
        tests=(f"{_TRUST}::test_a_published_file_that_was_cut_is_made_again",),
    ),
    Mutation(
        "pass over the rows of a footer",
        Change(_FINISHED, "if stored.num_rows != part.rows:", "if stored.num_rows < 0:"),
        tests=(f"{_FOOTER}::test_other_rows_are_an_error",),
    ),
    Mutation(
        "pass over the size of a stored file",
        Change(_FINISHED, "if tail.size != part.size:", "if tail.size < 0:"),
        tests=(f"{_FOOTER}::test_another_size_is_an_error",),
    ),
    Mutation(
        "sweep files before their manifests",
        Change(
            _SWEEP,
            "    storage.delete(row.key for row in found.beside if is_manifest(row.key))\n"
            "    swept = [row.key for row in found.files]\n"
            "    storage.delete(swept)\n",
            "    swept = [row.key for row in found.files]\n"
            "    storage.delete(swept)\n"
            "    storage.delete(row.key for row in found.beside if is_manifest(row.key))\n",
        ),
        tests=(f"{_TRUST}::test_a_crash_in_a_sweep_leaves_no_manifest_of_files_that_are_gone",),
    ),
    Mutation(
        "publish whatever the equation says",
        Change(_PUBLISHABLE, "return audit.equation.balanced and not any(", "return not any("),
        tests=(f"{_TRUST}::test_an_equation_that_does_not_balance_holds_the_day_back",),
    ),
    Mutation(
        "sweep each file by its own age",
        Change(_SWEEP, "stay, current = {*retained.generations, *young}", "stay, current = {*retained.generations}"),
        tests=(f"{_TRUST}::test_a_generation_of_which_anything_is_young_is_not_swept",),
    ),
    Mutation(
        "believe the manifest of other objects",
        Change(_PUBLISHER, "if manifest.inventory != inventory:", "if not manifest.inventory:"),
        tests=(f"{_TRUST}::test_a_manifest_that_contradicts_what_is_known_is_not_believed",),
    ),
    Mutation(
        "believe files outside of their generation",
        Change(
            _GENERATION,
            "if not all(folder.is_file(key, manifest.generation) for key in keys) or",
            "if",
        ),
        tests=(f"{_TRUST}::test_a_file_outside_of_its_generation_is_not_believed",),
    ),
    Mutation(
        "forget the files of the former layout",
        Change(_SWEEP, "for begin in GENERATIONS", "for begin in GENERATIONS[:1]"),
        tests=(f"{_LAYOUT}::test_files_of_the_former_layout_are_swept",),
    ),
    Mutation(
        "take a verdict by older rules for one of today",
        Change(
            _GENERATION, "return pointer.rules == manifest.rules == RULES", "return bool(pointer) and bool(RULES)"
        ),
        tests=(f"{_TRUST}::test_a_manifest_that_contradicts_what_is_known_is_not_believed",),
    ),
    Mutation(
        "call a day clean whose swap was lost",
        Change(
            _REWRITE,
            "            if not self._pointing.swap(manifest, view.seen, pointer.written_at, judged):\n"
            "                return None\n",
            "            self._pointing.swap(manifest, view.seen, pointer.written_at, judged)\n",
        ),
        tests=(f"{_TRUST}::test_a_lost_swap_of_a_verdict_is_lost",),
    ),
    Mutation(
        "unmark a generation that a run is about to commit",
        Change(_SWEEP, "            and row.last_modified_ms < before_ms\n", ""),
        tests=(f"{_MARKS}::test_a_young_mark_stays",),
    ),
    Mutation(
        "let a task fail at the first busy answer to an upload",
        Change(_S3, "return until_known(translated, self._new_backoff(), what)", "return translated()"),
        tests=(f"{_UPLOAD}::test_a_request_of_an_upload_whose_outcome_is_unknown_is_sent_again",),
    ),
    Mutation(
        "take an upload that is gone for one that was completed",
        Change(_S3, ' or error_code(exc) != "NoSuchUpload" or not self._is_there():', ":"),
        tests=(f"{_UPLOAD}::test_an_upload_that_is_gone_without_its_object_is_an_error",),
    ),
    Mutation(
        "expire a day whose published files are gone",
        Change(_EXPIRE_APPLY, "if head is None or head.size != sizes[key]:", "if not sizes[key]:"),
        tests=(f"{_EXPIRE_REFUSALS}::test_a_published_file_that_is_not_there_is_refused",),
    ),
    Mutation(
        "expire on a verdict by older rules",
        Change(_PUBLISHED, "if pointer.rules != RULES:", "if pointer.rules < 0:"),
        Change(_EXPIRE_PLAN, "if published.rules != RULES and tombstone is not None:", "if published.rules < 0:"),
        Change(_EXPIRE_PLAN, 'older rules": published.rules != RULES,', 'older rules": published.rules < 0,'),
        tests=(f"{_EXPIRE_REFUSALS}::test_a_verdict_by_older_rules_is_refused",),
    ),
    Mutation(
        "expire by an inventory that is not the manifest's",
        Change(
            _PUBLISHED,
            "and manifest.inventory == digest_of((key, *inventory[key]) for key in objects)",
            "and objects",
        ),
        tests=(f"{_EXPIRE_REFUSALS}::test_an_inventory_that_is_not_the_manifests_is_an_error",),
    ),
    Mutation(
        "replace rows that somebody added to the table",
        Change(
            _ICEBERG_PLAN,
            "if recorded is not None and rows != recorded.rows:",
            "if recorded is not None and rows < 0:",
        ),
        tests=(f"{_PLANS}::test_rows_that_are_not_those_committed_are_refused",),
    ),
    Mutation(
        "let pyiceberg repeat commits",
        Change(_ICEBERG_TABLE, "telling(self._table.catalog, self._clock)", "self._table.catalog"),
        tests=(f"{_ICEBERG}::test_two_runs_of_one_generation_have_one_winner",),
    ),
    Mutation(
        "read the pointer before the table",
        Change(
            _ICEBERG_COMMIT,
            "                view = self._table.look(self._publisher.folder.day)\n"
            "                pointer, manifest = self._publisher.published()\n",
            "                pointer, manifest = self._publisher.published()\n"
            "                view = self._table.look(self._publisher.folder.day)\n",
        ),
        tests=(f"{_ICEBERG}::test_a_run_with_an_older_view_never_brings_an_older_generation_back",),
    ),
    Mutation(
        "leave a generation in the table that was replaced during its commit",
        Change(_ICEBERG_COMMIT, "if now is None or now.manifest != pointer.manifest:", "if now is None:"),
        tests=(f"{_ICEBERG}::test_a_pointer_that_moves_during_a_commit_is_followed",),
    ),
    Mutation(
        "give a table files without a mark",
        Change(
            _ICEBERG_COMMIT,
            "self._publisher.table_marks.put(generation, self._short, self._new_id(), ",
            "self._publisher.table_marks.put(folder.day.path(''), self._short, self._new_id(), ",
        ),
        tests=(f"{_ICEBERG}::test_a_run_without_the_table_never_sweeps_what_the_table_names",),
    ),
    Mutation(
        "unmark a generation as soon as it is replaced",
        Change(
            _ICEBERG_COMMIT,
            "before_ms = self._clock.now_ms() - GRACE_MS",
            "before_ms = self._clock.now_ms() + GRACE_MS",
        ),
        tests=(f"{_ICEBERG}::test_a_run_without_the_table_never_sweeps_what_the_table_names",),
    ),
    Mutation(
        "believe where a chain stood though the judged day does not stand there",
        Change(_QUIET_SHARDS, "end.last != self._stood_on[shard] or ", ""),
        tests=(f"{_QUIET}::test_a_segment_that_the_day_does_not_stand_on_is_not_taken",),
    ),
    Mutation(
        "believe where a chain stood though published days disagree",
        Change(
            _QUIET_SHARDS,
            "self._claims.setdefault(shard, end)[:2] != end[:2]",
            "not self._claims.setdefault(shard, end)",
        ),
        tests=(f"{_QUIET}::test_names_are_listed_where_days_or_segments_disagree",),
    ),
    Mutation(
        "believe where chains stood by a day that is not clean",
        Change(_ENDS, "pointer.verdict == CLEAN and ", ""),
        tests=(f"{_QUIET}::test_the_names_of_a_day_in_doubt_are_looked_at",),
    ),
    Mutation(
        "believe where chains stood by a segment that is another one now",
        Change(
            "compaction/inventory/neighbours.py",
            "link.metadata.minute, link.metadata.after) == said else None",
            "link.metadata.minute, link.metadata.after) else None",
        ),
        tests=(
            "tests/unit/compaction/publish/test_published_ends.py::test_a_published_day_that_names_another_segment_is_not_believed",
        ),
    ),
)
