"""Typed columns: values that would be changed, rows that would lose their reason, numbers nobody would compare."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_ARRAYS: Final = "compaction/typed/arrays.py"
_DOCUMENTS: Final = "compaction/typed/documents.py"
_PLACES: Final = "compaction/typed/places.py"
_SHAPES: Final = "compaction/typed/shapes.py"
_PATHS: Final = "compaction/typed/paths.py"
_WIDENING: Final = "compaction/typed/widening.py"
_VERDICT: Final = "compaction/typed/verdict.py"
_FITTING: Final = "tests/unit/compaction/typed/test_fitting.py"
_OF_PATHS: Final = "tests/unit/compaction/typed/test_paths.py"
_HOSTILE: Final = "tests/unit/compaction/typed/test_hostile.py"
_PUBLISHED: Final = "tests/unit/compaction/typed/test_published_columns.py"
_FOOTER: Final = "tests/unit/compaction/tasks/test_footer.py"
_EVOLUTION: Final = "tests/unit/compaction/iceberg/test_evolution.py"
_TABLE: Final = "tests/integration/compaction/test_iceberg_columns.py"
_DOUBTS: Final = "tests/integration/compaction/test_iceberg_doubts.py"
_CONFLICTS: Final = "tests/integration/compaction/test_iceberg_conflicts.py"
_MISFITS: Final = (f"{_FITTING}::test_what_does_not_fit_is_null_and_says_why",)

TYPED: Final = (
    Mutation(
        "read integers as doubles whatever they lose",
        Change(_ARRAYS, "and any(map(is_rounded, values))", "and int not in found and any(map(is_rounded, values))"),
        tests=_MISFITS,
    ),
    Mutation(
        "round long integers that are Decimal",
        Change(
            _ARRAYS, "    if type(value) is Decimal:\n        return value", "    if False:\n        return value"
        ),
        tests=(f"{_HOSTILE}::test_a_long_integer_is_never_rounded",),
    ),
    Mutation(
        "take the infinity that a large number becomes",
        Change(
            _ARRAYS,
            "    if not pc.all(pc.is_finite(numbers)",
            "    if int in found and not pc.all(pc.is_finite(numbers)",
        ),
        tests=_MISFITS,
    ),
    Mutation(
        "let a path make a number of whatever Python takes for one",
        Change(_PATHS, "if _JSON_NUMBER.fullmatch(value) is not None:", "if _is_pythons(value):"),
        tests=(f"{_OF_PATHS}::test_a_text_that_only_python_takes_for_a_number_fits_no_column",),
    ),
    Mutation(
        "round the sums of a path",
        Change(_PATHS, "_SUMS.add(Decimal(total), Decimal(value))", "_QUOTIENTS.add(Decimal(total), Decimal(value))"),
        tests=(f"{_OF_PATHS}::test_what_a_function_cannot_make_exactly_is_unfit",),
    ),
    Mutation(
        "believe strptime's dates",
        Change(
            _ARRAYS,
            " or not pc.all(pc.equal(pc.strftime(times, format=how), texts)).as_py():",
            ":",
        ),
        tests=_MISFITS,
    ),
    Mutation(
        "let a key that no struct can have stop the night",
        Change(_SHAPES, "except (TypeError, ValueError) as exc:", "except (TypeError, UnicodeEncodeError) as exc:"),
        tests=("tests/property/test_shapes.py::test_keys_that_no_struct_can_have_stop_nothing",),
    ),
    Mutation(
        "read payloads of any length by their shape",
        Change(_DOCUMENTS, "shape.read(_bounded(texts), MAX_DEPTH)", "shape.read(texts, MAX_DEPTH)"),
        tests=("tests/property/test_shapes.py::test_a_payload_that_is_too_long_is_not_read_by_a_shape_either",),
    ),
    Mutation(
        "take the last of two keys",
        Change(_DOCUMENTS, "if len(row) == found or keys_of(row) == found:", "if len(row) <= found:"),
        tests=(f"{_FITTING}::test_a_key_that_is_there_twice_stands_for_nothing",),
    ),
    Mutation(
        "count no keys with a blank before their colon",
        Change(_PLACES, "if blank[:1] in joined and blank in", "if blank[:1] not in joined and blank in"),
        tests=(f"{_FITTING}::test_a_key_that_is_there_twice_stands_for_nothing",),
    ),
    Mutation(
        "let an escape stand for a key that was lost",
        Change(_PLACES, "(22|3[aA])", "(23|3[bB])"),
        tests=(f"{_FITTING}::test_a_key_that_is_there_twice_stands_for_nothing",),
    ),
    Mutation(
        "believe a shape whatever else is in a payload",
        Change(_SHAPES, "return places(joined, blanks) == self._keys", "return places(joined, blanks) >= self._keys"),
        tests=("tests/property/test_shapes.py::test_a_shape_changes_no_value_and_no_reason",),
    ),
    Mutation(
        "let payloads of a shape nest as deep as they will",
        Change(_SHAPES, "return _opens_few(part, joined, most_opened) and", "return"),
        tests=("tests/property/test_shapes.py::test_payloads_of_one_shape_are_read_by_it",),
    ),
    Mutation(
        "look for the end of a string from each of its quotes",
        Change(_DOCUMENTS, "(?:\"|\\\\?\\Z)', re.DOTALL)", "(?:\"|\\Z)', re.DOTALL)"),
        tests=(f"{_HOSTILE}::test_a_string_without_an_end_is_passed_over_once",),
    ),
    Mutation(
        "bound the depth of a block's payloads by what they open on the average",
        Change(
            _SHAPES,
            'all(_opened(b"".join(part)) <= most or max(map(_opened, part)) <= most for',
            'any(_opened(b"".join(part)) <= most for',
        ),
        tests=("tests/property/test_shapes.py::test_payloads_of_one_shape_are_read_by_it",),
    ),
    Mutation(
        "count the keys of a block at even places alone",
        Change(
            _PLACES,
            "for begin, pairs in ((0, len(text) // 2), (1, (len(text) - 1) // 2))",
            "for begin, pairs in ((0, len(text) // 2),)",
        ),
        tests=("tests/property/test_shapes.py::test_places_of_long_texts_are_counted_as_those_of_short_ones",),
    ),
    Mutation(
        "bound no depth",
        Change(_DOCUMENTS, "if _depth(text) > MAX_DEPTH:", "if _depth(text) < 0:"),
        tests=(f"{_FITTING}::test_a_payload_that_is_no_object_fits_no_column",),
    ),
    Mutation(
        "leave required values out without a word",
        Change(_WIDENING, "if column.required:", "if column.required and not values:"),
        tests=(f"{_FITTING}::test_a_required_column_must_be_there",),
    ),
    Mutation(
        "balance typed columns whatever their numbers say",
        Change(_VERDICT, "balanced=counts.rows == rows and sums <= {rows}", "balanced=counts.rows == rows"),
        tests=(f"{_PUBLISHED}::test_numbers_that_do_not_add_up_hold_the_day_back",),
    ),
    Mutation(
        "publish whatever the typed columns say",
        Change(
            "compaction/verdict/publishable.py",
            "if audit.typed is not None and not audit.typed.balanced:",
            "if audit.typed is not None and audit.typed.rows < 0:",
        ),
        tests=(f"{_PUBLISHED}::test_numbers_that_do_not_add_up_hold_the_day_back",),
    ),
    Mutation(
        "name generations without their columns",
        Change(
            "compaction/naming.py",
            "FORMATS if columns is None else (*FORMATS, columns.digest)",
            "FORMATS if columns is None else (*FORMATS, str(len(columns.columns)))",
        ),
        tests=(f"{_PUBLISHED}::test_the_same_columns_are_published_once_and_others_anew",),
    ),
    Mutation(
        "pass over the reasons in a footer",
        Change(
            "compaction/tasks/finished.py",
            "(unfit := _unfit(stored)) != part.typed.unfit:",
            "(unfit := _unfit(stored)) < 0:",
        ),
        tests=(f"{_FOOTER}::test_another_number_of_reasons_is_an_error",),
    ),
    Mutation(
        "commit columns of other types to the table",
        Change(
            "compaction/iceberg/evolution.py",
            "        elif comes != has and not is_wider(has, comes):",
            "        elif comes == has and is_wider(has, comes):",
        ),
        tests=(f"{_EVOLUTION}::test_any_other_type_is_a_conflict_that_names_its_column",),
    ),
    Mutation(
        "widen a decimal by its digits behind the point",
        Change("compaction/iceberg/names.py", "wide.scale == narrow.scale and wide", "wide"),
        tests=(f"{_EVOLUTION}::test_any_other_type_is_a_conflict_that_names_its_column",),
    ),
    Mutation(
        "pass over columns that conflict",
        Change(
            "compaction/iceberg/commit.py", "tuple(view.conflicts(manifest.columns))", "tuple(view.conflicts(None))"
        ),
        tests=(f"{_TABLE}::test_a_column_of_another_type_holds_the_day_back_from_the_table",),
    ),
    Mutation(
        "keep a held day out of its audit",
        Change(
            "compaction/pointing.py",
            "        audit = with_conflicts(judged.audit, [done for done in outcomes if done is not None])",
            "        audit = judged.audit",
        ),
        tests=(f"{_TABLE}::test_a_column_of_another_type_holds_the_day_back_from_the_table",),
    ),
    Mutation(
        "name the last row with a value as the first",
        Change(
            "compaction/typed/counts.py",
            "if known is None or found < known:",
            "if known is None or found > known:",
        ),
        tests=("tests/unit/compaction/typed/test_first_values.py::test_the_earliest_arrival_counts",),
    ),
    Mutation(
        "tell of a column for ever",
        Change(
            "compaction/audit/table_conflicts.py",
            "if not (_is_told(about) and _kind(about) in asked)]",
            "if not (found and _is_told(about))]",
        ),
        tests=(f"{_TABLE}::test_a_table_that_takes_the_day_after_all_clears_the_finding",),
    ),
    Mutation(
        "forget what the other catalog's table has",
        Change("compaction/audit/table_conflicts.py", "_is_told(about) and _kind(about) in asked", "_is_told(about)"),
        tests=(f"{_CONFLICTS}::test_both_catalogs_tell_and_each_forgets_its_own",),
    ),
    Mutation(
        "pass over a column of every day that somebody took away",
        Change(
            "compaction/iceberg/evolution.py",
            "(there is None or there.field_type != field.field_type)",
            "there is not None and there.field_type != field.field_type",
        ),
        tests=(f"{_CONFLICTS}::test_a_changed_column_of_every_day_holds_the_day",),
    ),
    Mutation(
        "throw away what a refused commit wrote, whatever the table holds",
        Change(
            "compaction/iceberg/refusal.py",
            "now.metadata.snapshot_by_id(snapshot.snapshot_id) is not None or ours & kept",
            "not ours",
        ),
        tests=(f"{_DOUBTS}::test_a_refusal_of_a_commit_that_landed_throws_nothing_away",),
    ),
    Mutation(
        "let pyiceberg tidy up after a refusal",
        Change(
            "compaction/iceberg/refusal.py",
            "            raise Refused(snapshots) from exc\n",
            "            raise\n",
        ),
        tests=(f"{_DOUBTS}::test_a_refusal_of_a_commit_that_landed_throws_nothing_away",),
    ),
    Mutation(
        "leave what a refused commit wrote",
        Change("compaction/iceberg/table.py", "                tidy_up(catalog, self._table, refused)\n", ""),
        tests=(f"{_DOUBTS}::test_a_refused_commit_leaves_no_files_behind",),
    ),
    Mutation(
        "take another column's name for the day of arrival",
        Change(
            "compaction/iceberg/table.py",
            "self._renamed = renamed_sources(table)",
            "self._renamed = dict[str, str]()",
        ),
        tests=(f"{_CONFLICTS}::test_a_changed_column_of_every_day_holds_the_day",),
    ),
    Mutation(
        "describe files by the schema before it took their columns",
        Change(
            "compaction/iceberg/table.py", "metadata = transaction.table_metadata", "metadata = self._table.metadata"
        ),
        tests=(f"{_TABLE}::test_a_day_with_wider_columns_widens_the_table",),
    ),
)
