"""The line that sets what a failed guard is about, as far as the source says it.

A guard names a variable of the function that is compiled again: an argument, whose value comes from
its callers, or an attribute, an item or a list that some line changes. Files are parsed and never
run. Pure: source text in, a place out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from pytest_graphbreak.model.places import function_name
from pytest_graphbreak.model.stacks import Line

_SUBJECT: Final = re.compile(
    r"tensor '(?P<tensor>[^']{1,200}(?:'[^']{1,80}'\][^']{0,80})*)' \w+ mismatch"
    r"|(?:not )?hasattr\((?P<holder>.{1,200}), '(?P<attribute>\w{1,100})'\)"
    r"|len\((?P<list>.{1,200}?)\) =="
    r"|(?:\d+ <= )?(?P<size>[\w.\[\]']{1,200})\.size\(\)\["
    r"|not (?P<empty>[\w.\[\]']{1,200})$"
    r"|(?P<value>[A-Za-z_][\w.\[\]']{0,200}) =="
)
_MODES: Final = ("train", "eval")
_CHANGING: Final = frozenset(
    {"append", "extend", "insert", "add", "update", "pop", "remove", "clear", "setdefault"}
)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

Source = Callable[[str], Sequence[str]]
"""The lines of a file; none where it cannot be read."""


def origin(guard: str, code: Line, callers: Sequence[Line], source: Source) -> Line | None:
    """The line that sets what a guard of the function ``code`` is about, or None.

    ``callers`` are the user's frames above it, outermost first.
    """
    subject = _subject(guard)
    if subject is None:
        return None
    files = dict.fromkeys((code.file, *(line.file for line in reversed(callers))))
    if not (isinstance(subject, ast.Name) and subject.id in _parameters(code, source)):
        for file in files:
            if found := _changed(file, subject, callers, source):
                return found
    return _argument(_root(subject), code, callers, source)


def _subject(guard: str) -> ast.expr | None:
    """What a guard is about, as an expression."""
    found = _SUBJECT.match(guard)
    if found is None:
        return None
    text = next(part for name, part in found.groupdict().items() if part and name != "attribute")
    if found["attribute"]:
        text = f"{text}.{found['attribute']}"
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None


@lru_cache(16)
def _tree(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _around(line: Line, source: Source) -> ast.AST:
    """The innermost function of that name around a line, else the whole file."""
    tree = _tree("".join(source(line.file)))
    name = function_name(line.name)
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, _FUNCTIONS)
        and getattr(node, "name", "<lambda>") == name
        and min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])
        <= line.line
        <= (node.end_lineno or node.lineno)
    ]
    return max(found, key=lambda node: node.lineno, default=tree)


def _parameters(line: Line, source: Source) -> list[str]:
    """The positional parameters of a function, without ``self``."""
    function = _around(line, source)
    if not isinstance(function, _FUNCTIONS):
        return []
    names = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    return names[1:] if names[:1] == ["self"] else names


def _root(subject: ast.expr) -> ast.expr:
    """The argument in an expression: ``x``, ``args[0]``, ``kwargs['x']``."""
    while isinstance(subject, ast.Attribute | ast.Subscript):
        inner = subject.value
        if isinstance(inner, ast.Name) and inner.id in ("args", "kwargs"):
            break
        subject = inner
    return subject


def _changed(file: str, subject: ast.expr, callers: Sequence[Line], source: Source) -> Line | None:
    """The line of a file that changes an attribute, an item or a list, nearest to the callers."""
    tree = _tree("".join(source(file)))
    found = [node for node in _changes(tree, subject) if not _first_set(tree, node)]
    calls = [line.line for line in callers if line.file == file]
    found.sort(key=lambda node: min((abs(node.lineno - line) for line in calls), default=0))
    return _line(file, found[0].lineno, source) if found else None


def _changes(tree: ast.AST, subject: ast.expr) -> Iterator[ast.stmt | ast.Call]:
    mode = isinstance(subject, ast.Attribute) and subject.attr == "training"
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if not isinstance(node, ast.AugAssign):  # a name alone may be another variable
                targets = [one for one in targets if not isinstance(one, ast.Name)]
            if any(_is_same(target, subject) for target in targets):
                yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            if (mode and method in _MODES) or (
                method in _CHANGING and _is_same(node.func.value, subject)
            ):
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


def _first_set(tree: ast.AST, node: ast.AST) -> bool:
    """Whether it is a module's or a constructor's own line, which runs once."""
    within = [
        one
        for one in ast.walk(tree)
        if isinstance(one, _FUNCTIONS) and any(part is node for part in ast.walk(one))
    ]
    return not within or getattr(within[-1], "name", "") == "__init__"


def _argument(
    subject: ast.expr, code: Line, callers: Sequence[Line], source: Source
) -> Line | None:
    """The line that sets an argument, in the nearest caller that does not just hand it on."""
    for caller in reversed(callers):
        value = _passed(subject, _parameters(code, source), caller, source)
        if not isinstance(value, ast.Name):
            return None
        if found := _assigned(value.id, caller, source):
            return found
        subject, code = value, caller
    return None


def _passed(
    subject: ast.expr, parameters: Sequence[str], caller: Line, source: Source
) -> ast.expr | None:
    """What a line passes for a parameter, ``args[0]`` or ``kwargs['x']``."""
    key: object = subject.id if isinstance(subject, ast.Name) else None
    if isinstance(subject, ast.Subscript) and isinstance(subject.slice, ast.Constant):
        key = subject.slice.value
    index = parameters.index(key) if key in parameters else key
    for node in ast.walk(_around(caller, source)):
        if isinstance(node, ast.Call) and node.lineno <= caller.line <= (node.end_lineno or 0):
            for keyword in node.keywords:
                if keyword.arg == key:
                    return keyword.value
            if type(index) is int and index < len(node.args):
                return node.args[index]
    return None


def _assigned(name: str, caller: Line, source: Source) -> Line | None:
    """The last line before a call that assigns a name in its function."""
    lines = [
        node.lineno
        for node in ast.walk(_around(caller, source))
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
        and node.id == name
        and node.lineno <= caller.line
    ]
    return _line(caller.file, max(lines), source) if lines else None


def _line(file: str, number: int, source: Source) -> Line:
    return Line(file, number, "", source(file)[number - 1].strip())
