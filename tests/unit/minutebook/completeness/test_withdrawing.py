"""Which gaps are withdrawn from the newest boundary, and that it happens once."""

from minutebook.completeness.query import Answer, judge, read_completeness
from minutebook.completeness.withdrawing import Claim, read_claim, withdraw
from minutebook.format.boundaries import COMPLETE, CompleteMarker, NamedGap, encode_boundary, marker_key
from minutebook.format.minute import MINUTE_MS, iso_time
from tests.fakes.boundary_scene import FIVE_MS, PREFIX, S0, S1, T0, BoundaryScene

WHY = "a test found it"


def gap(from_minute: int, until_minute: int, shard: str = S0) -> NamedGap:
    """Return a gap by minutes relative to 10:15."""
    return NamedGap.of(shard, T0 + from_minute * MINUTE_MS, T0 + until_minute * MINUTE_MS, ["broken_chain"])


def publish(scene: BoundaryScene, boundary_ms: int, *gaps: NamedGap, folded: tuple[str, ...] = ()) -> None:
    """Store a marker of what arrived since 09:15."""
    marker = CompleteMarker(
        since=iso_time(T0 - 60 * MINUTE_MS),
        boundary=iso_time(boundary_ms),
        shards={},
        gaps=gaps,
        writer="w",
        folded=folded,
    )
    scene.put(marker_key(PREFIX, boundary_ms), encode_boundary(marker))


def withdrawn(scene: BoundaryScene, *gaps: NamedGap) -> tuple[NamedGap, ...]:
    """Withdraw gaps as a new process does; return those that were new."""
    objects = scene.objects()
    claim = read_claim(objects, scene.clock.now_ms())
    assert claim is not None
    return withdraw(objects, claim, gaps, WHY)


def keys(scene: BoundaryScene) -> list[str]:
    """Return the keys of all withdrawals."""
    return [key for key in scene.bucket.keys(f"{PREFIX}{COMPLETE}") if "-withdrawn-" in key]


def test_a_gap_of_the_claim_is_withdrawn_once() -> None:
    """Whoever finds it again, or a part of it, finds it stored."""
    scene = BoundaryScene()
    publish(scene, T0)

    assert withdrawn(scene, gap(-30, -20)) == (gap(-30, -20),)
    assert withdrawn(scene, gap(-30, -20), gap(-28, -22)) == ()
    assert len(keys(scene)) == 1
    assert withdrawn(scene, gap(-30, -20), gap(-30, -20, S1)) == (gap(-30, -20, S1),)
    known = read_completeness(scene.objects(), scene.clock.now_ms())
    assert known is not None
    assert judge(known, T0 - 25 * MINUTE_MS, T0).answer is Answer.GAPS


def test_what_is_not_claimed_or_named_already_is_not_withdrawn() -> None:
    """A gap before all boundaries, one behind the newest, one that the marker names; one that reaches in counts."""
    scene = BoundaryScene()
    publish(scene, T0, gap(-9, -5))

    assert withdrawn(scene, gap(-70, -60), gap(0, 5), gap(-8, -6)) == ()
    assert keys(scene) == []
    assert withdrawn(scene, gap(-70, -59), gap(-1, 5)) == (gap(-70, -59), gap(-1, 5))


def test_no_boundary_is_withdrawn_where_none_is() -> None:
    """The archive's first boundary may come tomorrow."""
    assert read_claim(BoundaryScene().objects(), T0) is None


def test_a_gap_that_was_healed_and_comes_back_is_withdrawn_again() -> None:
    """Under another id: the marker that has folded the first one knows nothing of the second."""
    scene = BoundaryScene()
    publish(scene, T0)
    withdrawn(scene, gap(-30, -20))
    [first] = keys(scene)
    publish(scene, T0 + FIVE_MS, folded=(first.rpartition("-")[2].removesuffix(".json"),))
    scene.clock.advance(300)

    assert withdrawn(scene, gap(-30, -20)) == (gap(-30, -20),)
    claim = read_claim(scene.objects(), scene.clock.now_ms())
    assert isinstance(claim, Claim)
    assert claim.gaps == (gap(-30, -20),)


def test_a_boundary_of_long_ago_is_withdrawn_too() -> None:
    """Nobody has published for days, and `wait` still answers by the newest marker."""
    scene = BoundaryScene()
    publish(scene, T0)
    scene.clock.advance(5 * 86_400)

    assert withdrawn(scene, gap(-30, -20)) == (gap(-30, -20),)
    assert withdrawn(scene, gap(-30, -20)) == ()
