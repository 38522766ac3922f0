"""Changes of a database in an order that a stream may have, and what replaying them into a dict gives."""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

POSITION = ["sequence_number", "sub_sequence_number", "event_index"]
Change = dict[str, Any]


class History(NamedTuple):
    """Changes in any order, the key's columns, and the rows that are left behind them."""

    changes: pa.Table
    latest_by: str
    rows: list[Change]


def of_debezium(seed: int) -> History:
    """Return inserts, updates, deletes and re-creations; keys, marks and values that do not fit."""
    rng = random.Random(seed)
    schema = pa.schema(
        [
            *((name, pa.string() if name == "sequence_number" else pa.int64()) for name in POSITION),
            *((name, pa.string()) for name in ("tenant", "order", "op", "price", "_unfit")),
        ]
    )
    changes = [
        {
            **place,
            "tenant": rng.choice(["a", "b", None]),
            "order": rng.choice(["1", "2", "3", None]),
            "op": rng.choice(["c", "u", "d", None]),
            "price": str(number),
            "_unfit": rng.choice([None, "price: wrong"]),
        }
        for number, place in enumerate(numbered(rng, 80))
    ]
    rng.shuffle(changes)
    rows = replayed(changes, ["tenant", "order"], [], ("op", "d"))
    return History(pa.Table.from_pylist(changes, schema=schema), "tenant, order", rows)


def of_dynamodb(seed: int) -> History:
    """Return records out of order: several within a millisecond, and times that do not fit."""
    rng = random.Random(seed)
    images = pa.struct([("id", pa.string())])
    schema = pa.schema(
        [
            *((name, pa.string() if name == "sequence_number" else pa.int64()) for name in POSITION),
            ("eventName", pa.string()),
            ("dynamodb", pa.struct([("Keys", images), ("ApproximateCreationDateTime", pa.int64())])),
        ]
    )
    changes: list[Change] = [
        {
            **place,
            "eventName": rng.choice(["INSERT", "MODIFY", "REMOVE"]),
            "dynamodb": rng.choice(
                [
                    None,
                    {"Keys": None, "ApproximateCreationDateTime": 1},
                    *(
                        {
                            "Keys": {"id": rng.choice("abc")},
                            "ApproximateCreationDateTime": rng.choice([None, 1, 2, 3]),
                        }
                        for _ in range(6)
                    ),
                ]
            ),
        }
        for place in numbered(rng, 60)
    ]
    rng.shuffle(changes)
    order = ["dynamodb.ApproximateCreationDateTime"]
    rows = replayed(changes, ["dynamodb.Keys.id"], order, ("eventName", "REMOVE"))
    return History(pa.Table.from_pylist(changes, schema=schema), "dynamodb.keys.ID", rows)


def position(change: Change) -> tuple[int, int, int]:
    """Return where a change lies in its shard, as numbers."""
    return int(change["sequence_number"]), change["sub_sequence_number"], change["event_index"] or 0


def replayed(
    changes: Sequence[Change], key: Sequence[str], order: Sequence[str], delete: tuple[str, str]
) -> list[Change]:
    """Replay changes into a dict: the straightforward way."""
    rows: dict[tuple[Any, ...], Change] = {}

    def moment(change: Change) -> tuple[Any, ...]:
        times = [value(change, each) for each in order]
        return (*((time is not None, time if time is not None else 0) for time in times), position(change))

    for change in sorted(changes, key=moment):
        at = tuple(value(change, each) for each in key)
        if None not in at:
            rows[at] = change
    return [row for row in rows.values() if value(row, delete[0]) != delete[1]]


def value(change: Change, path: str) -> Any:  # noqa: ANN401 - any column
    """Return the value at a path of names."""
    found: Any = change
    for name in path.split("."):
        found = None if found is None else found[name]
    return found


def numbered(rng: random.Random, count: int) -> list[Change]:
    """Return positions: sequence numbers of several lengths, records of an aggregate, events of a record."""
    numbers = sorted(
        rng.sample([*range(90, 130), *(10**55 + at for at in range(40)), 10**56 - 1, 10**56], count // 4)
    )
    places = [(number, sub, index) for number in numbers for sub in (0, 1) for index in (None, 1)]
    places += [(10**57 + at, 0, None) for at in range(count - len(places))]
    return [dict(zip(POSITION, (str(number), sub, index), strict=True)) for number, sub, index in places]


def by_position(rows: Sequence[Change]) -> list[Change]:
    """Return rows in a fixed order."""
    return sorted(rows, key=position)
