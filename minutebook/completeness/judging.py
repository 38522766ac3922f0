"""Ask the archive about times that no row covers: by the evidence that the nightly audit judges by, too."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from minutebook.completeness.folding import Judged, Question
from minutebook.coverage.chain import Reason
from minutebook.coverage.intervals import Interval
from minutebook.format.boundaries import NamedGap
from minutebook.format.minute import MINUTE_MS
from minutebook.format.read_mark import BIRTH
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import judge_shards
from minutebook.proof.statements import Statements
from minutebook.store.retrying import RetryingStore

if TYPE_CHECKING:
    from minutebook.coverage.shard_coverage import Gap

_TOGETHER_MS: Final = 60 * MINUTE_MS
"""Times so near to each other are judged in one search."""


def judge_times(
    store: RetryingStore,
    prefix: str,
    statements: Statements,
    questions: Iterable[Question],
    *,
    begin_ms: int,
    now_ms: int,
) -> Judged:
    """Return the gaps in each time. `begin_ms` is the application's start; `statements` were read before."""
    judged: dict[Question, tuple[Gap, ...]] = {}
    for batch in _batches(questions):
        scope = Interval(
            min(_begin(question) for question in batch), max(question.interval.until_ms for question in batch)
        )
        query = ProofQuery(scope, begin_ms, now_ms, shards=frozenset(question.shard for question in batch))
        coverages = judge_shards(store, prefix, query, statements)
        for question in batch:
            coverage = coverages[question.shard]
            coverage = coverage if question.is_child else coverage.without_birth()
            judged[question] = coverage.gaps(*question.interval)
    return judged


def still_open(gaps: Mapping[NamedGap, Question], judged: Judged) -> tuple[NamedGap, ...]:
    """Return what is left of named gaps after the archive was asked again: what was healed is left out."""
    left = []
    for gap, question in gaps.items():
        for rest in judged[question]:
            begin_ms, until_ms = rest.interval
            # Who named the gap may have had reasons that the archive does not show.
            reasons = {str(reason) for reason in (*gap.reasons, *rest.reasons)}
            told = reasons - {str(Reason.NOT_COVERED)} or reasons
            left.append(NamedGap.of(gap.shard, begin_ms, until_ms, sorted(told)))
    return tuple(left)


def question_of(gap: NamedGap, *, is_child: bool) -> Question:
    """Return the question whether a gap was healed."""
    return Question(gap.shard, Interval(*gap.times_ms), is_child)


def _begin(question: Question) -> int:
    """Return the begin of the search: evidence since a shard's birth is that of its first minutes."""
    return (
        question.interval.until_ms - _TOGETHER_MS if question.interval.from_ms == BIRTH else question.interval.from_ms
    )


def _batches(questions: Iterable[Question]) -> list[list[Question]]:
    """Return the questions by time, those near to each other together."""
    batches: list[list[Question]] = []
    reached_ms = 0
    for question in sorted(questions, key=_begin):
        if not batches or _begin(question) > reached_ms + _TOGETHER_MS:
            batches.append([])
            reached_ms = 0
        batches[-1].append(question)
        reached_ms = max(reached_ms, question.interval.until_ms)
    return batches
