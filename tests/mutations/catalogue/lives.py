"""Mutations of what a published verdict rests on, that the lives of the model notice."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_BASIS: Final = "compaction.verdict.basis:differences"
_DIGESTS: Final = '("marks", "markers", "skips", "tombstones", "duplicates", "strangers")'
_NOTICED: Final = ("test_no_clean_of_the_model_is_false_and_what_is_sound_comes_to_rest",)

LIVES: Final = (
    Mutation(
        "let objects of a published day come and go",
        Change(_BASIS, '("folders", "day_before", "originals")', '("day_before", "originals")'),
        tests=_NOTICED,
    ),
    Mutation(
        "let marks of a published day come and go",
        Change(_BASIS, _DIGESTS, '("markers", "skips", "tombstones", "duplicates", "strangers")'),
        tests=_NOTICED,
    ),
    Mutation(
        "let markers of a published day's shards come and go",
        Change(_BASIS, _DIGESTS, '("marks", "skips", "tombstones", "duplicates", "strangers")'),
        tests=_NOTICED,
    ),
    Mutation(
        "let a batch be skipped after its day was published",
        Change(_BASIS, _DIGESTS, '("marks", "markers", "tombstones", "duplicates", "strangers")'),
        tests=_NOTICED,
    ),
    Mutation(
        "let the segments behind a published day come and go",
        Change(_BASIS, "not _is_same(shard.after, other.after)", "False"),
        tests=_NOTICED,
    ),
    Mutation(
        "judge a day that is not clean never again",
        Change("compaction.night.due:why_due", '"" if pointer.verdict == CLEAN else "it is not clean"', '""'),
        tests=_NOTICED,
    ),
)
