"""How the package is named and cut: the bindings, functions and modules of its source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.rooms import PACKAGE, ROOT

PRONOUNS: Final = frozenset(
    [
        "one",
        "found",
        "known",
        "given",
        "made",
        "rest",
        "own",
        "more",
        "kept",
        "held",
        "left",
        "passed",
        "said",
        "other",
        "whole",
        "each",
        "wanted",
        "plain",
        "around",
        "named",
        "inside",
    ]
)
"""Words that a reader cannot search for, and that say nothing of what they stand for."""

VAGUE: Final = frozenset(["item", "thing", "value", "result", "data", "obj"])
"""Words that are right in a few places, and are the next pronouns where they are many."""


class Binding(NamedTuple):
    """A name that a variable, an argument, an exception or a pattern gets."""

    name: str
    place: str


class Function(NamedTuple):
    """A function of the package and its length in lines."""

    place: str
    lines: int


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax trees of all modules, by their paths in the package."""
    package = ROOT / PACKAGE
    return {
        path.relative_to(package).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(package.rglob("*.py"))
    }


def bindings() -> Iterator[Binding]:
    """Yield every binding of the package, as often as it is made."""
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if name := _bound(node):
                yield Binding(name.strip("_"), f"{module}:{getattr(node, 'lineno', 0)}")


def _bound(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return name
        case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
            return name
    return None


def functions() -> Iterator[Function]:
    """Yield every function and method, with its signature and its docstring counted."""
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                yield Function(f"{module}:{node.name}", node.end_lineno - node.lineno + 1)


def lengths() -> dict[str, int]:
    """Return the lines of each module, blank ones and comments among them."""
    package: Path = ROOT / PACKAGE
    return {module: len((package / module).read_text("utf-8").splitlines()) for module in trees()}


def share(words: Iterable[str], names: Iterable[Binding]) -> tuple[float, list[Binding]]:
    """Return the per cent of bindings that have one of these names, and which they are."""
    every = list(names)
    among = [binding for binding in every if binding.name in words]
    return 100 * len(among) / len(every), among
