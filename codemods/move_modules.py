"""Move modules: `python codemods/move_modules.py codemods/NAME.txt`, in a checkout without changes.

Each line of the table names a module or a package and where it goes; the longest name wins. Files are moved by git,
tests with the modules that they mirror. Imports are read from the syntax tree; dotted names in strings, comments and
other text files, and paths, are changed where they name a module that is there.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

PACKAGES = ("archive", "minutebook", "consumer", "compaction")
MIRRORS = ("tests/unit", "tests/integration")
LEFT_ALONE = ("codemods/", "CHANGELOG.md", "requirements/", "LICENSE")


class Moves:
    """Where modules and paths go."""

    def __init__(self, table: str, files: Iterable[str]) -> None:
        rows = [line.split("#")[0].split() for line in table.splitlines()]
        self._rows = sorted((row for row in rows if row), key=lambda row: -len(row[0]))
        self.modules = dict[str, str]()
        for file in files:
            path = Path(file)
            if path.suffix == ".py" and path.parts[0] in PACKAGES:
                name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
                self.modules[name] = self._new(name)
        for file in files:
            if file.startswith(MIRRORS) and file.endswith(".py"):
                name, new = (one.removesuffix(".py").removesuffix("/__init__") for one in (file, self.path(file)))
                self.modules[name.replace("/", ".")] = new.replace("/", ".")

    def _new(self, name: str) -> str:
        for old, new in ((row[0], row[1]) for row in self._rows):
            if name == old or name.startswith(f"{old}."):
                return new + name[len(old) :]
        return name

    def module(self, name: str) -> str:
        """Return the new name of a dotted name: its longest part that is a module is changed."""
        head = name
        while head and head not in self.modules:
            head = head.rpartition(".")[0]
        return self.modules[head] + name[len(head) :] if head else name

    def path(self, path: str) -> str:
        """Return where a file or folder goes; tests go with what they mirror."""
        for mirror in MIRRORS:
            if path.startswith(f"{mirror}/"):
                head, _, name = path.rpartition("/")
                inner = head[len(mirror) + 1 :]
                stem, suffix = (name.removesuffix(".py"), ".py") if name.endswith(".py") else (name, "")
                module = ".".join([*inner.split("/"), stem.removeprefix("test_")]) if inner else stem
                if suffix and module in self.modules and stem.startswith("test_"):
                    parent, _, leaf = self.modules[module].rpartition(".")
                    return f"{mirror}/{parent.replace('.', '/')}/test_{leaf}.py"
                return f"{mirror}/{self._folder(inner)}/{name}" if inner else path
        if path.split("/")[0] not in PACKAGES:
            return path
        suffix = ".py" if path.endswith(".py") else ""
        dotted = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        if suffix and dotted in self.modules:
            new = self.modules[dotted].replace(".", "/")
            return f"{new}/__init__.py" if path.endswith("/__init__.py") else f"{new}.py"
        head, _, name = path.rpartition("/")
        return f"{self._folder(head)}/{name}" if head else self._folder(path)

    def _folder(self, folder: str) -> str:
        return self._new(folder.replace("/", ".")).replace(".", "/")

    def known_path(self, path: str) -> str | None:
        """Return where something goes whose path a text names; None: nothing of ours has that path."""
        bare = path.rstrip("/")
        inner = next((bare[len(m) + 1 :] for m in MIRRORS if bare.startswith(f"{m}/")), bare)
        if bare.endswith(".py"):
            ok = Path(bare).is_file()
        else:
            ok = Path(bare).exists() or inner.replace("/", ".") in self.modules
        if not ok:
            return None
        if bare.endswith(".py"):
            return self.path(bare)
        if inner != bare:  # a folder of tests
            return bare[: -len(inner)] + self._folder(inner) + path[len(bare) :]
        dotted = bare.replace("/", ".")
        if Path(bare).is_file():
            return self.path(bare)
        return self.modules.get(dotted, self._new(dotted)).replace(".", "/") + path[len(bare) :]


def change_imports(source: str, moves: Moves) -> str:
    """Return a module with its imports, and the names that they bind, as they are after the moves."""
    tree, lines = ast.parse(source), source.split("\n")
    changes: list[tuple[int, int, list[str]]] = []
    renamed = dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in (*PACKAGES, "tests"):
            groups = dict[str, list[str]]()
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if full in moves.modules:
                    parent, _, name = moves.modules[full].rpartition(".")
                    if name != alias.name and alias.asname is None:
                        renamed[alias.name] = name
                else:
                    parent, name = moves.module(node.module), alias.name
                groups.setdefault(parent, []).append(name + (f" as {alias.asname}" if alias.asname else ""))
            indent = " " * node.col_offset
            tail = lines[node.end_lineno - 1][node.end_col_offset :].rstrip()  # a comment behind it
            first = lines[node.lineno - 1]
            comment = first[first.index("#") :] if "#" in first and node.lineno != node.end_lineno else ""
            tail = tail or (f"  {comment}" if comment else "")
            out = []
            for parent, names in groups.items():
                if node.lineno == node.end_lineno:
                    out.append(f"{indent}from {parent} import {', '.join(names)}{tail}")
                else:
                    out += [
                        f"{indent}from {parent} import ({tail}",
                        *(f"{indent}    {name}," for name in names),
                        f"{indent})",
                    ]
            changes.append((node.lineno, node.end_lineno, out))
        elif isinstance(node, ast.Import):
            names = [
                (alias, moves.module(alias.name))
                for alias in node.names
                if alias.name.split(".")[0] in (*PACKAGES, "tests")
            ]
            if any(alias.name != new for alias, new in names):
                line = lines[node.lineno - 1]
                for alias, new in names:
                    line = re.sub(rf"\b{re.escape(alias.name)}\b", new, line)
                    if alias.asname is None:
                        renamed[alias.name] = new
                changes.append((node.lineno, node.end_lineno, [line]))
    for begin, end, out in sorted(changes, reverse=True):
        lines[begin - 1 : end] = out
    text = "\n".join(lines)
    for old, new in renamed.items():
        text = re.sub(rf"(?<![\w.\"'/]){re.escape(old)}(?=\.)(?!\.py\b)", new, text) if old != new else text
    return text


DOTTED = re.compile(
    rf"(?<![\w./-])(?:tests\.(?:unit|integration)\.)?(?:{'|'.join(PACKAGES)})(?:\.[A-Za-z_][A-Za-z_0-9]*)+"
)
PATH = re.compile(
    rf"(?<![\w.-])(?<![\w-]/)(?:(?:{'|'.join(MIRRORS)})/)?(?:{'|'.join(PACKAGES)})/(?:[\w.-]+/)*(?:[\w-]+(?:\.\w+)?)?"
)


def change_text(text: str, moves: Moves) -> str:
    """Return a text with the dotted names and paths of modules changed."""
    text = DOTTED.sub(lambda match: moves.module(match[0]), text)

    def replace(match: re.Match[str]) -> str:
        found = match[0]
        while found:
            new = moves.known_path(found)
            if new is not None:
                return new + match[0][len(found) :]
            found = found.rpartition("/")[0] if not found.endswith("/") else found[:-1]
            if "/" not in found:
                return match[0]
        return match[0]

    return PATH.sub(replace, text)


def change_python(source: str, moves: Moves) -> str:
    """Return a module's text: imports by the syntax tree, strings and comments as text."""
    source = change_imports(source, moves)
    lines = source.split("\n")
    parts: list[tuple[int, int, int, int]] = []
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in kinds:
            parts.append((*token.start, *token.end))
    for row, column, end_row, end_column in reversed(parts):
        chunk = lines[row - 1 : end_row]
        chunk[-1], tail = chunk[-1][:end_column], chunk[-1][end_column:]
        head, chunk[0] = chunk[0][:column], chunk[0][column:]
        new = change_text("\n".join(chunk), moves)
        lines[row - 1 : end_row] = (head + new + tail).split("\n")
    return "\n".join(lines)


def tracked() -> list[str]:
    """Return all files that git knows of."""
    return subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")[:-1]


def texts(files: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the text files."""
    for file in files:
        if file.startswith(LEFT_ALONE) or Path(file).is_symlink():
            continue
        try:
            yield file, Path(file).read_text()
        except UnicodeDecodeError:
            continue


def main(table: str) -> None:
    """Change every text, then move the files."""
    files = tracked()
    moves = Moves(Path(table).read_text(), files)
    for file, text in list(texts(files)):
        change: Callable[[str, Moves], str] = change_python if file.endswith(".py") else change_text
        new = change(text, moves)
        if new != text:
            Path(file).write_text(new)
    for file in files:
        new = moves.path(file)
        if new != file:
            if Path(new).exists():
                sys.exit(f"{file} and {new} are both there")
            Path(new).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["git", "mv", file, new], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
