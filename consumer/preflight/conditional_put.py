"""Pre-flight checks that the bucket implements If-None-Match as the protocol needs it.

The protocol rests on one guarantee of S3: of all PUTs of one key with `If-None-Match: *`, exactly one succeeds.
Servers that check first and write later break it only under a race, so all writers of a key start at a barrier.

`minutebook doctor` uses fresh keys and removes them. A worker may not delete, so it uses an object that exists
anyway: the application's record.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from consumer.preflight.check import Check
from consumer.preflight.probe import PROBE_TYPE, Probe
from minutebook.errors import ObjectVanished, OutcomeUnknown, StoreRefused
from minutebook.format.keys import application_key
from minutebook.store.objects import PutOutcome

_NAME: Final = "If-None-Match"
_NEXT_STEP: Final = "use Amazon S3, or a server whose conditional PUTs are exact; without them records would double"


def check_one_winner(probe: Probe, *, keys: int, writers: int) -> Check:
    """Let `writers` PUT each of `keys` fresh keys at once, then PUT each once more; raises as the store does."""
    with ThreadPoolExecutor(writers) as pool:
        for _ in range(keys):
            key = probe.new_key()
            created = _race(probe, pool, key, writers)
            if created > 1:
                return Check.failed(
                    _NAME,
                    f"{created} of {writers} writers of one key were told it is theirs",
                    next_step=_NEXT_STEP,
                    exit_code=6,
                )
            late = probe.store.put_if_absent(key, b"late\n", content_type=PROBE_TYPE)
            if late is PutOutcome.CREATED and created:
                return Check.failed(
                    _NAME, "a PUT over an existing object was accepted", next_step=_NEXT_STEP, exit_code=6
                )
            stored = probe.store.get(key)
            if stored is None or (created and stored.body == b"late\n"):
                return Check.failed(_NAME, "the winner's object was replaced", next_step=_NEXT_STEP, exit_code=6)
    return Check.ok(_NAME, f"one winner among {writers} writers, {keys} time{'s' if keys > 1 else ''}")


def check_delete_then_put(probe: Probe) -> Check:
    """Check that a conditional PUT succeeds after a DELETE of its key, also in a versioned bucket."""
    key = probe.new_key()
    probe.store.put_if_absent(key, b"first\n", content_type=PROBE_TYPE)
    try:
        probe.delete(key)
    except StoreRefused as exc:
        return Check.unknown(
            _NAME,
            f"not tried after a deletion: {exc}",
            next_step=f"allow s3:DeleteObject on {probe.settings.prefix}_doctor/* to have it tested",
        )
    probe.written.add(key)
    again = probe.store.put_if_absent(key, b"second\n", content_type=PROBE_TYPE)
    if again is PutOutcome.EXISTS and probe.store.head(key) is None:
        return Check.failed(
            _NAME,
            "a deleted object still holds its key (delete marker)",
            next_step="use a bucket without this behaviour: the slot of a deleted object could never be used again",
            exit_code=6,
        )
    return Check.ok(_NAME, "a key is free again after its object was deleted")


def check_record_stays(probe: Probe) -> Check:
    """Check that S3 refuses a PUT of the application's record over itself; the bytes are the same.

    Raises ObjectVanished if there is no record; the caller must have written or read it before.
    """
    key = application_key(probe.settings.prefix)
    stored = probe.store.get(key)
    if stored is None:
        raise ObjectVanished(f"{key} is missing", next_step="find out who deletes objects; run minutebook doctor")
    if probe.store.put_if_absent(key, stored.body, stored.metadata) is PutOutcome.CREATED:
        return Check.failed(_NAME, "a PUT over an existing object was accepted", next_step=_NEXT_STEP, exit_code=6)
    return Check.ok(_NAME, f"a PUT over {key} is refused")


def _race(probe: Probe, pool: ThreadPoolExecutor, key: str, writers: int) -> int:
    """Return how many writers got a 200; 409 and retryable errors do not count."""
    gate = threading.Barrier(writers)

    def write(number: int) -> bool:
        body = f"writer {number}\n".encode()
        gate.wait()
        try:
            return probe.store.raw.put_if_absent(key, body, {}, PROBE_TYPE) is PutOutcome.CREATED
        except OutcomeUnknown:
            return False

    return sum(pool.map(write, range(writers)))
