"""Mutations of what platforms pass and are told, and of what a report folds."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_SUBMIT: Final = "compaction/spark_submit.py"
_EXIT_CODE: Final = "compaction/verdict/exit_code.py"
_FOLDING: Final = "compaction/report/folding.py"
_SUBMIT_TESTS: Final = "tests/unit/compaction/test_spark_submit.py"
_EXIT_TESTS: Final = "tests/unit/compaction/verdict/test_exit_code.py"
_FOLDING_TESTS: Final = "tests/unit/compaction/report/test_folding.py"

PLATFORMS: Final = (
    Mutation(
        "leave an argument out that nobody knows",
        Change(
            _SUBMIT,
            "        if key in PLATFORM:\n            continue\n",
            '        if key in PLATFORM or not key.islower():\n            continue\n        if key[2:4] == "dt":\n'
            "            continue\n",
        ),
        tests=(f"{_SUBMIT_TESTS}::test_what_is_not_understood_is_refused",),
    ),
    Mutation(
        "take a flag that says neither true nor false for false",
        Change(_SUBMIT, "        if value not in _FLAGS:\n", '        if value not in (*_FLAGS, "", "yes"):\n'),
        tests=(f"{_SUBMIT_TESTS}::test_what_is_not_understood_is_refused",),
    ),
    Mutation(
        "end a night with 0 that read or published nothing",
        Change(_EXIT_CODE, "not day.is_done or (day.verdict", "(day.verdict"),
        tests=(f"{_EXIT_TESTS}::test_the_worst_day_counts",),
    ),
    Mutation(
        "end a night with 0 that found defects",
        Change(
            _EXIT_CODE,
            'if any(day.verdict == "defects" for day in days):',
            'if fail_on == "unknown" and any(day.verdict == "defects" for day in days):',
        ),
        tests=(f"{_EXIT_TESTS}::test_the_worst_day_counts",),
    ),
    Mutation(
        "fold shards that have findings without saying so",
        Change(_FOLDING, "sum(shard.shard in worst for shard in folded)", "0"),
        tests=(f"{_FOLDING_TESTS}::test_what_is_folded_is_counted",),
    ),
    Mutation(
        "fold the worst shards",
        Change(_FOLDING, "worst.get(shard.shard, len(_RANK)),\n            bool", "bool"),
        tests=(f"{_FOLDING_TESTS}::test_the_worst_of_many_come_first",),
    ),
)
