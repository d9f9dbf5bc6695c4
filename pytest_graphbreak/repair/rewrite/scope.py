"""Analyses statements in their function: what they bind and change, what is read after them."""

from __future__ import annotations

import ast
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.patch import UnfitError as UnfitError
from pytest_graphbreak.repair.source import DEFINITIONS, Function, alike, functions, lines

_SCOPES: Final = (*DEFINITIONS, ast.Lambda)
_KINDS: Final = ("empty", "full", "ones", "rand", "randn", "zeros")
MAKES: Final = frozenset(
    {"clone", "eye", *_KINDS, *(f"{one}_like" for one in _KINDS), *(f"new_{one}" for one in _KINDS)}
)
"""Functions whose result is a tensor that nothing else holds."""
_LOOPS: Final = (ast.For, ast.While, ast.AsyncFor)


_SIDES: Final = (*_LOOPS, ast.If, ast.Try, ast.ExceptHandler, ast.match_case)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The names that a function uses around a statement.

    ``before`` maps the names that are bound before it to their last value (None if it is unknown),
    ``after`` holds the names that are read after it, and ``changed`` those that are changed in
    place after it. ``given`` are the arguments that were not set again, and ``several`` the names
    that are set more than once, so that their last value may be another one. A branch inside it
    that reads one of ``tensors`` has to become an op as well.
    ``earlier`` are the nodes of the function that may run before it.
    ``then`` is the ``return`` or the ``raise`` that follows it directly, and ``loop`` rewrites a
    loop inside it that one of ``tensors`` ends. ``trained`` says that gradients go through it, and
    ``later`` are the statements behind it; those up to the line ``end`` run if it has run.
    """

    text: Sequence[str]
    before: dict[str, ast.expr | None] = field(default_factory=dict)
    after: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()
    several: frozenset[str] = frozenset()
    earlier: Sequence[ast.AST] = ()
    tensors: frozenset[str] = frozenset()
    then: ast.Return | ast.Raise | None = None
    loop: Callable[[ast.stmt, Surroundings], list[str]] | None = None
    trained: bool = False
    later: Sequence[ast.stmt] = ()
    end: int = sys.maxsize

    def source(self, node: ast.stmt) -> list[str]:
        """Return the lines of a statement as they are written, without their indentation."""
        if not hasattr(node, "lineno"):
            return ast.unparse(node).splitlines()
        own = self.text[node.lineno - 1 : node.end_lineno]
        indent = own[0][: node.col_offset]
        joined = "".join(line.removeprefix(indent) for line in own)
        try:
            same = ast.unparse(ast.parse(joined)) == ast.unparse(node)
        except SyntaxError:
            same = False
        return (joined if same else ast.unparse(node)).splitlines()


def walk(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield all nodes except those inside nested functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from walk(list(ast.iter_child_nodes(node)))


def bound(nodes: Sequence[ast.AST]) -> list[str]:
    """Return the names that statements bind or change in place, in order."""
    stored = (
        node.id
        for node in walk(nodes)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    inner = {
        name.id
        for node in walk(nodes)
        if isinstance(node, ast.comprehension)
        for name in ast.walk(node.target)
        if isinstance(name, ast.Name)
    }
    return [name for name in dict.fromkeys((*stored, *changed(nodes))) if name not in inner]


def changed(nodes: Sequence[ast.AST]) -> list[str]:
    """Return the names of tensors changed in place: ``x += 1``, ``x[0] = 1``, ``x.add_(1)``."""
    targets = (_changed(node) for node in walk(nodes))
    return list(dict.fromkeys(one.id for one in targets if isinstance(one, ast.Name)))


def changes_attribute(node: ast.AST) -> bool:
    """Return whether a node changes in place what an object holds: ``self.x[0] = 1``.

    A tensor that is made there, ``torch.zeros(3).add_(1)``, is held by nothing else.
    """
    target = _changed(node)
    if isinstance(target, ast.Call) and getattr(target.func, "attr", "") in MAKES:
        return False
    return target is not None and not isinstance(target, ast.Name)


def _changed(node: ast.AST) -> ast.AST | None:
    """Return what a node changes in place, without its index."""
    target: ast.AST | None = None
    if isinstance(node, ast.AugAssign):
        target = node.target
    elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        target = node
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        if name.endswith("_") and not name.endswith("__"):
            target = node.func.value
    while isinstance(target, ast.Subscript):
        target = target.value
    return target


def read(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names that are read, also in nested functions."""
    return {
        node.id
        for one in nodes
        for node in ast.walk(one)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    } | set(changed(nodes))


def values(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that statements bind, each with its value if that is one expression."""
    for node in walk(nodes):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _pairs(target, node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.value
        elif isinstance(node, ast.For):
            yield from _pairs(node.target, None)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield from _pairs(node.optional_vars, None)


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List):
        same = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
        for number, one in enumerate(target.elts):
            each = value.elts[number] if same and isinstance(value, ast.Tuple) else None
            yield from _pairs(one, each)


def _place(function: Function, node: ast.stmt, text: Sequence[str]) -> Surroundings:
    first, last = node.lineno, node.end_lineno or node.lineno
    inside = set(ast.walk(node))
    outside = [one for one in ast.walk(function) if one not in inside and one is not function]
    loops = [one.lineno for one in outside if isinstance(one, _LOOPS) and node in ast.walk(one)]
    later = min(loops, default=last + 1)
    inner = {part for one in outside if isinstance(one, _SCOPES) for part in ast.walk(one)}
    uses = (ast.Name, ast.AugAssign, ast.Subscript, ast.Call)
    after = [
        one for one in outside if isinstance(one, uses) and (one.lineno >= later or one in inner)
    ]
    before = _parameters(function.args)
    given = set(before)
    for one in outside:
        if isinstance(one, ast.stmt | ast.withitem) and getattr(one, "lineno", 0) < first:
            before |= dict(values([one]))
            given -= dict(values([one])).keys()
    names = [one for one in after if isinstance(one, ast.Name)]
    earlier = [one for one in outside if loops or _line(one) < first]
    return Surroundings(
        text,
        before,
        after=frozenset(read(names)),
        changed=frozenset(changed(after)),
        given=frozenset(given),
        several=_several(function, earlier),
        earlier=earlier,
        then=_end_after(node, function),
        later=[one for one in outside if isinstance(one, ast.stmt) and one.lineno > last],
        end=_block_end(node, outside),
    )


def _several(function: Function, nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Return the names that nodes, and the arguments of a function, set more than once."""
    names = (one for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    stores = Counter([*_parameters(function.args), *(one.id for one in names)])
    return frozenset(name for name, count in stores.items() if count > 1)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _end_after(node: ast.stmt, function: Function) -> ast.Return | ast.Raise | None:
    """Return the ``return`` of a value, or ``raise``, that follows a statement in its block."""
    for one in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(one, name, None)
            if isinstance(block, list) and node in block[:-1]:
                following = block[block.index(node) + 1]
                if isinstance(following, ast.Raise) or (
                    isinstance(following, ast.Return) and following.value is not None
                ):
                    return following
                return None
    return None


def _block_end(node: ast.stmt, outside: Sequence[ast.AST]) -> int:
    """Return the last line of the innermost side of a branch, or body of a loop, around a node."""
    blocks = [
        getattr(one, name, [])
        for one in outside
        if isinstance(one, _SIDES)
        for name in ("body", "orelse", "finalbody")
    ]
    around = (block for block in blocks if any(node in ast.walk(one) for one in block))
    return min((block[-1].end_lineno for block in around), default=sys.maxsize)


def _parameters(given: ast.arguments) -> dict[str, ast.expr | None]:
    """Return the parameters of a function with their defaults."""
    named = [*given.posonlyargs, *given.args]
    found: dict[str, ast.expr | None] = {
        one.arg: None for one in ast.walk(given) if isinstance(one, ast.arg)
    }
    defaults = [*zip(reversed(named), reversed(given.defaults), strict=False)]
    defaults += zip(
        given.kwonlyargs, (one or ast.Constant(...) for one in given.kw_defaults), strict=True
    )
    return found | {arg.arg: value for arg, value in defaults}


def statements(
    source: str, where: Frame, kinds: tuple[type[ast.stmt], ...], *, around: bool = False
) -> list[tuple[ast.stmt, Surroundings]]:
    """Return statements of these kinds in a function whose first lines read like ``where.code``.

    With ``around``, statements that contain such a line count too, but only the innermost. Raises
    ``SyntaxError``.
    """
    text = lines(source)
    hits = alike(text, where.code)
    found: list[tuple[ast.stmt, Surroundings]] = []
    for function in functions(ast.parse(source), where.function):
        fits = [
            node
            for node in walk(function.body)
            if isinstance(node, kinds) and hits & set(_lines(node, around))
        ]
        inner = [
            node
            for node in fits
            if not any(one in fits for one in walk(list(ast.iter_child_nodes(node))))
        ]
        found += [(node, _place(function, node, text)) for node in inner]
    return found


def loops_around(source: str, where: Frame) -> list[tuple[ast.stmt, Surroundings]]:
    """Return the innermost loops around a place; none of a source that does not parse."""
    try:
        return statements(source, where, (ast.While, ast.For), around=True)
    except SyntaxError:
        return []


def _lines(node: ast.stmt, around: bool) -> range:
    body: list[ast.stmt] = getattr(node, "body", [])
    end = node.end_lineno or node.lineno
    if body and not around:
        end = max(node.lineno, body[0].lineno - 1)
    return range(node.lineno, end + 1)


def replace(source: str, made: Sequence[tuple[ast.stmt, Surroundings, Sequence[str]]]) -> str:
    """Return the source with other lines in place of statements. Raises ``UnfitError``.

    If the new lines end with a ``return``, they replace the one that follows the statement as well.
    Without new lines the statement is gone.
    """
    text = lines(source)
    for node, place, new in sorted(made, key=lambda one: -one[0].lineno):
        ends = bool(new) and new[-1].startswith("return ")
        then = place.then if place.then is not None and ends else node
        indent = text[node.lineno - 1][: node.col_offset]
        if indent.strip():
            raise UnfitError("the statement does not begin its line")
        body = textwrap.indent("".join(f"{line}\n" for line in new), indent)
        text[node.lineno - 1 : then.end_lineno] = [body]
    return "".join(text)
