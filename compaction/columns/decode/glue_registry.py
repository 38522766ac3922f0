"""The step `glue-registry`: what follows a header of the Glue schema registry, by the schema that the header names.

    03    00 or 05 (zlib)    16 bytes: the id of a schema's version    the payload

It is what AWS's serializers write (AWSSchemaRegistryConstants in their library for Java). Avro is sealed for the
child process, JSON is the text, and others are a reason.
"""

import uuid
from typing import Final

from compaction.columns.decode.avro import Sealed
from compaction.columns.decode.compressed import inflate_zlib
from compaction.columns.decode.outcome import Outcome, undecoded
from compaction.columns.decode.registered import RegisteredSchema, Schemas
from compaction.columns.steps import GLUE_REGISTRY

GLUE_MAGIC: Final = (b"\x03\x00", b"\x03\x05")
_ZLIB: Final = 5
_ID: Final = slice(2, 18)
MOST_ABSENT: Final = 100
"""Ids that no registry knows, of the payloads of one task: a stream of other bytes would ask for one each."""


class GlueRegistry:
    """Opens payloads of a task, one after another."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._found: dict[str, RegisteredSchema | None] = {}
        self._absent = 0

    def open(self, payload: bytes) -> Sealed | Outcome:
        """Return what follows the header, sealed if it is Avro; a payload without a header unchanged.

        Raises as `Schemas.find`.
        """
        if not payload.startswith(GLUE_MAGIC):
            return [payload]
        if len(payload) < _ID.stop:
            return undecoded(GLUE_REGISTRY, "the header is cut short")
        version = str(uuid.UUID(bytes=payload[_ID]))
        if version not in self._found and self._absent >= MOST_ABSENT:
            return undecoded(GLUE_REGISTRY, f"not looked up: {MOST_ABSENT} other schemas are in no registry")
        schema = self._find(version)
        if schema is None:
            return undecoded(GLUE_REGISTRY, f"there is no schema {version}")
        if schema.data_format not in {"AVRO", "JSON"}:
            return undecoded(GLUE_REGISTRY, f"{schema.data_format} is not read")
        body = inflate_zlib(payload[_ID.stop :], GLUE_REGISTRY) if payload[1] == _ZLIB else [payload[_ID.stop :]]
        return Sealed(schema.definition, body[0]) if isinstance(body, list) and schema.data_format == "AVRO" else body

    def _find(self, version: str) -> RegisteredSchema | None:
        if version not in self._found:
            self._found[version] = self._schemas.find(version)
            self._absent += self._found[version] is None
        return self._found[version]
