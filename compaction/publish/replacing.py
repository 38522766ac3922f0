"""Replace an object on condition that it is the one that was read: the one way in which pointers change."""

from minutebook.errors import OutcomeUnknown, StoreUnavailable
from minutebook.format.markers import JSON_TYPE
from minutebook.store.retrying import RetryingStorage


def replace_object(
    storage: RetryingStorage, key: str, body: bytes, etag: str | None, content_type: str = JSON_TYPE
) -> bool:
    """Send a conditional PUT until its outcome is known; after a lost answer, our bytes there mean success.

    `etag` None: there was no object. False: another one is there. Where ours was applied, its answer was lost, and
    somebody has replaced it since, the answer is False, too: whoever asks reads the object again.
    """
    backoff = storage.new_backoff()
    while True:
        try:
            return storage.storage.put_if_match(key, body, etag, content_type)
        except OutcomeUnknown as exc:
            stored = storage.get(key)
            if stored is not None and stored.body == body:
                return True
            if not backoff.wait():
                raise StoreUnavailable(
                    f"gave up on PUT {key}: {exc}",
                    next_step="run the command again: it goes on where this one was",
                ) from exc
