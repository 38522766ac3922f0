"""Payloads that a producer might write, and those that none should: for columns of every type."""

import random
from collections.abc import Callable, Sequence

COLUMNS = {
    "text": {"type": "string"},
    "truth": {"type": "bool"},
    "small": {"type": "int32"},
    "large": {"type": "int64", "path": "numbers.large"},
    "double": {"type": "float64", "path": "numbers.double"},
    "price": {"type": "decimal(10,2)", "path": "numbers.price"},
    "wide": {"type": "decimal(38,20)", "path": "numbers.wide"},
    "day": {"type": "date"},
    "days": {"type": "date(days)"},
    "time": {"type": "timestamp"},
    "local": {"type": "local_timestamp"},
    "since": {"type": "timestamp(ms)"},
    "fine": {"type": "timestamp(ns)"},
    "code": {"type": "int64 from text"},
    "byte": {"type": "int32 from text"},
    "ratio": {"type": "float64 from text"},
    "names": {"type": "list<string>"},
    "counts": {"type": "list<int64 not null>"},
    "rest": {"type": "json"},
    "inner": {"type": "string", "path": "rest.inner"},
    "after": {"type": "struct<id: int64 not null, price: decimal(10,2), at: timestamp, tags: list<string not null>>"},
    "items": {"type": "list<struct<sku: string, n: int64>>"},
    "grid": {"type": "list<list<int64>>"},
}
"""A mapping of columns, as its file has it."""

NUMBERS = (
    *("0", "-0", "1", "-1", "7", "12.50", "12.5", "0.1", "-0.0", "0.005", "1e5", "1E-3", "1e+2", "1e005", "2013.0"),
    *("2147483647", "2147483648", "-2147483648", "-2147483649", "9007199254740992", "9007199254740993"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"),
    *("0.000001", "0.0000001", "0.00000", "0.0000000", "1e22", "1e23", "1e400", "5e-324", "1.7976931348623157e308"),
    *("123456789012345678901234567890", "99999999.99", "100000000", "99999999.994", "0.30000000000000004"),
    *(
        "00",
        "01",
        "1.",
        ".5",
        "-",
        "+1",
        "1e",
        "1e+",
        "NaN",
        "Infinity",
        "-Infinity",
        "0x10",
        "1_000",
        "1e99999999999",
    ),
    *("2932896", "2932897", "-719162", "-719163", "253402300799999", "253402300800000", "-62135596800001"),
)
STRINGS = (
    *("7", "-1", "007", "12.5", "-0", "-0.0", "1e5", "1.", "+1", " 7", "7 ", "0x10", "1e400", "9223372036854775808"),
    *("9007199254740993", "2147483648", "253402300799999", "-62135596800001", "1" * 80, "0.30000000000000004"),
    *("", "a", "é", "日本", "\U0001f9ff", "\x7f", "x" * 15, "x" * 16, "x" * 17 + "é", "y" * 100, "a/b", "\u2028"),
    *(
        r"\"",
        r"\\",
        r"\/",
        r"\b\f\n\r\t",
        r"\u0041",
        r"\u00e9",
        r"\u20AC",
        r"\ud83d\ude00",
        r"\uD83D",
        r"\ude00\ud83d",
    ),
    *(r"\u0000", r"\x", r"\u12", r"\u12g4", r"\ud83dx", r"\ud83d\u0041", "\n", "\0", "\x1f", "tab\t", r"\u0022:"),
    *("2013-01-01", "2013-02-29", "2012-02-29", "1900-02-29", "2000-02-29", "0000-01-01", "0001-01-01", "9999-12-31"),
    *(
        "2013-13-01",
        "2013-00-10",
        "2013-1-01",
        "2013-01-01 ",
        "20130101",
        "2013-01-32",
        "12013-01-01",
        "\uff12013-01-01",
    ),
    *("2013-01-01T05:00:00Z", "2013-01-01 05:00:00Z", "2013-01-01T05:00:00", "2013-01-01T05:00:00.5Z"),
    *(
        "2013-01-01T05:00:00.123456Z",
        "2013-01-01T05:00:00.1234567Z",
        "2013-01-01T05:00:00.123456789Z",
        "2013-01-01T05:00:00.1234567890Z",
        "2013-01-01T05:00:00.Z",
        "2013-01-01T05:00Z",
    ),
    *("2013-01-01T24:00:00Z", "2013-01-01T23:59:60Z", "2013-01-01T05:60:00Z", "2013-01-01t05:00:00z"),
    *("2013-01-01T05:00:00+05:30", "2013-01-01T05:00:00-0530", "2013-01-01T05:00:00+05", "2013-01-01T05:00:00+24:00"),
    *("0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59.999999-00:01", "9999-12-31T23:59:59.999999Z", "T05:00:00Z"),
    *("12.50", "-12.5", "007.50", "-0", "1e3", "12.", ".5", "+1", "1" * 19, "1" * 20, "0" * 80, "99999999.999"),
)
OTHERS = (
    *("null", "true", "false", "nul", "True", "[]", "{}", "[1]", '["a"]', '["a",null,"b"]', "[1,2,3]", "[null]"),
    *('{"inner":"x"}', '{"inner":"x","inner":"y"}', '{"inner":1}', '{"x":1,"y":{"z":[{"a":1}]}}', '{"x": 1}'),
    *(
        '{"x":1,"y":{"z":1,"z":2}}',
        '[{"a":1,"a":2}]',
        '[{"a":1},{"a":2}]',
        "[1,]",
        "[,1]",
        '{"a"}',
        '{"a":}',
        '{,"a":1}',
    ),
    *('{"a":1,}', "[" * 40 + "]" * 40, '{"n":' * 40 + "1" + "}" * 40, "[" * 120 + "]" * 120, '{"é":"é"}', '{"":""}'),
    *('{"a":0.0000001}', '{"a":1e5}', '{"a":-0}', '{"a":12.50}', '{"a":"\\u0041"}', '{"a":"\x7f"}', '[0.1,"/"]'),
)
KEYS = ("text", "truth", "small", "numbers", "day", "days", "time", "local", "since", "names", "counts", "rest")
KEYS += ("after", "items", "grid")
BLANKS = ("", "", "", "", " ", "\n", "\t ", "\r", "\v", "\xa0")
DAMAGE = (
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b" ",
    b"0",
    b"-",
    b".",
    b"e",
    b"n",
    b"\xc3",
    b"\xff",
    b"\0",
)


def value(rng: random.Random) -> str:
    """Return the text of any value."""
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(NUMBERS)
    if kind == 1:
        return f'"{rng.choice(STRINGS)}"'
    return repr(rng.uniform(-1e6, 1e6)) if kind == 2 else rng.choice(OTHERS)


_FIT: dict[str, Callable[[random.Random], str]] = {
    "text": lambda rng: f'"{rng.choice(STRINGS[:12])}"',
    "truth": lambda rng: rng.choice(("true", "false")),
    "small": lambda rng: str(rng.randrange(-(2**31), 2**31)),
    "numbers": lambda rng: (
        f'{{"large":{rng.randrange(-(2**63), 2**63)},"double":{rng.uniform(-9, 9)!r},'
        f'"price":{rng.randrange(10**8)}.25}}'
    ),
    "day": lambda rng: f'"{rng.randrange(1, 9999):04}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"',
    "days": lambda rng: str(rng.randrange(-719_162, 2_932_897)),
    "time": lambda rng: f'"2013-01-01T{rng.randrange(24):02}:00:59{rng.choice(("", ".5", ".123456"))}Z"',
    "local": lambda rng: f'"{rng.randrange(1, 9999):04}-12-31 23:59:{rng.randrange(60):02}"',
    "since": lambda rng: str(rng.randrange(10**13)),
    "names": lambda rng: rng.choice(('["a","b"]', "[]", '["é"]', "null", '["a",null]')),
    "counts": lambda rng: rng.choice(("[1,2,3]", "[]", "null")),
    "after": lambda rng: rng.choice(
        (
            f'{{"id":{rng.randrange(9)},"price":{rng.randrange(999)}.5,"at":"2013-01-01T00:00:00Z","tags":["a"]}}',
            f'{{"tags":[],"id":{rng.randrange(9)}}}',
            f'{{"id":1,"more":{{"id":2}},"price":{value(rng)}}}',
            f'{{"id":{value(rng)},"tags":["a",{value(rng)}]}}',
            '{"price":1}',
            "null",
        )
    ),
    "items": lambda rng: rng.choice(
        (
            '[{"sku":"a","n":1},{"n":2,"sku":"b"},null,{}]',
            "[]",
            "null",
            f'[{{"sku":{value(rng)}}},{{"n":{value(rng)}}}]',
            f'[{{"sku":"x","n":1}},{value(rng)}]',
        )
    ),
    "grid": lambda rng: rng.choice(("[[1,2],[],null,[3]]", "[]", f"[[{value(rng)}],[1]]")),
    "rest": lambda rng: rng.choice(('{"inner":"x","n":[1,{"a":null}]}', '"x"', "17", "true", '{"inner":null}')),
}


def payload(rng: random.Random, keys: Sequence[str] = KEYS) -> bytes:
    """Return an object as most are, with a value or two that are not, or damaged somewhere."""
    chosen = [key for key in keys if rng.random() < 0.9]
    if rng.random() < 0.1:
        rng.shuffle(chosen)
    if rng.random() < 0.05:
        chosen.append(rng.choice((*keys, "more", r"te\u0078t", "numbers")))
    fields = {key: _FIT[key](rng) if key in _FIT else value(rng) for key in chosen}
    for key in [key for key in fields if rng.random() < 0.04]:
        fields[key] = value(rng)
    if rng.random() < 0.05 and "numbers" in fields:
        fields["numbers"] = (
            "{" + ",".join(f'"{key}":{value(rng)}' for key in ("price", "wide", "double", "large")) + "}"
        )
    is_blank = rng.random() < 0.1

    def blank() -> str:
        return rng.choice(BLANKS[:8]) if is_blank else ""

    pairs = [f'{blank()}"{key}"{blank()}:{blank()}{fields[key]}{blank()}' for key in chosen]
    made = bytearray(f"{blank()}{{{','.join(pairs)}}}{blank()}".encode())
    if rng.random() < 0.1:
        at, piece = rng.randrange(len(made) + 1), rng.choice(DAMAGE)
        made[at : at + rng.choice([0, 1, 2, len(made)])] = rng.choice([b"", piece, piece])
    return bytes(made)
