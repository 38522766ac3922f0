"""Records of several events, and of none: JSON texts one after another, and a list within a batch."""

from typing import Any, Final

from benchmarks.shapes.sent import Event, Sent, Shape, as_json, body, cents, drawn, moment, several, unread, word

_DOCUMENTS: Final = """
decode = ["bom", "documents"]
[columns.id]
type = "string"
required = true
[columns.n]
type = "int64"
[columns.amount]
type = "decimal(18,2)"
[columns.at]
type = "timestamp"
[columns.tags]
type = "list<string>"
"""
_BATCHES: Final = """
decode = [{each = "batch.records"}]
[columns.id]
path = "batch.records.id"
type = "string"
[columns.kind]
path = "batch.kind"
type = "string"
[columns.n]
path = "batch.records.n"
type = "int64 from text"
[columns.who]
path = "batch.records.who"
type = "struct<id: int64, name: string, tier: string>"
[columns.items]
path = "batch.records.items"
type = "list<struct<sku: string, price: decimal(14,2), quantity: int32>>"
"""
_BETWEEN: Final = ("", "\n", " ", "\r\n\t ")
_Values = dict[str, Any]


def _document(seed: int) -> tuple[_Values, _Values]:
    """Return an event as it is sent, and its row."""
    source = drawn(seed)
    row: _Values = {
        "id": f"d-{seed}",
        "n": source.randrange(-(1 << 63), 1 << 63),
        "amount": cents(source, 18),
        "at": moment(source),
        "tags": [word(source) for _ in range(source.randrange(3))],
    }
    return row | {"at": row["at"].isoformat(sep=" ")}, row


def _send_documents(number: int, _: int) -> Sent:
    made = [_document(number * 10 + each) for each in range(number % 5)]
    texts, rows = [as_json(sent) for sent, _ in made], [Event(row) for _, row in made]
    between, at = _BETWEEN[number % len(_BETWEEN)], number % 11
    if at == 1:
        broken = between.join([*texts, '{"id":']).encode()
        where = len(broken.decode())
        why = f"document {len(texts) + 1} is not JSON: Expecting value: "
        line, column = broken.decode().count("\n") + 1, where - (broken.decode().rfind("\n"))
        return unread(broken, f" (documents): {why}line {line} column {column} (char {where})")
    if at == 2:  # noqa: PLR2004 - of the events some do not fit
        texts += ["7", '{"n":1}', '{"id":"x","n":1.5}']
        rows += [
            Event({}, "payload: a number, not an object"),
            Event({"n": 1}, "id: missing or null, and required"),
            Event({"id": "x"}, "n: 1.5 is not int64"),
        ]
        between = "\n"
    if at == 3:  # noqa: PLR2004
        texts, rows = [], []
    if not rows:  # no event: a row of its own, in which a required value is missing
        rows = []
        payload = between.encode()
        return Sent(payload, [Event({}, "id: missing or null, and required")])
    bom = "\ufeff" if number % 2 else ""
    return several((bom + between.join(texts) + between).encode(), rows)


def _record(seed: int) -> tuple[_Values, _Values]:
    """Return an element of a batch as it is sent, and its row."""
    source = drawn(seed)
    row: _Values = {
        "id": f"b-{seed}",
        "n": source.randrange(-(1 << 63), 1 << 63),
        "who": {"id": source.randrange(1 << 63), "name": word(source), "tier": source.choice([None, "gold"])},
        "items": [
            {"sku": word(source), "price": abs(cents(source, 14)), "quantity": source.randrange(1 << 31)}
            for _ in range(source.randrange(3))
        ],
    }
    return row | {"n": str(row["n"]) if seed % 2 else row["n"]}, row


def _send_batches(number: int, _: int) -> Sent:
    kind, at = f"batch-{number % 3}", number % 9
    made = [_record(number * 10 + each) for each in range(number % 4)]
    records: list[object] = [sent for sent, _ in made]
    rows = [Event({"kind": kind} | row) for _, row in made]
    if at == 1:
        return unread(body({"batch": {"kind": kind}}), " (each): there is no list at batch.records")
    if at == 2:  # noqa: PLR2004 - of the elements some do not fit
        records += [{"id": "x", "n": "12x"}, {"id": 7}, None, {"who": {"id": True, "name": "n"}}]
        rows += [
            Event({"kind": kind, "id": "x"}, 'n: "12x" is not int64 from text'),
            Event({"kind": kind}, "id: 7 is not string"),
            Event({"kind": kind}),
            Event(
                {"kind": kind, "who": {"id": None, "name": "n", "tier": None}},
                "who.id: true is not int64",
            ),
        ]
    return several(body({"version": 1, "batch": {"kind": kind, "records": records}, "end": True}), rows)


DOCUMENTS: Final = Shape("documents one after another", _DOCUMENTS, _send_documents)
BATCHES: Final = Shape("lists within a batch", _BATCHES, _send_batches)
