"""Protocol lines: a damaged message ends the process by name, and never becomes a segment that nobody can read."""

import io
import random

from hypothesis import given
from hypothesis import strategies as st

from consumer.processor.processor import ShardProcessor
from consumer.processor.protocol import run_process
from minutebook.errors import MinutebookError
from tests.fakes.archive_scene import PREFIX
from tests.fakes.memory_store import MemoryStore
from tests.fakes.shard import SHARD
from tests.fakes.world import World, settings
from tests.fuzz.hostile import check_printable, damaged, search
from tests.fuzz.valid import conversations
from tests.witness.readback import check_chain, read_shard


def serve(world: World, lines: list[bytes]) -> None:
    """Serve one processor with the lines; every end but a named error comes out."""
    processor = ShardProcessor(
        settings(checkpoint_interval_seconds=3600),
        MemoryStore(world.bucket),
        world.stream,
        world.clock,
        random.Random(1),
        world.new_id,
    )
    try:
        run_process(processor, io.BytesIO(b"".join(lines)), io.BytesIO(), io.StringIO())
    except MinutebookError as exc:
        check_printable(exc)


@search(300)
@given(lines=conversations(), data=st.data())
def test_a_damaged_message_ends_the_process_by_name(lines: list[bytes], data: st.DataObject) -> None:
    """And what was committed before and after it can be read back: metadata, lines, chain."""
    world = World()
    damage = data.draw(st.booleans())
    if damage:
        number = data.draw(st.integers(0, len(lines) - 1))
        lines[number] = data.draw(damaged(st.just(lines[number])))
    serve(world, lines)
    found = read_shard(MemoryStore(world.bucket), PREFIX, SHARD)
    check_chain(found)


@search(200)
@given(line=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes_on_the_pipe_end_the_process_by_name(line: bytes) -> None:
    """A daemon of another version, or something else that writes to the pipe."""
    serve(World(), [line + b"\n"])
