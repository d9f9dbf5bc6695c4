"""Reads Python source: a file as it is, and the names that statements bind, read and change.

Nothing here runs anything.
"""

from __future__ import annotations

import ast
import copy
import io
import re
import symtable
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final


class SourceError(ValueError):
    """Raised for a file that is not text in the encoding that it declares."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The text of a file, with newlines as line ends whatever the file uses.

    ``encoding`` is the one that its first lines declare (PEP 263), UTF-8 by default.
    """

    text: str
    encoding: str = "utf-8"
    newline: str = "\n"

    def encoded(self, text: str) -> bytes:
        """Return another text encoded like this file. Raises ``UnicodeEncodeError``."""
        return text.replace("\n", self.newline).encode(self.encoding)


def read(path: Path) -> SourceFile:
    """Read a file. Raises ``OSError`` and ``SourceError``."""
    data = path.read_bytes()
    try:
        head = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # Python accepts all of them
        encoding, _ = tokenize.detect_encoding(io.BytesIO(head).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise SourceError(f"{path}: its text cannot be read: {error}") from None
    counts = {"\r\n": text.count("\r\n")}
    counts |= {one: text.count(one) - counts["\r\n"] for one in ("\n", "\r")}
    newline = max(counts, key=lambda one: (counts[one], one == "\n"))
    return SourceFile(text.replace("\r\n", "\n").replace("\r", "\n"), encoding, newline)


def lines(text: str) -> list[str]:
    """Return the lines as Python numbers them, with their ends, not split at form feeds."""
    return io.StringIO(text).readlines()


Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS: Final = (*FUNCTIONS, ast.ClassDef)
_CALL: Final = re.compile(r"([A-Za-z_][\w.]*)(\(?)")
IMPORTS: Final = (ast.Import, ast.ImportFrom)


def alike(text: Sequence[str], code: str) -> set[int]:
    """Return the numbers of the lines that read like ``code``, whatever their white space."""
    words = code.split()
    return {number for number, line in enumerate(text, 1) if line.split() == words}


def functions(node: ast.AST, wanted: str) -> Iterator[Function]:
    """Yield the functions with a qualified name, as Python writes it."""
    return (one for name, one in named_functions(node) if name == wanted)


def named_functions(node: ast.AST, outer: str = "") -> Iterator[tuple[str, Function]]:
    """Yield all functions, each with its qualified name."""
    for one in ast.iter_child_nodes(node):
        inner = outer
        if isinstance(one, DEFINITIONS):
            own = f"{outer}{one.name}"
            inner = f"{own}." if isinstance(one, ast.ClassDef) else f"{own}.<locals>."
            if isinstance(one, FUNCTIONS):
                yield own, one
        yield from named_functions(one, inner)


def arguments(node: Function) -> set[str]:
    args = node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return {one.arg for one in every if one is not None}


def called(code: str) -> list[str]:
    """Return the dotted names that a line calls, in order. The line may be part of a statement."""
    return [name for name, opened in _CALL.findall(code) if opened]


def bound(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements bind in their own scope."""
    for node in body:
        yield from _bound_by(node)


def _bound_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, DEFINITIONS):
        yield node.name
    elif isinstance(node, IMPORTS):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        if not isinstance(node, ast.GeneratorExp):
            for child in ast.iter_child_nodes(node):
                yield from _bound_by(child)


def targets(target: ast.expr) -> set[str]:
    return {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}


def loads(node: ast.AST) -> set[str]:
    """Return the names that an expression or a plain statement reads, except its local names."""
    own: set[str] = set()
    found: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.comprehension):
            own |= targets(one.target)
        elif isinstance(one, ast.Lambda):
            own |= {arg.arg for arg in ast.walk(one.args) if isinstance(arg, ast.arg)}
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
            found.add(one.id)
    if isinstance(node, ast.AugAssign):
        found |= targets(node.target)
    return found - own


def base(node: ast.AST) -> str | None:
    """Return ``model`` for ``model.encoder.layer[0].eval``."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def touched(node: ast.stmt) -> set[str]:
    """Return the objects that an assignment sets attributes or items of, or that a call gets."""
    found: set[str | None] = set()
    if isinstance(node, ast.Assign):
        found = {base(one) for one in node.targets if not isinstance(one, ast.Name)}
    elif isinstance(node, ast.AugAssign | ast.AnnAssign) and not isinstance(node.target, ast.Name):
        found = {base(node.target)}
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        found = {base(node.value.func), *(base(one) for one in node.value.args)}
    return {name for name in found if name is not None}


def configures(node: ast.stmt) -> bool:
    """Return whether a statement sets a config of torch or an environment variable."""
    return isinstance(node, ast.Assign) and (
        sets_environment(node)
        or any(re.match(r"torch\.[\w.]*(config|backends)\.", ast.unparse(t)) for t in node.targets)
    )


def sets_environment(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        ast.unparse(one).startswith("os.environ[") for one in node.targets
    )


def has_long_strings(node: ast.AST) -> bool:
    """Return whether indenting the text would change its strings."""
    return any(
        isinstance(one, ast.Constant | ast.JoinedStr) and (one.end_lineno or 0) > one.lineno
        for one in ast.walk(node)
    )


def is_alone(text: str) -> bool:
    """Return whether the lines of a statement contain no other statement."""
    try:
        return len(ast.parse(text).body) == 1
    except SyntaxError:
        return False


def tables(table: symtable.SymbolTable) -> Iterator[tuple[tuple[str, int], set[str]]]:
    """Yield for each function and class, by name and line, the outer names that it uses."""
    for child in table.get_children():
        free = {one.get_name() for one in child.get_symbols() if one.is_free()}
        yield (child.get_name(), child.get_lineno()), free | _globals(child)
        yield from tables(child)


def _globals(table: symtable.SymbolTable) -> set[str]:
    found = {one.get_name() for one in table.get_symbols() if one.is_global()}
    return found.union(*(_globals(child) for child in table.get_children()))


def without_compile(value: ast.expr) -> ast.expr:
    """Replace ``torch.compile(X, ...)`` by X; return the same object if there is none."""
    strip = _Strip()
    changed: ast.expr = strip.visit(copy.deepcopy(value))
    return changed if strip.changed else value


class _Strip(ast.NodeTransformer):
    def __init__(self) -> None:
        self.changed = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        inner = node.func
        if isinstance(inner, ast.Call) and _compiles(inner) and not inner.args and node.args:
            self.changed = True  # torch.compile(backend=...)(X)
            return node.args[0]
        if _compiles(node):
            given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "model")]
            if given:
                self.changed = True
                return given[0]
        return node


def assigns_itself(node: ast.stmt, value: ast.expr) -> bool:
    """Return whether an assignment would assign a name to itself."""
    return isinstance(node, ast.Assign) and ast.unparse(value) in map(ast.unparse, node.targets)


def _compiles(node: ast.Call) -> bool:
    return ast.unparse(node.func) in (
        "compile",
        "torch.compile",
        "torch._dynamo.optimize",
        "dynamo.optimize",
    )


def is_dropped(decorator: ast.expr) -> bool:
    """Return whether a decorator compiles, or belongs to pytest."""
    text = ast.unparse(decorator)
    return re.match(r"pytest\.|fixture\b|(torch\.)?compile\b|torch\._dynamo\.opt", text) is not None
