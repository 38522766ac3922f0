"""Mutations of what is known of a published day's objects, and of what is called altered."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

ALTERED: Final = (
    Mutation(
        "leave metadata out of the digest",
        Change("compaction.parquet.fetching:content_digest", "sorted(metadata.items())", "[]"),
        tests=("test_an_edited_object_is_altered_in_each_night",),
    ),
    Mutation(
        "leave the bytes out of the digest",
        Change("compaction.parquet.fetching:content_digest", "digest.update(chunk)", "digest.update(b'')"),
        tests=("test_an_edited_object_is_altered_in_each_night",),
    ),
    Mutation(
        "know an object by its ETag and size alone",
        Change("compaction.audit.shards.known:known_of", "each.reading[:3] == here", "each.reading[:2] == here[:2]"),
        tests=("test_an_edited_object_is_altered_in_each_night",),
    ),
    Mutation(
        "forget an alteration that was repaired",
        Change(
            "compaction.inventory.segments:with_history",
            "altered = history.altered",
            "altered = Alteration.NONE",
        ),
        tests=("test_an_edited_object_is_altered_in_each_night",),
    ),
    Mutation(
        "let each generation take a first digest",
        Change(
            "compaction.audit.shards.known:_first_digest",
            'return next(filter(None, named), "") or next(sound, "")',
            'return ""',
        ),
        tests=("test_an_alteration_goes_through_generations",),
    ),
    Mutation(
        "let a held generation forget what it saw",
        Change("compaction.tasks.task:_keep_facts", "read.altered > raw_object.history.altered", "read.changed"),
        tests=("test_what_a_held_generation_saw_is_known_to_the_next",),
    ),
    Mutation(
        "take a first digest of a damaged object",
        Change(
            "compaction.audit.shards.known:_first_digest",
            "is_sound(argument.prefix, argument.compression, each.reading)",
            "each.reading.facts.digest",
        ),
        tests=("test_a_repair_is_no_alteration",),
    ),
    Mutation(
        "believe an object that changed before a digest was held",
        Change(
            "compaction.audit.shards.known:known_of",
            "as_published not in {None, here}",
            "as_published in ()",
        ),
        tests=("test_an_object_that_changed_before_a_digest_was_held_is_unknown",),
    ),
    Mutation(
        "call the same content altered",
        Change(
            "compaction.inventory.segments:with_history",
            "read.digest != history.first_digest",
            "read.digest != history.first_digest or history.is_replaced",
        ),
        tests=("test_the_same_content_stored_again_is_clean",),
    ),
    Mutation(
        "read a known object again",
        Change(
            "compaction.audit.shards.known:read_unknown",
            "row.known is None or row.known.facts is None",
            "row.key",
        ),
        tests=("test_an_unchanged_day_is_judged_without_a_request_for_a_segment",),
    ),
    Mutation(
        "forget what was read to judge a day again",
        Change(
            "compaction.audit.shards.known:read_unknown",
            "keep_facts(open_in_task(argument.out), argument.folder, task, finished)",
            "finished.facts",
        ),
        tests=("test_an_unchanged_day_is_judged_without_a_request_for_a_segment",),
    ),
    Mutation(
        "leave rows as they are when an object was repaired",
        Change("compaction.audit.shards.group_view:unwritten", "yield row.key", "yield from ()"),
        tests=("test_a_repair_is_no_alteration",),
    ),
    Mutation(
        "leave out lines whose original turns out to be missing",
        Change(
            "compaction.audit.rejudge:_stale", "examined.restored != before.equation.restored", "examined is None"
        ),
        tests=("test_a_dropped_record_whose_original_turns_out_to_be_missing_is_brought_back",),
    ),
    Mutation(
        "store no facts where nothing is written yet",
        Change("compaction.tasks.task:_run", "_keep_facts(order, out, FinishedTask(None, result.facts))", "pass"),
        tests=("test_after_a_rewrite_without_copies_every_object_has_facts",),
    ),
    Mutation(
        "clear an alteration whose facts are lost",
        Change(
            "compaction.audit.rejudge:_carried",
            "about.code in _CARRIED",
            "about.code in _CARRIED and about.shard is None",
        ),
        tests=("test_facts_that_are_lost_do_not_clear_an_alteration",),
    ),
    Mutation(
        "give up what is held of an object that went",
        Change(
            "compaction.audit.shards.known:join_known",
            "gone and argument.is_published and argument.folder",
            "not rows",
        ),
        tests=("test_an_object_that_went_and_comes_back_is_compared",),
    ),
    Mutation(
        "hold first contents by the pointer alone",
        Change(
            "compaction.audit.known:with_known",
            "facts.published | {places.published} - {''}",
            "{places.published} - {''}",
        ),
        tests=(
            "test_a_first_content_is_held_without_a_pointer",
            "test_a_first_content_is_held_under_an_older_pointer",
        ),
    ),
    Mutation(
        "hold first contents of a day that was only held",
        Change(
            "compaction.audit.known:with_known",
            "facts.published | {places.published} - {''}",
            "{*facts.files, places.published} - {''}",
        ),
        tests=("test_a_day_that_was_only_held_has_no_first_content",),
    ),
    Mutation(
        "forget what a held night read of a late object",
        Change("compaction.audit.shards.known:known_of", "not first_ones and as_published is None", "False"),
        tests=("test_a_late_object_that_a_held_night_has_read_is_compared",),
    ),
    Mutation(
        "forget that a day was published with its manifests",
        Change("compaction.audit.known:DayFacts.of", "files and not published", "False"),
        tests=("test_a_first_content_is_held_where_the_symlinks_alone_say_that_the_day_was_published",),
    ),
    Mutation(
        "accept whatever an altered object holds later",
        Change("compaction.verdict.acceptance:_includes", "set(about.contents) <= set(accepted.contents)", "True"),
        tests=("test_an_accepted_object_that_is_edited_again_is_a_new_finding",),
    ),
    Mutation(
        "accept an object with a defect, whatever it holds later",
        Change("compaction.audit.rules.lines:with_contents", "(read.digest,)", "()"),
        tests=("test_an_accepted_object_with_other_lines_is_a_new_finding",),
    ),
    Mutation(
        "accept that dropped records are not kept, whichever are",
        Change("compaction.audit.rules.dropped:_read", "map(str, kept)", "()"),
        tests=("test_accepted_dropped_lines_that_are_others_are_a_new_finding",),
    ),
    Mutation(
        "end what an earlier release accepted",
        Change("compaction.verdict.acceptance:_includes", "not acceptance.names_contents", "False"),
        tests=("test_what_an_earlier_release_accepted_goes_on",),
    ),
)
