"""`minutebook columns` as a process: a proposal from a day's payloads, and a trial of a file."""

from pathlib import Path

import pytest

from compaction.columns.files.columns_file import parse_columns
from compaction.commands.propose_columns import propose_columns
from compaction.job.request import ColumnsRequest
from demo.embedded import EmbeddedAws
from minutebook.format.day import Day
from minutebook.published.schema import SCHEMA
from minutebook.store.places import open_storage
from tests.corpus.typed_day import payload_day, typed_day
from tests.fakes.glue import FakeGlue, behind_header
from tests.integration.shell import Shell

DAY = Day.parse("2026-11-20")


@pytest.fixture
def shell(embedded_aws: EmbeddedAws, bucket: str, tmp_path: Path) -> Shell:
    """Return a shell with a day of 180 flights, 18 of which do not fit."""
    made = Shell(embedded_aws, bucket, tmp_path)
    made.archive(typed_day(DAY, 180, 10)[0])
    return made


def test_a_proposal_is_a_file_that_can_be_tried(shell: Shell) -> None:
    """Columns on stdout, what fits them on stderr; no Spark."""
    proposed = shell.run("columns", "--date", str(DAY), "--sample", "100", path="/nonexistent")
    assert proposed.returncode == 0, proposed
    columns = parse_columns(proposed.stdout.encode(), "x", SCHEMA.names, is_toml=True)
    assert {"carrier": "string", "time_hour": "string", "stops": "list<json>"}.items() <= columns.types.items()
    assert "100 payloads: " in proposed.stderr
    file = shell.folder / "columns.toml"
    file.write_text('[columns.carrier]\ntype = "string"\n[columns.time_hour]\ntype = "timestamp"\n')
    tried = shell.run("columns", "--date", str(DAY), "--columns", str(file), path="/nonexistent")
    assert (tried.returncode, tried.stdout) == (0, "")
    assert "180 payloads: " in tried.stderr
    assert "  time_hour: invalid, 1 row(s), first shardId-" in tried.stderr


def test_the_steps_of_payloads_behind_headers_of_a_registry(
    embedded_aws: EmbeddedAws, bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are found with the schema that Glue gives; nothing is kept."""
    shell, glue = Shell(embedded_aws, bucket, tmp_path), FakeGlue()
    version = glue.register("{}", "JSON")
    shell.archive(payload_day(DAY, 1, lambda number: behind_header(version, f'{{"n":{number}}}'.encode())))
    with glue.serving() as address:
        request = ColumnsRequest(str(shell.folder / "my.properties"), str(DAY), sniff=True)
        assert propose_columns(request, {"MINUTEBOOK_GLUE_ENDPOINT": address}) == 0
    proposed = capsys.readouterr().out
    assert 'decode = ["glue-registry"]' in proposed
    assert parse_columns(proposed.encode(), "x", SCHEMA.names, is_toml=True).types == {"n": "int64"}
    assert glue.asked == [str(version)]
    assert not [row for row in open_storage(shell.address).list_objects("") if "_schemas" in row.key]


def test_a_file_of_columns_that_cannot_be_is_exit_2_before_any_work(shell: Shell) -> None:
    """The message names file, column and next step; nothing is read of the archive."""
    file = shell.folder / "columns.toml"
    file.write_text('[columns.data]\ntype = "string"\n[columns.b]\ntype = "string"\npath = "["\n')
    done = shell.run("compact", "--date", str(DAY), "--columns", str(file), path="/nonexistent")
    assert done.returncode == 2, done
    assert done.stderr.splitlines()[:2] == [
        f"minutebook: --columns {file}: 2 error(s) in the columns",
        "  - column 'data': the name is a column of the envelope",
    ]
    assert "next step: give a column another name in a mapping" in done.stderr
