"""Finds the statements of a program that define a name, without those that only use it.

This is a backward slice over the text of the module and of the functions around the place where the
name is used. Imports and definitions are taken whole; from ``if``, ``with``, ``for`` and ``try``
only the needed statements are taken. Statements that compile, run or print a model are left out,
those that set it up (``.eval()``, ``.to(...)``, a seed) stay. Nothing here runs anything.
"""

from __future__ import annotations

import ast
import copy
import re
import symtable
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pytest_graphbreak.repair.source import (
    DEFINITIONS,
    FUNCTIONS,
    IMPORTS,
    Function,
    arguments,
    assigns_itself,
    base,
    bound,
    configures,
    has_long_strings,
    is_alone,
    is_dropped,
    loads,
    sets_environment,
    tables,
    targets,
    touched,
    without_compile,
)

_ALWAYS: Final = re.compile(
    "manual_seed|seed|set_default_dtype|set_default_device|set_float32_matmul_precision|"
    "use_deterministic_algorithms|set_device_type|use_spmd"
)
"""Calls that set up torch, numpy or the device, with any arguments."""
_METHODS: Final = re.compile(
    "eval|train|to|half|float|double|bfloat16|cpu|cuda|type|apply|add|append|extend|insert|"
    "update|requires_grad_|share_memory|copy_"
)
"""Methods that change the object that they are called on."""
_VERBS: Final = re.compile(
    r"_?(init|load|set|freeze|unfreeze|patch|prepare|replace|convert|quantize|fuse|mark|shard|"
    r"enable|disable|register|add_|tie|resize|reset|fill|zero|normal|uniform|kaiming|xavier|"
    r"constant|eye|ones|orthogonal|trunc|gradient_checkpointing|post_init|merge|attach|inject)"
)
"""Beginnings of the names of functions and methods that change their arguments."""


class NotPlain(Exception):
    """Raised if a name is not made by plain statements; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A running function of the program: its name, the line of its ``def``, its current line.

    ``literals`` has the source of the arguments that are plain values.
    """

    name: str
    first: int
    line: int
    literals: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Body:
    """The statements of the module or of one function. ``until`` is the line that is running."""

    body: list[ast.stmt]
    until: int | None = None
    function: Function | None = None
    literals: Mapping[str, str] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    given: dict[str, str] = field(default_factory=dict)
    """The arguments that are needed, with the source of their values."""


class Slice:
    """The statements of one file that ``names`` need.

    ``spot`` is the function that the names are used in, None for the module; ``line`` is the
    current line of the module, None if it has run to its end. ``script`` says whether the file is
    run as ``__main__``. Raises ``NotPlain``.
    """

    def __init__(
        self,
        source: str,
        names: Iterable[str],
        *,
        spot: Spot | None = None,
        line: int | None = None,
        script: bool = True,
        package: str = "",
    ) -> None:
        self._lines = source.split("\n")  # as Python numbers them
        self._package = package
        self._fixtures: set[str] = set()
        tree = ast.parse(source)
        self._tables = dict(tables(symtable.symtable(source, "<script>", "exec")))
        self._scopes = [_Body(list(_guarded(tree.body, script)), line)]
        if spot is not None:
            self._scopes += _around(tree, spot)
        for scope in self._scopes:
            scope.bound = set(bound(scope.body))
            if scope.function is not None:
                scope.bound |= arguments(scope.function)
        inner = len(self._scopes) - 1
        for name in names:
            self._need(name, inner)
        self._kept = self._settled()
        self._complete()

    def parts(self) -> tuple[list[str], list[str]]:
        """Return the top of a script and the statements that make the names, in file order.

        The top has imports, definitions, and the globals that definitions use.
        """
        shared = self._shared()
        top: list[str] = []
        rest: list[str] = []
        for statement in self._kept[0]:
            above = isinstance(statement, (*IMPORTS, *DEFINITIONS)) or sets_environment(statement)
            above = above or bool((set(bound([statement])) | touched(statement)) & shared)
            (top if above else rest).append(self._text(statement))
        for scope, kept in zip(self._scopes[1:], self._kept[1:], strict=True):
            rest += [f"{name} = {value}" for name, value in sorted(scope.given.items())]
            rest += [self._text(statement) for statement in kept]
        return top, rest

    def _need(self, name: str, index: int) -> None:
        """Mark a name as needed, in the innermost scope that binds it.

        A name that no scope binds is a builtin, belongs to a comprehension, or comes from ``import
        *``.
        """
        for scope in reversed(self._scopes[: index + 1]):
            if name in scope.bound:
                if name not in scope.needed:
                    if scope.function is not None and name in arguments(scope.function):
                        scope.given[name] = self._argument(name, scope, scope.function)
                    scope.needed.add(name)
                return

    def _argument(self, name: str, scope: _Body, function: Function) -> str:
        if name in bound(scope.body):
            raise NotPlain(f"{name} is an argument of {function.name} that it changes")
        if name in scope.literals:
            return scope.literals[name]
        fixture = next((f for f in self._scopes[0].body if _is_fixture(f, name)), None)
        if fixture is None:
            raise NotPlain(f"{name} is an argument of {function.name}")
        self._need(name, 0)
        self._fixtures.add(name)
        return f"make_{name}()"

    def _settled(self) -> list[list[ast.stmt]]:
        """Filter until nothing more is needed, and return the kept statements of each scope."""
        while True:
            before = [len(scope.needed) for scope in self._scopes]
            kept = [
                [
                    one
                    for statement in scope.body
                    for one in self._filter(statement, number, scope.until)
                ]
                for number, scope in enumerate(self._scopes)
            ]
            if before == [len(scope.needed) for scope in self._scopes]:
                return kept

    def _complete(self) -> None:
        """Raise ``NotPlain`` if a needed name is not bound by the kept statements."""
        for scope, kept in zip(self._scopes, self._kept, strict=True):
            for name in sorted(scope.needed - set(bound(kept)) - set(scope.given)):
                raise NotPlain(f"{name} is not made by a plain statement")

    def _filter(self, node: ast.stmt, index: int, until: int | None) -> list[ast.stmt]:
        """Return the statement, the needed part of it, or nothing, and mark the names it needs."""
        needed = self._scopes[index].needed
        if isinstance(node, IMPORTS):
            names = set(bound([node]))
            return [node] if not index or names & needed else []
        if isinstance(node, DEFINITIONS):
            if node.name not in needed:
                return []
            self._uses(self._definition(node), index)
            return [node]
        if until is not None and node.lineno > until:
            return []
        running = until is not None and until <= (node.end_lineno or node.lineno)
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            return self._loop(node, index, running)
        if isinstance(node, ast.With | ast.AsyncWith):
            return self._with(node, index, until, running)
        if isinstance(node, ast.If):
            body, orelse = (
                self._block(node.body, index, until),
                self._block(node.orelse, index, until),
            )
            if not body and not orelse:
                return []
            self._uses(loads(node.test), index)
            return [ast.If(test=node.test, body=body or [ast.Pass()], orelse=orelse)]
        if isinstance(node, ast.Try):
            body = self._block([*node.body, *node.orelse], index, until)
            if not body or running:
                return body
            for handler in node.handlers:
                self._uses(loads(handler), index)
            if not node.handlers:
                return body
            return [ast.Try(body=body, handlers=node.handlers, orelse=[], finalbody=[])]
        return [] if running else self._simple(node, index)

    def _block(self, body: Sequence[ast.stmt], index: int, until: int | None) -> list[ast.stmt]:
        return [one for node in body for one in self._filter(node, index, until)]

    def _simple(self, node: ast.stmt, index: int) -> list[ast.stmt]:
        """Return an assignment or a call if it makes or sets up what is needed."""
        scope = self._scopes[index]
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            if node.value is None:
                return []
            plain = without_compile(node.value)
            if not set(bound([node])) & scope.needed:
                if not (touched(node) & self._changeable(index) or configures(node)):
                    return []
                if plain is not node.value:
                    return []  # it only replaces an object by the compiled one
            elif plain is not node.value and assigns_itself(node, plain):
                return []  # f = torch.compile(f)
            self._uses(loads(node) if plain is node.value else loads(plain), index)
            if plain is node.value:
                return [node]
            changed = copy.copy(node)
            changed.value = plain
            del changed.lineno  # so that it is unparsed
            return [changed]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if not self._sets_up(node.value, index):
                return []
            before = [set(scope.needed) for scope in self._scopes]
            try:
                self._uses(loads(node.value), index)
            except NotPlain:  # for example a seed that is an argument
                for scope, names in zip(self._scopes, before, strict=True):
                    scope.needed = names
                return []
            return [node]
        return []

    def _sets_up(self, call: ast.Call, index: int) -> bool:
        last = ast.unparse(call.func).rpartition(".")[2]
        if _ALWAYS.fullmatch(last):
            return True
        mine = self._changeable(index)
        owner = base(call.func) if isinstance(call.func, ast.Attribute) else None
        if owner in mine and (_METHODS.fullmatch(last) or _VERBS.match(last)):
            return True
        given = {base(one) for one in call.args}
        return bool(given & mine) and _VERBS.match(last) is not None

    def _changeable(self, index: int) -> set[str]:
        """Return the needed names of objects of the program, without imports and definitions."""
        found: set[str] = set()
        for scope in self._scopes[: index + 1]:
            fixed = {
                name
                for node in scope.body
                if isinstance(node, (*IMPORTS, *DEFINITIONS))
                for name in bound([node])
            }
            found |= scope.needed - fixed
        return found

    def _loop(
        self, node: ast.For | ast.AsyncFor | ast.While, index: int, running: bool
    ) -> list[ast.stmt]:
        needed = self._scopes[index].needed
        if running or isinstance(node, ast.While):
            for name in sorted(set(bound([node])) & needed):
                raise NotPlain(f"{name} is bound in a loop")
            return []
        body = self._block(node.body, index, None)
        if not body and not set(bound([node])) & needed:
            return []
        self._uses(loads(node.iter), index)
        for name in targets(node.target):
            self._need(name, index)
        return [ast.For(target=node.target, iter=node.iter, body=body or [ast.Pass()], orelse=[])]

    def _with(
        self, node: ast.With | ast.AsyncWith, index: int, until: int | None, running: bool
    ) -> list[ast.stmt]:
        body = self._block(node.body, index, until)
        head = ", ".join(ast.unparse(item) for item in node.items)
        if not body or (running and not head.startswith("torch")):
            return body
        for item in node.items:
            self._uses(loads(item), index)
        return [ast.With(items=node.items, body=body)]

    def _uses(self, names: Iterable[str], index: int) -> None:
        for name in names:
            self._need(name, index)

    def _definition(self, node: ast.stmt) -> set[str]:
        """Return the outer names that a function or class uses, also in its body."""
        assert isinstance(node, DEFINITIONS)
        lines = {node.lineno, *(one.lineno for one in node.decorator_list)}
        names: set[str] = set()
        for line in lines:
            names |= self._tables.get((node.name, line), set())
        head: list[ast.AST] = [d for d in node.decorator_list if not is_dropped(d)]
        if isinstance(node, ast.ClassDef):
            head += [*node.bases, *node.keywords]
        else:
            head += [node.args, *([node.returns] if node.returns else [])]
        return names.union(*(loads(one) for one in head))

    def _shared(self) -> set[str]:
        """Return the names that are assigned in the module and used by its definitions."""
        kept = self._kept[0]
        plain = [one for one in kept if not isinstance(one, (*IMPORTS, *DEFINITIONS))]
        made = set(bound(plain))
        found: set[str] = set()
        for node in kept:
            if isinstance(node, DEFINITIONS):
                found |= self._definition(node) & made
        while True:
            more = set(found)
            for node in plain:
                if (set(bound([node])) | touched(node)) & found:
                    more |= (loads(node) | set(bound([node]))) & made
            if more == found:
                return found
            found = more

    def _text(self, node: ast.stmt) -> str:
        """Return a statement as written in the file if it is whole, else unparsed."""
        if isinstance(node, ast.ImportFrom) and node.level:
            node = self._absolute(node)
        if not hasattr(node, "lineno"):
            return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))
        text = "\n".join(self._lines[node.lineno - 1 : node.end_lineno])
        if node.col_offset and (has_long_strings(node) or not text[: node.col_offset].isspace()):
            return ast.unparse(node)
        text = textwrap.dedent(text)
        if text[0].isspace() or (";" in text and not is_alone(text)):
            return ast.unparse(node)
        decorators = [one for one in getattr(node, "decorator_list", ()) if not is_dropped(one)]
        if isinstance(node, FUNCTIONS) and node.name in self._fixtures:
            text = re.sub(rf"def\s+{node.name}\b", f"def make_{node.name}", text, count=1)
        return "\n".join([*(f"@{ast.unparse(one)}" for one in decorators), text])

    def _absolute(self, node: ast.ImportFrom) -> ast.stmt:
        parts = self._package.split(".") if self._package else []
        if node.level > len(parts):
            return node
        base = parts[: len(parts) - node.level + 1]
        module = ".".join([*base, *([node.module] if node.module else [])])
        return ast.ImportFrom(module=module, names=node.names, level=0)


def _is_fixture(node: ast.stmt, name: str) -> bool:
    """Return whether a node is a fixture as plain as a function: no arguments, no ``yield``."""
    return (
        isinstance(node, ast.FunctionDef)
        and node.name == name
        and not arguments(node)
        and any("fixture" in ast.unparse(one) for one in node.decorator_list)
        and not any(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(node))
    )


def _guarded(body: Iterable[ast.stmt], script: bool) -> Iterator[ast.stmt]:
    """Yield the statements of a module; the body of a main guard only for a script."""
    for node in body:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            if script:
                yield from node.body
        else:
            yield node


def _around(tree: ast.Module, spot: Spot) -> list[_Body]:
    """Return the functions around a place, from the outermost; classes are not scopes here."""

    def find(body: Sequence[ast.stmt], outer: list[Function]) -> list[Function] | None:
        for node in body:
            inner = outer
            if isinstance(node, FUNCTIONS):
                inner = [*outer, node]
                lines = {node.lineno, *(one.lineno for one in node.decorator_list)}
                if node.name == spot.name and spot.first in lines:
                    return inner
            for part in ("body", "orelse", "handlers", "finalbody"):
                if found := find(getattr(node, part, ()), inner):
                    return found
        return None

    found = find(tree.body, [])
    if not found:
        raise NotPlain(f"{spot.name} is not in the file")
    scopes = [_Body(list(one.body), None, one) for one in found]
    scopes[-1].until = spot.line
    scopes[-1].literals = spot.literals
    return scopes
