"""How the package is named and cut: the bindings, functions and modules of its source.

``python -m tests.words [ROOM]`` lists what is to be named, and what is too long; ``python -m
tests.words --lower`` lowers the limits in ``words.json`` to what is now, and raises none.
"""

from __future__ import annotations

import ast
import json
import sys
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


LONGEST_FUNCTION: Final = 35
LONGEST_MODULE: Final = 400
"""Lines that a function and a module may have."""


LIMITS: Final = ROOT / "tests" / "words.json"
"""What ``test_words.py`` holds: the shares, and the lines of what is longer than it may be."""


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


def long_functions() -> dict[str, int]:
    """Return the functions over the limit, and their lines."""
    return {name: n for name, n in sorted(functions()) if n > LONGEST_FUNCTION}


def long_modules() -> dict[str, int]:
    """Return the modules over the limit, and their lines."""
    return {name: n for name, n in lengths().items() if n > LONGEST_MODULE}


class Limits(NamedTuple):
    """Shares in per cent; functions and modules over their limit, with their lines."""

    pronouns: float
    vague: float
    functions: dict[str, int]
    modules: dict[str, int]


def limits() -> Limits:
    return Limits(**json.loads(LIMITS.read_text(encoding="utf-8")))


def now() -> Limits:
    """Return what the limits would be that hold for the package as it is."""
    pronouns, _ = share(PRONOUNS, bindings())
    vague, _ = share(VAGUE, bindings())
    return Limits(round(pronouns, 1), round(vague, 1), long_functions(), long_modules())


def lower() -> None:
    """Write limits that are lower where the package is better than they say."""
    before, after = limits(), now()
    lowered = Limits(
        min(before.pronouns, after.pronouns),
        min(before.vague, after.vague),
        _shorter(before.functions, after.functions),
        _shorter(before.modules, after.modules),
    )
    LIMITS.write_text(json.dumps(lowered._asdict(), indent=2) + "\n", encoding="utf-8")


def _shorter(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {place: min(n, after[place]) for place, n in before.items() if place in after}


def main(room: str = "") -> None:
    names = [binding for binding in bindings() if binding.place.startswith(room)]
    share_of_pronouns, among = share(PRONOUNS, names)
    print(*(f"{binding.place} {binding.name}" for binding in among), sep="\n")
    print(f"{len(among)} of {len(names)} bindings: {share_of_pronouns:.1f}%")
    for long in (long_functions(), long_modules()):
        print(*(f"{place}: {lines}" for place, lines in long.items()), sep="\n")


if __name__ == "__main__":
    lower() if sys.argv[1:] == ["--lower"] else main(*sys.argv[1:])
