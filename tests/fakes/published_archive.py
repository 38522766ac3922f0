"""`minutebook expire` on an archive and on what the nightly job published of it, each in a folder."""

import random
from pathlib import Path

from consumer.expire.command import Archive, expire_days, expiry_age_ms
from consumer.stream.port import StreamIdentity
from minutebook.retry import Backoff
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.retrying import RetryingStorage, RetryingStore
from minutebook.store.storage import Address, Storage
from minutebook.terminal import TerminalConsole
from tests.corpus.model import PREFIX, STREAM_ARN
from tests.fakes.archive_scene import APPLICATION
from tests.fakes.clock import ManualClock


def expire_published(raw: Path, published: StorePrefix, clock: ManualClock) -> str:
    """Expire 40 days later; returns what was printed."""
    clock.advance(40 * 86_400)
    storage, out = (open_storage(address) for address in (Address(None, str(raw)), published.address))
    return expire_published_now(storage, out, published, clock)


def expire_published_now(
    raw: Storage, out: Storage, published: StorePrefix, clock: ManualClock, age: str = "30d", created_ms: int = 1
) -> str:
    """Expire what is older now; returns what was printed."""
    store = RetryingStorage(raw, lambda: Backoff(clock, random.Random(1), budget_seconds=10))
    archive = Archive(
        store=store,
        prefix=PREFIX,
        identity=StreamIdentity(STREAM_ARN, created_ms, 86_400_000),
        application=APPLICATION,
        published=RetryingStore(out, store.new_backoff),
        published_root=published.prefix,
        clock=clock,
        new_id=lambda: "writer",
    )
    console = TerminalConsole(width=200)
    with console.capture() as capture:
        expire_days(archive, expiry_age_ms(age), console, 1000)
    return capture.get()
