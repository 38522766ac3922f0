"""Payloads behind a header of Glue's registry: read by the schema of its id, which is asked for once and kept."""

import json
import pickle
import random
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from compaction.columns.decode.decoder import Decoder
from compaction.columns.decode.finding import sniff
from compaction.columns.decode.glue_registry import MOST_ABSENT
from compaction.columns.decode.outcome import MAX_BYTES
from compaction.columns.decode.registered import KeptSchemas, RegisteredSchema, open_schemas, registered_schema
from compaction.columns.misfits import Misfit
from compaction.columns.steps import parse_steps
from compaction.job.settings import load_job_settings
from compaction.tasks.task import Order, TaskResult
from minutebook.errors import FormatError, MinutebookError, RegistryRefused, RegistryUnavailable
from minutebook.retry import Backoff
from minutebook.store.places import StorePrefix, open_retrying
from minutebook.store.storage import Address
from tests.corpus.auditing import in_process
from tests.corpus.desk import DAY, Desk
from tests.corpus.typed_day import payload_day
from tests.fakes.clock import ManualClock
from tests.fakes.glue import FakeGlue, behind_header
from tests.fakes.typed_lines import mapping
from tests.unit.compaction.columns.decode.test_avro import NUMBERS, written

pytestmark = pytest.mark.usefixtures("credentials")
WORDS = {"type": "record", "name": "W", "fields": [{"name": "w", "type": "string"}]}
STEPS = parse_steps(["glue-registry"])


def place(folder: Path) -> StorePrefix:
    """Return an output."""
    return StorePrefix(Address(None, str(folder)), "out/")


class Registry:
    """A registry, and what is kept of it in a folder."""

    def __init__(self, folder: Path) -> None:
        self.glue = FakeGlue()
        self.clock = ManualClock()
        self.folder = folder
        self._client = self.glue.client()

    def schemas(self, *, keeps: bool = True) -> KeptSchemas:
        """Return what a new process has."""
        storage = open_retrying(place(self.folder).address, 1)
        return KeptSchemas(storage, "out/_schemas/", self._ask, keeps=keeps)

    def _ask(self, version: str) -> RegisteredSchema | None:
        return registered_schema(self._client, version, Backoff(self.clock, random.Random(1), budget_seconds=60))

    def kept(self) -> list[str]:
        """Return the names of kept schemas."""
        return sorted(path.name for path in self.folder.glob("out/_schemas/*") if path.suffix == "")

    def decoded(self, *payloads: bytes) -> list[Any]:
        """Return the texts of payloads, or the words of reasons, in a new process."""
        return told(Decoder(STEPS, self.schemas()).apply(payloads))


def told(records: Any) -> list[Any]:  # noqa: ANN401 - what steps make
    """Return texts, and the words of reasons."""
    return [made.what if isinstance(made, Misfit) else made for (made,) in records]


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    """Return an empty one."""
    return Registry(tmp_path)


def test_records_of_several_schemas_in_their_order(registry: Registry) -> None:
    """Inflated or not; JSON is the text; what has no header passes; each schema is asked for once, and kept."""
    numbers, words, plain = (registry.glue.register(*given) for given in ((NUMBERS,), (WORDS,), ("{}", "JSON")))
    made = registry.decoded(
        behind_header(numbers, written(NUMBERS, {"n": 1})),
        b'{"n":2}',
        behind_header(words, written(WORDS, {"w": "é"}), is_compressed=True),
        b"\x03\x07" + numbers.bytes,
        behind_header(numbers, written(NUMBERS, {"n": 3}), is_compressed=True),
        behind_header(plain, b'{"n": 4}'),
        b"",
    )
    assert made == [
        b'{"n":1}',
        b'{"n":2}',
        '{"w":"é"}'.encode(),
        b"\x03\x07" + numbers.bytes,
        b'{"n":3}',
        b'{"n": 4}',
        b"",
    ]
    assert registry.glue.asked == [*map(str, (numbers, words, plain))]
    assert registry.kept() == sorted(registry.glue.asked)


def test_when_the_registry_has_gone_a_day_is_made_again(registry: Registry) -> None:
    """By the kept schemas, which another process does not ask for."""
    payload = behind_header(registry.glue.register(NUMBERS), written(NUMBERS, {"n": 1}))
    first = registry.decoded(payload)
    registry.glue.denies = True
    assert registry.decoded(payload) == first == [b'{"n":1}']
    assert len(registry.glue.asked) == 1


def test_what_is_not_read_is_a_reason_of_its_record(registry: Registry) -> None:
    """A schema that is absent, of Protobuf or none; and bytes that are not the schema's."""
    glue, body = registry.glue, written(NUMBERS, {"n": 1})
    numbers, absent = glue.register(NUMBERS), uuid.UUID(int=7)
    others = [glue.register("syntax", "PROTOBUF"), glue.register('{"type":'), glue.register({"type": "nothing"})]
    whole = behind_header(numbers, body, is_compressed=True)
    bomb = zlib.compress(bytes(MAX_BYTES + 1), 9)
    assert registry.decoded(
        behind_header(absent, body),
        *(behind_header(other, body) for other in others),
        whole[:17],
        whole[:-1],
        whole + b"x",
        whole[:18] + b"nonsense",
        whole[:18] + bomb,
        behind_header(numbers, body + b"x"),
        behind_header(numbers, body),
    ) == [
        f"there is no schema {absent}",
        "PROTOBUF is not read",
        "its schema is no Avro schema: DecodeError",
        "its schema is no Avro schema: UnknownType",
        "the header is cut short",
        "the zlib stream is cut short",
        "1 bytes are left behind the zlib stream",
        "damaged zlib stream: Error -3 while decompressing data: incorrect header check",
        f"more than {MAX_BYTES} bytes",
        "1 bytes are left: not of its schema",
        b'{"n":1}',
    ]
    assert str(absent) not in registry.kept()
    [[made]] = Decoder(STEPS, registry.schemas()).apply([behind_header(absent, body)])
    assert isinstance(made, Misfit)
    assert made.path == " (glue-registry)"


def test_a_schema_is_used_whatever_its_status(registry: Registry) -> None:
    """PENDING today is AVAILABLE tomorrow, and rows do not depend on the day; the definition never changes."""
    versions = [registry.glue.register(NUMBERS, status=status) for status in ("PENDING", "DELETING", "FAILURE")]
    payloads = [behind_header(version, written(NUMBERS, {"n": 1})) for version in versions]
    assert registry.decoded(*payloads) == [b'{"n":1}'] * 3


def test_throttling_and_failures_are_tried_again(registry: Registry) -> None:
    """Within the budget."""
    registry.glue.failures = ["ThrottlingException", "InternalServiceException"] * 2
    payload = behind_header(registry.glue.register(NUMBERS), written(NUMBERS, {"n": 1}))
    assert registry.decoded(payload) == [b'{"n":1}']
    assert len(registry.glue.asked) == 5


@pytest.mark.parametrize(
    ("unkind", "error", "code"),
    [
        ({"failures": ["ThrottlingException"] * 1_000}, RegistryUnavailable, 5),
        ({"denies": True}, RegistryRefused, 2),
    ],
)
def test_a_registry_that_does_not_answer_is_an_error_of_the_run(
    registry: Registry, unkind: dict[str, Any], error: type[MinutebookError], code: int
) -> None:
    """And no payload's fault; nothing is kept."""
    version = registry.glue.register(NUMBERS)
    vars(registry.glue).update(unkind)
    with pytest.raises(error) as caught:
        registry.decoded(behind_header(version, b""))
    assert (caught.value.exit_code, registry.kept()) == (code, [])
    assert caught.value.next_step


@pytest.mark.parametrize("damage", [{"SchemaDefinition": ""}, {"SchemaVersionId": str(uuid.UUID(int=1))}])
def test_an_answer_without_a_definition_is_believed_by_nobody(registry: Registry, damage: dict[str, str]) -> None:
    """It is no schema that is absent."""
    version = registry.glue.register(NUMBERS, status="PENDING")
    registry.glue.versions[str(version)] |= damage
    with pytest.raises(RegistryUnavailable, match=r"no definition of schema .*; its status: PENDING"):
        registry.decoded(behind_header(version, b""))


def test_other_bytes_ask_a_hundred_times_and_no_more(registry: Registry) -> None:
    """A stream whose payloads begin so by chance must not stop a night; schemas that were found go on."""
    version = registry.glue.register(NUMBERS)
    good = behind_header(version, written(NUMBERS, {"n": 1}))
    others = [behind_header(uuid.UUID(int=number), b"") for number in range(MOST_ABSENT + 50)]
    made = registry.decoded(good, *others, good)
    assert (made[0], made[-1]) == (b'{"n":1}', b'{"n":1}')
    assert made[1 + MOST_ABSENT :][0] == f"not looked up: {MOST_ABSENT} other schemas are in no registry"
    assert len(registry.glue.asked) == 1 + MOST_ABSENT


def test_a_kept_schema_that_is_damaged_is_an_error(registry: Registry) -> None:
    """Also one that lies at another's key: rows of another schema would look right."""
    one, other = registry.glue.register(NUMBERS), registry.glue.register(WORDS)
    registry.decoded(behind_header(one, b""), behind_header(other, b""))
    folder = registry.folder / "out/_schemas"
    (folder / str(one)).write_bytes((folder / str(other)).read_bytes())
    with pytest.raises(FormatError, match=f"is that of {other}"):
        registry.decoded(behind_header(one, b""))
    (folder / str(one)).write_text("{")
    with pytest.raises(FormatError, match="does not parse"):
        registry.decoded(behind_header(one, b""))


def test_what_another_run_keeps_meanwhile_is_taken(registry: Registry) -> None:
    """It was there first, and is the same schema."""
    version = registry.glue.register(NUMBERS)
    schemas = registry.schemas()
    own, ask = registry.glue.versions[str(version)], schemas._registered

    def ask_late(asked: str) -> RegisteredSchema | None:
        found = ask(asked)
        own["SchemaDefinition"] = json.dumps(NUMBERS, indent=1)
        registry.schemas().find(asked)
        return found

    schemas._registered = ask_late
    found = schemas.find(str(version))
    assert found is not None
    assert found.definition == json.dumps(NUMBERS, indent=1)


def test_a_command_that_only_looks_keeps_nothing(registry: Registry) -> None:
    """`minutebook columns` has no right to write."""
    schemas = registry.schemas(keeps=False)
    assert schemas.find(str(registry.glue.register(NUMBERS))) is not None
    assert registry.kept() == []


def test_sniff_proposes_the_step_and_looks_behind_it(registry: Registry) -> None:
    """JSON within the record is found."""
    version = registry.glue.register(WORDS)
    sample = [behind_header(version, written(WORDS, {"w": '{"a":1}'})) for _ in range(3)]
    sniffed = sniff(sample, registry.schemas())
    assert [step.text for step in sniffed.steps] == ['"glue-registry"', '{json-text = "w"}']
    assert sniffed.reasons[0] == '"glue-registry": 3 of 3 payloads begin with 03 00 or 03 05'


def rows_of(desk: Desk, files: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Read the typed part of a published day."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - as its users

    tables = [pq.read_table(desk.storage.uri(file.key), columns=["n", "_unfit"]) for file in files]
    return [(row["n"], row["_unfit"]) for table in tables for row in table.to_pylist()]


def as_sent(orders: Sequence[Order]) -> list[TaskResult]:
    """Run tasks whose orders came from another process."""
    return in_process([pickle.loads(pickle.dumps(order)) for order in orders])  # noqa: S301 - our own


def test_a_night_keeps_schemas_beside_the_days(tmp_path: Path) -> None:
    """Nothing is published without the registry; with it each schema is asked for once; then not at all."""
    glue = FakeGlue()
    version, absent = glue.register(NUMBERS), uuid.UUID(int=7)

    def payload(number: int) -> bytes:
        return behind_header(absent if number % 5 == 4 else version, written(NUMBERS, {"n": number}))

    desk = Desk(tmp_path, payload_day(DAY, 1, payload))
    columns = mapping({"n": "int64"}, ["glue-registry"])
    (tmp_path / "a.properties").write_text(
        "streamName=s\napplicationName=app\nregionName=us-east-1\nminutebook.bucket=bucket\n"
    )
    glue.denies = True
    with glue.serving() as address:
        settings = load_job_settings(str(tmp_path / "a.properties"), {"MINUTEBOOK_GLUE_ENDPOINT": address})
        with pytest.raises(RegistryRefused):
            desk.compact(columns=columns, schemas=settings.schemas)
        assert desk.publisher().current().pointer is None
        glue.denies = False
        glue.asked.clear()
        done = desk.compact(columns=columns, schemas=settings.schemas, engine=as_sent)
        assert sorted(glue.asked) == sorted(map(str, (version, absent)))
    assert done.manifest is not None
    rows = rows_of(desk, done.manifest.files)
    reason = f"payload (glue-registry): there is no schema {absent}"
    assert sorted(rows, key=str) == sorted(
        ((None, reason) if number % 5 == 4 else (number, None) for number in range(desk.corpus.records)), key=str
    )
    assert [path.name for path in (tmp_path / "out/tables/_schemas").iterdir()] == [str(version)]
    open_schemas.cache_clear()
    assert desk.compact(columns=columns, schemas=settings.schemas).state == "already"
