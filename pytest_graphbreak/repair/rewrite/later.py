"""Rewrites statements that only write output as calls that Dynamo makes after the graph.

``print("loss", loss.item())`` becomes ``_graphbreak_later_1(loss)``, a function of the file that
does the same with the tensors as they are then. Dynamo defers calls with tensors and constants
only, so the tensor is passed, not a value computed from it. This also covers an ``if`` that only
writes, and a call like ``losses.append(loss.item())`` on an object of the module that no other
statement of a function reads.
"""

from __future__ import annotations

import ast
import textwrap
import zlib
from collections.abc import Iterable
from typing import Final

from msgspec import structs

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.pure import LEVELS, METHODS, computes
from pytest_graphbreak.repair.rewrite.conditions import draws, draws_in_python
from pytest_graphbreak.repair.rewrite.passed import Reads, reads, written_to
from pytest_graphbreak.repair.rewrite.scope import (
    Surroundings,
    UnfitError,
    bound,
    changed,
    changes_attribute,
    read,
    statements,
    values,
    walk,
)
from pytest_graphbreak.repair.rewrite.writes import NOTES
from pytest_graphbreak.repair.source import FUNCTIONS, functions

STATEMENTS: Final = (ast.Expr, ast.Assign, ast.AugAssign)


def to_later(node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the call that replaces what a statement writes, followed by the rest of the statement.

    Raises ``UnfitError``.
    """
    writes, rest = _split(node, place)
    name, given = _given(writes, place)
    holder = [f"id({given.holder})"] if given.holder else []
    passed = [*holder, *_as_now(given, writes, place)]
    return [f"{name}({', '.join(passed)})", *(ast.unparse(rest).splitlines() if rest else ())]


def to_later_block(node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the call that replaces an ``if`` in which a line is written. Raises ``UnfitError``."""
    _whole(node, place)
    return to_later(node, place)


def to_note(node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the call that notes what a statement writes, followed by the rest of the statement.

    The call copies tensors itself. Raises ``UnfitError``.
    """
    writes, rest = _split(node, place, alone=True)
    name, given = _given(writes, place)
    holder = [f"id({given.holder})"] if given.holder else []
    passed = ", ".join([*holder, *_as_is(given, _numbers(given, writes, place))])
    call = f"_graphbreak_note({name!r}, [{passed}])"
    return [call, *(ast.unparse(rest).splitlines() if rest else ())]


def to_note_block(node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the call that notes what an ``if`` around a line writes. Raises ``UnfitError``."""
    _whole(node, place)
    return to_note(node, place)


def _whole(node: ast.stmt, place: Surroundings) -> None:
    """Raise ``UnfitError`` if an ``if`` does more than write, or is the ``elif`` of another."""
    if "".join(place.text[node.lineno - 1 : node.lineno]).lstrip().startswith("elif"):
        raise UnfitError("it is a part of another `if`")
    if _split(node, place)[1] is not None:
        raise UnfitError("it does more than write")


def definition(
    source: str, where: Frame, *, block: bool = False, alone: bool = False
) -> tuple[str, str] | None:
    """Return the name and source of the function for what the statement at a place writes.

    With ``block``, it is for the ``if`` around it. With ``alone``, no other statement may write to
    its object. Returns None if there is no such statement.
    """
    kinds = (ast.If,) if block else (*STATEMENTS, ast.If)
    fits = statements(source, where, kinds, around=block)
    if not fits:
        return None
    try:
        if block:
            _whole(*fits[0])
        writes, _ = _split(*fits[0], alone=alone)
        name, given = _given(writes, fits[0][1])
        _as_now(given, writes, fits[0][1])
    except UnfitError:
        return None
    inside = _Renamed(given).visit(ast.parse(ast.unparse(writes)))
    numbers = [given.values[one] for one in _numbers(given, writes, fits[0][1])]
    lines = [f"{one} = {one}.item() if {one}_is_number else {one}" for one in numbers]
    parameters = ["holder"] if given.holder else []
    for one in given.values.values():
        parameters += [one, *([f"{one}_is_number"] * (one in numbers))]
    body = textwrap.indent("\n".join([*lines, ast.unparse(inside)]), "    ")
    return name, f"@torch.compiler.disable\ndef {name}({', '.join(parameters)}):\n{body}"


def _split(
    node: ast.stmt, place: Surroundings, *, alone: bool = False
) -> tuple[ast.stmt, ast.stmt | None]:
    """Split a statement into the part that only writes and the rest. Raises ``UnfitError``."""
    module, local = ast.parse("".join(place.text)), set(place.before)
    if not isinstance(node, ast.If):
        if not _writes(node, local, module, several=not alone):
            raise UnfitError("it does more than write")
        return node, None

    def only_writes(one: ast.stmt) -> bool:
        return _writes(one, local, module) or _prepares(one, place)

    sides = [
        [[one for one in side if only_writes(one) is kind] for kind in (True, False)]
        for side in (node.body, node.orelse)
    ]
    (first, others), (second, more) = sides
    if not first or (node.orelse and second and not others and more):
        raise UnfitError("it does more than write")
    writes = ast.If(node.test, first, second)
    if not any(_writes(one, local, module) for one in (*first, *second)):
        raise UnfitError("it does more than write")
    if set(bound([*first, *second])) & read([*others, *more]):
        raise UnfitError("what it writes is used beside it")
    if set(bound([*others, *more])) & read([*first, *second]):
        raise UnfitError("what it writes is set beside it")
    rest = ast.If(node.test, others or [ast.Pass()], more) if others or more else None
    return writes, rest


def _writes(node: ast.stmt, local: set[str], module: ast.Module, *, several: bool = False) -> bool:
    """Return whether a statement only writes: output, or to an object that nothing else reads.

    Only code of functions counts as a reader. With ``several``, other statements of functions may
    write to it as well; those of one function have to be moved with this one (``together``).
    """
    if isinstance(node, ast.If):
        return all(_writes(one, local, module) for one in (*node.body, *node.orelse))
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and ast.unparse(call.func) in ("print", "warnings.warn"):
        return True
    if _logs(node):
        return True
    name = _object(node)
    made = [one for one in module.body if isinstance(one, ast.Assign | ast.AnnAssign)]
    if name not in bound(made) or name in local or (call is None and not _notes(node, module)):
        return False
    inside = {
        part for one in ast.walk(module) if isinstance(one, FUNCTIONS) for part in ast.walk(one)
    }
    uses, own = _uses(inside, name), _uses(ast.walk(node), name)
    written = (one for one in inside if _object(one) == name and _notes(one, module))
    return uses == own or (several and uses == sum(_uses(ast.walk(x), name) for x in written))


def _uses(nodes: Iterable[ast.AST], name: str) -> int:
    return sum(isinstance(one, ast.Name) and one.id == name for one in nodes)


def _notes(node: ast.AST, module: ast.Module) -> bool:
    """Return whether a statement notes or shows something; ``optimizer.step()`` does more.

    ``sums["loss"] += x`` of a dictionary or a list notes, too.
    """
    made = [value for name, value in values(module.body) if name == _object(node)]
    if isinstance(node, ast.Assign | ast.AugAssign):
        return bool(made) and all(map(_holds_items, made))
    call = node.value if isinstance(node, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    if not isinstance(function, ast.Attribute):
        return False
    ours = {one.name for one in module.body if isinstance(one, ast.ClassDef)}
    makers = {ast.unparse(one.func) for one in made if isinstance(one, ast.Call)}
    return function.attr in _SHOWS or bool(makers & ours)


def _holds_items(made: ast.expr | None) -> bool:
    """Return whether an expression makes a dictionary or a list."""
    if isinstance(made, ast.Call):
        return ast.unparse(made.func).rpartition(".")[2] in _MAKERS
    return isinstance(made, ast.Dict | ast.List | ast.DictComp | ast.ListComp) or (
        isinstance(made, ast.BinOp) and isinstance(made.left, ast.List)  # [0] * n
    )


_MAKERS: Final = frozenset({"dict", "list", "defaultdict", "Counter", "OrderedDict"})
_SHOWS: Final = (
    NOTES
    | {"add", "add_scalar", "appendleft", "insert", "log", "update"}
    | {*("set_description", "set_postfix", "write", "writelines", "writerow", "writerows")}
)
"""Methods that note or show what they are given."""


def _object(node: ast.AST) -> str:
    """Return ``stats`` of ``stats["loss"].append(1)`` or ``stats["loss"] += 1``, or ""."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        changed: ast.expr = node.value.func
    elif isinstance(target := written_to(node), ast.Subscript):
        changed = target
    else:
        return ""
    root = changed
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    return root.id if isinstance(root, ast.Name) and root is not changed else ""


def together(source: str, where: Frame) -> list[Frame]:
    """Return the place and those in its function that write to the same object of the module.

    Their order has to stay: none if the function calls another one that writes to it, too.
    """
    module = ast.parse(source)
    made = bound([one for one in module.body if isinstance(one, ast.Assign | ast.AnnAssign)])
    for node, place in statements(source, where, STATEMENTS):
        if (name := _object(node)) in made and name not in place.before:
            inside = [part for one in functions(module, where.function) for part in walk(one.body)]
            others = [one for one in inside if isinstance(one, STATEMENTS) and _object(one) == name]
            if _called_writers(module, inside, name):
                return []
            codes = [place.text[one.lineno - 1].strip() for one in others]
            if len(codes) > 1 and not _logs(node):
                return [structs.replace(where, code=one) for one in dict.fromkeys(codes)]
    return [where]


def _called_writers(module: ast.Module, inside: list[ast.AST], name: str) -> bool:
    """Return whether nodes call a function of the file that writes to an object of the module."""
    calls = [one.func for one in inside if isinstance(one, ast.Call)]
    called = {ast.unparse(one).rpartition(".")[2] for one in calls}
    return any(
        isinstance(one, FUNCTIONS)
        and one.name in called
        and any(_object(part) == name for part in walk(one.body))
        for one in ast.walk(module)
    )


def _logs(node: ast.stmt) -> bool:
    """Return whether a statement calls a method of a logger, which keeps nothing."""
    call = node.value if isinstance(node, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in LEVELS


def _prepares(node: ast.stmt, place: Surroundings) -> bool:
    """Return whether a statement computes a value for what is written beside it, and no more."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    target = node.targets[0]
    known = {*place.before, *place.after}
    return isinstance(target, ast.Name) and target.id not in known and computes(node.value)


def _given(node: ast.stmt, place: Surroundings) -> tuple[str, Reads]:
    """Return the name of the function, and what it is given."""
    if call := draws([node]) or draws_in_python([node]):
        raise UnfitError(f"`{call}` draws random numbers, which would have another order then")
    text = ast.unparse(node)
    return f"_graphbreak_later_{zlib.crc32(text.encode()) % 10_000}", reads(node, place)


def _as_now(given: Reads, node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the arguments, copies of tensors where they may change before the graph has run.

    Raises ``UnfitError`` for a tensor of the module, which is not an argument.
    """
    numbers = _numbers(given, node, place)
    if not changes(place):
        return _as_is(given, numbers)
    writers = {one.value for one in ast.walk(node) if isinstance(one, ast.Expr)}
    module = bound(ast.parse("".join(place.text)).body)
    used = {
        ast.unparse(one.func.value)
        for one in ast.walk(node)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)
        if one.func.attr in METHODS and one not in writers
    }
    if held := used.intersection(module) - set(given.values):
        raise UnfitError(f"{min(held)} may be changed in place before the graph has run")
    return [
        f"*_graphbreak_given({one}, True)"
        if one in numbers
        else f"{one}.clone()"
        if one in used
        else one
        if isinstance(place.before.get(one), ast.Constant) and one not in place.given
        else f"{one}.clone() if isinstance({one}, torch.Tensor) else {one}"
        for one in given.values
    ]


def _as_is(given: Reads, numbers: list[str]) -> list[str]:
    """Return the arguments; those that may be numbers are passed as tensors."""
    return [f"*_graphbreak_given({one})" if one in numbers else one for one in given.values]


def _numbers(given: Reads, node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the arguments that may be numbers which vary, or are read from tensors.

    What the statement reads an attribute of is a tensor.
    """
    tensors = {ast.unparse(one.value) for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    return [
        one
        for one in given.values
        if one in given.calls
        or (one not in tensors and _may_be_number(place.before.get(one, None)))
    ]


def _may_be_number(value: ast.expr | None) -> bool:
    """Return whether a value may be a number that is not the same in each call."""
    if not isinstance(value, ast.Call):
        return not isinstance(value, ast.Constant | ast.JoinedStr | ast.Compare)
    function = value.func
    name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
    return name in _GIVE_NUMBERS


_GIVE_NUMBERS: Final = frozenset(
    {"item", "size", "numel", "dim", "len", "int", "float", "round", "min", "max", "abs", "sum"}
)
"""Functions that may give a number of Python; other calls give tensors, or what stays the same."""


def changes(place: Surroundings) -> bool:
    """Return whether a function of the file, or a module it makes, may change a tensor in place."""
    module = ast.parse("".join(place.text))
    if any(isinstance(one, ast.keyword) and one.arg == "inplace" for one in ast.walk(module)):
        return True
    for function in ast.walk(module):
        if not isinstance(function, FUNCTIONS) or function.name == "__init__":
            continue
        known = dict(values(function.body))
        numbers = {name for name, one in known.items() if isinstance(one, ast.Constant)}
        if set(changed(function.body)) - numbers or any(
            changes_attribute(one) or (isinstance(one, ast.keyword) and one.arg == "out")
            for one in walk(function.body)
        ):
            return True
    return False


class _Renamed(ast.NodeTransformer):
    """Replaces what is passed by its parameter, and the object of a logger by the one passed."""

    def __init__(self, given: Reads) -> None:
        self._given = given

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr):
            text = ast.unparse(node)
            if (name := self._given.values.get(text)) is not None:
                return ast.Name(name, ast.Load())
            if text == self._given.holder:
                return ast.parse("_graphbreak_held(holder)", mode="eval").body
        found: ast.AST = super().visit(node)
        return found
