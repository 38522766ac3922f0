"""Mutations of what an audit calls clean, missing or broken."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_CHAIN: Final = "minutebook.coverage.chain:Chain"

VERDICTS: Final = (
    Mutation(
        "pass over a hole in the hash keys",
        Change("compaction.audit.coverage:_doubt_findings", "doubt.shard_id in reported", "doubt.shard_id is None"),
        tests=("test_a_half_that_nobody_holds_is_missing",),
    ),
    Mutation(
        "judge a day once that changes while it is read",
        Change("compaction.audit.audit:has_changed", "now.digest() != before.digest()", "now is before"),
        tests=("test_segments_that_are_committed_while_the_day_is_read_are_no_defect",),
    ),
    Mutation(
        "never withdraw a verdict",
        Change(
            "compaction.night.rewrite:_Run._rejudge",
            "(pointer.verdict, pointer.audit) != judged",
            "pointer.verdict != 'clean'",
        ),
        tests=("test_a_loss_that_level_stream_sees_withdraws_the_day_for_good",),
    ),
    Mutation(
        "keep an acceptance when another defect blocks the day",
        Change(
            "compaction.night.pointer_update:PointerUpdate.withdraw",
            "(pointer.verdict, pointer.audit) == judged",
            "pointer.verdict == audit.verdict",
        ),
        tests=("test_a_new_finding_that_blocks_an_accepted_day_ends_its_acceptance",),
    ),
    Mutation(
        "leave a verdict in doubt where the day cannot be judged",
        Change("compaction.night.due:do_due", "each.doubted is None", "True"),
        tests=("test_a_loss_that_lists_show_withdraws_the_verdict_though_the_day_cannot_be_judged",),
    ),
    Mutation(
        "withdraw a part because later hours cannot be read",
        Change("compaction.night.due:_due_days", "(state.is_doubtful or day in is_moved)", "bool(why)"),
        tests=(
            "test_a_part_keeps_its_verdict_when_later_hours_cannot_be_read",
            "test_a_store_that_does_not_answer_withdraws_nothing",
        ),
    ),
    Mutation(
        "withdraw what another run has judged meanwhile",
        Change(
            "compaction.night.pointer_update:PointerUpdate.withdraw_doubted",
            "current.pointer != doubted",
            "current.pointer is None",
        ),
        tests=("test_a_verdict_that_another_run_gave_meanwhile_stays",),
    ),
    Mutation(
        "leave a damaged audit of the same name",
        Change(
            "compaction.night.rewrite:_Run._rejudge",
            "is_another or _without_times(audit) != _without_times(before)",
            "is_another",
        ),
        tests=("test_a_damaged_basis_is_its_days_matter_and_is_made_again",),
    ),
    Mutation(
        "go by the clock of a host",
        Change("compaction.job.service_time:by_service", "abs(late_ms) <= TOLERATED_MS", "True"),
        tests=("test_a_host_whose_clock_is_wrong_names_the_days_that_are_settled",),
    ),
    Mutation(
        "read the lines of a held day each night",
        Change("compaction.night.rewrite:_Run._held", "before is None", "True"),
        tests=("test_the_lines_of_a_day_that_is_held_are_read_once",),
    ),
    Mutation(
        "leave the table behind a blocked day",
        Change("compaction.night.rewrite:_Run._follow", "self._publisher.damage(pointer, manifest)", "True"),
        tests=("test_the_table_follows_what_stays_published_of_a_day_that_is_blocked",),
    ),
    Mutation(
        "believe that a shard is its own parent",
        Change("minutebook.proof.statements:_check_relatives", "shard_id in relatives", "relatives == shard_id"),
        tests=(
            "test_a_marker_that_names_its_own_shard_as_kin_is_not_believed",
            "test_a_shard_that_names_itself_as_its_parent_is_judged_whole",
        ),
    ),
    Mutation(
        "let other evidence of its time cover a loss",
        Change("minutebook.coverage.shard_coverage:ShardCoverage.__init__", "[*skipped, *lost]", "skipped"),
        tests=(
            "test_nothing_proves_what_was_seen_to_be_lost",
            "test_a_loss_that_level_stream_sees_withdraws_the_day_for_good",
        ),
    ),
    Mutation(
        "let any comparison of its time answer a loss",
        Change(
            "minutebook.coverage.evidence:unanswered",
            "mark._replace(position=None)",
            "mark._replace(position=None, writer='')",
        ),
        Change(
            "minutebook.coverage.evidence:unanswered",
            "mark._replace(continuity=Continuity.PROVEN, position=None)",
            "mark._replace(continuity=Continuity.PROVEN, position=None, writer='')",
        ),
        tests=("test_only_its_own_answer_voids_a_loss",),
    ),
    Mutation(
        "mark as lost what was committed while the stream was read",
        Change("compaction.audit.audit:audit_day", "compared.lost and has_changed(context, examined)", "False"),
        tests=("test_what_is_committed_while_the_stream_is_read_is_no_loss",),
    ),
    Mutation(
        "mark as lost what an unreadable segment holds",
        Change("compaction.audit.stream.records:_Absent.add", "is_readable", "True"),
        tests=("test_a_segment_that_cannot_be_read_is_no_loss",),
    ),
    Mutation(
        "call foreign what the stream had trimmed before its retention was raised",
        Change(
            "compaction.audit.stream.records:_Archive._settle",
            "oldest is None or position.sequence < oldest",
            "False",
        ),
        tests=("test_what_an_earlier_retention_trimmed_is_not_foreign",),
    ),
    Mutation(
        "measure steps back of arrival times inside segments alone",
        Change(
            "compaction.audit.shards.group_view:GroupView.judge",
            "(step, inside_segments(links, self.facts))",
            "(inside_segments(links, self.facts),)",
        ),
        tests=("test_a_step_beyond_what_proofs_assume_is_never_clean",),
    ),
    Mutation(
        "compare each segment's arrival times with those of the one before it alone",
        Change(
            "compaction.audit.rules.step_back:_later",
            "other if one is None or other.metadata.arrival_max_ms > one.metadata.arrival_max_ms else one",
            "other",
        ),
        tests=("test_steps_add_up_over_segments",),
    ),
    Mutation(
        "call a record missing that a lagging consumer will bring",
        Change(
            "compaction.audit.stream.records:_Absent.add",
            "self._bounds.is_to_come(sent.position)",
            "self._bounds.end is not None and (not self._bounds.is_to_come)",
        ),
        tests=("test_a_record_behind_the_archives_end_is_to_come",),
    ),
    Mutation(
        "originals are looked for on the day alone",
        Change("compaction.audit.rules.originals:Originals._walk", "self._outward(sign) if left else ()", "()"),
        tests=("test_an_original_19_hours_earlier_is_found",),
    ),
    Mutation(
        "the numbers of objects begin again with each task",
        Change("compaction.audit.shards.objects:distribute_tasks", "len(task.groups)", "0"),
        tests=("test_the_same_copies_are_left_out_however_tasks_are_cut",),
    ),
    Mutation(
        "a number says enough of a dropped record",
        Change("compaction.audit.rules.dropped:_KeptNumbers.compare", "record.digest in before.values()", "True"),
        tests=("test_another_event_that_was_dropped_by_a_producers_number_comes_back",),
    ),
    Mutation(
        "the id alone says what a copy is",
        Change(
            "compaction.event_ids.rows:event_digest",
            "blake2b(payload, digest_size=PAYLOAD_BYTES).digest()",
            "bytes(PAYLOAD_BYTES)",
        ),
        tests=("test_an_event_with_anothers_id_stays", "test_another_payload_is_another_event"),
    ),
    Mutation(
        "an id that all records share makes a row for each",
        Change("compaction.event_ids.rows:_few_rows", "payload == MOST_PAYLOADS", "payload is None"),
        tests=("test_an_id_with_many_payloads_leaves_few_rows",),
    ),
    Mutation(
        "a line outside its object's span draws others in",
        Change(
            "compaction.parquet.plan:spans_of",
            "(min(max(end, span.first), span.last) for end in (read.low, read.high))",
            "(read.low, read.high)",
        ),
        tests=("test_a_line_outside_its_objects_span_draws_no_other_object_in",),
    ),
    Mutation(
        "believe that a reader that was away for days missed nothing",
        Change(f"{_CHAIN}._doubt", "Reason.UNPROVEN", "None"),
        tests=(
            "test_an_outage_of_three_days_leaves_no_day_clean_and_nothing_is_expired",
            "test_a_root_that_was_killed_before_its_first_commit_is_not_clean",
            "test_a_segment_that_proves_nothing_begins_an_interval",
        ),
        mode="days",
    ),
    Mutation(
        "let silence of a segment say that nothing is missing",
        Change(
            f"{_CHAIN}._doubt", "before is None or link.run is None or link.run != before.link.run", "link is before"
        ),
        Change(
            f"{_CHAIN}._doubt",
            "None if link.until_ms - before.until_ms < SURELY_HELD_MS else Reason.UNDECIDED",
            "None",
        ),
        tests=(
            "test_an_outage_of_three_days_leaves_no_day_clean_and_nothing_is_expired",
            "test_a_child_that_was_begun_a_day_late_is_not_clean",
        ),
    ),
    Mutation(
        "let an archive that merely stops be whole",
        Change(
            f"{_CHAIN}.intervals",
            "Interval(node.from_ms, node.until_ms)",
            "Interval(node.from_ms, node.until_ms + (node is self.nodes[-1]) * 2 ** 50)",
        ),
        tests=(
            "test_a_consumer_that_died_with_its_checkpoint_at_the_tail_is_looked_at_again",
            "test_what_the_chains_do_not_show_is_never_clean",
        ),
    ),
    Mutation(
        "forget the shards that KCL's table names",
        Change("compaction.audit.day_view:_stream", "checkpoints.rows", "()"),
        tests=("test_a_shard_that_only_the_lease_table_names_is_missing",),
    ),
    Mutation(
        "believe no read mark",
        Change("minutebook.proof.evidence_set:EvidenceSet.pieces", "self.marks.get(shard_id, {})", "{}"),
        tests=("test_a_quiet_shard_with_marks_is_clean",),
    ),
    Mutation(
        "believe no child's birth",
        Change(
            "minutebook.coverage.frontier:_Descent._descend",
            "self._coverage(child)",
            "self._coverage(child).without_birth()",
        ),
        tests=("test_a_split_ten_seconds_before_midnight_holds_no_day",),
    ),
    Mutation(
        "believe another application's lease table",
        Change("minutebook.owner:disbelief", "application == begun_by", "begun_by"),
        tests=(
            "test_another_applications_lease_table_breaks_no_chain",
            "test_another_applications_properties_are_refused",
        ),
    ),
    Mutation(
        "publish by another application's checkpoints",
        Change("minutebook.owner:check_application", "disbelief(record.application, application)", "''"),
        tests=(
            "test_another_applications_properties_touch_no_published_day",
            "test_another_applications_properties_are_refused",
        ),
    ),
    Mutation(
        "call a day clean whose lines nobody read",
        Change("compaction.audit.conclusion:_unread", "'unknown'", "'warning'"),
        tests=("test_names_and_metadata_prove_no_day",),
    ),
    Mutation(
        "count no object whose lines were not read",
        Change("compaction.audit.shards.objects:ask_heads", "yield DRIVER_GROUP, len(rows)", "yield DRIVER_GROUP, 0"),
        tests=("test_what_is_not_known_as_it_is_now_was_not_read",),
    ),
    Mutation(
        "take lines for compared that touch others",
        Change("compaction.audit.audit:examine", "sum(driver_values(read.objects)) or touching", "0"),
        tests=("test_no_defect_of_a_published_day_is_clean_by_what_is_known",),
    ),
    Mutation(
        "follow a key out of the directory",
        Change(
            "minutebook.store.directory_storage:DirectoryStorage._text_path",
            "key.startswith('/') or '..' in key.split('/')",
            "key.startswith('//')",
        ),
        tests=("test_a_key_never_leads_out_of_the_root",),
    ),
    Mutation(
        "pass over a group of an aggregate",
        Change("minutebook.format.aggregate:_fields", "_GROUP", "-1"),
        tests=("test_we_deliver_what_kcl_delivers",),
    ),
    Mutation(
        "call today clean",
        Change("compaction.audit.conclusion:_unfinished", "'unknown'", "'warning'"),
        tests=("test_a_day_that_is_not_settled_is_unknown",),
    ),
    Mutation(
        "see a finding of a part of a day again in the whole day",
        Change("compaction.audit.conclusion:_Reproducible.with_command", "self.until_ms is None", "True"),
        tests=("test_a_part_of_a_day_is_seen_again_as_that_part",),
    ),
    Mutation(
        "see a finding again in one shard where another one is part of it",
        Change("compaction.audit.conclusion:_shards_beside_others", "f'/{about.shard}/' not in key", "False"),
        tests=("test_what_is_mixed_up_between_shards_is_seen_again",),
    ),
    Mutation(
        "count no day as open that failed",
        Change("compaction.night.days.run:_is_open", "row.pointer not in _SETTLED", "False"),
        tests=("test_a_day_that_is_neither_clean_nor_accepted_is_open",),
    ),
    Mutation(
        "audit another stream's archive",
        Change(
            "minutebook.owner:read_owned",
            "recorded != owner._replace(account=owner.account or recorded.account)",
            "False",
        ),
        tests=(
            "test_another_streams_archive_is_refused",
            "test_another_streams_archive_is_not_published",
        ),
    ),
    Mutation(
        "judge an expired day by what is left of it",
        Change("compaction.audit.audit:audit_day", "is_expired(context.archive, prefix, day)", "until_ms == day"),
        tests=("test_an_expired_day_is_unknown_and_nothing_else",),
    ),
    Mutation(
        "stop at a tombstone that cannot be read",
        Change(
            "compaction.inventory.tombstones:_read",
            "try:\n    tombstone = read_tombstone(storage, prefix, day, must_exist=True)\n"
            "except FormatError as exc:\n    return exc\n"
            "except StoreRefused as exc:\n    return FormatError(str(exc), next_step=exc.next_step)",
            "try:\n    tombstone = read_tombstone(storage, prefix, day, must_exist=True)\n"
            "except KeyError as exc:\n    raise exc",
        ),
        tests=(
            "test_the_day_itself_is_never_clean",
            "test_a_day_that_does_not_need_it_is_judged",
        ),
    ),
    Mutation(
        "accept many findings by a few of their keys",
        Change(
            "compaction.verdict.acceptance:_includes", "about.digest and accepted.digest and not is_unnamed", "False"
        ),
        tests=("test_one_of_many_that_is_another_one_was_not_accepted",),
    ),
    Mutation(
        "believe a whole chain that lacks a published key",
        Change("compaction.audit.rules.chain:_Check.end", "self._find_gone()", "pass"),
        tests=("test_a_day_that_is_clean_by_its_chain_over_a_row_less_is_not_clean",),
    ),
    Mutation(
        "forget what was published clean with the verdict",
        Change(
            "compaction.night.rewrite:_Run._view",
            "with_gone(day, self._publisher, current.pointer)",
            "day",
        ),
        tests=("test_a_day_that_is_clean_by_its_chain_over_a_row_less_is_not_clean",),
    ),
    Mutation(
        "believe an inventory that is not that of its manifest",
        Change("compaction.audit.gone:_rows_of", "_is_of(manifest, rows) or manifest is None", "True"),
        tests=("test_an_inventory_that_lacks_a_lost_key_is_not_believed",),
    ),
    Mutation(
        "hold no mark behind a day that a skipped batch may block",
        Change("compaction.basis.evidence:_marks", "skip.follows(stored_ms)", "False"),
        tests=("test_a_mark_behind_the_day_counts_where_it_says_that_a_skipped_batch_came_later",),
    ),
    Mutation(
        "bound a skipped batch by marks alone whose segment was looked for",
        Change(
            "minutebook.coverage.shard_coverage:ShardCoverage._skipped", "(*self.evidence, *marks)", "self.evidence"
        ),
        tests=("test_a_mark_lets_skipped_records_begin_later_whatever_became_of_its_segment",),
    ),
    Mutation(
        "require parents of a quiet child until their end.json was stored",
        Change(
            "minutebook.coverage.shard_coverage:ShardCoverage.__init__",
            "facts.opened_stored_ms is None",
            "facts.opened_stored_ms is not facts",
        ),
        tests=("test_a_child_that_was_opened_shows_that_its_parents_had_ended",),
    ),
    Mutation(
        "forget marks that lie under the next date alone",
        Change("compaction.basis.evidence:_marks", "days_touched(scope)", "(own,)"),
        tests=(
            "test_a_lost_mark_under_the_next_date_alone_withdraws_the_day",
            "test_a_mark_that_proved_the_day_from_the_next_date_is_missed",
        ),
    ),
    Mutation(
        "count the births of the next day as evidence of a day",
        Change("compaction.basis.evidence:_marks", "mark.shard_id not in concerned", "False"),
        tests=("test_marks_of_later_times_leave_a_day_at_rest",),
    ),
    Mutation(
        "count the lines that came back, and not compare them",
        Change("compaction.audit.rejudge:_stale", "before.basis is not None", "False"),
        tests=("test_a_restored_row_follows_the_copy_that_is_kept_of_it",),
    ),
    Mutation(
        "doubt the archive for the settings",
        Change(
            "compaction.night.due:_moved",
            "msgspec.structs.replace(each.basis, settings=now.basis.settings)",
            "each.basis",
        ),
        tests=("test_rows_of_other_settings_put_no_verdict_in_doubt",),
    ),
    Mutation(
        "compare with what was published clean first instead of last",
        Change("compaction.audit.gone:clean_inventory", "reverse=True", "reverse=False"),
        tests=("test_an_older_pointer_that_is_put_back_hides_no_key_of_a_newer_clean_day",),
    ),
    Mutation(
        "let vacuum delete what was last published clean",
        Change(
            "compaction.commands.vacuum.day:find_leftovers",
            "clean_inventory(publisher, pointer)",
            "''",
        ),
        tests=("test_vacuum_keeps_what_was_last_clean",),
    ),
    Mutation(
        "let expired runs stand for segments of the judged day",
        Change(
            "compaction.audit.rules.chain:_Check._is_expired_joint",
            "any(member.after in run for run in self._context.expired)",
            "bool(self._context.expired)",
        ),
        tests=("test_expired_runs_stand_for_their_segments_on_both_sides",),
    ),
    Mutation(
        "let the day before an expired one forget why it was clean",
        Change("consumer.expire.coverage:DayProof.run_of", "coverage.proven_since(first.first, last.last)", "None"),
        tests=("test_a_day_is_expired_in_the_run_that_expires_the_day_after_it",),
    ),
    Mutation(
        "hold the damaged marks of all days of a night",
        Change("compaction.basis.evidence:_markers", "problem.key.startswith(own)", "problem"),
        tests=("test_a_damaged_mark_concerns_its_day_and_the_one_before",),
    ),
    Mutation(
        "judge a repaired day from the audit of the run that was held",
        Change(
            "compaction.night.rewrite:_Run.published",
            "is_of_a_held_run or not changes.are_same_slots",
            "not changes.are_same_slots",
        ),
        tests=("test_a_day_that_was_held_and_is_repaired_is_counted_as_published",),
    ),
    Mutation(
        "begin a night's window at the first object",
        Change(
            "compaction.night.due:oldest_day",
            "min([*known, day_of_ms(application.written_at_ms), newest])",
            "min(known)",
        ),
        tests=("test_a_window_begins_with_the_application_and_not_with_the_first_object",),
    ),
    Mutation(
        "forget what the segments at the scope's edge stand on",
        Change("compaction.basis.outside:UsedLinks.of", "[*below[-1:], *near]", "near"),
        tests=("test_the_segment_that_those_at_the_edge_stand_on_is_looked_at",),
    ),
    Mutation(
        "list neighbours from the minute of the first one on",
        Change(
            "compaction.basis.outside:with_neighbours",
            "min(link.minute for link in used.before)",
            "min(used.before).minute",
        ),
        tests=("test_a_day_before_which_stamps_step_back_out_of_the_edge_is_left_alone",),
    ),
    Mutation(
        "choose the segments at the scope's edge by their minutes",
        Change(
            "compaction.basis.outside:UsedLinks.of",
            "list(dropwhile(lambda link: link.minute < query.begin_minute - _EDGE_MINUTES, stored))",
            "[link for link in stored if link.minute >= query.begin_minute - _EDGE_MINUTES]",
        ),
        tests=("test_a_segment_at_the_edge_whose_stamps_step_back_out_of_it_is_looked_at",),
    ),
    Mutation(
        "count what an hour of all shards holds of near ones",
        Change(
            "compaction.basis.outside:_Counted.__contains__",
            "not is_far and parsed.minute not in self._minutes",
            "False",
        ),
        tests=("test_of_a_near_shard_the_same_counts_whatever_is_listed",),
    ),
    Mutation(
        "let a night be well with a day that another run withdrew",
        Change(
            "compaction.night.days.run:row_of_due",
            "pointer not in {*_SETTLED, done.verdict}",
            "done.verdict != CLEAN",
        ),
        tests=("test_a_day_that_another_run_withdrew_meanwhile_is_named",),
    ),
    Mutation(
        "pass over a tombstone that cannot be read",
        Change("compaction.night.due:_expired", 'damage=f"its tombstone cannot be read: {exc}"', 'damage=""'),
        tests=("test_an_expired_day_whose_tombstone_is_damaged_is_named",),
    ),
    Mutation(
        "settle an expired day whatever is published of it",
        Change(
            "compaction.night.rewrite:_Run._not_as_expired",
            "pointer is None or pointer.generation != expected",
            "pointer is None",
        ),
        tests=("test_an_expired_day_that_is_not_published_as_then_is_named",),
    ),
    Mutation(
        "follow an older manifest of the generation that a day was expired with",
        Change("compaction.night.rewrite:_Run._is_older", "key == expected", "bool(expected)"),
        tests=("test_an_expired_day_with_an_older_manifest_of_its_generation_is_named",),
    ),
    Mutation(
        "let symlinks and table follow an expired day that nothing is compared with",
        Change("compaction.night.rewrite:_Run._not_followed", "tombstone is None", "tombstone is manifest"),
        tests=("test_an_expired_day_whose_tombstone_is_damaged_stays_as_it_is",),
    ),
)
