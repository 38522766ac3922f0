"""What the tutorial lets people save and run, on the servers that it lets them start."""

import fcntl
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from demo.bootstrap import ensure_java
from demo.embedded import beside_proxies
from demo.serve import environment, for_a_shell, serve
from minutebook.clock import new_id
from minutebook.errors import SettingsError
from tests.witness.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws

_PROXY: Final = "http://127.0.0.1:9"
TUTORIAL: Final = (Path(__file__).resolve().parents[3] / "docs" / "tutorial.md").read_text()


def test_the_programs_of_the_tutorial_run(
    embedded_aws: "EmbeddedAws", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shell that has read what `make aws` wrote: one puts twenty records, the other prints an object's lines.

    The machine has a proxy, which cannot reach its loopback.
    """
    put, look, _ = re.findall(r"```python\n(.*?)```", TUTORIAL, re.DOTALL)
    name = f"tutorial-{new_id()[:8]}"
    (tmp_path / "put.py").write_text(put.replace('"flights"', f'"{name}"'))
    (tmp_path / "look.py").write_text(look.replace("my-archive", name))
    with monkeypatch.context() as behind_a_proxy:
        behind_a_proxy.setenv("HTTP_PROXY", _PROXY)
        (tmp_path / "environment").write_text(for_a_shell(environment(embedded_aws, ensure_java())))
    embedded_aws.kinesis_client().create_stream(StreamName=name, ShardCount=1)
    embedded_aws.kinesis_client().get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    client = embedded_aws.s3_client()
    client.create_bucket(Bucket=name)
    client.put_object(
        Bucket=name, Key="flights/2026/x.jsonl.gz", Body=b"\x1f\x8b\x08\x00" + b"\0" * 4 + b"\x02\xff\x03" + b"\0" * 9
    )

    done = subprocess.run(
        ["bash", "-ec", f". ./environment; {sys.executable} put.py; {sys.executable} look.py"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HTTP_PROXY": _PROXY},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("shardId-000000000000") == 20
    assert "flights/2026/x.jsonl.gz" in done.stdout


def test_a_second_start_leaves_the_first_ones_files(tmp_path: Path) -> None:
    """Its stream and its archive are in use."""
    (tmp_path / "aws").mkdir()
    (tmp_path / "aws" / "environment").touch()
    with (tmp_path / "aws.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(SettingsError, match=r"runs already with its files in .*aws$") as caught:
            serve(tmp_path / "aws")
    assert "environment`), or end it with Ctrl-C" in caught.value.next_step
    assert (tmp_path / "aws" / "environment").exists()


@pytest.mark.parametrize(
    ("environ", "spared"),
    [
        ({}, None),
        ({"no_proxy": "a.example"}, None),
        ({"HTTP_PROXY": "http://p"}, "127.0.0.1,localhost"),
        ({"https_proxy": "http://p", "NO_PROXY": "10.0.0.1"}, "10.0.0.1,127.0.0.1,localhost"),
        ({"http_proxy": "http://p", "NO_PROXY": "a", "no_proxy": "b"}, "b,127.0.0.1,localhost"),
    ],
)
def test_servers_of_this_machine_are_reached_past_its_proxy(environ: dict[str, str], spared: str | None) -> None:
    """In both spellings."""
    assert beside_proxies(environ) == ({"NO_PROXY": spared, "no_proxy": spared} if spared else {})
