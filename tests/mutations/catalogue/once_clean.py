"""Mutations that bring back what an audit once called clean, where no other one does; see tests/README.md."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_CHAIN: Final = "archive/coverage/chain.py"
_GATHERED: Final = "archive/proof/gathered.py"
_FRONTIER: Final = "archive/coverage/frontier.py"
_STORIES: Final = "tests/unit/compaction/audit/test_once_clean.py"
_FINDS: Final = "tests/unit/compaction/audit/test_coverage.py"
_TRUST: Final = "tests/unit/compaction/publish/test_trust.py"

ONCE_CLEAN: Final = (
    Mutation(
        "believe that a reader that was away for days missed nothing",
        Change(
            _CHAIN,
            "            return Reason.UNPROVEN\n        if link.claim is Continuity.PROVEN:\n",
            "            return None\n        if link.claim is Continuity.PROVEN:\n",
        ),
        tests=(
            f"{_STORIES}::test_an_outage_of_three_days_leaves_no_day_clean_and_nothing_is_expired",
            f"{_STORIES}::test_a_root_that_was_killed_before_its_first_commit_is_not_clean",
        ),
    ),
    Mutation(
        "let silence of a segment say that nothing is missing",
        Change(_CHAIN, "if before is None or link.run is None or link.run != before.link.run:", "if link is before:"),
        Change(_CHAIN, "if link.until_ms - before.until_ms < SURELY_HELD_MS else Reason.UNDECIDED", ""),
        tests=(
            f"{_STORIES}::test_an_outage_of_three_days_leaves_no_day_clean_and_nothing_is_expired",
            f"{_STORIES}::test_a_child_that_was_begun_a_day_late_is_not_clean",
        ),
    ),
    Mutation(
        "let an archive that merely stops be whole",
        Change(
            _CHAIN,
            "return union(Interval(node.from_ms, node.until_ms) for",
            "return union(Interval(node.from_ms, node.until_ms + (node is self.nodes[-1]) * 2**50) for",
        ),
        tests=(
            f"{_STORIES}::test_a_consumer_that_died_with_its_checkpoint_at_the_tail_is_looked_at_again",
            f"{_FINDS}::test_what_the_chains_do_not_show_is_never_clean",
        ),
    ),
    Mutation(
        "let end.json prove that a shard was read",
        Change(
            _GATHERED,
            "        stated = self._statements.of(shard_id)\n        if stated.adopted is not None:\n",
            "        stated = self._statements.of(shard_id)\n"
            "        if stated.end is not None:\n"
            "            claim = (Continuity.PROVEN, 0, 1, stated.end.last_position())\n"
            "            yield mark_evidence(ReadMark(shard_id, MarkKind.END, *claim, writer=''))\n"
            "        if stated.adopted is not None:\n",
        ),
        Change(
            _GATHERED,
            "from archive.format.metadata import Predecessor",
            "from archive.format.metadata import Continuity, Predecessor",
        ),
        tests=(f"{_STORIES}::test_a_child_that_was_trimmed_whole_is_not_clean",),
    ),
    Mutation(
        "forget the shards that KCL's table names",
        Change("compaction/job/sight.py", "leased = Stream(leased=checkpoints.rows)", "leased = Stream(leased=())"),
        tests=(f"{_STORIES}::test_a_shard_that_only_the_lease_table_names_is_missing",),
    ),
    Mutation(
        "believe no read mark",
        Change(_GATHERED, "sorted(self.marks.get(shard_id, {}).items(), key", "sorted([], key"),
        tests=(f"{_FINDS}::test_a_quiet_shard_with_marks_is_clean",),
    ),
    Mutation(
        "believe no child's birth",
        Change(
            _FRONTIER,
            "self._require(self._coverage(child), self._born_after(child)",
            "self._require(self._coverage(child).without_birth(), self._born_after(child)",
        ),
        tests=(f"{_STORIES}::test_a_split_ten_seconds_before_midnight_holds_no_day",),
    ),
    Mutation(
        "take the manifest that is found for one's own",
        Change(
            "compaction/publish/generation.py",
            'return f"{self.manifests}{generation}-{writer}{_MANIFEST}"',
            'return f"{self.manifests}{generation}{_MANIFEST}" if writer else ""',
        ),
        Change(
            "compaction/publish/publisher.py",
            "if self.storage.put_or_read(key, body) is not None:",
            "if self.storage.put_or_read(key, body) is body:",
        ),
        tests=(
            f"{_TRUST}::test_a_manifest_that_is_planted_beside_the_day_is_not_read",
            f"{_TRUST}::test_the_manifest_of_files_that_are_gone_never_comes_back",
        ),
    ),
    Mutation(
        "believe another application's lease table",
        Change("compaction/inventory/checkpoints.py", "if begun_by == self.application or", "if begun_by or"),
        tests=(f"{_STORIES}::test_another_applications_lease_table_breaks_no_chain",),
    ),
    Mutation(
        "follow a key out of the directory",
        Change(
            "archive/store/directory_storage.py",
            'if key.startswith("/") or ".." in key.split("/"):',
            'if key.startswith("//"):',
        ),
        tests=("tests/unit/archive/store/test_directory_storage.py::test_a_key_never_leads_out_of_the_root",),
    ),
    Mutation(
        "read a number without end",
        Change(
            "archive/format/aggregate.py", "for shift in range(0, 70, 7):", "for shift in range(0, 7 * 10**8, 7):"
        ),
        tests=("tests/unit/archive/format/test_aggregate.py::test_no_megabyte_takes_long",),
    ),
    Mutation(
        "take the whole of an aggregate's number for its index",
        Change(
            "archive/format/aggregate.py",
            "return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000",
            "return value",
        ),
        tests=(
            "tests/unit/archive/format/test_aggregate.py::test_we_deliver_what_kcl_delivers",
            "tests/unit/compaction/stream/test_kpl.py::test_the_audit_counts_what_kcl_delivers_and_what_it_withholds",
        ),
    ),
    Mutation(
        "pass over a group of an aggregate",
        Change("archive/format/aggregate.py", "elif kind == _GROUP and depth", "elif kind == -1 and depth"),
        tests=("tests/unit/archive/format/test_aggregate.py::test_we_deliver_what_kcl_delivers",),
    ),
)
