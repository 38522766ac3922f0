"""Rename symbols: `python codemods/rename_words.py codemods/NAME.txt`, in a checkout without changes
(with Python 3.12 or later, whose tokens show what f-strings hold).

Each line of the table is one of

    symbol MODULE NAME NEW        a class, function or constant at the top of a module, there and where it is imported
    attribute GLOB NAME NEW       attributes and methods of that name in the files of the glob (`**` included)
    name GLOB NAME NEW            arguments and variables of that name in the files of the glob
    prose GLOB WORD NEW           that word in docstrings and comments of the files of the glob

An attribute may be qualified by the name in front of it (`judgement.groups`); of rows for one file the last one counts.
Names are changed as tokens; in strings and comments where they stand in backticks.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

PACKAGES = ("minutebook", "consumer", "compaction", "demo", "benchmarks", "tests", "docsite", "deploy", "docs")


class Renames:
    """What is renamed in one file: names that stand alone, attributes, and attributes of a module's name."""

    def __init__(self) -> None:
        self.plain = dict[str, str]()
        self.attributes = dict[str, str]()
        self.qualified = dict[tuple[str, str], str]()
        self.arguments = dict[str, str]()
        self.prose = dict[str, str]()
        self.imported = list[tuple[int, int, dict[str, str]]]()
        """The lines of an import, and what is renamed of that module."""

    def origin(self, line: int) -> dict[str, str] | None:
        """Return what is renamed of the module that this line imports from; None: it imports nothing."""
        return next((names for begin, end, names in self.imported if begin <= line <= end), None)

    def __bool__(self) -> bool:
        changed = any(names for _, _, names in self.imported)
        return changed or bool(self.plain or self.attributes or self.qualified or self.arguments or self.prose)


def rename(source: str, names: Renames) -> str:
    """Return a module with its tokens renamed."""
    lines = source.split("\n")
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    depth = 0
    calls: list[bool] = []
    changes: list[tuple[tuple[int, int], tuple[int, int], str]] = []
    words = {**names.attributes, **names.plain, **names.arguments}
    for at, token in enumerate(tokens):
        before = tokens[at - 1].string if at else ""
        after = tokens[at + 1].string if at + 1 < len(tokens) else ""
        if token.type == tokenize.OP:
            if token.string in "([{":
                calls.append(token.string == "(" and (tokens[at - 1].type == tokenize.NAME or before in ")]"))
                depth += 1
            elif token.string in ")]}" and calls:
                calls.pop()
        if token.type == tokenize.NAME:
            new = None
            if before == ".":
                owner = tokens[at - 2].string if at > 1 else ""
                new = names.qualified.get((owner, token.string)) or names.attributes.get(token.string)
            elif before == "def" and token.string in names.attributes and token.start[1] > 4:
                new = names.attributes[token.string]
            elif before == "def" and token.start[1] > 4:
                new = None  # a method, not the function of that name
            elif (origin := names.origin(token.start[0])) is not None:
                new = origin.get(token.string) if before != "as" else None
            elif after == "=" and calls and calls[-1]:  # a keyword argument of a call, or a parameter's default
                new = names.arguments.get(token.string)
            else:
                new = names.plain.get(token.string) or names.arguments.get(token.string)
                if after == ":" and token.string in names.attributes and new is None and token.start[1] == 4:
                    new = names.attributes[token.string]  # a field of a class
            if new is not None:
                changes.append((token.start, token.end, new))
        elif token.type in kinds:
            begin, end = token.start, token.end
            text = "\n".join(lines[begin[0] - 1 : end[0]])
            text = text[begin[1] : len(text) - (len(lines[end[0] - 1]) - end[1])]
            new = re.sub(
                r"`([A-Za-z_][\w]*)((?:\(\))?)`",
                lambda match: f"`{words.get(match[1], match[1])}{match[2]}`",
                text,
            )
            first = next((one.type for one in reversed(tokens[:at]) if one.type != tokenize.NL), tokenize.NEWLINE)
            is_prose = token.type == tokenize.COMMENT or first in {
                tokenize.NEWLINE,
                tokenize.INDENT,
                tokenize.DEDENT,
                tokenize.ENCODING,
                tokenize.COMMENT,
            }
            for word, other in names.prose.items() if is_prose else ():
                new = re.sub(rf"\b{word}\b", other, new)
            quoted = text.strip("\"'")  # a name in quotes: an annotation, or a member of `__all__`
            if quoted in names.plain and len(text) == len(quoted) + 2:
                new = f'"{names.plain[quoted]}"'
            if new != text:
                changes.append((begin, end, new))
    for begin, end, new in reversed(changes):
        head, tail = lines[begin[0] - 1][: begin[1]], lines[end[0] - 1][end[1] :]
        lines[begin[0] - 1 : end[0]] = (head + new + tail).split("\n")
    return "\n".join(lines)


def tracked() -> list[str]:
    """Return all Python files that git knows of."""
    found = subprocess.run(["git", "ls-files", "*.py"], check=True, capture_output=True, text=True).stdout.split("\n")
    return [file for file in found if file and file.split("/")[0] in PACKAGES and not file.startswith("codemods")]


def imports(source: str) -> Iterator[ast.ImportFrom]:
    """Yield what a file imports by name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node


def main(table: str) -> None:
    """Change every file."""
    rows = [line.split("#")[0].split() for line in Path(table).read_text().splitlines()]
    symbols = defaultdict[str, dict[str, str]](dict)
    globs = []
    for row in rows:
        if row and row[0] == "symbol":
            symbols[row[1]][row[2]] = row[3]
        elif row:
            globs.append(row)
    unused = {(module, name) for module, names in symbols.items() for name in names}
    for file in tracked():
        source, names = Path(file).read_text(), Renames()
        module = ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")
        names.plain |= symbols.get(module, {})
        for node in imports(source):
            origin = symbols.get(str(node.module), {})
            names.imported.append((node.lineno, node.end_lineno or node.lineno, origin))
            for alias in node.names:
                if alias.name in origin:
                    unused.discard((str(node.module), alias.name))
                    if alias.asname is None:
                        names.plain[alias.name] = origin[alias.name]
                for old, new in symbols.get(f"{node.module}.{alias.name}", {}).items():
                    names.qualified[alias.asname or alias.name, old] = new
        for kind, pattern, name, new in globs:
            if fnmatch(file, pattern):
                owner, _, leaf = name.rpartition(".")
                if owner:
                    names.qualified[owner, leaf] = new
                else:
                    kinds = {"attribute": names.attributes, "name": names.arguments, "prose": names.prose}
                    kinds[kind][name] = new
        if names:
            changed = rename(source, names)
            if changed != source:
                Path(file).write_text(changed)
    for module, name in sorted(unused):
        print(f"nobody imports {module}.{name}")


if __name__ == "__main__":
    main(sys.argv[1])
