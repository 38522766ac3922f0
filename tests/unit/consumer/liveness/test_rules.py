"""Which shards have no reader, by looks at the lease table."""

from collections.abc import Iterable, Mapping

import pytest

from consumer.leases.rows import LeaderLock, Lease
from consumer.liveness.rules import (
    HANDOVER_SECONDS,
    LOCK_SECONDS,
    PATIENCE_SECONDS,
    ROW_SECONDS,
    LeaseView,
    ReaderWatch,
    StalledShard,
    used_twice,
)

US, THEM = "w1", "w2"
S0, S1, S2 = "shardId-000000000000", "shardId-000000000001", "shardId-000000000002"


class Scene:
    """A watch that looks every 20 s."""

    def __init__(self, *, may_take_more: bool = True) -> None:
        self.watch = ReaderWatch(US, may_take_more=may_take_more)
        self.at = 0.0
        self.counter = 0
        self.version = 0
        self.leader: str | None = US
        self.lock_moves = True

    def look(
        self, *leases: Lease, opened: Iterable[str] = (), silences: Mapping[str, float] | None = None
    ) -> list[StalledShard]:
        """Look once, 20 s later."""
        self.at += 20
        self.counter += 6
        self.version += self.lock_moves
        lock = None if self.leader is None else LeaderLock(self.leader, str(self.version))
        rows = {lease.shard_id: lease for lease in leases}
        return self.watch.judge(LeaseView(self.at, rows, lock, frozenset(opened), silences or {}))

    def renewed(self, shard: str, owner: str = US, checkpoint: str = "TRIM_HORIZON") -> Lease:
        """Return a row that somebody renews."""
        return Lease(shard, checkpoint, self.counter, owner)  # type: ignore[arg-type] # a sentinel

    def looks(
        self, *leases: Lease, opened: Iterable[str] = (), seconds: float = PATIENCE_SECONDS
    ) -> list[StalledShard]:
        """Look at the same rows for so long, and once more; return what is found in the end."""
        found: list[StalledShard] = []
        for _ in range(int(seconds // 20) + 2):
            found = self.look(*leases, opened=opened)
        return found


def test_a_shard_that_is_read_and_renewed_is_well() -> None:
    """For as long as anybody looks."""
    scene = Scene()
    assert all(scene.look(scene.renewed(S0), opened=[S0]) == [] for _ in range(100))


def test_a_lease_of_ours_that_nobody_opened_is_found() -> None:
    """KCL renews it and throws at it: a row that it cannot open. In time, and not before."""
    scene = Scene()
    found = [scene.look(scene.renewed(S0), scene.renewed(S1), opened=[S1]) for _ in range(8)]
    assert found[:6] == [[]] * 6
    ((finding,),) = found[6:7]
    assert (finding.event, finding.act, finding.shard) == ("shard_without_reader", "restart", S0)
    assert "120 s" in finding.error


@pytest.mark.parametrize(
    ("silences", "found"),
    [
        ({S0: 121.0, S1: 5.0}, []),
        ({S0: 122.0, S1: 5.0}, [(S0, "tell")]),
        ({S0: 421.0, S1: 5.0}, [(S0, "tell")]),
        ({S0: 422.0, S1: 5.0}, [(S0, "restart")]),
        ({S0: 422.0, S1: 130.0}, [(S0, "tell"), (S1, "tell")]),
        ({S0: 9999.0}, [(S0, "tell")]),
    ],
)
def test_a_processor_that_says_nothing_is_found(silences: dict[str, float], found: list[tuple[str, str]]) -> None:
    """Its lease is renewed all the same. Where nobody is called, a restart would not help."""
    scene = Scene()
    leases = scene.renewed(S0), scene.renewed(S1)
    findings = scene.look(*leases, opened=[S0, S1], silences=silences)
    assert [(finding.shard, finding.act) for finding in findings] == found
    assert {finding.event for finding in findings} <= {"shard_without_reader"}


def test_a_silent_processor_whose_shard_needs_it_no_more_is_no_finding() -> None:
    """The shard is another worker's, or finished."""
    scene = Scene()
    silences = {S0: 500.0, S1: 500.0}
    rows = scene.renewed(S0, THEM), scene.renewed(S1, checkpoint="SHARD_END")
    assert scene.look(*rows, opened=[S0, S1], silences=silences) == []


def test_who_is_called_seldom_says_seldom_something() -> None:
    """KCL may be told to wait between two calls."""
    scene = Scene()
    scene.watch.idle_seconds = 300
    assert scene.look(scene.renewed(S0), scene.renewed(S1), opened=[S0, S1], silences={S0: 419.0, S1: 0.0}) == []


def test_a_processor_that_was_gone_for_a_moment_is_no_finding() -> None:
    """Its time begins again with each reader."""
    scene = Scene()
    for _ in range(20):
        assert scene.look(scene.renewed(S0), opened=[S0]) == []
        assert scene.look(scene.renewed(S0)) == []


def test_a_new_daemon_has_its_own_time() -> None:
    """What the one before left alone is not held against it."""
    scene = Scene()
    for _ in range(6):
        scene.look(scene.renewed(S0))
    scene.watch.begin()
    assert scene.look(scene.renewed(S0)) == []


def test_the_others_leases_are_the_others_matter_while_they_renew_them() -> None:
    """We cannot see their processors."""
    scene = Scene()
    assert all(scene.look(scene.renewed(S0, THEM)) == [] for _ in range(20))


def test_a_lease_that_nobody_renews_is_found() -> None:
    """Its owner is dead, or it has none, and nobody takes it: assignment has ended, or never began."""
    for owner in (None, THEM):
        (finding,) = Scene().looks(Lease(S0, "TRIM_HORIZON", 7, owner))
        assert (finding.event, finding.act, finding.shard) == ("shard_without_reader", "restart", S0)


def test_an_own_lease_that_stands_still_is_found_although_it_is_open() -> None:
    """The daemon reads on and does not renew any more: whoever else there is will take it, or nobody."""
    (finding,) = Scene().looks(Lease(S0, "TRIM_HORIZON", 7, US), opened=[S0])
    assert finding.act == "restart"


def test_a_lease_of_ours_is_found_once() -> None:
    """Not opened and not renewed is one thing to say."""
    assert len(Scene().looks(Lease(S0, "TRIM_HORIZON", 7, US))) == 1


def test_nobody_restarts_for_what_another_leader_does_not_do() -> None:
    """Its readers would stop for nothing; nor where no worker may take more leases."""
    scene = Scene()
    scene.leader = THEM
    (finding,) = scene.looks(Lease(S0, "TRIM_HORIZON", 7))
    assert finding.act == "tell"
    (finding,) = Scene(may_take_more=False).looks(Lease(S0, "TRIM_HORIZON", 7))
    assert finding.act == "tell"


def test_without_any_leader_we_do() -> None:
    """A daemon that was never elected, and waits."""
    scene = Scene()
    scene.leader = None
    (finding,) = scene.looks(Lease(S0, "TRIM_HORIZON", 7))
    assert finding.act == "restart"


def test_a_child_waits_for_its_parents() -> None:
    """It has no reader before they are finished, and needs one then."""
    scene = Scene()
    child = Lease(S1, "TRIM_HORIZON", 1, US, parents=frozenset({S0, "shardId-that-is-cleaned-up"}))
    for _ in range(20):
        assert scene.look(scene.renewed(S0), child, opened=[S0]) == []
    assert [finding.shard for finding in scene.looks(Lease(S0, "SHARD_END", 9), child)] == [S1]


def test_a_finished_shard_needs_no_reader() -> None:
    """Nobody renews it, and its row stays for a while."""
    assert Scene().looks(Lease(S0, "SHARD_END", 9, US)) == []


def test_a_row_that_was_deleted_is_told() -> None:
    """Its processor ends with it, so no processor tells. A restart would make KCL's leader begin to miss it anew."""
    scene = Scene()
    scene.look(scene.renewed(S0), scene.renewed(S1), opened=[S0, S1])
    for opened in ([S1], [S0, S1]):
        for _ in range(int(PATIENCE_SECONDS // 20) + 1):
            found = scene.look(scene.renewed(S1), opened=opened)
        (finding,) = found
        assert (finding.event, finding.act, finding.shard) == ("shard_without_reader", "tell", S0)
        assert "gone" in finding.error


def test_a_row_that_nobody_makes_anew_is_a_reason_to_restart() -> None:
    """In the end; and the next daemon misses it, too."""
    scene = Scene()
    scene.look(scene.renewed(S0), scene.renewed(S1), opened=[S0, S1])
    for _ in range(2):
        found: list[StalledShard] = []
        for _ in range(int(ROW_SECONDS // 20) + 2):
            found = scene.look(scene.renewed(S1), opened=[S1])
        assert [(finding.act, finding.shard) for finding in found] == [("restart", S0)]
        scene.watch.begin()


def test_the_row_of_a_finished_shard_may_go() -> None:
    """KCL removes it behind its children's, whether we have seen that it was finished or not."""
    for checkpoint in ("TRIM_HORIZON", "SHARD_END"):
        scene = Scene()
        scene.look(scene.renewed(S0, checkpoint=checkpoint), opened=[S0])
        for _ in range(60):
            child = scene.renewed(S1)._replace(parents=frozenset({S0} if checkpoint == "TRIM_HORIZON" else ()))
            assert scene.look(child, opened=[S1]) == []


def test_before_the_daemon_is_initialised_no_row_is_missed() -> None:
    """Nobody has looked."""
    scene = Scene()
    scene.look(scene.renewed(S0), opened=[S0])
    assert all(scene.watch.judge(LeaseView(scene.at + 20 * n, None, None, frozenset())) == [] for n in range(60))


def test_a_lease_that_moves_from_hand_to_hand_is_told() -> None:
    """Each worker is given it in turn, or one again and again, and nobody takes it: no counter stands still."""
    for owners in ([THEM, "w3"], [THEM]):
        scene = Scene()
        found: list[StalledShard] = []
        for number in range(int(PATIENCE_SECONDS // 20) + 1):
            assert found == []
            found = scene.look(Lease(S0, "TRIM_HORIZON", number, owners[number % len(owners)]))
        (finding,) = found
        assert (finding.act, finding.shard) == ("tell", S0)


def test_a_lease_that_changes_hands_and_is_read_is_well() -> None:
    """Balancing moves leases; each owner renews what it has."""
    scene = Scene()
    for number in range(60):
        assert scene.look(scene.renewed(S0, (THEM, "w3", US)[number // 4 % 3]), opened=[S0]) == []


def test_whoever_has_just_become_the_leader_has_time_to_give_leases_away() -> None:
    """A lock that was removed, or taken over by KCL itself, is followed by assignment, not by a restart."""
    scene = Scene()
    scene.leader = THEM
    lease = Lease(S0, "TRIM_HORIZON", 7)
    scene.looks(lease)
    for leader in (None, US):
        scene.leader = leader
        for _ in range(int(HANDOVER_SECONDS // 20)):
            assert [finding.act for finding in scene.look(lease)] == ["tell"]
    assert [finding.act for finding in scene.look(lease)] == ["restart"]


def test_a_lock_that_does_not_move_is_dead() -> None:
    """Also over restarts of the daemons, which each begin to count anew: that is why KCL never took it over."""
    scene = Scene()
    scene.leader, scene.lock_moves = THEM, False
    found: list[StalledShard] = []
    for _ in range(int(LOCK_SECONDS // 20) + 2):
        scene.watch.begin()
        found = scene.look(scene.renewed(S0), opened=[S0])
    (finding,) = found
    assert (finding.event, finding.act, finding.lock) == ("leader_lock_dead", "release_lock", LeaderLock(THEM, "0"))


def test_a_lock_that_moves_is_alive() -> None:
    """Its holder writes a new version every 30 s; a new holder is a new lock."""
    scene = Scene()
    assert all(scene.look(scene.renewed(S0), opened=[S0]) == [] for _ in range(20))
    scene.lock_moves = False
    for holder in (THEM, US) * 10:
        scene.leader = holder
        assert scene.look(scene.renewed(S0), opened=[S0]) == []


def test_whoever_renews_a_dead_daemons_leases_has_its_name() -> None:
    """Two hosts with one worker id: their leases flicker for ever."""
    before = {
        S0: Lease(S0, "TRIM_HORIZON", 7, US),
        S1: Lease(S1, "TRIM_HORIZON", 7, US),
        S2: Lease(S2, "LATEST", 1, US),
    }
    after = {
        S0: Lease(S0, "TRIM_HORIZON", 9, US),
        S1: Lease(S1, "TRIM_HORIZON", 8, THEM),
        S2: Lease(S2, "LATEST", 1, US),
    }
    assert used_twice(US, before, after) == [S0]
