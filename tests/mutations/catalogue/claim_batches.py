"""Mutations of claims that are made many in a request."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_TABLE: Final = "consumer/dedupe/table.py"
_BATCHES: Final = "consumer/dedupe/claim_batches.py"
_DEDUPLICATOR: Final = "consumer/dedupe/deduplicator.py"

_CLAIMS: Final = "tests/unit/consumer/processor/test_claims.py"
_BATCHED: Final = "tests/unit/consumer/dedupe/test_claim_batches.py"
_RUNS: Final = "test_only_a_claim_that_runs_tells_its_owner"

CLAIM_BATCHES: Final = (
    Mutation(
        "a statement that failed on the way is a claim",
        Change(
            _BATCHES, "            return Undecided.AGAIN\n", "            return Owner(claim.owner, claim.digest)\n"
        ),
        tests=(f"{_BATCHED}::test_a_statement_that_failed_claims_nothing",),
        mode="claims",
    ),
    Mutation(
        "an item that is there is ours",
        Change(
            _BATCHES,
            "            return Undecided.OTHERWISE\n        try:",
            "            return Owner(claim.owner, claim.digest)\n        try:",
        ),
        tests=(f"{_BATCHED}::test_only_a_claim_that_runs_tells_its_owner",),
        mode="claims",
    ),
    Mutation(
        "a claim that has run out is believed in a batch",
        Change(_BATCHES, '["N"]) < self.now', '["N"]) < 0'),
        tests=(f"{_CLAIMS}::test_what_no_batch_decides_is_claimed_alone", f"{_BATCHED}::{_RUNS}"),
    ),
    Mutation(
        "an update claims whatever is there",
        Change(_BATCHES, ' WHERE "id"=? AND "owner"=?', ' WHERE "id"=?'),
        Change(
            _BATCHES,
            '_key(claim), {"S": claim.owner}],\n                "Return',
            '_key(claim)],\n                "Return',
        ),
        tests=(f"{_BATCHED}::test_a_claim_is_one_statement",),
        mode="claims",
    ),
    Mutation(
        "what is undecided is ours",
        Change(
            _DEDUPLICATOR,
            "(claim.event_id, answer) for claim, answer in answers if isinstance(answer, Owner))",
            "(claim.event_id, answer if isinstance(answer, Owner) else Owner(claim.owner, claim.digest)) "
            "for claim, answer in answers if answer is not Undecided.OTHERWISE)",
        ),
        Change(_DEDUPLICATOR, "if answer is Undecided.AGAIN]", "if False]"),
        tests=(f"{_CLAIMS}::test_what_a_batch_left_undecided_is_asked_again",),
        mode="claims",
    ),
    Mutation(
        "an unanswered batch is ours",
        Change(
            _TABLE,
            "                raise error from exc\n            self._refuse",
            "                return [Owner(*claim[1:]) for claim in batch.claims]\n            self._refuse",
        ),
        tests=(f"{_BATCHED}::test_a_request_that_passes_is_unknown",),
        mode="claims",
    ),
    Mutation(
        "an unanswered batch is left at that",
        Change(_DEDUPLICATOR, '        until_known(ask, self._backoff(), "claims")\n', "        ask()\n"),
        tests=(f"{_CLAIMS}::test_what_a_batch_left_undecided_is_asked_again",),
        mode="claims",
    ),
    Mutation(
        "an answer to a part of a batch is an answer",
        Change(_BATCHES, "if len(entries) != len(self.claims):", "if len(entries) > len(self.claims):"),
        Change(_BATCHES, "in zip(self.claims, entries, strict=True)]", "in zip(self.claims, entries)]"),
        tests=(f"{_BATCHED}::test_an_answer_that_is_not_whole_is_none",),
    ),
    Mutation(
        "an entry that says nothing is a claim",
        Change(_BATCHES, 'if entry.get("TableName") else', "if True else"),
        tests=(f"{_BATCHED}::test_an_entry_that_says_nothing_claims_nothing",),
    ),
    Mutation(
        "another event's item tells the owner",
        Change(_BATCHES, " or not _is_on(item, claim)", ""),
        tests=(f"{_BATCHED}::test_only_a_claim_that_runs_tells_its_owner",),
    ),
    Mutation(
        "the later of two copies owns",
        Change(_DEDUPLICATOR, "wanted.setdefault(claim.event_id, claim)", "wanted.update({claim.event_id: claim})"),
        tests=(f"{_CLAIMS}::test_of_two_copies_in_one_batch_the_earlier_owns",),
    ),
    Mutation(
        "a batch names an event twice",
        Change(_BATCHES, " or len({claim.event_id for claim in claims}) < len(claims)", ""),
        tests=(f"{_BATCHED}::test_a_batch_that_names_an_event_twice_is_not_sent",),
    ),
    Mutation(
        "a role without the new rights is refused for good",
        Change(_TABLE, "if isinstance(error, OutcomeUnknown) or error_code", "if error or error_code"),
        tests=(f"{_BATCHED}::test_a_refused_batch_is_sent_no_more",),
    ),
    Mutation(
        "refused batches are sent on and on",
        Change(_TABLE, "        self._refused.add(verb)\n", ""),
        tests=(
            f"{_BATCHED}::test_a_refused_batch_is_sent_no_more",
            f"{_BATCHED}::test_a_refused_statement_ends_the_batches_too",
        ),
    ),
    Mutation(
        "a role without updates makes each claim alone",
        Change(_TABLE, 'self._refused & {"INSERT", batch.verb}', "self._refused"),
        tests=(f"{_BATCHED}::test_without_updates_there_are_still_inserts",),
    ),
)
