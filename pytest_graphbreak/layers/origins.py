"""The line that sets what code is compiled again for, as far as the source says it.

A compiler names a variable of the function that is compiled again: an argument, whose value comes
from its callers, or an attribute, an item or a list that some line changes. Files are parsed and
never run. Pure: source text in, a place out.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from pytest_graphbreak.model.places import function_name
from pytest_graphbreak.model.stacks import Line

_MODES: Final = ("train", "eval")
_CHANGING: Final = frozenset(
    {"append", "extend", "insert", "add", "update", "pop", "remove", "clear", "setdefault"}
)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_HANDING_ON: Final = ("enumerate", "zip", "iter", "reversed", "list", "tuple")

_METHODS: Final = ("forward", "__call__")

Source = Callable[[str], Sequence[str]]
"""The lines of a file; none where it cannot be read."""


def origin(subject: str, code: Line, callers: Sequence[Line], source: Source) -> Line | None:
    """The line that sets what an expression of the function ``code`` refers to, or None.

    ``callers`` are the user's frames above it, outermost first.
    """
    try:
        found = ast.parse(subject, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    files = dict.fromkeys((code.file, *(line.file for line in reversed(callers))))
    if not (isinstance(found, ast.Name) and found.id in _parameters(code, source)):
        for file in files:
            if line := _nearest(file, _changed(_tree(file, source), found), callers, source):
                return line
    return _argument(_root(found), code, callers, source)


def setting(names: Sequence[str], callers: Sequence[Line], source: Source) -> Line | None:
    """The line nearest to the calls that has one of these names: of an option, or what sets it."""
    for file in dict.fromkeys(line.file for line in reversed(callers)):
        named = (
            node
            for node in _nodes(_tree(file, source))
            if (isinstance(node, ast.Constant) and node.value in names)
            or (isinstance(node, ast.Attribute) and node.attr in names)
        )
        if found := _nearest(file, named, callers, source):
            return found
    return None


def called(caller: Line, source: Source) -> Line | None:
    """The line that sets the function that a line calls, where that is a variable."""
    for node in _calls(caller, source):
        if isinstance(node.func, ast.Name):
            for scope in (_around(caller, source), _tree(caller.file, source)):
                sets = [one for one in _sets(scope) if node.func.id in one.names]
                before = [one for one in sets if one.line < caller.line] or sets
                if before:
                    return _line(caller.file, max(one.line for one in before), source)
    return None


def calling(function: str, near: Line, source: Source) -> Line | None:
    """The line of a function, ``near`` in it, that calls another one; None if several do."""
    lines = {
        node.lineno
        for node in ast.walk(_around(near, source))
        if isinstance(node, ast.Call)
        and function in (getattr(node.func, "attr", ""), getattr(node.func, "id", ""))
    }
    return _line(near.file, lines.pop(), source) if len(lines) == 1 else None


def uncompiled(function: str, test: Line, source: Source) -> Line | None:
    """The line of a test by which a function or a method of a class goes on to be called.

    That is the last one that only gives it another name, as ``run = model`` does, else the last
    that sets what is made of it.
    """
    parts = [part for part in function.split(".") if part != "<locals>"]
    known = {parts[-2] if len(parts) > 1 and parts[-1] in _METHODS else parts[-1]}
    made = []
    for one in sorted(_sets(_around(test, source)), key=lambda one: one.line):
        if one.reads & known:
            known |= one.names
            made.append(one)
    chosen = [one for one in made if one.hands_on] or made
    return _line(test.file, chosen[-1].line, source) if chosen else None


def step(callers: Sequence[Line], source: Source, *, reads: bool) -> Line | None:
    """The line that differs from step to step of a loop, which a line at its end has computed.

    ``reads``: the line reads a value, and only what that was made of is looked at.
    """
    for caller in reversed(callers):
        scope = _around(caller, source)
        names = _names(_statement(scope, caller.line)) if reads else None
        for one in _slice(scope, caller.line, names):
            if one.varies:
                return _line(caller.file, one.line, source)
        reads = False
    return None


@lru_cache(16)
def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _tree(file: str, source: Source) -> ast.Module:
    return _parsed("".join(source(file)))


@lru_cache(16)
def _nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a file. Each recompile asks for them, and files of a library are long."""
    return tuple(ast.walk(tree))


@lru_cache(16)
def _functions(tree: ast.Module) -> tuple[_Function, ...]:
    return tuple(node for node in _nodes(tree) if isinstance(node, _FUNCTIONS))


def _around(line: Line, source: Source) -> ast.AST:
    """The innermost function of that name around a line, else the whole file."""
    tree = _tree(line.file, source)
    name = function_name(line.name)
    found = [
        node
        for node in _functions(tree)
        if getattr(node, "name", "<lambda>") == name
        and min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])
        <= line.line
        <= (node.end_lineno or node.lineno)
    ]
    return max(found, key=lambda node: node.lineno, default=tree)


def _parameters(line: Line, source: Source) -> list[str]:
    """The parameters of a function, without ``self``; those by keyword only come last."""
    function = _around(line, source)
    if not isinstance(function, _FUNCTIONS):
        return []
    given = function.args
    names = [item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return names[1:] if names[:1] == ["self"] else names


def _root(subject: ast.expr) -> ast.expr:
    """The argument in an expression: ``x``, ``args[0]``, ``kwargs['x']``."""
    while isinstance(subject, ast.Attribute | ast.Subscript):
        inner = subject.value
        if isinstance(inner, ast.Name) and inner.id in ("args", "kwargs"):
            break
        subject = inner
    return subject


def _nearest(
    file: str, nodes: Iterable[ast.stmt | ast.expr], callers: Sequence[Line], source: Source
) -> Line | None:
    """The line of a file, of those of some nodes, that is nearest to the callers."""
    calls = [line.line for line in callers if line.file == file]
    lines = [node.lineno for node in nodes]
    lines.sort(key=lambda line: min((abs(line - call) for call in calls), default=0))
    return _line(file, lines[0], source) if lines else None


def _changed(tree: ast.Module, subject: ast.expr) -> Iterator[ast.stmt | ast.expr]:
    """What changes an attribute, an item or a list, except what sets it first."""
    mode = isinstance(subject, ast.Attribute) and subject.attr == "training"
    for node in _nodes(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if not isinstance(node, ast.AugAssign):  # a name alone may be another variable
                targets = [one for one in targets if not isinstance(one, ast.Name)]
            changes = any(_is_same(target, subject) for target in targets)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            changes = (mode and method in _MODES) or (
                method in _CHANGING and _is_same(node.func.value, subject)
            )
        else:
            continue
        if changes and not _first_set(tree, node):
            yield node


def _is_same(node: ast.expr, subject: ast.expr) -> bool:
    """Whether both end in the same name or key."""
    if isinstance(node, ast.Attribute) and isinstance(subject, ast.Attribute):
        return node.attr == subject.attr
    if isinstance(node, ast.Subscript) and isinstance(subject, ast.Subscript):
        key = subject.slice
        return isinstance(key, ast.Constant) and ast.dump(node.slice) == ast.dump(key)
    if isinstance(node, ast.Subscript) and isinstance(subject, ast.Name):
        return _is_same(node.value, subject)
    return isinstance(node, ast.Name) and isinstance(subject, ast.Name) and node.id == subject.id


def _first_set(tree: ast.Module, node: ast.AST) -> bool:
    """Whether it is a module's or a constructor's own line, which runs once."""
    within = [one for one in _functions(tree) if any(part is node for part in ast.walk(one))]
    return not within or getattr(within[-1], "name", "") == "__init__"


def _argument(
    subject: ast.expr, code: Line, callers: Sequence[Line], source: Source
) -> Line | None:
    """The line that sets an argument, in the nearest caller that does not just hand it on."""
    for caller in reversed(callers):
        value = _passed(subject, _parameters(code, source), caller, source)
        if value is None:
            return None
        found = _slice(_around(caller, source), caller.line, _names(value))
        own = [one for one in found if one.varies]
        if isinstance(_root(value), ast.Name):
            own = own or [one for one in found if not one.hands_on] or found
        if own:
            return _line(caller.file, own[0].line, source)
        if not isinstance(value, ast.Name):
            return None
        subject, code = value, caller
    return None


def _passed(
    subject: ast.expr, parameters: Sequence[str], caller: Line, source: Source
) -> ast.expr | None:
    """What a line passes for a parameter, ``args[0]`` or ``kwargs['x']``.

    Nothing where the line calls a function twice: which call it was is not known.
    """
    key: object = subject.id if isinstance(subject, ast.Name) else None
    if isinstance(subject, ast.Subscript) and isinstance(subject.slice, ast.Constant):
        key = subject.slice.value
    index = parameters.index(key) if key in parameters else key
    calls = list(_calls(caller, source))
    functions = Counter(ast.dump(node.func) for node in calls)
    for node in calls:
        named = [keyword.value for keyword in node.keywords if keyword.arg == key]
        if type(index) is int and index < len(node.args):
            named.append(node.args[index])
        if named:
            return named[0] if functions[ast.dump(node.func)] == 1 else None
    return None


def _calls(caller: Line, source: Source) -> Iterator[ast.Call]:
    """The calls of a line, the outermost first."""
    for node in ast.walk(_around(caller, source)):
        if isinstance(node, ast.Call) and node.lineno <= caller.line <= (node.end_lineno or 0):
            yield node


# Which statements of a function a value is made of.


class _Set(NamedTuple):
    """A statement that sets names, or the head of a loop.

    ``varies``: it computes something with what differs from step to step of a loop.
    ``hands_on``: it only takes something out of what another line made.
    """

    line: int
    end: int
    names: frozenset[str]
    reads: frozenset[str]
    hands_on: bool
    varies: bool = False


def _slice(scope: ast.AST, line: int, names: frozenset[str] | None) -> list[_Set]:
    """The statements that names are set by when a line runs, the latest first.

    Those of the step before come last. Without names, all of the loops around the line.
    """
    loops = [
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in ast.walk(scope)
        if isinstance(node, _LOOPS) and node.lineno < line <= (node.end_lineno or node.lineno)
    ]
    sets = sorted(_sets(scope), key=lambda one: -one.line)
    before = [one for one in sets if one.end < line]
    after = [one for one in sets if one.end >= line and any(one.line in loop for loop in loops)]
    if names is None:
        before = [one for one in before if any(one.line in loop for loop in loops)]
    found: list[_Set] = []
    wanted = set(names or ())
    for one in (*before, *after):
        if names is None or one.names & wanted:
            grows = bool(one.names & one.reads) and not any(
                one.names & other.names and other.line < one.line and other.line in loop
                for other in sets
                for loop in loops
            )
            in_loop = any(one.line in loop for loop in loops)
            found.append(one._replace(varies=one.varies or (grows and in_loop)))
            wanted |= one.reads
    return found


def _sets(scope: ast.AST) -> list[_Set]:
    """The statements of a function or a module, without those of functions within."""
    found: list[_Set] = []
    counted: set[str] = set()
    todo = [*ast.iter_child_nodes(scope)]
    while todo:
        node = todo.pop()
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            continue
        todo += ast.iter_child_nodes(node)
        pair = _pair(node)
        if pair is None:
            continue
        targets, value = pair
        names = frozenset[str]().union(*(_names(target, ast.Store) for target in targets))
        if isinstance(node, (*_LOOPS, ast.AugAssign)):
            counted |= names
        line = getattr(node, "lineno", value.lineno)
        end = value.end_lineno or line
        found.append(_Set(line, end, names, _names(value), _hands_on(value)))
    return [one._replace(varies=bool(one.reads & counted) and not one.hands_on) for one in found]


def _pair(node: ast.AST) -> tuple[list[ast.expr], ast.expr] | None:
    """What a statement sets, and to what."""
    match node:
        case ast.Assign(targets=targets, value=value):
            return targets, value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return [target], value
        case ast.AugAssign(target=target, op=op, value=value):
            return [target], ast.copy_location(ast.BinOp(target, op, value), value)
        case ast.NamedExpr(target=target, value=value):
            return [target], value
        case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
            return [target], value
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            return [target], value
    return None


def _names(node: ast.AST | None, kind: type[ast.expr_context] = ast.expr_context) -> frozenset[str]:
    """The variables in an expression, all or those that it sets."""
    found = ast.walk(node) if node is not None else ()
    return frozenset(
        one.id for one in found if isinstance(one, ast.Name) and isinstance(one.ctx, kind)
    )


def _hands_on(value: ast.expr) -> bool:
    """Whether a value is one that another line made, or a part of it."""
    match value:
        case ast.Name():
            return True
        case ast.Attribute(value=inner) | ast.Subscript(value=inner, slice=ast.Constant()):
            return _hands_on(inner)
        case ast.Starred(value=inner):
            return _hands_on(inner)
        case ast.Tuple(elts=parts):
            return all(map(_hands_on, parts))
        case ast.Call(func=ast.Name(id=name), args=parts) if name in _HANDING_ON:
            return all(map(_hands_on, parts))
    return False


def _statement(scope: ast.AST, line: int) -> ast.stmt | None:
    """The innermost statement at a line."""
    found = [
        node
        for node in ast.walk(scope)
        if isinstance(node, ast.stmt)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        and not isinstance(node, (*_FUNCTIONS, ast.ClassDef))
    ]
    return max(found, key=lambda node: (node.lineno, -(node.end_lineno or 0)), default=None)


def _line(file: str, number: int, source: Source) -> Line:
    return Line(file, number, "", source(file)[number - 1].strip())
