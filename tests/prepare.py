"""What `make test` prepares once: the class archives of the Java of tests, that of the daemon out of a whole life.

`minutebook prepare` has no service to ask, and keeps what a daemon loads up to the first answer: 6,400 classes of
9,000. The others come with leases, records and a reshard, and the tests start some forty daemons that meet all three.
`python -m tests.prepare`
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from consumer.daemon.prepared.classes import Classes, find_classes
from consumer.preflight.java import find_jars, find_java
from demo.embedded import EmbeddedAws
from minutebook.class_archive import Making
from tests.e2e.harness import Application
from tests.quick_java import quick_java


def prepare() -> int:
    """Run `minutebook prepare` on the Java of tests, then the life; return the command's exit code."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= quick_java(Path(scratch, "java"))
        code = subprocess.run([sys.executable, "-m", "minutebook", "prepare"], check=False).returncode
        if code == 0:
            keep_a_life(Path(scratch))
        return code


def keep_a_life(folder: Path) -> Path:
    """Let a daemon meet what those of tests meet, and keep its classes in the place of those of its start."""
    java, jars = find_java(os.environ).program, find_jars()
    prepared = find_classes(java, jars)
    making = Making(prepared.path[-1].parent)
    with EmbeddedAws(folder / "aws") as aws:
        app = Application(aws, folder, flushSeconds=1, checkpointIntervalSeconds=0)
        (shard,) = app.open_shards()
        app.seed_leases({shard: "w1"})
        with app.daemon(classes=Classes(tuple(making.options), prepared.path)) as worker:
            app.producer.put_numbered(10)
            app.producer.put_numbered_aggregate(10)
            worker.events.wait("checkpoint_written", position=str(app.producer.last()[shard]))
            child, _ = app.split(shard)
            app.producer.put_numbered(10, key=app.key_of(child))
            worker.events.wait("checkpoint_written", shard=child, position=str(app.producer.last()[child]))
            worker.terminate()
            worker.wait()
    return making.keep(java)


if __name__ == "__main__":
    sys.exit(prepare())
