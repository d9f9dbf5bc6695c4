"""Finds the line that sets what code is compiled again for, as far as the source says it.

A compiler names a variable of the function that is compiled again: an argument, whose value comes
from its callers, or an attribute, an item or a list that some line changes. Files are parsed and
never run. These functions take source text and return a place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_graphbreak.layers.arguments import (
    argument,
    calls_at,
    extended,
    given_out,
    is_library,
    passed_for,
    root_of,
)
from pytest_graphbreak.layers.statements import (
    FUNCTIONS,
    LOOPS,
    Source,
    around,
    counters,
    functions_of,
    line_of,
    loops_around,
    names_in,
    nodes_of,
    parameters_of,
    sets_of,
    slice_of,
    statement_at,
    tree_of,
    word_of,
)
from pytest_graphbreak.model.stacks import Line
from pytest_graphbreak.text.source import parsed

_SETTING: Final = {
    "training": ("train", "eval"),
    "requires_grad": ("requires_grad_",),
    "grad": ("requires_grad_",),
    "_forward_hooks": ("register_forward_hook",),
    "_forward_pre_hooks": ("register_forward_pre_hook",),
    "_backward_hooks": ("register_full_backward_hook", "register_backward_hook"),
    "_backward_pre_hooks": ("register_full_backward_pre_hook",),
}
"""The methods that set an attribute, including those of the objects that theirs holds."""
_CHANGING: Final = frozenset(
    {"append", "extend", "insert", "add", "update", "pop", "remove", "clear", "setdefault"}
)
_SHOWING: Final = frozenset({"print", "log", "debug", "info", "write", "set_postfix"})
"""Functions whose call changes nothing that is computed."""


def origin(subject: str, code: Line, callers: Sequence[Line], source: Source) -> Line | None:
    """Return the line that sets what an expression of the function ``code`` refers to, or None.

    ``callers`` are the user's frames above it, outermost first.
    """
    try:
        found = ast.parse(subject, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    files = [*dict.fromkeys((code.file, *(line.file for line in reversed(callers))))]
    files.sort(key=is_library)
    root = root_of(found)
    if getattr(found, "id", "") == "kwargs" and (line := extended(callers, source)):
        return line
    passed = not isinstance(root, ast.Name) or root.id in parameters_of(code, source)
    line = argument(root, code, callers, source) if passed else None
    if passed and (found is root or (line and getattr(found, "attr", "") == "requires_grad")):
        return line
    for change in (_changed, _replaced, _handed, _named):
        for file in files:
            if change in (_handed, _named) and is_library(file):
                continue
            if line := _nearest(file, change(tree_of(file, source), found), callers, source):
                return line
    return argument(root, code, callers, source)


def setting(names: Sequence[str], callers: Sequence[Line], source: Source) -> Line | None:
    """Return the line nearest to the calls that has one of these names, of options or setters."""
    for file in dict.fromkeys(line.file for line in reversed(callers)):
        named = (
            node
            for node in nodes_of(tree_of(file, source))
            if (isinstance(node, ast.Constant) and node.value in names)
            or (isinstance(node, ast.Attribute) and node.attr in names)
        )
        if found := _nearest(file, named, callers, source):
            return found
    return None


def called(caller: Line, source: Source) -> Line | None:
    """Return the line that sets the function that a line calls, if that is a variable."""
    for node in calls_at(caller, source):
        if isinstance(node.func, ast.Name):
            for scope in (around(caller, source), tree_of(caller.file, source)):
                sets = [one for one in sets_of(scope) if node.func.id in one.names]
                before = [one for one in sets if one.line < caller.line] or sets
                if before:
                    return line_of(caller.file, max(one.line for one in before), source)
    return None


def calling(function: str, near: Line, source: Source) -> Line | None:
    """Return the line near ``near``, in its function, that calls another; None if several do."""
    lines = {
        node.lineno
        for node in ast.walk(around(near, source))
        if isinstance(node, ast.Call)
        and function in (getattr(node.func, "attr", ""), getattr(node.func, "id", ""))
    }
    return line_of(near.file, lines.pop(), source) if len(lines) == 1 else None


def replaced(place: Line, test: Line, source: Source) -> Line | None:
    """Return what took the place of a line that a function had, which is known by its code.

    That is the line that sets the same variable now; if the line still exists, the line that sets
    or defines the function that it calls. If that is a parameter, the ``test`` passes it.
    """
    name = next((part for part in reversed(place.name.split(".")) if "<" not in part), "")
    named = (one for one in ast.walk(tree_of(place.file, source)) if _is_named(one, name))
    lines = [" ".join(line.split()) for line in source(place.file)]
    targets = _targets(place.code or "")
    for scope in named:
        end = getattr(scope, "end_lineno", None) or len(lines)
        for number in range(getattr(scope, "lineno", 1), end + 1):
            if lines[number - 1] == place.code:
                caller = Line(place.file, number, name)
                found = called(caller, source) or handed_over(caller, test, source)
                return found or _defined(caller, source)
        sets = [one.line for one in sets_of(scope) if one.names & targets]
        if sets:
            return line_of(place.file, max(sets), source)
    return None


def repeated(line: Line, test: Line, source: Source) -> Iterator[Line]:
    """Yield what says how often a line runs: the heads of its loops, and what the test passes.

    The latter is the line that sets the argument, else the call.
    """
    for loop in reversed(loops_around(around(line, source), line.line)):
        head = line_of(line.file, loop.lineno, source)
        yield head
        read = names_in(loop.test if isinstance(loop, ast.While) else loop.iter)
        for one in sets_of(tree_of(line.file, source)):
            if one.names & read:
                yield line_of(line.file, one.line, source)
        for name in read.intersection(parameters_of(line, source)):
            if call := calling(line.name.rpartition(".")[2], test, source):
                call = call._replace(name=test.name)
                passed = argument(ast.Name(name), line._replace(line=head.line), [call], source)
                yield passed or call


def step(
    callers: Sequence[Line], source: Source, *, reads: bool, counts: bool = False
) -> Line | None:
    """Return the line that differs at each step of a loop, and on which a line at its end depends.

    ``reads``: the line reads a value, and only what that was made of is looked at. ``counts``: only
    lines that depend on the number of the step are looked for.
    """
    for at, caller in reversed([*enumerate(callers)]):
        scope = around(caller, source)
        names = names_in(statement_at(scope, caller.line)) if reads else None
        found = slice_of(scope, caller.line, names)
        counting = counters(scope)
        varying = [one for one in found if one.varies]
        # What counts the steps, or grows, comes before what only adds up.
        counted = [one.line for one in varying if one.grows or one.reads & counting]
        if not counted and not reads:
            counted = [*_effects(scope, caller.line, counting)]
        if counted:
            return line_of(caller.file, counted[0], source)
        if counts:
            continue
        handed = {name for one in found if one.hands_on for name in one.names}
        if line := given_out(caller, handed, callers[:at], source):
            return line
        if varying:
            return line_of(caller.file, varying[0].line, source)
        reads = False
    return None


def _effects(scope: ast.AST, line: int, counting: frozenset[str]) -> Iterator[int]:
    """Yield the lines of calls, for their effect alone, that depend on the count of a loop."""
    for loop in loops_around(scope, line):
        for node in ast.walk(loop):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                shown = word_of(node.value.func) in _SHOWING
                if node.lineno < line and names_in(node) & counting and not shown:
                    yield node.lineno


def handed_over(caller: Line, test: Line, source: Source) -> Line | None:
    """Return the line of a test that sets the function that a line calls by a parameter's name."""
    names = {getattr(node.func, "id", "") for node in calls_at(caller, source)}
    parameters = parameters_of(caller, source)
    passed = [name for name in parameters if name in names]
    call = calling(caller.name, test, source) if passed else None
    if call is None:
        return None
    call = call._replace(name=test.name)
    value = names_in(passed_for(ast.Name(passed[0]), parameters, call, source))
    lines = [one.line for one in sets_of(around(call, source)) if one.names & value]
    return line_of(call.file, max(lines), source) if lines else call


def _defined(caller: Line, source: Source) -> Line | None:
    """Return the line that defines the function of the file that a line calls."""
    names = {getattr(node.func, "id", "") for node in calls_at(caller, source)}
    nodes = ast.walk(tree_of(caller.file, source))
    lines = (one.lineno for one in nodes if isinstance(one, ast.FunctionDef) and one.name in names)
    return next((line_of(caller.file, line, source) for line in lines), None)


def _is_named(node: ast.AST, name: str) -> bool:
    """Return whether a node is a function of that name, or the module if there is no name."""
    if isinstance(node, ast.Module):
        return not name
    return isinstance(node, FUNCTIONS) and getattr(node, "name", "") == name != ""


def _targets(code: str) -> frozenset[str]:
    """Return the variables that a statement sets."""
    try:
        return frozenset().union(*(one.names for one in sets_of(parsed(code))))
    except (SyntaxError, ValueError):
        return frozenset()


def _nearest(
    file: str, nodes: Iterable[ast.stmt | ast.expr], callers: Sequence[Line], source: Source
) -> Line | None:
    """Return the line of a file, among those of some nodes, that is nearest to the callers."""
    calls = [line.line for line in callers if line.file == file]
    lines = [node.lineno for node in nodes]
    lines.sort(key=lambda line: min((abs(line - call) for call in calls), default=0))
    return line_of(file, lines[0], source) if lines else None


def _changed(tree: ast.Module, subject: ast.expr) -> Iterator[ast.stmt | ast.expr]:
    """Yield what changes an attribute, an item or a list, except what sets it first."""
    setting = _SETTING.get(getattr(subject, "attr", ""), ())
    for node in nodes_of(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if not isinstance(node, ast.AugAssign):  # a bare name may be another variable
                targets = [one for one in targets if not isinstance(one, ast.Name)]
            changes = any(_is_same(target, subject) for target in targets)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            changes = method in setting or (
                method in _CHANGING and _is_same(node.func.value, subject)
            )
        else:
            continue
        if changes and not _first_set(tree, node):
            yield node


def _replaced(tree: ast.Module, subject: ast.expr) -> Iterator[ast.stmt | ast.expr]:
    """Yield what replaces, at each step of a loop, an object that holds the subject."""
    holders = []
    while isinstance(subject, ast.Attribute | ast.Subscript):
        subject = subject.value
        if isinstance(subject, ast.Attribute):
            holders.append(subject.attr)
    loops = (node for node in nodes_of(tree) if isinstance(node, LOOPS))
    for node in {one: None for loop in loops for one in ast.walk(loop)}:
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            replaced = target.value if isinstance(target, ast.Subscript) else target
            if isinstance(replaced, ast.Attribute) and replaced.attr in holders:
                yield node


def _handed(tree: ast.Module, subject: ast.expr) -> Iterator[ast.stmt | ast.expr]:
    """Yield the calls, for their effect alone, that are handed the subject: ``prune(net.fc)``."""
    if not isinstance(subject, ast.Attribute):
        return
    for node in nodes_of(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            given = (*call.args, *(one.value for one in call.keywords))
            if any(isinstance(one, ast.Attribute) and one.attr == subject.attr for one in given):
                yield call


def _named(tree: ast.Module, subject: ast.expr) -> Iterator[ast.stmt | ast.expr]:
    """Yield the keyword arguments with the name of an attribute or an item: ``SGD(lr=0.1)``."""
    name: object = getattr(subject, "attr", None)
    if isinstance(subject, ast.Subscript) and isinstance(subject.slice, ast.Constant):
        name = subject.slice.value
    for node in nodes_of(tree):
        if isinstance(node, ast.keyword) and node.arg == name:
            yield node.value


def _is_same(node: ast.expr, subject: ast.expr) -> bool:
    """Return whether both end in the same name or key."""
    if isinstance(node, ast.Attribute) and isinstance(subject, ast.Attribute):
        return node.attr == subject.attr
    if isinstance(node, ast.Subscript) and isinstance(subject, ast.Subscript):
        key = subject.slice
        return isinstance(key, ast.Constant) and ast.dump(node.slice) == ast.dump(key)
    if isinstance(node, ast.Subscript) and isinstance(subject, ast.Name):
        return _is_same(node.value, subject)
    return isinstance(node, ast.Name) and isinstance(subject, ast.Name) and node.id == subject.id


def _first_set(tree: ast.Module, node: ast.AST) -> bool:
    """Return whether a line is a module's or a constructor's own, which runs once."""
    within = [one for one in functions_of(tree) if any(part is node for part in ast.walk(one))]
    return not within or getattr(within[-1], "name", "") == "__init__"
