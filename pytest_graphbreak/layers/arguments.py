"""Follows the argument of a compiled function back to the line that made it what it is.

Files are parsed and never run. These functions take source text and return a place.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pytest_graphbreak.layers.statements import (
    Set,
    Source,
    around,
    counters,
    functions_of,
    line_of,
    loops_around,
    names_in,
    pair_of,
    parameters_of,
    slice_of,
    statement_at,
    tree_of,
    word_of,
)
from pytest_graphbreak.model.stacks import Line


def argument(subject: ast.expr, code: Line, callers: Sequence[Line], source: Source) -> Line | None:
    """Return the line that sets an argument, in the nearest caller that does not just pass it on.

    In the test's loop, a line that counts with the steps is preferred to one that only continues
    from an earlier value. Where a library passes on what nobody can follow, everything that the
    nearest line of the project passes is looked at.
    """
    for at, caller in reversed([*enumerate(callers)]):
        value = passed_for(subject, parameters_of(code, source), caller, source)
        if value is None:
            through = is_library(caller.file) and getattr(root_of(subject), "id", "") != "self"
            return _passed_through(callers[: at + 1], source) if through else None
        found = slice_of(around(caller, source), caller.line, names_in(value))
        if _calls_parts(caller, source):
            found = [one for one in found if not one.line <= caller.line <= one.end]
        own = [one for one in found if one.varies]
        if not own and (line := _from_parameters(value, found, callers[: at + 1], source)):
            return line
        if isinstance(root_of(value), ast.Name):
            own = own or [one for one in found if not one.hands_on] or found
        if own:
            counts = own[0].reads & counters(around(caller, source))
            line = None if counts else _counted(callers[:at], source)
            if line is None and not own[0].varies:
                line = given_out(caller, {*names_in(value)}, callers[:at], source)
            return line or line_of(caller.file, own[0].line, source)
        if not isinstance(value, ast.Name):
            return _produced(value, caller, source)
        subject, code = value, caller
    return None


def _calls_parts(caller: Line, source: Source) -> bool:
    """Return whether a line calls what its loop runs over: each layer, with what the last gave."""
    scope = around(caller, source)
    parts = {
        name
        for loop in loops_around(scope, caller.line)
        if isinstance(loop, ast.For)
        for name in names_in(loop.target)
    }
    return any(word_of(call.func) in parts for call in calls_at(caller, source))


def _from_parameters(
    value: ast.expr, found: Sequence[Set], callers: Sequence[Line], source: Source
) -> Line | None:
    """Return the line that sets an argument of the nearest caller, of which a value was made."""
    *outer, caller = callers
    read = names_in(value).union(*(one.reads for one in found))
    parameters = [name for name in parameters_of(caller, source) if name in read]
    if not outer or not found:
        return None
    lines = (argument(ast.Name(name), caller, outer, source) for name in parameters)
    line = next((line for line in lines if line), None)
    return line and (_counted(outer, source) or line)


def feeding(line: Line, files: Sequence[str], source: Source) -> Iterator[Line]:
    """Yield the lines further away that made what a line sets, in functions of the project.

    These are what a function returns that the line calls, and, for each parameter that it reads,
    the line that sets what the only call of its function passes.
    """
    scope = around(line, source)
    statement = statement_at(scope, line.line)
    head = getattr(statement, "iter", statement)
    for node in ast.walk(head) if head is not None else ():
        if isinstance(node, ast.Call):
            yield from _returned(word_of(node.func), files, source)
    reads = names_in(head).intersection(parameters := parameters_of(line, source))
    calls = [
        (file, node)
        for file in files
        for node in ast.walk(tree_of(file, source))
        if isinstance(node, ast.Call) and word_of(node.func) == getattr(scope, "name", "")
    ]
    if len(calls) != 1:
        return
    file, call = calls[0]
    name = next((one.name for one in _named_functions(tree_of(file, source), call.lineno)), "")
    caller = Line(file, call.lineno, name)
    for read in reads:
        value = passed_for(ast.Name(read), parameters, caller, source)
        found = slice_of(around(caller, source), caller.line, names_in(value)) if value else []
        if found:
            yield line_of(file, found[0].line, source)


def _returned(name: str, files: Iterable[str], source: Source) -> Iterator[Line]:
    """Yield the lines by which the functions of a name give something back."""
    for file in files:
        for function in functions_of(tree_of(file, source)):
            if getattr(function, "name", "") == name != "forward":
                for node in ast.walk(function):
                    if isinstance(node, ast.Return | ast.Yield):
                        yield line_of(file, node.lineno, source)


def _named_functions(tree: ast.Module, line: int) -> list[ast.FunctionDef]:
    """Return the functions around a line, the innermost first."""
    found = [one for one in functions_of(tree) if isinstance(one, ast.FunctionDef)]
    around = [one for one in found if one.lineno <= line <= (one.end_lineno or 0)]
    return sorted(around, key=lambda one: -one.lineno)


def extended(callers: Sequence[Line], source: Source) -> Line | None:
    """Return the line that gives the dictionary that is passed as ``**batch`` another key."""
    for caller in reversed(callers):
        for call in calls_at(caller, source):
            names = {name for one in call.keywords if not one.arg for name in names_in(one.value)}
            for node in ast.walk(around(caller, source)) if names else ():
                if isinstance(node, ast.Assign | ast.Delete) and names.intersection(
                    getattr(one.value, "id", "")
                    for one in node.targets
                    if isinstance(one, ast.Subscript)
                ):
                    return line_of(caller.file, node.lineno, source)
    return None


def _passed_through(callers: Sequence[Line], source: Source) -> Line | None:
    """Return what varies in the nearest line of the project that leads to a library."""
    own = [(at, line) for at, line in enumerate(callers) if not is_library(line.file)]
    for at, caller in reversed(own):
        names = {name for call in calls_at(caller, source) for name in _names_passed(call)}
        found = slice_of(around(caller, source), caller.line, frozenset(names))
        varying = [one for one in found if one.varies]
        if varying:
            return line_of(caller.file, varying[0].line, source)
        if line := given_out(caller, names, callers[:at], source):
            return line
    return None


def _names_passed(call: ast.Call) -> Iterator[str]:
    for value in (*call.args, *(one.value for one in call.keywords)):
        yield from names_in(value)


def given_out(
    caller: Line, names: set[str], callers: Sequence[Line], source: Source
) -> Line | None:
    """Return the line of a function of the file that made what a loop, or a line, hands out.

    A loop over a parameter hands out what the callers pass for it.
    """
    scope = around(caller, source)
    for node in ast.walk(scope):
        pair = pair_of(node)
        if pair is None or getattr(node, "lineno", 0) > caller.line:
            continue
        targets, value = pair
        if names.intersection(*(names_in(target) for target in targets)):
            if line := _produced(value, caller, source):
                return line
            read = names_in(value).intersection(parameters_of(caller, source))
            for name in read:
                passed = callers and passed_for(
                    ast.Name(name), parameters_of(caller, source), callers[-1], source
                )
                if passed and (line := _produced(passed, callers[-1], source)):
                    return line
    return None


def _produced(value: ast.expr, caller: Line, source: Source) -> Line | None:
    """Return the line that differs from step to step in a function of the file that is called."""
    called = {
        getattr(node.func, "id", "") for node in ast.walk(value) if isinstance(node, ast.Call)
    }
    for function in functions_of(tree_of(caller.file, source)):
        if getattr(function, "name", "") not in called:
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
                if _varies_inside(node.value) or names_in(node.value) & counters(function):
                    return line_of(caller.file, node.lineno, source)
                found = slice_of(function, node.lineno, names_in(node.value))
                varying = [one for one in found if one.varies]
                if varying:
                    return line_of(caller.file, varying[0].line, source)
    return None


def _varies_inside(value: ast.expr) -> bool:
    """Return whether a comprehension computes something with its variable."""
    for node in ast.walk(value):
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            counting = {name for one in node.generators for name in names_in(one.target)}
            if names_in(node.elt) & counting and isinstance(node.elt, ast.Call):
                return True
    return False


def _counted(callers: Sequence[Line], source: Source) -> Line | None:
    """Return the line by which a call in a loop depends on the count of the loop's steps."""
    for caller in reversed(callers):
        scope = around(caller, source)
        counting = counters(scope)
        read = names_in(statement_at(scope, caller.line))
        lines = [one for one in slice_of(scope, caller.line, read) if one.varies]
        numbers = [one.line for one in lines if one.reads & counting]
        for loop in loops_around(scope, caller.line):
            calls = (node for node in loop.body if isinstance(node, ast.Expr))
            names = ((node, names_in(node)) for node in calls if node.lineno < caller.line)
            numbers += [node.lineno for node, used in names if used & counting and used & read]
        if numbers:
            return line_of(caller.file, numbers[0], source)
    return None


def passed_for(
    subject: ast.expr, parameters: Sequence[str], caller: Line, source: Source
) -> ast.expr | None:
    """Return what a line passes for a parameter, ``args[0]`` or ``kwargs['x']``.

    Returns None if the line calls a function twice: which call it was is not known.
    """
    key: object = subject.id if isinstance(subject, ast.Name) else None
    if isinstance(subject, ast.Subscript) and isinstance(subject.slice, ast.Constant):
        key = subject.slice.value
    index = parameters.index(key) if key in parameters else key
    calls = list(calls_at(caller, source))
    functions = Counter(ast.dump(node.func) for node in calls)
    for node in calls:
        named = [keyword.value for keyword in node.keywords if keyword.arg == key]
        rest = any(isinstance(one, ast.Starred) for one in node.args)
        given = node.args[index] if type(index) is int and index < len(node.args) else None
        if given is not None and (not rest or isinstance(given, ast.Starred)):
            named.append(given)
        if isinstance(key, str) and not (named or rest):  # f(**batch), and not f(self, *args)
            named = [keyword.value for keyword in node.keywords if keyword.arg is None]
        if named:
            return named[0] if functions[ast.dump(node.func)] == 1 else None
    return None


def calls_at(caller: Line, source: Source) -> Iterator[ast.Call]:
    """Yield the calls of a line, the outermost first."""
    for node in ast.walk(around(caller, source)):
        if isinstance(node, ast.Call) and node.lineno <= caller.line <= (node.end_lineno or 0):
            yield node


def root_of(subject: ast.expr) -> ast.expr:
    """Return the argument in an expression: ``x``, ``args[0]``, ``kwargs['x']``."""
    while isinstance(subject, ast.Attribute | ast.Subscript):
        inner = subject.value
        if isinstance(inner, ast.Name) and inner.id in ("args", "kwargs"):
            break
        subject = inner
    return subject


def is_library(file: str) -> bool:
    return "site-packages" in file.split("/")
