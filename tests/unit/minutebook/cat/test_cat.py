"""`cat`: what is asked, and records by time, in order, each once, whatever state the archive is in."""

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from minutebook.cat.command import archive_begin_ms
from minutebook.cat.listing import Segments
from minutebook.cat.options import CatOptions
from minutebook.cat.output import open_output
from minutebook.cat.request import CatRequest, checked_request
from minutebook.compression import Compression
from minutebook.cut import END, Cut, check_cut, encode_cut
from minutebook.errors import OutcomeUnknown, SafetyRefusal, SettingsError, StoreUnavailable
from minutebook.format.day import day_of_ms
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.format.position import Position
from minutebook.format.tombstone import FOLDER, tombstone_key
from minutebook.owner import StreamOwner, read_application
from minutebook.segments.ahead import iterate
from minutebook.segments.bodies import Body, read_body
from minutebook.segments.listing import SegmentToRead
from minutebook.store.objects import ListedObject
from minutebook.store.storage import ObjectBody
from tests.fakes.archive_scene import PREFIX
from tests.unit.minutebook.cat.reading import ARN, DAY, NOON, S0, S1, Screen, Site, records

NOW_MS = NOON * 60_000


@pytest.fixture(params=list(Compression))
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    """Return an archive of either compression."""
    return Site(tmp_path, request.param)


@pytest.fixture
def plain(tmp_path: Path) -> Site:
    """Return an archive of gzip."""
    return Site(tmp_path / "archive")


def test_records_come_by_minute_shard_and_position(site: Site) -> None:
    """Whatever order they were written in; positions are numbers, not texts."""
    site.scene.segment(S1, NOON, records(NOON, 99, "cd"))
    site.scene.segment(S1, NOON, records(NOON + 0.5, 1000, "e"))
    site.scene.segment(S0, NOON, records(NOON, 5, "ab"))
    site.scene.segment(S0, NOON + 1, records(NOON + 1, 7, "f"))

    assert (site.cat(), site.code, site.told) == ("a\nb\nc\nd\ne\nf\n", 0, [])


def test_the_span_begins_with_its_first_moment_and_ends_before_its_last(plain: Site) -> None:
    """By the time of arrival, within a minute."""
    plain.scene.segment(S0, NOON, records(NOON, 1, "abcd"))

    assert plain.cat((NOON + 1 / 60, NOON + 3 / 60)) == "b\nc\n"


def test_only_the_minutes_that_were_asked_for_are_listed(plain: Site) -> None:
    """One LIST a minute, one GET a segment, one of the application's record; with a shard the LIST is of it alone."""
    plain.scene.chain(S0, range(NOON - 30, NOON + 30))
    plain.scene.chain(S1, range(NOON - 30, NOON + 30))
    plain.store.asked.clear()
    plain.cat((NOON, NOON + 10))
    assert plain.store.asked == {"LIST": 10, "GET": 21}

    plain.store.asked.clear()
    plain.store.listed.clear()
    plain.cat((NOON, NOON + 10), shard=S1)
    assert plain.store.asked == {"LIST": 10, "GET": 11}
    assert {prefix.split("/")[-2] for prefix in plain.store.listed} == {S1}


def test_whole_hours_take_one_list(plain: Site) -> None:
    """But for the first one, whose first minute is wanted at once."""
    plain.scene.chain(S0, range(NOON, NOON + 240, 10))
    printed = plain.cat((NOON, NOON + 230))

    assert printed == "a\nb\n" * 23
    assert plain.store.asked["LIST"] == 60 + 2 + 50


def test_a_limit_is_an_end_and_asks_for_little(plain: Site) -> None:
    """Of an hour of segments a few are fetched."""
    plain.scene.chain(S0, range(NOON, NOON + 60))
    plain.store.asked.clear()

    assert plain.cat((NOON, NOON + 60), limit=3) == "a\nb\na\n"
    assert plain.store.asked["GET"] <= 7
    assert plain.store.asked["LIST"] <= 8


def test_the_first_line_does_not_wait_for_the_second_one_to_be_found(plain: Site) -> None:
    """The LIST of the next minute is answered when the first line was let out, and not before."""
    plain.scene.segment(S0, NOON, records(NOON, 1, "a"))
    plain.scene.segment(S0, NOON + 1, records(NOON + 1, 9, "b"))
    is_out, answer = threading.Event(), plain.store.list_objects

    def waiting(prefix: str) -> Iterator[ListedObject]:
        if not prefix.endswith("/12/00/"):
            assert is_out.wait(5)
        return answer(prefix)

    class Watched(Screen):
        def flush(self) -> None:
            if self.getvalue():
                is_out.set()

    plain.store.list_objects = waiting  # type: ignore[method-assign]
    assert plain.cat(screen=Watched()) == "a\nb\n"


def test_a_partition_key_and_a_shard_choose(plain: Site) -> None:
    """Both together."""
    plain.scene.segment(S0, NOON, [*records(NOON, 1, "a", "x"), *records(NOON, 2, "b", "y")])
    plain.scene.segment(S1, NOON, records(NOON, 3, "c", "x"))

    assert plain.cat(partition_key="x") == "a\nc\n"
    assert plain.cat(partition_key="x", shard=S0) == "a\n"


def test_overlapping_segments_show_each_position_once_and_lose_none(plain: Site) -> None:
    """Also where one lies within another, and has a record that the other one lacks."""
    whole = records(NOON, 10, "abcdef")
    plain.scene.segment(S0, NOON, [*whole[:3], *whole[4:]])
    plain.scene.segment(S0, NOON, whole[1:5], after=Position(1))
    plain.scene.segment(S0, NOON, whole[3:], after=Position(2))

    assert plain.cat() == "a\nb\nc\nd\ne\nf\n"
    assert plain.code == 3
    assert plain.told == ["6 record(s) lie in two segments and are shown once: run minutebook audit"]


def test_two_records_at_one_position_are_told(plain: Site) -> None:
    """Which one is right nobody here can say: the first is shown, and the other one's segment named."""
    plain.scene.segment(S0, NOON, records(NOON, 10, "ab"))
    other = plain.scene.segment(S0, NOON, records(NOON, 11, "x"), after=Position(1))

    assert (plain.cat(), plain.code) == ("a\nb\n", 3)
    assert plain.told[0].startswith(f"{other.key}: another record at 11:0 than in ")


def test_a_record_under_another_minute_than_its_own_is_told(plain: Site) -> None:
    """A copy under another minute shows its records twice, and one that was put there alone may miss from a span."""
    key = plain.scene.segment(S0, NOON, records(NOON, 10, ["a", "b"])).key
    folder, _, name = plain.path(key).parent.as_posix().rpartition("/12/00/")
    copy = Path(f"{folder}/12/03/{name}") / Path(key).name
    copy.parent.mkdir(parents=True)
    plain.path(key).rename(copy)
    for span, shown in (((NOON, NOON + 4), "a\nb\n"), ((NOON + 3, NOON + 4), "")):
        assert plain.cat(span) == shown
        assert plain.code == 3
        [told] = plain.told
        assert "arrived in another minute" in told


def test_a_damaged_segment_is_named_and_the_rest_is_shown(site: Site) -> None:
    """Cut short, it still gives nothing that is wrong."""
    bad = site.scene.segment(S0, NOON, records(NOON, 1, ["a" * 50] * 40))
    site.scene.segment(S0, NOON + 1, records(NOON + 1, 100, "b"))
    path = site.path(bad.key)
    path.write_bytes(path.read_bytes()[:-4])
    printed = site.cat()

    assert printed.endswith("b\n")
    assert set(printed.split("\n")) <= {"a" * 50, "b", ""}
    assert site.code == 3
    assert [told.partition(": ")[0] for told in site.told] == [bad.key]


def test_a_record_before_the_name_of_its_segment_is_no_duplicate(plain: Site) -> None:
    """Its object was renamed: to drop it as already shown would lose it quietly."""
    plain.scene.segment(S0, NOON, records(NOON, 20, "ab"))
    moved = plain.scene.segment(S0, NOON, records(NOON, 30, "c"), is_stored=False)
    low = plain.scene.segment(S0, NOON, records(NOON, 5, "x"), after=Position(1))
    plain.path(low.key).rename(plain.path(moved.key))

    assert (plain.cat(), plain.code) == ("a\nb\n", 3)
    assert "before the first one by its name" in plain.told[0]


def test_an_object_that_is_gone_since_the_list_is_unproven(plain: Site) -> None:
    """Code 4: it may have been right."""
    gone = plain.scene.segment(S0, NOON, records(NOON, 1, "a"))
    [segment] = _segments(plain)
    plain.path(gone.key).unlink()
    plain.scene.segment(S0, NOON + 1, records(NOON + 1, 9, "b"))
    # As if it went between the LIST and the GET: the LIST is what it was.
    rows = [*plain.store.list_objects(f"{PREFIX}2026/")]
    plain.store.list_objects = lambda prefix: iter(  # type: ignore[method-assign]
        [row for row in [*rows, rows[0]._replace(key=segment.key)] if row.key.startswith(prefix)]
    )

    assert (plain.cat(), plain.code) == ("b\n", 4)
    assert plain.told == [f"{gone.key}: it was listed, and is gone or another one"]


def _segments(site: Site) -> list[SegmentToRead]:
    with ThreadPoolExecutor(2) as pool:
        return list(iterate(Segments(pool, site.storage, PREFIX, range(NOON, NOON + 3), None, lambda _: None)))


def test_an_object_among_the_segments_that_is_none_is_named(plain: Site) -> None:
    """With whatever its name holds."""
    plain.scene.segment(S0, NOON, records(NOON, 1, "a"))
    plain.store.put_if_absent(f"{PREFIX}2026/11/20/12/00/readme.txt", b"x", {}, "text/plain")

    assert (plain.cat(), plain.code) == ("a\n", 3)
    assert plain.told == [f"{PREFIX}2026/11/20/12/00/readme.txt: among the segments, and none by its name"]


def test_an_expired_day_is_no_empty_day(plain: Site) -> None:
    """Its records are elsewhere, and the exit code says that they were not shown."""
    plain.store.put_if_absent(f"{PREFIX}{FOLDER}{DAY}.json", b"{}", {}, "application/json")

    assert (plain.cat(), plain.code) == ("", 4)
    assert "was expired" in plain.told[0]


def test_another_streams_archive_is_refused(plain: Site) -> None:
    """Before anything is printed."""
    plain.scene.segment(S0, NOON, records(NOON, 1, "a"))
    screen = Screen()

    with pytest.raises(SafetyRefusal):
        plain.cat(screen=screen, owner=StreamOwner("another", "us-east-1"))
    assert screen.getvalue() == b""


def test_json_is_the_archives_own_line(plain: Site) -> None:
    """Bytes that are no text are base64 in it."""
    plain.scene.segment(S0, NOON, records(NOON, 1, ["é\n", b"\xff\x00"]))
    text, binary = (msgspec.json.decode(line) for line in plain.cat(form="json").splitlines())

    assert (text["data"], text["shard_id"], text["sequence_number"]) == ("é\n", S0, "1")
    assert (binary["data_base64"], "data" in binary) == ("/wA=", False)


EVIL = ["\x1b]0;title\x07\x1b[2J", "a\rb\nc\td", "\u202egpj\u200b", b"\xff\x9b31m", "\x9bm\x7f"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_that_a_producer_writes_reaches_a_terminal_as_it_is(plain: Site, form: str) -> None:
    """No control character, no change of direction; each record stays one line, and JSON keeps its meaning."""
    plain.scene.segment(S0, NOON, records(NOON, 1, EVIL, key="k\x1b[1m\u202e"))
    shown = plain.cat(form=form, screen=Screen(is_terminal=True))
    piped = plain.cat(form=form)

    assert len(shown.splitlines()) == len(EVIL)
    assert all(line.isprintable() for line in shown.splitlines())
    if form == "json":
        assert [msgspec.json.decode(line) for line in shown.splitlines()] == [
            msgspec.json.decode(line) for line in piped.split("\n")[:-1]
        ]
    else:
        assert piped.encode(errors="surrogateescape") == b"".join(
            (payload if isinstance(payload, bytes) else payload.encode()) + b"\n" for payload in EVIL
        )


def test_a_large_body_is_read_as_it_comes_and_goes_on_where_it_broke(plain: Site) -> None:
    """A connection that breaks in the middle shows no record twice, and skips none."""
    plain.scene.segment(S0, NOON, records(NOON, 1, ["x" * 70, *"bcdefgh"] * 3000))
    [segment] = _segments(plain)
    whole = list(read_body(plain.storage, Body(segment, plain.store.root.joinpath(segment.key).read_bytes())))
    opened = plain.store.open_read
    breaks = [5000, 9000, 9000]

    def breaking(key: str, etag: str | None) -> ObjectBody:
        body = opened(key, etag)
        data = b"".join(body.chunks)

        def chunks() -> object:
            if breaks:
                yield data[: breaks.pop(0)]
                raise OutcomeUnknown("the connection broke")
            yield data

        return body._replace(chunks=chunks())  # type: ignore[arg-type]

    plain.store.open_read = breaking  # type: ignore[method-assign]
    assert list(read_body(plain.storage, Body(segment, None))) == whole
    breaks[:] = [100] * 10_000
    with pytest.raises(StoreUnavailable, match="gave up"):
        list(read_body(plain.storage, Body(segment, None)))


def test_parquet_that_is_given_up_is_gone_without_a_word(tmp_path: Path) -> None:
    """The store failed, or Ctrl-C: what is shown is that, and no traceback of a file that nobody wants."""
    request = CatRequest(0, 1, form="parquet", out=tmp_path / "some.parquet")
    output = open_output(request, Screen())
    output.abort()
    del output
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_parquet_has_the_columns_of_published_days(plain: Site, tmp_path: Path) -> None:
    """And the file is whole, or not there."""
    plain.scene.segment(S0, NOON, records(NOON, 1, ["a", b"\xff"]))
    out = tmp_path / "some.parquet"
    plain.cat(form="parquet", out=out)
    rows = pq.read_table(out).to_pylist()

    assert [(row["data"], row["data_bytes"], row["sequence_number"]) for row in rows] == [
        ("a", None, "1"),
        (None, b"\xff", "2"),
    ]
    assert rows[0]["arrival_time"].timestamp() == NOON * 60
    plain.cat((NOON + 5, NOON + 6), form="parquet", out=tmp_path / "none.parquet")
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def request(from_: str = "2026-11-20T11:00Z", to: str = "2026-11-20T11:10Z", **asked: object) -> CatRequest:
    """Check a request that is well but for what is given."""
    options = CatOptions(from_=from_, to=to, **asked)  # type: ignore[arg-type]  # of the options
    return checked_request(options, NOW_MS, lambda: 0)


@pytest.mark.parametrize(
    ("from_", "to"),
    [
        ("2026-11-20T11:00", "2026-11-20T11:10Z"),
        ("2026-11-20T11:10Z", "2026-11-20T11:10Z"),
        ("1999-01-01T00:00Z", "2026-11-20T11:10Z"),
        ("2026-11-21T00:00Z", "2026-11-21T01:00Z"),
        ("1969-12-31T23:59Z", "1970-01-01T00:01Z"),
        ("yesterday", "today"),
    ],
)
def test_a_span_that_is_none_is_refused(from_: str, to: str) -> None:
    """No zone, empty, ten years, in the future, before all time, words."""
    with pytest.raises(SettingsError):
        request(from_, to)


def test_minutes_are_those_that_the_span_touches() -> None:
    """A span that ends with a minute does not touch the next one; what lies ahead of the clock is not asked for."""
    assert request("2026-11-20T11:00:30Z", "2026-11-20T11:02:00Z").minutes == range(NOON - 60, NOON - 58)
    assert request("2026-11-20T11:00:30Z", "2026-11-20T11:02:00.001Z").minutes == range(NOON - 60, NOON - 57)
    assert request("2026-11-20T11:00Z", "2030-01-01T00:00Z").minutes == range(NOON - 60, NOON + 5)


def test_a_file_is_new_and_its_folder_is_there(tmp_path: Path) -> None:
    """Nothing is overwritten, and no folder made."""
    (tmp_path / "there").write_text("")
    with pytest.raises(SettingsError, match="exists"):
        request(out=tmp_path / "there")
    with pytest.raises(SettingsError, match="is not a folder"):
        request(out=tmp_path / "no" / "file")
    with pytest.raises(SettingsError, match="no stream"):
        request(form="parquet")
    with pytest.raises(SettingsError, match="not a shard id"):
        request(shard="../x")
    assert request(out=tmp_path / "new", form="parquet").out == tmp_path / "new"


def cut_of(minute: int, through: int, **shards: str) -> Cut:
    """Return a cut at the beginning of a minute; shards as s0="10:0"."""
    names = {f"shardId-{name.removeprefix('s').zfill(12)}": text for name, text in shards.items()}
    at, end = iso_time(minute * MINUTE_MS), iso_time(through * MINUTE_MS)
    return Cut(stream_arn=ARN, stream_created_ms=1, at=at, through=end, shards=names)


def test_a_cut_divides_by_positions(plain: Site) -> None:
    """A shard's records need not come in the order of their stamps: what one side shows, the other does not."""
    plain.scene.segment(S0, NOON, records(NOON, 1, ["a", "b"]))
    plain.scene.segment(S0, NOON + 2, records(NOON + 2, 3, ["c"]))
    plain.scene.segment(S0, NOON + 1, records(NOON + 1, 4, ["d", "e"]))
    plain.scene.segment(S1, NOON + 1, records(NOON + 1, 1, ["f"]))
    cut = cut_of(NOON + 2, NOON + 3, s0="4:0")

    assert plain.cat((NOON, NOON + 3), before=cut).split() == ["a", "b", "d", "c"]
    assert plain.cat((NOON, NOON + 3), after=cut).split() == ["e", "f"]
    assert plain.cat((NOON, NOON + 3), before=cut_of(NOON, NOON + 3, s1=END)).split() == ["f"]
    later = cut_of(NOON + 3, NOON + 3, s0="5:0", s1=END)
    assert plain.cat((NOON, NOON + 3), before=later, after=cut).split() == ["e", "f"]


def written(folder: Path, cut: Cut) -> Path:
    """Write a cut's file."""
    path = folder / "cut.json"
    path.write_bytes(encode_cut(cut))
    return path


def test_a_cut_stands_for_the_time_that_is_not_given(tmp_path: Path) -> None:
    """Before it from the archive's beginning to the last stamp before it, behind it from its time to now."""
    cut = cut_of(NOON - 60, NOON - 57, s0="4:0")
    path = written(tmp_path, cut)
    asked = checked_request(CatOptions(before=path), NOW_MS, lambda: (NOON - 500) * MINUTE_MS)
    assert (asked.minutes, asked.before) == (range(NOON - 500, NOON - 57), cut)
    asked = checked_request(CatOptions(after=path), NOW_MS, lambda: 0)
    assert (asked.minutes, asked.after) == (range(NOON - 60, NOON + 5), cut)
    options = CatOptions(before=path, from_="2026-11-20T10:50Z", to="2026-11-20T11:01Z")
    asked = checked_request(options, NOW_MS, lambda: 0)
    assert asked.minutes == range(NOON - 70, NOON - 59)


def test_an_archive_begins_with_its_expired_days(plain: Site) -> None:
    """Else nobody is told that their records are not among those before a cut."""
    plain.scene.segment(S0, NOON, records(NOON, 1, "a"))
    day = day_of_ms(NOW_MS)
    assert archive_begin_ms(plain.storage, PREFIX) == day.begin_ms
    plain.store.put_if_absent(tombstone_key(PREFIX, day.shift(-3)), b"{}", {}, "application/json")
    plain.store.put_if_absent(tombstone_key(PREFIX, day.shift(-1)), b"{}", {}, "application/json")
    assert archive_begin_ms(plain.storage, PREFIX) == day.shift(-3).begin_ms


def test_what_lies_before_a_cut_is_read_to_its_end(tmp_path: Path) -> None:
    """A stamp before the cut may lie ahead of now."""
    path = written(tmp_path, cut_of(NOON - 60, NOON + 900, s0="4:0"))
    asked = checked_request(CatOptions(before=path), NOW_MS, lambda: (NOON - 500) * MINUTE_MS)
    assert asked.minutes == range(NOON - 500, NOON + 900)


@pytest.mark.parametrize("times", [{}, {"from_": "2026-11-20T11:00Z"}, {"to": "2026-11-20T11:00Z"}])
def test_without_a_cut_both_times_are_given(times: dict[str, str]) -> None:
    """All of an archive is not what somebody means who forgot one."""
    with pytest.raises(SettingsError, match="is named"):
        checked_request(CatOptions(**times), NOW_MS, lambda: 0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"shards": None}, "does not parse"),
        ({"format": 2}, "format 2 is not known"),
        ({"at": "noon"}, "not a time"),
        ({"shards": {S0: "last"}}, "not a position"),
        ({"shards": {"../x": END}}, "not a shard id"),
        ({"through": "2026-11-20T09:00Z"}, "lies after"),
    ],
)
def test_a_file_that_is_no_cut_is_refused(tmp_path: Path, changes: dict[str, object], why: str) -> None:
    """With its name."""
    path = written(tmp_path, cut_of(NOON, NOON, s0="4:0"))
    path.write_bytes(msgspec.json.encode({**msgspec.json.decode(path.read_bytes()), **changes}))
    with pytest.raises(SettingsError, match=rf"cut\.json.*{why}"):
        checked_request(CatOptions(before=path), NOW_MS, lambda: 0)


def test_a_cut_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """There is no such file."""
    with pytest.raises(SettingsError, match="cannot be read"):
        checked_request(CatOptions(before=tmp_path / "none.json"), NOW_MS, lambda: 0)


def test_a_cut_of_another_stream_is_refused(plain: Site) -> None:
    """Shard ids repeat between streams; one that was made again keeps its ARN."""
    record = read_application(plain.storage, PREFIX)
    cut = cut_of(NOON, NOON, s0="1:0")
    check_cut(cut, record)
    for other in (replace(cut, stream_arn=f"{ARN}2"), replace(cut, stream_created_ms=2)):
        with pytest.raises(SafetyRefusal, match="the cut is one of the stream"):
            check_cut(other, record)
