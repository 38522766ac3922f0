"""What the tutorial lets people save and run, on the servers that it lets them start."""

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from demo.bootstrap import ensure_java
from demo.serve import environment, for_a_shell
from minutebook.clock import new_id
from tests.witness.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws

TUTORIAL: Final = (Path(__file__).resolve().parents[3] / "docs" / "tutorial.md").read_text()


def test_the_programs_of_the_tutorial_run(embedded_aws: "EmbeddedAws", tmp_path: Path) -> None:
    """In a shell that has read what `make aws` wrote: one puts twenty records, the other prints an object's lines."""
    put, look, _ = re.findall(r"```python\n(.*?)```", TUTORIAL, re.DOTALL)
    name = f"tutorial-{new_id()[:8]}"
    (tmp_path / "put.py").write_text(put.replace('"flights"', f'"{name}"'))
    (tmp_path / "look.py").write_text(look.replace("my-archive", name))
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
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("shardId-000000000000") == 20
    assert "flights/2026/x.jsonl.gz" in done.stdout
