"""The child process that reads Avro: `python -m compaction.columns.decode.avro_child`, with limits.

A few bytes of Avro may stand for a list of 2^40 nulls, and fastavro would make it. So records are read here, and what
takes too much ends this process alone. It imports little, because each part of a night may start one.

    stdin     batches: how many schemas, and each of them (nothing stands for files of Avro, which bring theirs); then
              how many payloads, and of each the number of its schema in the batch, and itself
    stdout    "R"; then for each payload "+", how many JSON texts, and each of them; or "-" and why there is none, or
              "!" where it takes too much

Numbers are four bytes, and stand before texts as their length. The process ends with its stdin.
"""

import io
import resource
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from decimal import Context, Decimal
from typing import Any, BinaryIO, Final

import fastavro
import msgspec
from fastavro import read as fastavro_read
from fastavro.schema import fingerprint, to_parsing_canonical_form

from compaction.columns.decode.avro_wire import NUMBER, READY, framed

_MEMORY: Final = 128 << 20
"""What a record may take beside what the process has."""
_SECONDS: Final = 10
"""CPU time that a record may take: SIGXCPU ends the process. Waiting does not count, so that a busy machine gives
the same rows."""
_MAX_BYTES: Final = 16 << 20
_MAX_EVENTS: Final = 100_000
_SINGLE_OBJECT: Final = b"\xc3\x01"
_HEADER_BYTES: Final = 10
_CODECS: Final = frozenset({"null", "deflate", "bzip2", "xz", "zstandard"})
"""Those that fastavro reads wherever Minutebook is: others depend on what else is installed."""
_MOST_SCHEMAS: Final = 100
"""Parsed schemas that are kept."""
_LONGEST_DECIMAL: Final = 64
"""Bytes: twice as many digits as any decimal type has."""
_EXACT: Final = Context(prec=400)
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


_Reader = Callable[[bytes], Iterable[Any]]


class _UnreadError(Exception):
    """A payload cannot be read; its text is the reason."""


def main(stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Answer until stdin ends."""
    for name in fastavro_read.LOGICAL_READERS:
        fastavro_read.LOGICAL_READERS[name] = _exact_decimal if name.endswith("-decimal") else _unchanged
    readers: dict[bytes, _Reader] = {}
    stdout.write(READY)
    stdout.flush()
    while (head := stdin.read(NUMBER.size)) != b"":
        schemas = [_frame(stdin) for _ in range(NUMBER.unpack(head)[0])]
        payloads = [(schemas[_number(stdin)], _frame(stdin)) for _ in range(_number(stdin))]
        for schema, payload in payloads:
            _limit_time()
            if schema not in readers:
                if len(readers) >= _MOST_SCHEMAS:
                    readers.clear()
                _limit_memory()
                readers[schema] = _reader(schema)
                _limit_memory()
            stdout.write(_answer(readers[schema], payload))
            stdout.flush()  # what is not answered when this process dies is what it died of


def _number(stdin: BinaryIO) -> int:
    return int(NUMBER.unpack(stdin.read(NUMBER.size))[0])


def _frame(stdin: BinaryIO) -> bytes:
    return stdin.read(_number(stdin))


def _answer(read: _Reader, payload: bytes) -> bytes:
    texts, size = list[bytes](), 0
    try:
        for value in read(payload):
            texts.append(_encode(value))
            size += len(texts[-1])
            if size > _MAX_BYTES:
                return b"!" + framed(f"more than {_MAX_BYTES} bytes".encode())
            if len(texts) > _MAX_EVENTS:
                return b"!" + framed(f"more than {_MAX_EVENTS} events".encode())
    except _UnreadError as exc:
        return b"-" + framed(str(exc).encode())
    except MemoryError:
        return b"!" + framed(b"takes more memory than a record may")
    except Exception as exc:  # noqa: BLE001 - fastavro raises anything on bytes of another schema
        return b"-" + framed(f"not of its schema: {type(exc).__name__}".encode())
    return b"+" + NUMBER.pack(len(texts)) + b"".join(map(framed, texts))


def _reader(schema: bytes) -> _Reader:
    """Return a function from payloads to values. Times stay numbers, as columns of Avro schemas take them.

    What is no schema reads no payload: that of a registry may be anything.
    """
    try:
        return _reader_of(schema) if schema else _records_of_file
    except MemoryError:
        why = "its schema takes more memory than a record may"
    except Exception as exc:  # noqa: BLE001 - fastavro raises anything on JSON that is no schema
        why = f"its schema is no Avro schema: {type(exc).__name__}"

    def read(_: bytes) -> list[Any]:
        raise _UnreadError(why)

    return read


def _records_of_file(payload: bytes) -> Iterator[Any]:
    """Yield the records of an object container file, which brings its schema.

    A block says how many records it has; fastavro reads no further, and leaves what follows them.
    """
    file = fastavro.block_reader(io.BytesIO(payload))
    if (codec := file.codec) not in _CODECS:
        raise _UnreadError(
            f"its blocks are compressed with {str(codec)[:20]!r}, not with {', '.join(sorted(_CODECS))}"
        )
    for block in file:
        for record in block:
            yield _with_texts(record)
        content: io.BytesIO = block.bytes_  # type: ignore[attr-defined]  # fastavro's types do not name it
        if block.num_records < 0 or content.tell() < len(content.getbuffer()):
            raise _UnreadError(f"a block does not hold the {block.num_records} records that it says")
    if not payload.endswith(file._header["sync"]):  # noqa: SLF001 - fastavro ends without a word where a block is cut
        raise _UnreadError("cut short, or bytes are left")


def _reader_of(schema: bytes) -> _Reader:
    known = msgspec.json.decode(schema)
    parsed = fastavro.parse_schema(known)
    mark = bytes.fromhex(fingerprint(to_parsing_canonical_form(known), "CRC-64-AVRO"))
    has_floats = b'"float"' in schema or b'"double"' in schema

    def read(payload: bytes) -> list[Any]:
        body = payload
        if payload.startswith(_SINGLE_OBJECT + mark):
            body = payload[_HEADER_BYTES:]
        stream = io.BytesIO(body)
        value = fastavro.schemaless_reader(stream, parsed, None)
        if stream.tell() < len(body):
            raise _UnreadError(f"{len(body) - stream.tell()} bytes are left: not of its schema")
        return [_with_texts(value) if has_floats else value]

    return read


def _unchanged(value: Any, _: object = None, __: object = None) -> Any:  # noqa: ANN401 - as above
    return value


def _exact_decimal(value: Any, writer: dict[str, Any] | None, _: object = None) -> Any:  # noqa: ANN401 - as above
    """Return a decimal with all its digits: fastavro's own rounds to the precision of the schema."""
    if len(value) > _LONGEST_DECIMAL:
        raise _UnreadError(f"a decimal of {len(value)} bytes")
    return Decimal(int.from_bytes(value, signed=True)).scaleb(-(writer or {}).get("scale", 0), _EXACT)


def _with_texts(value: Any) -> Any:  # noqa: ANN401 - as above
    """Return a value with NaN and infinities as Python writes them to JSON: readers then tell them from null."""
    if type(value) is dict:
        return {name: _with_texts(each) for name, each in value.items()}
    if type(value) is list:
        return [_with_texts(each) for each in value]
    if type(value) is float and not -_LARGEST <= value <= _LARGEST:
        return msgspec.Raw(b"NaN" if value != value else b"Infinity" if value > 0 else b"-Infinity")  # noqa: PLR0124
    return value


_LARGEST: Final = sys.float_info.max


def _limit_memory() -> None:
    """Bound the address space by what is taken now and a share for one record; a death leaves no core file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - pathlib is one more import
        pages = int(file.read().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = pages * resource.getpagesize() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))


def _limit_time() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + _SECONDS, hard))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process by closing its stdin
    main(sys.stdin.buffer, sys.stdout.buffer)
