"""Each finding says how to see it again: its command line, as the product itself parses it, finds it again."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from compaction.audit.audit import audit_day
from compaction.job import checks, scope
from compaction.job.context import AuditOptions, JobContext
from compaction.job.request import AuditRequest, CompactRequest
from compaction.verdict.audit_document import Audit, AuditLevel
from compaction.verdict.findings import Finding
from minutebook.cli import app
from minutebook.format.aggregate import LAST_HASH_KEY
from minutebook.format.minute import iso_time
from minutebook.store.places import open_storage
from minutebook.store.storage import Address
from tests.corpus.auditing import job_context
from tests.corpus.defects import DEFECTS, PRODUCER_DEFECTS, break_shard, broken_shards, suits
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import Corpus, Defect, Shape, Shard, Stored
from tests.corpus.typed_day import COLUMNS, typed_day
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.typed_lines import mapping

COMMAND = "minutebook audit my.properties"


def audited(context: JobContext, words: str) -> Audit:
    """Run the printed command: parsed as it is typed, checked as the command checks it."""
    program, name, *rest = shlex.split(words)
    assert (program, name) == ("minutebook", "audit"), words
    group: Any = typer.main.get_command(app)
    request = AuditRequest(**group.commands[name].make_context(name, rest).params)
    assert request.file == "my.properties"
    (day,) = checks.requested_days(request, DAY.shift(5))
    options = AuditOptions(
        level=checks.audit_level(request.level, request.event_id),
        lookback_days=request.lookback_days,
        shard=request.shard,
        command=COMMAND,
        event_id=checks.event_id_path(request.event_id),
        so_far_ms=scope.parse_so_far(request.so_far, context.clock.now_ms()),
        sample_minutes=checks.sample_minutes(request.sample, request.level),
    )
    return audit_day(context, day, options).audit


def place(about: Finding) -> tuple[object, ...]:
    """Return what names a finding."""
    when = about.minute, about.begins, about.until
    return about.code, about.severity, about.shard, *when, about.keys, about.positions


def check_each(context: JobContext, audit: Audit) -> None:
    """Run the command of each finding, each once."""
    assert audit.findings
    again: dict[str, list[tuple[object, ...]]] = {}
    for about in audit.findings:
        if about.reproduce not in again:
            again[about.reproduce] = [place(each) for each in audited(context, about.reproduce).findings]
        assert place(about) in again[about.reproduce], (about, again[about.reproduce])


def written(corpus: Corpus, folder: Path) -> JobContext:
    """Write the archive, and return what works on it."""
    corpus.write(open_storage(Address(None, str(folder))))
    return job_context(folder, corpus.checkpoints)


@pytest.mark.parametrize("level", ["inventory", "keys"])
@pytest.mark.parametrize(("defect", "number"), broken_shards(), ids=lambda of: getattr(of, "__name__", None))
def test_each_defect_is_seen_again(tmp_path: Path, defect: Defect, level: AuditLevel, number: int) -> None:
    """Of one shard alone where that is enough, and of all where the other side lies in another."""
    corpus = Corpus(DAY, number + 1)
    break_shard(corpus, defect, number)
    context = written(corpus, tmp_path)
    audit = audit_day(context, DAY, AuditOptions(level=level, command=COMMAND)).audit
    if audit.findings:  # a level that does not see this defect
        check_each(context, audit)


@pytest.mark.parametrize("defect", PRODUCER_DEFECTS, ids=lambda defect: defect.__name__)
def test_each_copy_is_seen_again(tmp_path: Path, defect: Defect) -> None:
    """By the same path of the event's id."""
    corpus = Corpus(DAY, shape=Shape(shards=5))
    defect(corpus, corpus.shards[1], 3)
    context = written(corpus, tmp_path)
    check_each(context, audit_day(context, DAY, AuditOptions(event_id="n", command=COMMAND)).audit)


@pytest.mark.parametrize("level", ["inventory", "keys"])
def test_a_part_of_a_day_is_seen_again_as_that_part(tmp_path: Path, level: AuditLevel) -> None:
    """Until the same time, whenever the command is typed."""
    corpus = Corpus(DAY, 1)
    expected = break_shard(corpus, DEFECTS[0], 2)
    context = written(corpus, tmp_path)
    until_ms = DAY.end_ms - 60 * 60_000
    audit = audit_day(context, DAY, AuditOptions(level=level, command=COMMAND, so_far_ms=until_ms)).audit
    assert expected[0].code.value in {about.code for about in audit.findings}
    check_each(context, audit)
    assert all(f"--so-far {iso_time(until_ms)}" in about.reproduce for about in audit.findings)


def under(shard: Shard, segment: Stored, other: Shard) -> str:
    """Return the key of a segment under another shard."""
    return segment.key.replace(shard.shard_id, other.shard_id)


def copied(corpus: Corpus, one: Shard, other: Shard) -> None:
    """Copy a segment under another shard's key."""
    corpus.objects[under(one, one.segments[3], other)] = (one.segments[3].body, one.segments[3].fields)


def moved(corpus: Corpus, one: Shard, other: Shard) -> None:
    """Let a segment lie under another shard's key alone."""
    copied(corpus, one, other)
    del one.segments[3]


def one_writer(_corpus: Corpus, one: Shard, other: Shard) -> None:
    """Let segments of two shards name one writer, and be of one size: neither is known to be the copy."""
    first, second = one.segments[3], other.segments[4]
    first.fields["writer"] = second.fields["writer"]
    size = max(len(first.body), len(second.body))
    first.body, second.body = first.body.ljust(size, b"\0"), second.body.ljust(size, b"\0")


@pytest.mark.parametrize("level", ["inventory", "keys"])
@pytest.mark.parametrize("harm", [copied, moved, one_writer])
def test_what_is_mixed_up_between_shards_is_seen_again(
    tmp_path: Path, harm: Callable[[Corpus, Shard, Shard], None], level: AuditLevel
) -> None:
    """One shard alone would be judged otherwise: the command reads all of them."""
    corpus = Corpus(DAY, shape=Shape(shards=5))
    harm(corpus, corpus.shards[0], corpus.shards[4])
    context = written(corpus, tmp_path)
    check_each(context, audit_day(context, DAY, AuditOptions(level=level, command=COMMAND)).audit)


def test_one_shard_is_seen_again_as_that_shard(tmp_path: Path) -> None:
    """Also what names no shard."""
    corpus = Corpus(DAY, 1)
    for number in range(3):
        break_shard(corpus, DEFECTS[0], number) if suits(DEFECTS[0], number) else None
    context = written(corpus, tmp_path)
    shard = corpus.shards[0].shard_id
    options = AuditOptions(command=COMMAND, shard=shard, lookback_days=3)
    audit = audit_day(context, DAY, options).audit
    check_each(context, audit)
    assert all(about.reproduce.endswith(f"--shard {shard}") for about in audit.findings)
    assert all("--lookback 3" in about.reproduce for about in audit.findings)


def test_shards_that_name_each_other_as_parents_are_seen_again(tmp_path: Path) -> None:
    """The circle needs both markers."""
    corpus = Corpus(DAY)
    first, second = (shard.shard_id for shard in corpus.shards[:2])
    scene = ArchiveScene(open_storage(Address(None, str(tmp_path))))
    scene.opened(first, (0, LAST_HASH_KEY), second)
    scene.opened(second, (0, LAST_HASH_KEY), first)
    context = written(corpus, tmp_path)
    audit = audit_day(context, DAY, AuditOptions(level="inventory", command=COMMAND)).audit
    assert ("circle",) in {about.reasons for about in audit.findings}
    check_each(context, audit)


def test_payloads_that_do_not_fit_are_seen_again_by_another_rewrite(tmp_path: Path) -> None:
    """Elsewhere: where the day is published, a second run has nothing to do."""
    corpus, _ = typed_day(DAY, 1008, 10)
    desk = Desk(tmp_path / "first", corpus)
    command = "minutebook compact my.properties --columns columns.toml"
    done = desk.compact(audit=AuditOptions(rewrite=command), columns=mapping(COLUMNS))
    assert done.result is not None
    found = [place(about) for about in done.result.audit.findings]
    assert found
    (again,) = {about.reproduce for about in done.result.audit.findings}
    assert again == f"{command} --date {DAY} --out seen-again/"
    group: Any = typer.main.get_command(app)
    request = CompactRequest(**group.commands["compact"].make_context("compact", shlex.split(again)[2:]).params)
    assert (request.date, request.out, str(request.columns)) == (str(DAY), "seen-again/", "columns.toml")
    repeated = desk.compact(columns=mapping(COLUMNS))
    assert repeated.result is None
    desk.out = desk.out._replace(prefix=f"{request.out}")
    other = desk.compact(columns=mapping(COLUMNS))
    assert other.result is not None
    assert [place(about) for about in other.result.audit.findings] == found


def test_an_altered_object_is_seen_again_by_another_run(tmp_path: Path) -> None:
    """The day is not published, so the next run compares it with the first reading again."""
    desk = Desk(tmp_path)
    assert desk.compact().verdict == "clean"
    stored = desk.corpus.shards[0].segments[3]
    (desk.raw / stored.key).write_bytes(stored.body[:-40])
    options = AuditOptions(publish="minutebook compact my.properties --out s3://lake/")
    first, second = (desk.compact(audit=options) for _ in range(2))
    assert first.result is not None
    assert second.result is not None
    (altered,) = (about for about in first.result.audit.findings if about.code == "altered_object")
    assert altered.reproduce == f"{options.publish} --date {DAY}"
    assert place(altered) in map(place, second.result.audit.findings)
    late = [about for about in first.result.audit.findings if about.code == "late_minutes"]
    assert [about.reproduce for about in late] == [""]
