"""What others do to tables of published days, and what a night then must not do."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_NAMES: Final = "compaction/iceberg/names.py"
_FAILURES: Final = "compaction/iceberg/failures.py"
_NAMED: Final = "tests/unit/compaction/iceberg/test_names.py"
_FAILED: Final = "tests/integration/compaction/test_iceberg_failures.py"
_EVENTS: Final = "tests/integration/compaction/test_iceberg_events.py"
_ORPHANS: Final = "compaction/iceberg/orphans.py"
_TABLE_NAMES: Final = "compaction/iceberg/named.py"
_LEFT: Final = "tests/integration/compaction/test_iceberg_left_alone.py"
_NEIGHBOURS: Final = "tests/integration/compaction/test_iceberg_neighbours.py"
_VACUUM: Final = "tests/integration/compaction/test_iceberg_vacuum.py"
_CONFLICTS: Final = "tests/integration/compaction/test_iceberg_conflicts.py"

TABLES: Final = (
    Mutation(
        "give a new column the values of a renamed one",
        Change(_NAMES, 'return f"it renamed to {now}"', 'return ""'),
        tests=(f"{_NAMED}::test_a_renamed_name_stays_with_its_column",),
    ),
    Mutation(
        "let a new column read files that have another type",
        Change(_NAMES, "if was is not None and holds(comes, was):", "if holds(comes, comes):"),
        tests=(f"{_NAMED}::test_a_dropped_name_comes_back_with_a_type_that_reads_its_files",),
    ),
    Mutation(
        "read partitions off bounds that the table does not keep",
        Change("compaction/iceberg/table.py", "for name in (ARRIVAL, EVENT_TIME)), ", "for name in ()), "),
        tests=(f"{_EVENTS}::test_rows_lie_in_their_partition_whatever_bounds_the_table_keeps",),
    ),
    Mutation(
        "replace what another output committed",
        Change(
            "compaction/iceberg/plan.py",
            "recorded.manifest and not recorded.manifest.startswith(target.folder)",
            "not recorded.manifest.startswith('')",
        ),
        tests=("tests/unit/compaction/iceberg/test_plan.py::test_a_commit_of_another_output_is_never_replaced",),
    ),
    Mutation(
        "let a damaged table end the run of all days",
        Change(_FAILURES, "except _UNREADABLE as exc:", "except () as exc:"),
        tests=(f"{_FAILED}::test_a_damaged_table_is_refused_and_ends_no_other_day",),
    ),
    Mutation(
        "let a table that is dropped during a commit end the run of all days",
        Change(_FAILURES, "    *(NoSuchTableError, NoSuchNamespaceError),\n", ""),
        tests=(f"{_FAILED}::test_a_table_that_is_dropped_during_a_commit_is_made_again",),
    ),
    Mutation(
        "hold a day that is in the table when its snapshot is expired",
        Change("compaction/iceberg/commit.py", "return is_ours and sum(", "return is_ours and 0 > sum("),
        tests=(f"{_CONFLICTS}::test_a_day_that_is_there_is_not_held_when_its_snapshot_is_expired",),
    ),
    Mutation(
        "keep a day out of Glue's catalog when another one refuses it",
        Change(
            "compaction/rewrite.py",
            "            self._register()  # one catalog's trouble keeps the day out of no other\n",
            "",
        ),
        tests=(f"{_CONFLICTS}::test_a_refusal_of_one_catalog_keeps_the_day_out_of_no_other",),
    ),
    Mutation(
        "register two columns whose names differ in case alone",
        Change("compaction/glue/table.py", "before = found.get(column.name.lower(), column)", "before = column"),
        tests=("tests/unit/compaction/glue/test_register.py::test_names_that_differ_in_case_alone_are_one_column",),
    ),
    Mutation(
        "let vacuum take a file of a commit that is on its way",
        Change(_ORPHANS, "if file.modified_ms < before_ms and", "if"),
        tests=(f"{_VACUUM}::test_what_is_young_stays",),
    ),
    Mutation(
        "delete what a commit named since vacuum looked",
        Change(
            _ORPHANS,
            "while (table := self._load()).metadata_location != seen:",
            "while (table := self._load()).metadata_location == '':",
        ),
        tests=(f"{_VACUUM}::test_a_commit_during_vacuum_loses_nothing",),
    ),
    Mutation(
        "vacuum folders that another table uses, too",
        Change(_ORPHANS, "if other.snapshots:", "if False:"),
        tests=(f"{_LEFT}::test_a_table_that_cannot_be_read_wholly_is_left_alone",),
    ),
    Mutation(
        "vacuum a table that goes on in another catalog",
        Change(_ORPHANS, "if written_ms > since_ms and", "if written_ms < 0 and"),
        tests=(f"{_LEFT}::test_a_table_that_cannot_be_read_wholly_is_left_alone",),
    ),
    Mutation(
        "know of another catalog from the log alone",
        Change("compaction/iceberg/lineage.py", "log = [] if oldest is None else oldest.metadata_log", "log = []"),
        tests=(
            f"{_NEIGHBOURS}::test_another_catalog_that_went_on_longer_ago_than_the_log_tells_is_seen",
            f"{_VACUUM}::test_an_expired_snapshot_that_the_log_has_forgotten_stays_as_long",
        ),
    ),
    Mutation(
        "take the metadata of an empty table that lives in the same folder",
        Change(_ORPHANS, "            others.add(uri)\n", ""),
        tests=(f"{_NEIGHBOURS}::test_an_empty_table_in_the_same_folder_lives_on",),
    ),
    Mutation(
        "delete what an address leads to, whatever was listed",
        Change(_ORPHANS, 'if leads_to != f"{path}/{inside}":', "if not leads_to:"),
        tests=(f"{_NEIGHBOURS}::test_an_object_whose_address_would_lead_to_another_one_stays",),
    ),
    Mutation(
        "delete files of others behind a link",
        Change(_ORPHANS, 'return scheme != "file" or', "return bool(scheme) or"),
        tests=(f"{_NEIGHBOURS}::test_files_behind_a_link_stay",),
    ),
    Mutation(
        "take metadata that is packed in an unknown way for torn",
        Change(_ORPHANS, 'if data.strip(b"\\0")[:1] in {b"", b"{"}:', "if data is not None:"),
        tests=(f"{_NEIGHBOURS}::test_metadata_of_a_kind_that_nobody_knows_is_not_taken_for_torn",),
    ),
    Mutation(
        "let an error of the decoder end the run of all days",
        Change(_FAILURES, "if not _is_of_a_decoder(exc):", "if exc:"),
        tests=(f"{_FAILED}::test_whatever_the_decoder_of_a_damaged_file_raises_is_a_refusal",),
    ),
    Mutation(
        "take a defect for a damaged file",
        Change(_FAILURES, "if not _is_of_a_decoder(exc):", "if not exc:"),
        tests=(f"{_FAILED}::test_such_an_error_from_anywhere_else_is_a_defect",),
    ),
    Mutation(
        "vacuum what is published below a table",
        Change(_ORPHANS, " and not _PUBLISHED.search(inside)", ""),
        tests=(f"{_VACUUM}::test_what_others_put_there_and_what_is_published_there_stays",),
    ),
    Mutation(
        "forget the snapshots that a query may have begun on",
        Change(_TABLE_NAMES, "if each.replaced_ms >= self._since_ms", "if each.replaced_ms < 0"),
        tests=(f"{_VACUUM}::test_a_snapshot_that_was_expired_lately_stays_whole",),
    ),
    Mutation(
        "forget the files that a table deleted in a snapshot",
        Change(_TABLE_NAMES, "manifest.fetch_manifest_entry(io, False)", "manifest.fetch_manifest_entry(io, True)"),
        tests=(f"{_VACUUM}::test_statistics_and_files_of_the_tables_own_stay",),
    ),
    Mutation(
        "believe a manifest that was cut short",
        Change(_TABLE_NAMES, "if None not in counts and len(entries) != said:", "if len(entries) < 0:"),
        tests=(f"{_LEFT}::test_metadata_that_was_cut_short_is_not_believed",),
    ),
    Mutation(
        "believe a manifest list that was cut short",
        Change(_TABLE_NAMES, "said.isdecimal() and live < int(said)", "said.isdecimal() and live < 0"),
        tests=(f"{_LEFT}::test_metadata_that_was_cut_short_is_not_believed",),
    ),
    Mutation(
        "believe a manifest list that was cut in front of its deletes",
        Change(_TABLE_NAMES, ', ManifestContent.DELETES: "total-delete-files"}', "}"),
        tests=(f"{_LEFT}::test_a_list_without_its_manifests_of_deletes_is_not_believed",),
    ),
    Mutation(
        "leave past snapshots out that a catalog was told to keep back",
        Change("compaction/iceberg/catalog.py", 'catalog.properties[_SNAPSHOTS] = "all"', "pass"),
        tests=("tests/integration/compaction/test_iceberg_command.py::test_a_catalog_is_asked_for_all_snapshots",),
    ),
    Mutation(
        "say that a table was left alone of which files went",
        Change("compaction/vacuum/table.py", "tuple(file for file in files if file in gone)", "()"),
        tests=(f"{_NEIGHBOURS}::test_what_went_before_the_catalog_stayed_away_is_told",),
    ),
    Mutation(
        "take the statistics of a table",
        Change(_TABLE_NAMES, "(*each.statistics, *each.partition_statistics)", "each.partition_statistics"),
        tests=(f"{_VACUUM}::test_statistics_and_files_of_the_tables_own_stay",),
    ),
    Mutation(
        "send a commit whose files vacuum may have deleted",
        Change("compaction/iceberg/refusal.py", "self._begun > _STALE_SECONDS:", "self._begun > 1e9:"),
        tests=(f"{_VACUUM}::test_a_commit_that_slept_until_vacuum_took_its_files_is_made_anew",),
    ),
    Mutation(
        "give a dropped column of Glue's catalog a type that older partitions do not have",
        Change("compaction/glue/register.py", 'if each.get("Values") != [day])', "if not each)"),
        tests=(
            "tests/unit/compaction/glue/test_former.py::test_a_dropped_column_that_comes_with_another_type_is_held",
        ),
    ),
    Mutation(
        "read the first page of partitions alone",
        Change("compaction/glue/register.py", 'if not answer.get("NextToken"):', "if answer:"),
        tests=("tests/unit/compaction/glue/test_former.py::test_partitions_of_all_days_are_looked_at",),
    ),
)
