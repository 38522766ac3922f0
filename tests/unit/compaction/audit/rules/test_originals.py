"""Originals of dropped records: looked for where they are, and missing only where the chain passes over them."""

from pathlib import Path

from compaction.night.rewrite import Compacted
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.desk import DAY, Mill, expire, rows_of
from tests.corpus.event_defects import drop_records
from tests.corpus.model import Corpus, Shape

# Two segments each on the three days before, the day's own, and two the day after.
MINUTES = (-4000, -3990, -2000, -1990, -1140, -1130, 0, 1, 2, 1439, 1441, 1450)
TODAY = 7


def corpus() -> Corpus:
    """Return an archive of five days."""
    return Corpus(DAY, shape=Shape(minutes=MINUTES))


def drop_for(made: Corpus, index: int, *, gap: bool = False) -> None:
    """Drop a record of today for one of the segment at `index`; `gap`: for one between it and the next one."""
    shard = made.shards[0]  # the one whose chain goes on the day after
    last = shard.segments[index].metadata.last
    original = f"{last.sequence}:1" if gap else str(shard.segments[index].records[2].position)
    drop_records(made, shard, TODAY, {1: f"corpus/{shard.shard_id}/{original}"})


def compacted(mill: Mill) -> Compacted:
    """Compact the day; nothing comes back."""
    done = mill.rewrite(None)
    assert done.manifest is not None
    assert done.manifest.restored == 0
    assert mill.rows(done.manifest) == sorted(rows_of(mill.corpus))
    return done


def findings(done: Compacted) -> list[tuple[str, str, bool]]:
    """Return code, severity and whether it is repaired of each finding."""
    assert done.result is not None
    return [(found.code, found.severity, found.repaired) for found in done.result.audit.findings]


def test_an_original_19_hours_earlier_is_found(tmp_path: Path) -> None:
    """It is no neighbour of the day: the day before is looked at, and the verdict is clean, not unknown for ever."""
    made = corpus()
    drop_for(made, 4)
    assert compacted(Mill(tmp_path, made)).verdict == "clean"


def test_an_original_of_days_before_is_found(tmp_path: Path) -> None:
    """Claims live for retention and a day."""
    made = corpus()
    drop_for(made, 0)
    assert compacted(Mill(tmp_path, made)).verdict == "clean"


def test_an_original_of_the_next_day_is_found(tmp_path: Path) -> None:
    """A reader that lags behind another one: the copy arrived first, and was read last."""
    made = corpus()
    drop_for(made, -1)
    assert made.shards[0].segments[-2].metadata.minute in DAY.shift(1)
    assert compacted(Mill(tmp_path, made)).verdict == "clean"


def test_an_original_between_an_expired_day_and_today_is_not_missing(tmp_path: Path) -> None:
    """The expired run lies before it and today behind: the day between was never looked at, and the event doubled."""
    made = corpus()
    drop_for(made, 4)
    mill = Mill(tmp_path, made)
    expire(mill, "g", 2)
    assert compacted(mill).verdict == "clean"


def test_an_original_of_an_expired_day_is_archived(tmp_path: Path) -> None:
    """Its tombstone says so, also when it is older than those that chains need."""
    for number, index in enumerate((0, 2, 4)):
        made = corpus()
        drop_for(made, index)
        mill = Mill(tmp_path / str(number), made)
        for days in (1, 2, 3):
            expire(mill, "g", days)
        assert compacted(mill).verdict == "clean"


def test_an_original_that_its_chain_passes_over_is_missing(tmp_path: Path) -> None:
    """On a day before, in an expired day, and between two of them: the links say that nothing lies there."""
    for number, (index, expired) in enumerate([(4, ()), (1, ()), (3, (2,)), (1, (2, 3)), (5, (1,))]):
        made = corpus()
        drop_for(made, index, gap=True)
        mill = Mill(tmp_path / str(number), made)
        for days in expired:
            expire(mill, "g", days)
        done = mill.rewrite(None)
        assert findings(done) == [("dropped_without_original", "defect", True)]
        assert done.manifest is not None
        assert done.manifest.restored == 1


def test_an_original_whose_object_is_gone_stays_dropped(tmp_path: Path) -> None:
    """It was archived once, and may be in the Parquet files of its day: the broken chain is that day's finding."""
    made = corpus()
    drop_for(made, 4)
    mill = Mill(tmp_path, made)
    store = open_storage(Address(None, str(mill.raw)))
    store.delete([made.shards[0].segments[4].key])
    done = compacted(mill)
    assert findings(done) == [("dropped_without_original", "unknown", False)]


def test_an_original_beyond_the_chain_is_unknown(tmp_path: Path) -> None:
    """It was claimed, and its reader has not committed it yet."""
    made = corpus()
    drop_for(made, -1, gap=True)
    done = compacted(Mill(tmp_path, made))
    assert findings(done) == [("dropped_without_original", "unknown", False)]


def test_only_what_is_needed_is_listed(tmp_path: Path) -> None:
    """The search ends at the hour in which the original is found."""
    made = corpus()
    drop_for(made, 4)
    mill = Mill(tmp_path, made)
    context = mill.context()
    listed: list[str] = []
    inner = context.archive.storage.list_objects

    class Counting:
        def __getattr__(self, name: str) -> object:
            return getattr(context.archive.storage, name)

        def list_objects(self, folder: str) -> object:
            listed.append(folder)
            return inner(folder)

    archive = context.archive
    counted = type(archive)(Counting(), archive.new_backoff)  # type: ignore[arg-type] # the store, watched
    mill.compact(archive=counted)
    days_before = [folder for folder in listed if folder < DAY.path("raw/")]
    assert not [folder for folder in days_before if "raw/" < folder < DAY.shift(-1).path("raw/")]
