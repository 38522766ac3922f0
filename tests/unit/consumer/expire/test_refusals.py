"""`expire`: the days that it leaves alone, and why; it judges each once more, and keeps what was proven around it."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from minutebook.coverage.intervals import Interval
from minutebook.coverage.verdict import State
from minutebook.errors import ObjectArchived, SafetyRefusal
from minutebook.format.coverage_markers import SkippedMarker, encode_coverage_marker, skipped_key
from minutebook.format.document import FORMAT
from minutebook.format.keys import application_key
from minutebook.format.markers import ApplicationRecord, decode_marker, encode_marker
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS
from minutebook.format.tombstone import tombstone_key
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import judge_archive
from minutebook.published.verdict import RULES
from tests.fakes.archive_scene import PREFIX
from tests.fakes.clock import START_MS
from tests.fakes.expire_scene import DAY, OUT, S0, S1, TODAY, ExpireScene, day_of, old_day
from tests.fakes.failing_storage import Crash
from tests.fakes.published_day import PARQUET, published_objects
from tests.fakes.stream import DAY_MS


@pytest.mark.parametrize("verdict", ["defects", "unknown"])
def test_a_day_that_is_not_clean_is_refused(verdict: str) -> None:
    """Exit code 6 and the verdict."""
    scene, old, new = old_day(clean=False)
    scene.publish(40, verdict)
    code, text = scene.expire()
    assert (code, verdict in text, scene.raw()) == (6, True, [*old, new])


def test_a_day_that_is_not_published_is_refused() -> None:
    """With the command that publishes it."""
    scene, old, new = old_day(clean=False)
    code, text = scene.expire()
    assert (code, f"minutebook compact --date {day_of(40)}" in text, scene.raw()) == (6, True, [*old, new])


def test_an_object_newer_than_the_verdict_is_refused() -> None:
    """Nobody has audited or compacted it."""
    scene, old, new = old_day()
    late = scene.add(40, 9)
    code, text = scene.expire()
    assert (code, late in text, set(scene.raw())) == (6, True, {*old, new, late})


def test_an_object_that_changed_is_refused() -> None:
    """Same key, other bytes."""
    scene, old, _ = old_day()
    scene.bucket.place(old[0], b"other", scene.bucket.metadata(old[0]))
    assert scene.expire()[0] == 6


def test_an_object_that_is_gone_is_refused() -> None:
    """Somebody deletes beside us: no more is deleted before that is understood."""
    scene, old, _ = old_day()
    scene.bucket.delete(old[1])
    code, text = scene.expire()
    assert (code, "is gone" in text) == (6, True)


def test_a_foreign_object_is_refused() -> None:
    """It belongs to somebody."""
    scene, old, _ = old_day()
    scene.bucket.place(f"{old[0].rpartition('/')[0]}/notes.txt", b"")
    code, text = scene.expire()
    assert (code, "notes.txt" in text) == (6, True)


def test_a_segment_that_lies_about_itself_is_refused() -> None:
    """The tombstone would repeat the lie; nothing is deleted."""
    scene, old, new = old_day(clean=False)
    scene.bucket.place(old[1], b"", {**scene.bucket.metadata(old[1]), "shard": S1})
    scene.publish(40)
    code, text = scene.expire()
    assert (code, "another segment" in text, scene.raw()) == (6, True, [*old, new])


def test_a_refused_day_does_not_hold_up_the_others() -> None:
    """They are expired, and the exit code still says 6."""
    scene = ExpireScene()
    refused, expired, new = scene.add(41), scene.add(40), scene.add(30)
    scene.publish(40)
    assert scene.expire()[0] == 6
    assert scene.raw() == [refused, new]
    assert expired not in scene.raw()


@pytest.mark.parametrize("what", ["damaged", "archived"])
def test_a_damaged_publication_is_refused_and_the_other_days_go(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Its format is not guessed; the days are looked at from the newest on, and the older ones wait for no repair."""
    scene = ExpireScene()
    older, damaged, newer, last = scene.add(42), scene.add(41), scene.add(40), scene.add(30)
    for days_ago in (42, 41, 40):
        scene.publish(days_ago)
    pointer = f"{OUT}dt={day_of(41)}/_current.json"
    if what == "damaged":
        scene.bucket.place(pointer, b"{}")
        said = "does not parse"
    else:
        get = scene.store.get

        def refusing(key: str) -> Any:  # noqa: ANN401 - as `get`
            if key == pointer:
                raise ObjectArchived(f"{key} lies in GLACIER", next_step="restore it")
            return get(key)

        monkeypatch.setattr(scene.store, "get", refusing)
        said = "lies in GLACIER; restore it"
    code, text = scene.expire()
    assert (code, said in text, scene.raw()) == (6, True, [damaged, last])
    assert {older, newer}.isdisjoint(scene.raw())


def test_a_publication_without_its_inventory_is_refused() -> None:
    """The verdict was given for something that is not known."""
    scene, old, new = old_day()
    scene.bucket.delete(f"{OUT}dt={day_of(40)}/_manifest/g1-w.inventory.jsonl.gz")
    code, text = scene.expire()
    assert (code, "missing" in text, scene.raw()) == (6, True, [*old, new])


@pytest.mark.parametrize("body", [None, PARQUET[:-1]], ids=["gone", "cut"])
def test_a_published_file_that_is_not_there_is_refused(body: bytes | None) -> None:
    """It is all that would be left of the records."""
    scene, old, new = old_day()
    part = f"{OUT}dt={day_of(40)}/_gen-g1/part-0.parquet"
    scene.bucket.delete(part)
    if body is not None:
        scene.bucket.place(part, body)
    code, text = scene.expire()
    assert (code, part in text, scene.raw()) == (6, True, [*old, new])


def test_a_published_file_that_is_lost_stops_a_run_that_is_resumed() -> None:
    """What was not deleted yet may be all that there is."""
    scene, old, new = old_day()

    def crash(keys: Sequence[str]) -> None:
        raise Crash(keys)

    scene.deleter.before = crash
    with pytest.raises(Crash):
        scene.expire()
    scene.deleter.before = None
    scene.bucket.delete(f"{OUT}dt={day_of(40)}/_gen-g1/part-0.parquet")
    assert scene.expire()[0] == 6
    assert scene.raw() == [*old, new]


def test_a_verdict_by_older_rules_is_refused() -> None:
    """The day is compacted again first: what was clean then may not be clean now."""
    scene, old, new = old_day(clean=False)
    scene.publish(40, rules=RULES - 1)
    code, text = scene.expire()
    assert (code, "older rules" in text, scene.raw()) == (6, True, [*old, new])


def test_a_day_that_was_published_so_far_is_refused() -> None:
    """The rest of it is in no published file."""
    scene, old, new = old_day(clean=False)
    scene.publish(40, until=f"{day_of(40)}T10:00:00.000Z")
    code, text = scene.expire()
    assert (code, "so far" in text, scene.raw()) == (6, True, [*old, new])


@pytest.mark.parametrize("field", ["day", "generation", "inventory", "rows", "rules", "files"])
def test_a_manifest_that_contradicts_the_publication_is_refused(field: str) -> None:
    """Whoever wrote it there: nothing is deleted on its word."""
    scene, old, new = old_day(clean=False)
    written = scene.publish(40)
    key = f"{OUT}dt={day_of(40)}/_manifest/g1-w.json"
    said = json.loads(written[key])
    elsewhere = [{**said["files"][0], "key": f"{OUT}dt={day_of(40)}/mine.parquet"}]
    scene.bucket.place(elsewhere[0]["key"], PARQUET)
    others = {"day": "2026-01-01", "generation": "g2", "inventory": "0" * 64, "rows": 8, "rules": 3}
    scene.bucket.place(key, json.dumps({**said, field: others.get(field, elsewhere)}).encode())
    code, text = scene.expire()
    assert (code, "contradicts" in text) == (6, True)
    assert scene.raw() == [*old, new]


def test_an_inventory_that_is_not_the_manifests_is_refused() -> None:
    """It would name objects that nobody has compacted."""
    scene, old, new = old_day()
    late = scene.add(40, 9)
    key = f"{OUT}dt={day_of(40)}/_manifest/g1-w.inventory.jsonl.gz"
    raw = [(row.key, row.etag, row.size) for row in scene.store.list_objects(f"{PREFIX}{day_of(40):%Y/%m/%d/}")]
    scene.bucket.place(key, published_objects(OUT, str(day_of(40)), raw, "g1", "clean")[key])
    code, text = scene.expire()
    assert (code, "contradicts" in text) == (6, True)
    assert set(scene.raw()) == {*old, new, late}


def test_a_pointer_to_somebodys_manifest_is_refused() -> None:
    """Only the day's own are read."""
    scene, old, new = old_day(clean=False)
    written = scene.publish(40)
    pointer = f"{OUT}dt={day_of(40)}/_current.json"
    scene.bucket.place("mine.json", written[f"{OUT}dt={day_of(40)}/_manifest/g1-w.json"])
    scene.bucket.place(pointer, json.dumps({**json.loads(written[pointer]), "manifest": "mine.json"}).encode())
    code, text = scene.expire()
    assert (code, "mine.json" in text) == (6, True)
    assert scene.raw() == [*old, new]


def test_another_streams_archive_is_refused() -> None:
    """Its retention says nothing about these objects."""
    scene, _, _ = old_day()
    scene.stream.recreate(START_MS)
    with pytest.raises(SafetyRefusal, match="earlier stream"):
        scene.expire()


def test_another_applications_properties_are_refused() -> None:
    """Before a day is looked at, with what to correct."""
    scene, _, _ = old_day()
    raw, scene.application = scene.raw(), "another"
    with pytest.raises(SafetyRefusal, match="begun by the application app") as caught:
        scene.expire()
    assert "applicationName" in caught.value.next_step
    assert scene.raw() == raw


def state_of(scene: ExpireScene, days_ago: int) -> State:
    """Judge a day by what is in the archive now."""
    begin_ms = (TODAY - days_ago * DAY) * MINUTE_MS
    query = ProofQuery(Interval(begin_ms, begin_ms + DAY_MS), scene.begin_ms, scene.clock.now_ms())
    return judge_archive(scene.retrying, PREFIX, query).verdict.state


@pytest.mark.parametrize("rate", [1000, None], ids=["apply", "dry run"])
def test_a_clean_day_that_is_not_proven_any_more_stays(rate: int | None) -> None:
    """A segment of it says that records were lost before it: the verdict is older than that, or never looked."""
    scene = ExpireScene()
    scene.add(40, 0)
    scene.begin(S0)
    doubtful = scene.segment(S0, TODAY - 40 * DAY + 1, continuity=Continuity.UNPROVEN, writer="w-2").key
    scene.add(30)
    scene.publish(40)
    code, text = scene.expire(rate=rate)
    assert code == 6
    assert "is not proven to be archived (reading resumed so late" in text
    assert doubtful in scene.raw()
    assert scene.bucket.keys(tombstone_key(PREFIX, day_of(40))) == []


def test_a_day_of_which_a_batch_was_skipped_stays() -> None:
    """The supervisor stored a marker after the day was published."""
    scene, old, _ = old_day()
    logged_ms = (TODAY - 40 * DAY + 2) * MINUTE_MS
    marker = SkippedMarker(
        format=FORMAT,
        shard=S0,
        logged_at_ms=logged_ms,
        message="x",
        writer="w",
        written_at="2026-10-12T00:02:00.000Z",
    )
    scene.bucket.place(skipped_key(PREFIX, S0, logged_ms, "w"), encode_coverage_marker(marker))
    code, text = scene.expire()
    assert (code, scene.raw()[: len(old)]) == (6, old)
    assert "KCL told of records that it skipped" in text


def test_the_days_around_an_expired_one_stay_proven() -> None:
    """The next segment stands on one that is gone, ten days before it: the tombstone says how far that reached."""
    scene, old, _ = old_day()
    before = [state_of(scene, days_ago) for days_ago in (41, 39, 35, 32)]
    assert scene.expire()[0] == 0
    assert not set(old) & set(scene.raw())
    after = [state_of(scene, days_ago) for days_ago in (41, 39, 35, 32)]
    assert before == after == [State.COVERED] * 4


def test_a_day_that_ended_before_the_archive_begins_stays() -> None:
    """Nobody archived it: nothing of it was ever judged, whatever was published."""
    scene, old, _ = old_day()
    key = application_key(PREFIX)
    record = decode_marker(scene.bucket.body(key), ApplicationRecord, key)
    begin_ms = (TODAY - 39 * DAY) * MINUTE_MS
    scene.bucket.place(key, encode_marker(msgspec.structs.replace(record, start_at_ms=begin_ms)))
    code, text = scene.expire()
    assert (code, scene.raw()[: len(old)]) == (6, old)
    assert "the archive begins after it" in text


def test_what_is_left_of_an_expired_day_goes_without_another_judgement() -> None:
    """It was judged before the tombstone was written; its segments are gone, and nothing could be proven now."""
    scene, old, _ = old_day()
    scene.deleter.before = stop
    with pytest.raises(KeyboardInterrupt):
        scene.expire()
    scene.deleter.before = None
    scene.bucket.delete(old[0])
    assert scene.expire()[0] == 0
    assert not set(old) & set(scene.raw())


def stop(_keys: object) -> None:
    """Be killed before a delete."""
    raise KeyboardInterrupt
