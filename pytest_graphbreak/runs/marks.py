"""What the marks in Python source say of the gate, read from its text. Nothing is imported or run.

A mark is a call of ``graph_budget`` or ``max_graphs``, as a marker or as a
block, wherever it is: its scope is the class or the function around it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any, Final

NAMES: Final = ("graph_budget", "max_graphs")
WORD: Final = re.compile("graph_budget|max_graphs")
LARGEST: Final = 2 * 2**20
"""Characters of a source file that is read."""
LONGEST: Final = 200
_UNKNOWN: Final = object()
"""The value of an argument that only a run of the code would show."""


@dataclass(frozen=True, slots=True)
class MarkCall:
    """One call: ``scope`` is ``""`` for the module, else ``TestA::test_b``."""

    scope: str
    name: str
    line: int
    text: str
    arguments: tuple[tuple[str, Any], ...]

    def ungates(self) -> bool:
        """Whether it takes tests out of the gate, or may."""
        return self._may_be_off("gate")

    def unisolates(self) -> bool:
        """Whether it leaves the compiler's caches alone, or may."""
        return self._may_be_off("isolate")

    def _may_be_off(self, name: str) -> bool:
        known = dict(self.arguments)
        return self.name == "graph_budget" and ("**" in known or known.get(name, True) is not True)

    def allows_more(self, before: MarkCall) -> bool:
        """Whether a cap allows more than one did, or may."""
        now = dict(self.arguments)
        return any(
            not (_is_count(now.get(key)) and now[key] <= most)
            for key, most in before.arguments
            if _is_count(most)
        )


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a file, in order, and every scope that it has, also without a mark."""

    found: tuple[MarkCall, ...] = ()
    scopes: frozenset[str] = frozenset({""})


def read(source: str) -> Marks:
    """All marks of a file; none in what is no Python."""
    if len(source) > LARGEST or not WORD.search(source):
        return Marks()
    try:
        return _read(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Marks()


def _read(tree: ast.AST) -> Marks:
    found: list[MarkCall] = []
    scopes = {""}
    left: list[tuple[ast.AST, str]] = [(tree, "")]
    while left:
        node, scope = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            scope = f"{scope}::{node.name}" if scope else node.name
            scopes.add(scope)
        elif isinstance(node, ast.Call) and (name := _called(node)) in NAMES:
            found.append(MarkCall(scope, name, node.lineno, _text(name, node), _arguments(node)))
        left += [(child, scope) for child in reversed(list(ast.iter_child_nodes(node)))]
    return Marks(tuple(found), frozenset(scopes))


def _called(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _text(name: str, call: ast.Call) -> str:
    words = ast.unparse(ast.Call(ast.Name(name, ast.Load()), call.args, call.keywords))
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 3]}..."


def _arguments(call: ast.Call) -> tuple[tuple[str, Any], ...]:
    """Names and values; positions are named by their numbers, ``**`` is unknown."""
    named = [(str(number), node) for number, node in enumerate(call.args)]
    named += [(keyword.arg or "**", keyword.value) for keyword in call.keywords]
    return tuple((name, _value(node)) for name, node in named)


def _value(node: ast.expr) -> Any:
    return node.value if isinstance(node, ast.Constant) else _UNKNOWN


def _is_count(value: Any) -> bool:
    return type(value) is int
