"""The inventory beside a manifest: the raw objects of a generation, whose digest is part of its name.

dt=D/_manifest/G-W.inventory.jsonl.gz    one line [key, ETag, size, last modified] per raw object, by key
"""

import hashlib
from collections.abc import Iterable, Iterator

import msgspec

from minutebook.errors import FormatError
from minutebook.format.segment import inflate

PublishedRow = tuple[str, str, int, int]
"""Key, ETag, size, last modified: one line."""


def inventory_digest(objects: Iterable[tuple[str, str, int]], *salt: str) -> str:
    """Return the hash of (key, ETag, size) in the order of keys, and of `salt`: 64 hex digits."""
    digest = hashlib.sha256("\n".join(salt).encode())
    for key, etag, size in objects:
        digest.update(f"\n{key}\t{etag}\t{size}".encode())
    return digest.hexdigest()


def decode_inventory(body: bytes, key: str, next_step: str) -> Iterator[PublishedRow]:
    """Yield the lines of a stored inventory, which is empty for a day without objects; raises FormatError."""
    decoder = msgspec.json.Decoder(PublishedRow)
    try:
        for line in inflate([body]) if body else ():
            yield decoder.decode(line)
    except (FormatError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise FormatError(f"{key} does not parse: {exc}", next_step=next_step) from exc
