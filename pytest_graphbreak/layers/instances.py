"""Follows the variables of a function that hold instances of the project's own classes.

After ``trainer = Trainer(torch.compile(model))``, the method of ``trainer.fit()`` is found by the
class, and what ``self.model`` is there by the constructor. Files are parsed and never run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pytest_graphbreak.layers.statements import (
    Source,
    around,
    given_to,
    names_compile,
    pair_of,
    tree_of,
)
from pytest_graphbreak.model.stacks import Line

Helpers = Callable[[str, str], Line | None]
"""The ``def`` of what a file calls by a name: ``run``, ``tools.run``, ``Trainer.fit`` of a class.

None if it is not a function of the project.
"""
_SAME: Final = frozenset({"eval", "train", "to", "float", "half", "double", "bfloat16"})
"""Methods of a module that give back the module."""
METHODS: Final = ("forward", "__call__")
"""The methods by which a module runs."""


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of a class that a file knows by a name.

    ``attributes`` are those that the class sets once, each to an expression in ``own``, the file of
    the class. ``compiled`` are the paths below it that hold compiled functions (``step``), and
    ``handed`` those that hold what these were compiled from.
    """

    file: str
    name: str
    own: str
    attributes: Mapping[str, ast.expr]
    compiled: frozenset[str] = frozenset()
    handed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Instances:
    """The instances that a function of a file holds, by its variables: ``self`` in a method.

    ``compiled`` are the paths in it that hold compiled functions.
    """

    file: str
    source: Source
    helpers: Helpers
    known: dict[str, Instance] = field(default_factory=dict)
    compiled: Collection[str] = ()

    def read(self, scope: ast.AST) -> None:
        """Note the variables that are set once, to a new instance of a class."""
        found: dict[str, ast.expr | None] = {}
        for node in ast.walk(scope):
            for path, value in _sets(node):
                root = path.partition(".")[0]
                found[root] = value if path == root and root not in found else None
        for name, value_of in found.items():
            made = value_of and self._made(value_of, self.file, self.compiled)
            if made:
                self.known[name] = made
            else:
                self.known.pop(name, None)

    def called(self, call: ast.Call) -> tuple[Line, Instance | None] | None:
        """Return the function of the project that is called, a method of a class with its ``self``.

        A call of a class is one of its constructor.
        """
        init = self._function(f"{path_of(call.func)}.__init__")
        return self.called_directly(call) or ((init, None) if init else None)

    def called_directly(self, call: ast.Call) -> tuple[Line, Instance | None] | None:
        """Return the same without constructors."""
        found = self._function(path_of(call.func))
        return (found, None) if found else self.method(call)

    def _function(self, path: str) -> Line | None:
        """Return the function that is called by a name: ``run``, or ``tools.run`` of a module."""
        is_variable = path.partition(".")[0] in self.known
        return None if is_variable or not path else self.helpers(self.file, path)

    def method(self, call: ast.Call) -> tuple[Line, Instance] | None:
        """Return the method that is called, with its ``self``; those of a model are not followed"""
        if not isinstance(call.func, ast.Attribute):
            return None
        owner = self._of(call.func.value)
        if owner is None or any(self._defines(owner, name) for name in METHODS):
            return None
        found = self._defines(owner, call.func.attr)
        return (found, owner) if found else None

    def _of(self, node: ast.expr) -> Instance | None:
        match node:
            case ast.Name(id=name):
                return self.known.get(name)
            case ast.Call():
                return self._made(node, self.file, self.compiled)
            case ast.Attribute(value=inner, attr=name):
                owner = self._of(inner)
                value = owner.attributes.get(name) if owner else None
                return self._made(value, owner.own, ()) if owner and value else None
        return None

    def _defines(self, owner: Instance, name: str) -> Line | None:
        return self.helpers(owner.file, f"{owner.name}.{name}")

    def _made(self, value: ast.expr, file: str, compiled: Collection[str]) -> Instance | None:
        """Return the instance that an expression in a file makes, if it makes one."""
        match value:
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _SAME:
                return self._made(inner, file, compiled)
            case ast.Call(func=func) if name := path_of(func):
                init = self.helpers(file, f"{name}.__init__")
                if init is None:
                    return Instance(file, name, file, {})
                attributes, compiling = _attributes(init, self.source)
                given = given_to(init, value, self.source)
                passed = renamed(compiled, {one: path_of(of) for one, of in given.items()})
                passed |= {one for one, of in given.items() if names_compile(of)}
                held = {one: path_of(of) for one, of in attributes.items()}
                handed = {path_of(one) for at in compiling for one in _arguments(attributes, at)}
                compiling |= renamed(passed, held)
                handed = {one for one, of in held.items() if {of, f"self.{one}"} & handed}
                return Instance(file, name, init.file, attributes, compiling, frozenset(handed))
        return None


class Followed(NamedTuple):
    """A function of the project, and the calls in it of others, each with its ``def``."""

    file: str
    node: ast.AST
    calls: tuple[tuple[ast.Call, Line, Instance | None], ...]


def followed(
    code: Line, source: Source, helpers: Helpers, owner: Instance | None = None
) -> Followed:
    """Return a function with its calls of functions, constructors and methods of the project."""
    node = around(code, source)
    instances = Instances(code.file, source, helpers, {"self": owner} if owner else {})
    instances.read(node)
    calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
    found = ((call, *called) for call in calls if (called := instances.called(call)))
    return Followed(code.file, node, tuple(found))


def path_of(node: ast.expr) -> str:
    """Return what an expression reads, ``self.model.head``; empty for what is none."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=inner, attr=name):
            return f"{path}.{name}" if (path := path_of(inner)) else ""
    return ""


def compiled_path(target: ast.expr) -> str:
    """Return what is compiled if that is set to a compiled function.

    A module whose ``forward`` is compiled is as good as compiled.
    """
    if isinstance(target, ast.Attribute) and target.attr in METHODS:
        return path_of(target.value)
    return path_of(target)


def renamed(paths: Iterable[str], names: Mapping[str, str]) -> frozenset[str]:
    """Return the paths of things, where ``names`` gives the old path of each new name."""
    return frozenset(
        new + path[len(old) :]
        for path in paths
        for new, old in names.items()
        if old and (path == old or path.startswith(f"{old}."))
    )


def _attributes(init: Line, source: Source) -> tuple[dict[str, ast.expr], frozenset[str]]:
    """Return what a class sets its attributes to, each once, and which of them it compiles."""
    classes = [
        node
        for node in ast.walk(tree_of(init.file, source))
        if isinstance(node, ast.ClassDef) and node.lineno <= init.line <= (node.end_lineno or 0)
    ]
    found: dict[str, ast.expr] = {}
    compiled, twice = set[str](), set[str]()
    for node in ast.walk(classes[-1]) if classes else ():
        for path, value in _sets(node):
            owner, _, name = path.partition(".")
            if owner == "self" and name:
                twice |= {name} & found.keys()
                found[name] = value
                compiled |= {name} if names_compile(value) else set()
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=inner)) as call) if names_compile(
                call
            ):
                compiled.add(path_of(inner).removeprefix("self."))
    once = {name: value for name, value in found.items() if name not in twice}
    return once, frozenset(compiled - twice)


def _arguments(attributes: Mapping[str, ast.expr], name: str) -> Iterator[ast.expr]:
    """Yield what an attribute is compiled from."""
    compiling = attributes.get(name)
    yield from compiling.args if isinstance(compiling, ast.Call) else ()


def _sets(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the paths that a statement sets, each with the value."""
    targets, value = pair_of(node) or ((), None)
    for target in targets:
        for one in ast.walk(target):
            is_set = isinstance(getattr(one, "ctx", None), ast.Store)
            if value is not None and is_set and isinstance(one, ast.expr) and path_of(one):
                yield path_of(one), value
