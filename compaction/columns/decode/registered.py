"""Schemas of the Glue schema registry, by the ids of their versions; each is asked for once, and kept.

    <out>_schemas/<id>    the data format and the definition, as the registry gave them

The kept one is read first, so a day can be made again when the registry has gone. A version of a schema never
changes: Glue registers another definition as another version, with an id of its own. So the objects of a day, which
hold the ids, name its schemas, and a generation's name needs no other digest (docs/decisions/0053-decode.md). The
status of a version says nothing of its definition, and is not looked at: rows must not depend on when a night ran.
"""

import functools
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec
from botocore.exceptions import ClientError

from minutebook.aws import clients
from minutebook.aws.access import Access
from minutebook.errors import FormatError, RegistryUnavailable
from minutebook.format.document import FORMAT, RESTORE, decode_document, encode_document
from minutebook.retry import Backoff, backoff_within
from minutebook.store.places import StorePrefix, open_retrying
from minutebook.store.retrying import RetryingStorage

SCHEMAS_FOLDER: Final = "_schemas/"
_BUDGET_SECONDS: Final = 180
_ABSENT: Final = "EntityNotFoundException"


class RegisteredSchema(NamedTuple):
    """AVRO, JSON or PROTOBUF, and the definition as a text."""

    data_format: str
    definition: str


class Schemas(Protocol):
    """Finds schemas."""

    def find(self, version: str) -> RegisteredSchema | None:
        """Return the schema of a version's id; None: there is none. Raises RegistryUnavailable, RegistryRefused."""


class SchemaPlace(NamedTuple):
    """A registry, and the output where its schemas are kept, as plain values; `keeps` False: only read there."""

    region: str
    endpoint: str | None
    access: Access
    out: StorePrefix
    keeps: bool = True


class _Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    id: str
    data_format: str
    definition: str


class KeptSchemas:
    """Implements `Schemas`: asks the registry for what is not kept below `folder`, once. Threads may share it."""

    def __init__(
        self,
        storage: RetryingStorage,
        folder: str,
        registered: Callable[[str], RegisteredSchema | None],
        *,
        keeps: bool = True,
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._registered = registered
        self._keeps = keeps
        self._lock = threading.Lock()
        self._found: dict[str, RegisteredSchema | None] = {}

    def find(self, version: str) -> RegisteredSchema | None:
        """Return the schema of a version's id; None: there is none. Raises FormatError if the kept one is damaged."""
        with self._lock:
            if version not in self._found:
                self._found[version] = self._look_up(version)
            return self._found[version]

    def _look_up(self, version: str) -> RegisteredSchema | None:
        key = f"{self._folder}{version}"
        stored = self._storage.get(key)
        if stored is None:
            schema = self._registered(version)
            if schema is None or not self._keeps:
                return schema
            kept = _Kept(format=FORMAT, id=version, data_format=schema.data_format, definition=schema.definition)
            stored = self._storage.put_or_read(key, encode_document(kept))
            if stored is None:
                return schema
        found = decode_document(stored.body, _Kept, key)
        if found.id != version:
            raise FormatError(f"{key} is that of {found.id}", next_step=RESTORE)
        return RegisteredSchema(found.data_format, found.definition)


def registered_schema(client: clients.GlueClient, version: str, backoff: Backoff) -> RegisteredSchema | None:
    """Ask the registry for a version; None: it has none of this id.

    Raises RegistryRefused, or RegistryUnavailable: also where it gives no definition.
    """

    def request() -> RegisteredSchema | None:
        try:
            answer = client.get_schema_version(SchemaVersionId=version)
        except ClientError as exc:
            if clients.error_code(exc) == _ABSENT:
                return None
            raise
        schema = RegisteredSchema(answer.get("DataFormat", ""), answer.get("SchemaDefinition", ""))
        is_whole = all(isinstance(text, str) and text for text in schema)
        if not is_whole or answer.get("SchemaVersionId") != version:
            raise RegistryUnavailable(
                f"the registry gives no definition of schema {version}; its status: {answer.get('Status')}",
                next_step="look at the schema in Glue, then run again",
            )
        return schema

    return clients.ask(request, f"GetSchemaVersion {version}", backoff, clients.GLUE)


@functools.lru_cache(maxsize=8)
def open_schemas(place: SchemaPlace) -> KeptSchemas:
    """Return the schemas of a place, one object a process; a client is made for the first that is not kept."""
    client = functools.cache(lambda: clients.make_glue_client(place.region, place.endpoint, place.access))
    new_backoff = backoff_within(_BUDGET_SECONDS)

    def registered(version: str) -> RegisteredSchema | None:
        return registered_schema(client(), version, new_backoff())

    storage = open_retrying(place.out.address, _BUDGET_SECONDS)
    return KeptSchemas(storage, f"{place.out.prefix}{SCHEMAS_FOLDER}", registered, keeps=place.keeps)
