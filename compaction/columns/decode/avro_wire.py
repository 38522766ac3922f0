"""What readers of Avro and their child process (`avro_child`) write to each other: numbers, and texts behind theirs.

Apart from the child's own module, because that loads fastavro, which nobody else needs.
"""

import struct
from typing import Final

NUMBER: Final = struct.Struct(">I")
READY: Final = b"R"
"""What the child says before it reads a payload: a death before is no payload's."""


def framed(data: bytes) -> bytes:
    """Return a text behind its length."""
    return NUMBER.pack(len(data)) + data
