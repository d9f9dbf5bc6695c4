"""Finds out whether a test may run code without the compiler, besides what it compiles.

Fewer operations in graphs mean a smaller program, or one of which a part runs uncompiled. Counts
are the same in both cases. The source of a test often shows that nothing but compiled functions can
run the model. Files are parsed and never run.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from pytest_graphbreak.layers.instances import (
    Helpers,
    Instance,
    Instances,
    compiled_path,
    path_of,
    renamed,
)
from pytest_graphbreak.layers.statements import (
    Source,
    around,
    given_to,
    line_of,
    names_compile,
    names_in,
    pair_of,
    sets_of,
    tree_of,
    word_of,
)
from pytest_graphbreak.layers.uncompiled import no_helpers, turns_off
from pytest_graphbreak.model.stacks import Line

_CALLING_BUILTINS: Final = frozenset({"map", "filter", "exec", "eval", "getattr"})
_CALLING: Final = frozenset({"reduce", "vmap", "functional_call", "checkpoint", "partial"})
"""Functions that call what they are given, or give back something that nobody sees here."""
_LIBRARIES: Final = frozenset({"torch", "torch_xla", "numpy"})
_DEPTH: Final = 5
"""How many functions and methods of the project are followed, one called by the other."""
_RUNNING: Final = frozenset({"__call__", "forward", "apply", "map_", "map2_", "compile"})
"""Methods of torch that run code of others."""


class PlainCall(NamedTuple):
    """A line that may run a model uncompiled.

    ``certain``: it calls what is also handed to ``torch.compile``, in a function that does not call
    anything compiled; one that calls both may compare them.
    """

    line: Line
    certain: bool = False


def plain_call(
    test: Line,
    source: Source,
    helpers: Helpers = no_helpers,
    fixtures: Mapping[str, Line] = MappingProxyType({}),
) -> PlainCall | None:
    """Return the line of a test, or of its helpers, that may run a model uncompiled.

    That is a certain one, else the first. Returns None if each call is known: one of a compiled
    function, of a class, of a method of torch's own classes, of a function of a library. What
    cannot be followed may run anything. ``fixtures`` are the functions of the fixtures that the
    test uses, by name.
    """
    compiled = set[str]()
    found: list[PlainCall] = []
    for name, line in fixtures.items():
        fixture = _CallingScope.of(line, source, helpers, frozenset(), 0)
        found += fixture.plain_calls()
        compiled |= {name} if fixture.gives_compiled else set()
    found += _CallingScope.of(test, source, helpers, frozenset(compiled), 0).plain_calls()
    return next((one for one in found if one.certain), next(iter(found), None))


@dataclass(slots=True)
class _CallingScope:
    """A function with the variables that hold compiled functions, or modules with such parts.

    ``compiled`` are paths, as ``self.model``. ``inner`` are the functions that it defines,
    ``handed`` what it hands to ``torch.compile``, and ``lines`` where paths get compiled functions.
    ``doubtful`` is a line, or 0. ``compares``: it calls something compiled.
    """

    code: Line
    node: ast.AST
    source: Source
    helpers: Helpers
    depth: int
    compiled: set[str]
    instances: Instances
    inner: set[str] = field(default_factory=set)
    handed: set[str] = field(default_factory=set)
    lines: dict[str, int] = field(default_factory=dict)
    doubtful: int = 0
    compares: bool = False

    @classmethod
    def of(
        cls,
        code: Line,
        source: Source,
        helpers: Helpers,
        compiled: frozenset[str],
        depth: int,
        owner: Instance | None = None,
    ) -> _CallingScope:
        known = {} if owner is None else {"self": owner}
        own = {f"self.{path}" for path in owner.compiled} if owner else set()
        own |= compiled
        instances = Instances(code.file, source, helpers, known, own)
        scope = cls(code, around(code, source), source, helpers, depth, own, instances)
        scope.handed |= {f"self.{path}" for path in owner.handed} if owner else set()
        if isinstance(scope.node, ast.Module):
            scope.doubtful = code.line  # the function was not found
        scope._read()
        return scope

    def plain_calls(self) -> Iterator[PlainCall]:
        """Yield the lines that may run a model uncompiled."""
        if self.doubtful:
            yield PlainCall(line_of(self.code.file, self.doubtful, self.source))
        nodes = [*_own_nodes(self.node, self.compiled | self.handed)]
        compiled = {part for node in nodes if _compiles(node) for part in _partials(node)}
        calls = [node for node in nodes if isinstance(node, ast.Call) and node not in compiled]
        self.compares = any(path_of(call.func) in self.compiled for call in calls)
        for call in calls:
            yield from self._suspicious(call)

    @property
    def gives_compiled(self) -> bool:
        """Whether all that a fixture returns or yields is a compiled function."""
        nodes = _own_nodes(self.node, self.inner)
        given = [one.value for one in nodes if isinstance(one, ast.Return | ast.Yield)]
        return bool(given) and all(
            one is not None and (_compiles(one) or getattr(one, "id", "") in self.compiled)
            for one in given
        )

    def _read(self) -> None:
        """Note what is compiled, and the first line that compiles only sometimes, or not at all."""
        for node in ast.walk(self.node):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node is not self.node:
                self.inner.add(node.name)
                if any(map(names_compile, node.decorator_list)):
                    self.compiled.add(node.name)
            elif turns_off(node) or _disables(node):
                self.doubtful = self.doubtful or getattr(node, "lineno", self.code.line)
        for parents, node in _with_parents(self.node):
            if isinstance(node, ast.Call) and _compiles(node):
                self._compile(node, parents)
            elif isinstance(node, ast.Call) and self._gives_compiled(node):
                parent = parents[-1]
                for target in parent.targets if isinstance(parent, ast.Assign) else ():
                    self.compiled |= {*names_in(target)}
        set_at = [(name, one.line) for one in sets_of(self.node) for name in one.names]
        for node in ast.walk(self.node):
            set_at += [(compiled_path(one), one.lineno) for one in (pair_of(node) or ((), 0))[0]]
        for path, line in set_at:
            if line > self.lines.get(path, line):
                self.doubtful = self.doubtful or line
        self.instances.read(self.node)

    def _gives_compiled(self, call: ast.Call) -> bool:
        """Return whether a call is one of a function that gives back what it compiled."""
        if self.depth == _DEPTH or not isinstance(call.func, ast.Name):
            return False
        helper = self.helpers(self.code.file, call.func.id)
        if helper is None:
            return False
        inside = _CallingScope.of(helper, self.source, self.helpers, frozenset(), self.depth + 1)
        return inside.gives_compiled

    def _compile(self, call: ast.Call, parents: tuple[ast.AST, ...]) -> None:
        """Note what a call of ``torch.compile`` or ``Module.compile`` makes a compiled function."""
        parent = parents[-1]
        loops = [one for one in parents if isinstance(one, ast.For)]
        sometimes = (ast.If, ast.IfExp, ast.Try, ast.While)
        if any(isinstance(one, sometimes) for one in parents) or not all(map(_is_whole, loops)):
            self.doubtful = self.doubtful or call.lineno
        targets: list[ast.expr] = []
        if isinstance(parent, ast.Assign) and parent.value is call:
            targets = parent.targets
        elif isinstance(parent, ast.Expr) and isinstance(call.func, ast.Attribute):
            targets = [call.func.value]  # model.compile()
        for path in filter(None, map(compiled_path, targets)):
            self.compiled.add(path)
            self.lines[path] = call.lineno
        self.handed |= {*filter(None, map(path_of, call.args))}
        # Of parts that are compiled one by one, only a loop shows that they are all.
        self.compiled |= {root for loop in loops if targets and (root := _root(loop.iter))}

    def _suspicious(self, call: ast.Call) -> Iterator[PlainCall]:
        """Yield the line of a call that may run a model uncompiled."""
        here = line_of(self.code.file, call.lineno, self.source)
        path = path_of(call.func)
        if _compiles(call) or (isinstance(call.func, ast.Call) and _compiles(call.func)):
            return
        if path in self.compiled | (self.inner - self.handed):
            if call.lineno < self.lines.get(path, 0):
                yield PlainCall(here)
        elif path in self.handed:
            yield PlainCall(here, certain=not self.compares)
        elif called := self.instances.called_directly(call):
            yield from self._inside(call, *called)
        elif not self._is_known(call.func):
            yield PlainCall(here)

    def _inside(self, call: ast.Call, code: Line, owner: Instance | None) -> Iterator[PlainCall]:
        """Yield the lines of a function or a method of the project that may run a model."""
        if any(map(names_compile, getattr(around(code, self.source), "decorator_list", ()))):
            return
        if self.depth == _DEPTH:
            yield PlainCall(line_of(self.code.file, call.lineno, self.source))
            return
        given = given_to(code, call, self.source)
        passed = {name for name, value in given.items() if _root(value) in self.compiled}
        passed |= renamed(self.compiled, {name: path_of(value) for name, value in given.items()})
        compiled, deeper = frozenset(passed), self.depth + 1
        scope = _CallingScope.of(code, self.source, self.helpers, compiled, deeper, owner)
        yield from scope.plain_calls()

    def _is_known(self, function: ast.expr) -> bool:
        """Return whether a call of this runs no model: it is a builtin, a class, of a library."""
        match function:
            case ast.Name(id=name):
                known = _classes(self._tree) | _imported(self._tree)
                builtin = hasattr(builtins, name) and name not in _CALLING_BUILTINS
                return name not in _CALLING and (builtin or name in known - _CALLING_BUILTINS)
            case ast.Attribute(attr=name, value=value):
                known_root = _root(value) in _imported(self._tree)
                return name not in _CALLING and (name in _methods() or known_root)
        return False

    @property
    def _tree(self) -> ast.Module:
        return tree_of(self.code.file, self.source)


def _own_nodes(scope: ast.AST, compiled: set[str]) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without inner functions that are compiled."""
    todo = [*ast.iter_child_nodes(scope)]
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in compiled:
            continue
        yield node
        todo += ast.iter_child_nodes(node)


def _with_parents(
    node: ast.AST, parents: tuple[ast.AST, ...] = ()
) -> Iterator[tuple[tuple[ast.AST, ...], ast.AST]]:
    """Yield the nodes of a function, each with those around it."""
    for child in ast.iter_child_nodes(node):
        yield (*parents, node), child
        yield from _with_parents(child, (*parents, node))


def _compiles(node: ast.AST) -> bool:
    """Return whether a node calls ``torch.compile`` or the method ``compile`` of a module."""
    return isinstance(node, ast.Call) and names_compile(node)


def _partials(compiling: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of ``partial`` among what a call compiles: what they make is compiled."""
    for node in getattr(compiling, "args", ()):
        if isinstance(node, ast.Call) and word_of(node.func) == "partial":
            yield node


def _disables(node: ast.AST) -> bool:
    """Return whether a node is ``torch.compiler.disable``, or the like."""
    if not isinstance(node, ast.Attribute):
        return False
    of_dynamo = word_of(node.value) in ("_dynamo", "dynamo")
    return node.attr in ("disable", "_orig_mod") or (node.attr == "run" and of_dynamo)


def _is_whole(loop: ast.For) -> bool:
    """Return whether a loop goes over all parts of something, with the same steps for each."""
    match loop.iter:
        case ast.Attribute() | ast.Name():
            over = True
        case ast.Call(func=ast.Name(id="enumerate"), args=[ast.Attribute() | ast.Name()]):
            over = True
        case ast.Call(func=ast.Name(id="range"), args=[ast.Call(func=ast.Name(id="len"))]):
            over = True
        case ast.Call(func=ast.Attribute(attr="modules" | "children"), args=[]):
            over = True
        case _:
            over = False
    leaves = (ast.If, ast.Continue, ast.Break, ast.IfExp)
    return over and not any(isinstance(one, leaves) for part in loop.body for one in ast.walk(part))


def _root(node: ast.AST) -> str:
    """Return the variable that an expression begins with; empty if it begins with something else"""
    while True:
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
                node = inner
            case ast.Call(func=ast.Name(id="enumerate" | "range" | "len"), args=[inner, *_]):
                node = inner
            case ast.Call(func=ast.Attribute() as inner):
                node = inner
            case ast.Name(id=name):
                return name
            case _:
                return ""


@lru_cache(16)
def _imported(tree: ast.Module) -> frozenset[str]:
    """Return the names of imported modules, and of what is imported from torch and Python."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {(one.asname or one.name).partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = (node.module or "").partition(".")[0]
            if package in _LIBRARIES or package in sys.stdlib_module_names:
                names |= {one.asname or one.name for one in node.names}
    return frozenset(names)


@lru_cache(16)
def _classes(tree: ast.Module) -> frozenset[str]:
    """Return the names of classes: those that a file defines, and imported ones by their names."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            found |= {one.asname or one.name for one in node.names if one.name[:1].isupper()}
    return frozenset(found)


@lru_cache(1)
def _methods() -> frozenset[str]:
    """Return the methods of torch's and Python's own classes, which run no model."""
    kinds: list[type] = [list, dict, str, set, tuple, int, float]
    if "torch" in sys.modules:  # a report may be judged where torch is not installed
        import torch

        kinds += [torch.nn.Module, torch.Tensor, torch.Generator]
        kinds += [torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]
    found = {name for kind in kinds for name in dir(kind)}
    return frozenset(found | {"from_pretrained", "from_config"}) - _RUNNING
