"""What a commit to an Iceberg table changes: exactly the day's files, and never what others put there."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.tables.plan import LiveFile, Recorded, Replacement, Target, plan_replacement
from minutebook.errors import SafetyRefusal

FOLDER: Final = "s3://b/dt=2026-11-20/"
OLD: Final = tuple(f"{FOLDER}one/{name}" for name in "ab")
NEW: Final = tuple(f"{FOLDER}two/{name}" for name in "cd")
THEIRS: Final = "s3://b/warehouse/data/rewritten"
TARGET: Final = Target("2026-11-20", "two", FOLDER, NEW)


def live(*uris: str, rows: int = 5, is_intact: bool = True) -> list[LiveFile]:
    """Return files of the table."""
    return [LiveFile(uri, rows, is_intact) for uri in uris]


def recorded(generation: str, rows: int = 10) -> Recorded:
    """Return a commit that the table remembers."""
    return Recorded(generation, rows, 0)


def test_the_generation_is_there() -> None:
    """Nothing to do, whatever the table remembers: its snapshots may have been expired."""
    assert plan_replacement(TARGET, live(*NEW), None) is None
    assert plan_replacement(TARGET, live(*NEW), recorded("one")) is None


@pytest.mark.parametrize("memory", [None, recorded("two"), recorded("one", rows=20)])
def test_a_file_that_is_there_twice_is_named_once(memory: Recorded | None) -> None:
    """Its rows counted double. It goes, as often as it is there, and comes once."""
    assert plan_replacement(TARGET, live(*NEW, NEW[0]), memory) == Replacement(NEW[:1], NEW[:1])
    other = NEW[0].replace("s3:", "s3a:")
    assert plan_replacement(TARGET, live(*NEW, other), memory) == Replacement((NEW[0], other), NEW[:1])


def test_a_file_that_is_there_twice_is_named_once_beside_others() -> None:
    """A replaced generation goes as a whole; what others wrote stays."""
    assert plan_replacement(TARGET, live(*OLD, OLD[0]), recorded("one")) == Replacement(OLD, NEW)
    assert plan_replacement(TARGET, live(*NEW, NEW[0], THEIRS), recorded("two")) == Replacement(NEW[:1], NEW[:1])
    assert plan_replacement(TARGET, live(OLD[0], NEW[0], NEW[0]), None) == Replacement((OLD[0], NEW[0]), NEW)
    with pytest.raises(SafetyRefusal, match="twice"):
        plan_replacement(TARGET, live(*NEW, NEW[0], is_intact=False), recorded("two"))


def test_an_empty_day_is_filled() -> None:
    """Also where the table remembers the generation: somebody emptied the day on purpose, and asked for it again."""
    assert plan_replacement(TARGET, [], None) == Replacement((), NEW)
    assert plan_replacement(TARGET, [], recorded("two")) == Replacement((), NEW)


def test_another_generation_is_replaced() -> None:
    """All of its files go, all of the new ones come."""
    assert plan_replacement(TARGET, live(*OLD), recorded("one")) == Replacement(OLD, NEW)


def test_files_that_stay_are_not_named() -> None:
    """A table that holds a part of the generation gets the rest."""
    assert plan_replacement(TARGET, live(OLD[0], NEW[0]), None) == Replacement(OLD[:1], NEW[1:])


def test_a_generation_without_rows_empties_the_day() -> None:
    """Nothing comes; once the day is empty nothing is to do."""
    nothing = TARGET._replace(files=())
    assert plan_replacement(nothing, live(*OLD), None) == Replacement(OLD, ())
    assert plan_replacement(nothing, [], None) is None


def test_a_rewritten_generation_is_left_alone() -> None:
    """Maintenance may put its rows into other files, and users may delete some."""
    assert plan_replacement(TARGET, live(THEIRS, rows=10), recorded("two")) is None
    assert plan_replacement(TARGET, live(THEIRS, rows=9, is_intact=False), recorded("two")) is None


def test_a_generation_whose_rows_were_deleted_with_their_files_is_left_alone() -> None:
    """All rows of one day of events: no file of theirs tells of it, only the number that was committed."""
    assert plan_replacement(TARGET, live(NEW[0]), recorded("two")) is None
    assert plan_replacement(TARGET, live(NEW[0], *OLD), recorded("two", 15)) == Replacement(OLD, NEW[1:])


def test_a_commit_of_another_output_is_never_replaced() -> None:
    """Whoever publishes there has other rows of the day. An emptied day is filled; one that moved away stays."""
    elsewhere = recorded("one")._replace(manifest="s3://c/dt=2026-11-20/_manifest/one-w.json")
    for files in (live(*OLD), live(THEIRS, rows=10)):
        with pytest.raises(SafetyRefusal, match="published at another output") as caught:
            plan_replacement(TARGET, files, elsewhere)
        assert "s3://c/" in str(caught.value)
    assert plan_replacement(TARGET, [], elsewhere) == Replacement((), NEW)
    here = elsewhere._replace(manifest=f"{FOLDER}_manifest/one-w.json")
    assert plan_replacement(TARGET, live(*OLD), here) == Replacement(OLD, NEW)


def test_a_rewritten_former_generation_is_replaced_when_its_rows_are_all_there() -> None:
    """Their number is the one that was committed."""
    assert plan_replacement(TARGET, live(THEIRS, rows=10), recorded("one")) == Replacement((THEIRS,), NEW)


@pytest.mark.parametrize(
    ("files", "remembered"),
    [
        (live(THEIRS, rows=9), recorded("one")),
        (live(THEIRS, rows=11), recorded("one")),
        (live(THEIRS, rows=10), None),
        (live(*OLD, is_intact=False), recorded("one")),
        (live(OLD[0]), recorded("one")),
        ([*live(*OLD), *live(THEIRS, rows=1)], recorded("one")),
        (live(THEIRS, rows=10, is_intact=False), recorded("one")),
    ],
    ids=[
        "fewer rows",
        "more rows",
        "nothing remembered",
        "rows deleted",
        "a file deleted",
        "rows added",
        "not of the day alone",
    ],
)
def test_rows_that_are_not_those_committed_are_refused(files: list[LiveFile], remembered: Recorded | None) -> None:
    """Nothing is thrown away by guess."""
    with pytest.raises(SafetyRefusal) as caught:
        plan_replacement(TARGET, files, remembered)
    assert "2026-11-20" in str(caught.value)


@given(
    st.lists(st.sampled_from((*OLD, *NEW, THEIRS)), unique=True),
    st.one_of(st.none(), st.builds(recorded, st.sampled_from(("one", "two")), st.integers(0, 30))),
)
def test_a_replacement_always_ends_with_the_generation(uris: list[str], remembered: Recorded | None) -> None:
    """Applied to the table it leaves exactly the target, and planning again finds nothing to do."""
    files = live(*uris)
    try:
        change = plan_replacement(TARGET, files, remembered)
    except SafetyRefusal:
        assert THEIRS in uris or (remembered is not None and remembered.rows != 5 * len(uris))
        return
    if change is not None:
        after = (set(uris) - set(change.remove)) | set(change.add)
        assert after == set(NEW)
        assert set(change.remove) <= set(uris)
        assert not set(change.add) & set(uris)
        assert plan_replacement(TARGET, live(*after), remembered) is None
