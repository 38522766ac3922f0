"""What the nightly job would have published, as `minutebook expire` reads it."""

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from minutebook.store.objects import ListedObject, ObjectHead, StoredObject
from tests.fakes.published_day import published_objects
from tests.simulation.services.bucket import PREFIX

if TYPE_CHECKING:
    from tests.simulation.histories.sharded_history import ShardedHistory

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Published:
    """The pointers and inventories of published days; `clean` holds the keys of each day whose verdict is clean."""

    def __init__(self, history: "ShardedHistory") -> None:
        self.clean: dict[str, set[str]] = {}
        self._history = history
        self._objects: dict[str, StoredObject] = {}
        self._number = 0

    def publish(self) -> None:
        """Publish every day that is over, as the nightly job would; now and then its verdict is not clean."""
        history = self._history
        today = (_EPOCH + dt.timedelta(seconds=history.world.now)).date()
        for day in sorted({key[len(PREFIX) :][:10] for key in history.bucket.objects if key[len(PREFIX)].isdigit()}):
            date = dt.date(*map(int, day.split("/")))
            keys = sorted(key for key in history.bucket.objects if key.startswith(f"{PREFIX}{day}/"))
            if date >= today or not set(keys) - self.clean.get(day, set()):
                continue
            self._number += 1
            verdict = "clean" if history.rng.random() < 0.85 else "unknown"
            self._put(date, keys, verdict)
            self.clean[day] = set(keys) if verdict == "clean" else set()
            history.world.happened("nightly: a day is published")

    def _put(self, date: dt.date, keys: list[str], verdict: str) -> None:
        raw = [(key, '"e"', len(self._history.bucket.objects[key].body)) for key in keys]
        written = published_objects("", date.isoformat(), raw, f"g{self._number}", verdict)
        self._objects |= {key: StoredObject(body, "e", {}) for key, body in written.items()}

    def get(self, key: str) -> StoredObject | None:
        """Read what is published."""
        return self._objects.get(key)

    def head(self, key: str) -> ObjectHead | None:
        """Ask for its size."""
        found = self._objects.get(key)
        return None if found is None else ObjectHead(key, len(found.body), found.etag, {}, 0)

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List what is published below a prefix."""
        found = ((key, stored) for key, stored in sorted(self._objects.items()) if key.startswith(prefix))
        return (ListedObject(key, len(stored.body), stored.etag, 0) for key, stored in found)
