"""Find the steps that a sample of payloads needs, and say why. Pure.

A step that is skipped where its magic bytes are absent is proposed if one payload has them. A step that must succeed
is proposed if it succeeds on nineteen of twenty payloads that the steps before it decoded, and leads to an object or
to another step: digits are base64, too. The others will be rows with a reason, and the sentence counts them.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from compaction.columns.decode.avro import FILE_MAGIC
from compaction.columns.decode.decoder import Decoder
from compaction.columns.decode.glue_registry import GLUE_MAGIC
from compaction.columns.decode.registered import Schemas
from compaction.columns.decode.texts import BOM
from compaction.columns.misfits import Misfit
from compaction.columns.steps import GLUE_REGISTRY, MAX_STEPS, Step, Steps
from minutebook.compression import Compression

_MAGIC: Final = {
    "gzip": (Compression.GZIP.magic,),
    "zstd": (Compression.ZSTD.magic,),
    "bom": (BOM,),
    "avro": (FILE_MAGIC,),
    GLUE_REGISTRY: GLUE_MAGIC,
}
_OBJECTS: Final = 1_000
"""So many payloads are decoded to look into objects."""
_MOST_BYTES: Final = 256 << 20
"""What is decoded of a sample is held in memory: the payloads behind that are not looked at."""
_LAST: Final = frozenset({"dynamodb", "cloudwatch-logs", "documents", "each"})
"""Steps behind which only columns are looked for."""
_decode: Final = msgspec.json.Decoder().decode


class Sniffed(NamedTuple):
    """The steps for a sample, and a sentence for each."""

    steps: Steps
    reasons: tuple[str, ...]


def sniff(payloads: Sequence[bytes], schemas: Schemas | None = None) -> Sniffed:
    """Return the steps that a sample of payloads needs; none for one of plain objects.

    Without `schemas` nothing behind a header of a registry is looked at. Raises as `Schemas.find`.
    """
    texts, steps, reasons = [*payloads], list[Step](), list[str]()
    while len(steps) < MAX_STEPS and (found := _next(texts)) is not None:
        step, why = found
        steps.append(step)
        reasons.append(f"{step.text}: {why}")
        if step.name == GLUE_REGISTRY and schemas is None:
            break
        texts = _apply(step, texts, schemas).texts
        if step.name in _LAST:
            break
    return Sniffed(tuple(steps), tuple(reasons))


def _next(texts: Sequence[bytes]) -> tuple[Step, str] | None:
    """Return the first step that the texts need, and why."""
    for name, magic in _MAGIC.items():
        if count := sum(text.startswith(magic) for text in texts):
            begin = " or ".join(each.hex(" ") for each in magic)
            return Step(name), f"{count:,} of {len(texts):,} payloads begin with {begin}"
    if not texts:
        return None
    begins = Counter(text.lstrip()[:1] for text in texts)
    if _are_most(begins[b"{"], texts):
        return _of_objects(texts)
    if _are_most(begins[b"["], texts) and _are_most(lists := _read(Step("each"), texts), texts):
        return Step("each"), f"{_share(lists, texts)} payloads are lists"
    for name, words in (("json-text", "are JSON within a JSON string"), ("base64", "are base64 of such")):
        if _are_most(count := sum(map(_leads_on, _apply(Step(name), texts).texts)), texts):
            return Step(name), f"{_share(count, texts)} payloads {words}"
    return None


def _are_most(count: int, texts: Sequence[bytes]) -> bool:
    return count * 20 >= len(texts) * 19


def _share(count: int, texts: Sequence[bytes]) -> str:
    return f"all {count:,}" if count == len(texts) else f"{count:,} of {len(texts):,}"


def _read(step: Step, texts: Sequence[bytes]) -> int:
    """Return how many payloads a step reads as a whole."""
    records = Decoder((step,)).apply(texts)
    return sum(not any(isinstance(event, Misfit) for event in events) for events in records)


def _leads_on(text: bytes) -> bool:
    return any(map(text.startswith, _MAGIC.values())) or text.lstrip()[:1] in {b"{", b'"'}


def _of_objects(texts: Sequence[bytes]) -> tuple[Step, str] | None:
    if _are_most(count := _read(Step("cloudwatch-logs"), texts), texts):
        return Step("cloudwatch-logs"), f"{_share(count, texts)} payloads are records of CloudWatch Logs"
    several = _apply(Step("documents"), texts)
    if several.failed == 0 and len(several.texts) > len(texts):
        return Step("documents"), f"{len(texts):,} payloads hold {len(several.texts):,} JSON documents"
    if _are_most(count := _read(Step("dynamodb"), texts), texts):
        return Step("dynamodb"), f"{_share(count, texts)} payloads are change records with typed attributes"
    documents = [document for document in map(_object, texts[:_OBJECTS]) if document is not None]
    values: Counter[str] = Counter()
    nested: Counter[str] = Counter()
    for document in documents:
        for key, value in document.items():
            values[key] += value is not None
            nested[key] += type(value) is str and value.lstrip()[:1] == "{" and _object(value) is not None
    for key, count in nested.items():
        if count and count == values[key]:
            step = Step("json-text", (key,))
            return step, f"{count:,} of {len(documents):,} payloads hold JSON within the text of this key, none other"
    return None


def _object(text: str | bytes) -> dict[str, Any] | None:
    try:
        value = _decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return value if type(value) is dict else None


class _Applied(NamedTuple):
    texts: list[bytes]
    failed: int


def _apply(step: Step, texts: Sequence[bytes], schemas: Schemas | None = None) -> _Applied:
    """Return what a step makes of texts, and how many it fails on."""
    applied, failed, size = list[bytes](), 0, 0
    for made in itertools.chain.from_iterable(Decoder((step,), schemas).apply(texts)):
        if isinstance(made, Misfit):
            failed += 1
            continue
        applied.append(made)
        size += len(made)
        if size > _MOST_BYTES:
            break
    return _Applied(applied, failed)
