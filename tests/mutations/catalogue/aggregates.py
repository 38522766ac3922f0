"""Mutations of what becomes of aggregates that KCL does not deliver, or not at each time."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_AGGREGATE: Final = "archive/format/aggregate.py"
_TIP_WALK: Final = "consumer/evidence/tip_walk.py"
_READ_MARKS: Final = "consumer/evidence/read_marks.py"
_UNDELIVERED: Final = "consumer/evidence/undelivered.py"
_SHARD_END: Final = "consumer/processor/shard_end.py"

_ENDS: Final = "tests/unit/consumer/processor/test_end.py"
_MARKS: Final = "tests/unit/consumer/evidence/test_read_marks.py"
_FOUND: Final = "tests/simulation/found/test_found_by_aggregates.py"
_CHAIN_ENDS: Final = "tests/unit/compaction/audit/test_chain_end.py"

AGGREGATES: Final = (
    Mutation(
        "take an aggregate of nothing for a record behind the tail",
        Change(_TIP_WALK, "return delivered > archived + 1", "return delivered > archived + 1 or not delivered"),
        tests=(f"{_ENDS}::test_what_kcl_would_not_deliver_does_not_keep_a_shard_from_ending",),
        mode="plain",
    ),
    Mutation(
        "judge another shard's aggregates as if every hash key were this shard's",
        Change(_TIP_WALK, "    return HashRange(int(info.starting_hash_key), ", "    return EVERY_HASH_KEY or ("),
        tests=(f"{_ENDS}::test_what_kcl_would_not_deliver_does_not_keep_a_shard_from_ending",),
        mode="plain",
    ),
    Mutation(
        "expect the good beginning of another shard's aggregate",
        Change(
            _AGGREGATE,
            "return Delivery([], users, Fault.OUTSIDE_SHARD)",
            "return Delivery(users[:sub], users[sub:], Fault.OUTSIDE_SHARD)",
        ),
        tests=("tests/unit/archive/format/test_aggregate.py::test_we_deliver_what_kcl_delivers",),
        mode="plain",
    ),
    Mutation(
        "pass over what is withheld of the tail's own aggregate",
        Change(
            _TIP_WALK,
            "        if delivery.withheld or not delivered:",
            "        if archived < 0 and (delivery.withheld or not delivered):",
        ),
        mode="days",
    ),
    Mutation(
        "keep an aggregate from its first user record on, whatever was delivered",
        Change(_TIP_WALK, "Withheld(record, len(delivery.delivered), ", "Withheld(record, 0, "),
        mode="plain",
    ),
    Mutation(
        "keep no malformed aggregate of which something is delivered",
        Change(_TIP_WALK, "if delivery.withheld or not delivered:", "if not delivered:"),
        mode="days",
    ),
    Mutation(
        "write a mark before what it passes is kept",
        Change(_READ_MARKS, "        return len(walk.kept) == len(walk.withheld)", "        return True"),
        tests=(f"{_MARKS}::test_many_withheld_records_are_kept_little_by_little",),
    ),
    Mutation(
        "name what is not delivered without keeping it",
        Change(_UNDELIVERED, "    services.store.put_if_absent(key, encode_coverage_marker(kept))\n", ""),
        tests=(f"{_ENDS}::test_what_kcl_would_not_deliver_does_not_keep_a_shard_from_ending",),
        mode="plain",
    ),
    Mutation(
        "expect every delivery to leave the same aggregates out at a shard's end",
        Change(_SHARD_END, "if behind is not None and str(behind.sequence) in before.undelivered:", "if not before:"),
        tests=(f"{_FOUND}::test_an_aggregate_that_only_one_delivery_brought_does_not_keep_a_shard_from_ending",),
        mode="operations",
    ),
    Mutation(
        "accept any two ends where one names something undelivered",
        Change(_SHARD_END, "str(behind.sequence) in before.undelivered", "before.undelivered"),
        tests=(f"{_FOUND}::test_an_end_elsewhere_is_still_refused_beside_what_is_named",),
    ),
    Mutation(
        "refuse a shard that was begun at what is not delivered any more",
        Change(
            "consumer/processor/shard_start.py",
            "if begun < first and self._keep_held_back(begun, first):",
            "if not begun:",
        ),
        tests=(f"{_FOUND}::test_an_aggregate_that_only_one_delivery_brought_does_not_keep_a_shard_from_beginning",),
    ),
    Mutation(
        "take whatever lies behind a shard's beginning for held back",
        Change(
            "consumer/evidence/held_back.py",
            "if any(delivery.delivered for delivery in deliveries):",
            "if not deliveries:",
        ),
        tests=(f"{_FOUND}::test_a_record_before_the_beginning_is_still_refused",),
    ),
    Mutation(
        "call what another delivery brought behind an end missing",
        Change(
            "compaction/rules/chain_end.py",
            " and (last is None or str(last.sequence) not in marker.undelivered)",
            "",
        ),
        tests=(f"{_CHAIN_ENDS}::test_an_end_before_an_aggregate_that_it_names_as_undelivered_is_one",),
    ),
)
