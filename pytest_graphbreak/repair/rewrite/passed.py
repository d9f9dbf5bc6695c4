"""Finds what a line that is written later reads, and passes to its function as arguments.

Tensors and numbers are passed as they are where the line stands. So is what an object holds, and
the length of a list: Dynamo sets attributes and changes lists after such lines (torch 2.13), other
code in between.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pytest_graphbreak.repair.pure import LEVELS, METHODS
from pytest_graphbreak.repair.rewrite.scope import Surroundings, UnfitError, bound, walk
from pytest_graphbreak.repair.source import DEFINITIONS, FUNCTIONS

_OF_TENSORS: Final = frozenset({"shape", "dtype", "device", "ndim", "requires_grad", "is_leaf"})
"""Attributes that a tensor has when the line is written, too."""
_METHODS: Final = METHODS | {"item", "numpy", "cpu", "detach", "any", "all", "numel"}
_CHANGES: Final = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem"}
    | {"popleft", "remove", "reset", "reverse", "setdefault", "sort", "step", "update"}
)
"""Methods that change their object."""
_OF_LISTS: Final = frozenset({"len", "max", "min", "sum"})
_LATER: Final = (
    *(ast.IfExp, ast.BoolOp, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
"""Expressions of which Python may not evaluate a part."""


@dataclass(slots=True)
class Reads:
    """What a line reads: ``values`` are expressions, each with its parameter.

    ``calls`` are those of them that may be evaluated only once, and ``holder`` is the object whose
    logger the line calls.
    """

    values: dict[str, str] = field(default_factory=dict)
    calls: set[str] = field(default_factory=set)
    holder: str = ""

    def add(self, node: ast.expr) -> None:
        """Add an expression."""
        text = ast.unparse(node)
        if text in self.values:
            return
        if any(isinstance(one, ast.Call) for one in ast.walk(node)):
            self.calls.add(text)
        name, number = _named(node), 1
        while name in self.values.values():
            number += 1
            name = f"{_named(node)}_{number}"
        self.values[text] = name


def _named(node: ast.expr) -> str:
    """Return a name for the parameter that an expression becomes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return f"{_named(node.args[0])}_{_named(node.func)}" if node.args else _named(node.func)
    key = node.slice if isinstance(node, ast.Subscript) else None
    text = key.value if isinstance(key, ast.Constant) else None
    return text if isinstance(text, str) and text.isidentifier() else "value"


def reads(node: ast.stmt, place: Surroundings) -> Reads:
    """Return what a statement reads. Raises ``UnfitError``."""
    finder = _Finder(node, place)
    finder.statement(node, certain=True)
    return finder.found


class _Finder:
    """Looks for expressions from the outside to the inside.

    ``certain`` tells whether Python evaluates a part whenever it runs the line.
    """

    def __init__(self, node: ast.stmt, place: Surroundings) -> None:
        module = ast.parse("".join(place.text))
        self.found = Reads()
        self._inner = set(bound([node])) | set(_of_comprehensions(node))
        self._local = set(place.before) - self._inner
        self._values = place.before
        self._module = {*_defined(module), *bound(module.body)}
        self._set = bound(module.body)
        self._changes = _Changes.of(module)
        self._called = _called(node) & {*self._set, *_functions(module)}
        self._elsewhere = _used_elsewhere(module, node)

    def statement(self, node: ast.stmt, *, certain: bool) -> None:
        """Find what a statement reads."""
        if isinstance(node, ast.If):
            self._expression(node.test, certain)
            for one in (*node.body, *node.orelse):
                self.statement(one, certain=False)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._writer(node.value.func, certain)
            for part in (*node.value.args, *(one.value for one in node.value.keywords)):
                self._expression(part, certain)
        elif isinstance(target := written_to(node), ast.Subscript):
            self._writer(target, certain)
            assert isinstance(node, ast.Assign | ast.AugAssign)
            self._expression(node.value, certain)
        else:
            self._inside(node, certain)

    def _writer(self, function: ast.expr, certain: bool) -> None:
        """Find what names the function that writes: ``self.log.info``, ``meters[name].update``."""
        root = _root(function)
        for one in walk([function]):
            if isinstance(one, ast.Subscript):
                self._expression(one.slice, certain)
        if root is None or not self._is_given(root):
            return
        if not isinstance(function, ast.Attribute) or function.attr not in LEVELS:
            raise UnfitError(f"it calls {ast.unparse(function)[:60]}")
        if isinstance(function.value, ast.Name) and root.id in ("self", "cls"):
            raise UnfitError(f"it calls a method of {root.id}")
        if self.found.holder not in ("", root.id):
            raise UnfitError("it writes by two objects")
        self.found.holder = root.id

    def _is_given(self, root: ast.Name) -> bool:
        """Return whether a name is none of the module: an argument, or another local variable."""
        name = root.id
        known = name in self._module or hasattr(builtins, name)
        return name not in self._inner and (name in self._local or not known)

    def _expression(self, node: ast.expr, certain: bool) -> None:
        if ast.unparse(node) in self.found.values:
            return
        root = _root(node)
        if root is not None and root.id not in self._inner:
            given = self._is_given(root)
            if given and self._fits(node, certain):
                self.found.add(node)
                return
            varies = not given and root.id in self._set and self._changes.may(node)
            if varies and self._called and not isinstance(node, ast.Call):
                if root.id in self._elsewhere or root.id not in self._called:
                    raise UnfitError(f"{ast.unparse(node)[:60]} may change in the line itself")
                return
            if varies and (self._fits(node, certain) or self._is_global(node)):
                self.found.add(node)
                return
            if varies and not _of_tensor(node):
                raise UnfitError(f"{ast.unparse(node)[:60]} may change before it is written")
            if isinstance(node, ast.Name) and given:
                raise UnfitError("it writes more than tensors and numbers")
        self._inside(node, certain)

    def _is_global(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._changes.names

    def _inside(self, node: ast.AST, certain: bool) -> None:
        """Look at the parts of an expression, but not at the name of a method."""
        certain = certain and not isinstance(node, _LATER)
        parts: list[ast.AST] = [*ast.iter_child_nodes(node)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            parts[0] = node.func.value
        for one in parts:
            if isinstance(one, ast.expr):
                self._expression(one, certain)
            else:
                self._inside(one, certain)

    def _fits(self, node: ast.expr, certain: bool) -> bool:
        """Return whether an expression can be evaluated where the line stands, and passed."""
        if isinstance(node, ast.Name):
            return node.id not in ("self", "cls") and self._is_given(node)
        if isinstance(node, ast.Attribute):
            return node.attr not in _OF_TENSORS and _is_path(node.value)
        if isinstance(node, ast.Subscript):
            return certain and _is_path(node) and self._of_container(node)
        if not certain or not isinstance(node, ast.Call) or not _plain(node):
            return False
        if isinstance(node.func, ast.Name):
            return node.func.id in _OF_LISTS and self._of_list(node)
        if not isinstance(node.func, ast.Attribute):
            return False
        own = ast.unparse(node.func.value) in ("self", "cls")
        return own or (node.func.attr not in _METHODS and not self._is_tensor(node))

    def _of_container(self, node: ast.Subscript) -> bool:
        """Return whether an index is one of a dictionary, or of a list."""
        root = _root(node)
        text = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
        listed = isinstance(
            self._values.get(root.id if root else ""), ast.List | ast.ListComp | ast.Dict
        )
        return text or listed or not isinstance(node.value, ast.Name) or not self._local_root(root)

    def _local_root(self, root: ast.Name | None) -> bool:
        return root is not None and self._is_given(root)

    def _of_list(self, node: ast.Call) -> bool:
        name = ast.unparse(node.func)
        path = len(node.args) == 1 and not node.keywords and _is_path(node.args[0])
        return path and (name == "len" or not self._local_root(_root(node.args[0])))

    def _is_tensor(self, node: ast.Call) -> bool:
        """Return whether the object of a method is visibly made by an expression of tensors."""
        holder = node.func.value if isinstance(node.func, ast.Attribute) else node
        made = self._values.get(holder.id) if isinstance(holder, ast.Name) else None
        return isinstance(made, ast.BinOp | ast.UnaryOp | ast.Compare)


def written_to(node: ast.AST) -> ast.expr | None:
    """Return the only target of an assignment, or None for another statement."""
    if isinstance(node, ast.AugAssign):
        return node.target
    return node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None


def _root(node: ast.expr) -> ast.Name | None:
    """Return the name that attributes, indices and methods are of; that of a list for ``len``."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in _OF_LISTS and node.args:
            node = node.args[0]
        else:
            return None
    return node


def _called(node: ast.AST) -> set[str]:
    """Return the names that are called in a statement."""
    calls = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
    return {one.id for one in calls if isinstance(one, ast.Name)}


def _functions(module: ast.Module) -> set[str]:
    return {one.name for one in module.body if isinstance(one, FUNCTIONS)}


def _used_elsewhere(module: ast.Module, node: ast.AST) -> set[str]:
    """Return the names that functions use more often than a statement does."""
    inside = [part for one in module.body if isinstance(one, DEFINITIONS) for part in ast.walk(one)]
    every, own = (
        Counter(one.id for one in parts if isinstance(one, ast.Name))
        for parts in (inside, ast.walk(node))
    )
    return {name for name, count in every.items() if count > own[name]}


def _of_tensor(node: ast.expr) -> bool:
    """Return whether an expression asks for something that a tensor has."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in _METHODS
    return isinstance(node, ast.Attribute) and node.attr in _OF_TENSORS


def _is_path(node: ast.expr) -> bool:
    """Return whether an expression is of names, attributes and indices that are names."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript):
            inner = node.slice.operand if isinstance(node.slice, ast.UnaryOp) else node.slice
            if not isinstance(inner, ast.Constant | ast.Name):
                return False
        node = node.value
    return isinstance(node, ast.Name)


def _plain(node: ast.Call) -> bool:
    """Return whether a call is given names and constants only, of an object that is a path."""
    given = [*node.args, *(one.value for one in node.keywords)]
    holder = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    return _is_path(holder) and all(
        isinstance(one, ast.Constant | ast.Name | ast.Attribute) for one in given
    )


def _of_comprehensions(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.comprehension):
            yield from (part.id for part in ast.walk(one.target) if isinstance(part, ast.Name))


def _defined(module: ast.Module) -> Iterator[str]:
    """Yield the names of imports, functions and classes of a module."""
    for one in walk(module.body):
        if isinstance(one, DEFINITIONS):
            yield one.name
        elif isinstance(one, ast.Import | ast.ImportFrom):
            yield from (part.asname or part.name.partition(".")[0] for part in one.names)


@dataclass(frozen=True, slots=True)
class _Changes:
    """What functions of a file change: attributes they set, lists they change, global ``names``."""

    attributes: frozenset[str]
    lists: frozenset[str]
    names: frozenset[str]
    methods: frozenset[str]

    @classmethod
    def of(cls, module: ast.Module) -> _Changes:
        """Return what the functions of a module change; ``__init__`` sets what is new."""
        functions = [one for one in ast.walk(module) if isinstance(one, FUNCTIONS)]
        parts = [part for one in functions if one.name != "__init__" for part in walk(one.body)]
        attributes, lists, names = set[str](), set[str](), set[str]()
        for one in parts:
            if isinstance(one, ast.Global):
                names.update(one.names)
            elif isinstance(one, ast.Attribute) and not isinstance(one.ctx, ast.Load):
                attributes.add(one.attr)
            elif isinstance(one, ast.Subscript) and not isinstance(one.ctx, ast.Load):
                lists.add(_last(one.value))
            elif isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
                lists.update({_last(one.func.value)} if one.func.attr in _CHANGES else ())
        methods = {one.name for one in functions}
        return cls(*map(frozenset, (attributes, lists, names, methods)))

    def may(self, node: ast.expr) -> bool:
        """Return whether an expression of the module may have another value later."""
        parts = [*ast.walk(node)]
        used = {one.attr for one in parts if isinstance(one, ast.Attribute)}
        root = _root(node)
        bare = {root.id} if root is not None else set()
        if bare & self.names or used & self.attributes or (bare | used) & self.lists:
            return True
        inside = any(isinstance(one, ast.Subscript) for one in parts)
        called = isinstance(node, ast.Call) or used & self.methods
        return bool((inside and self.lists) or (called and (self.lists or self.attributes)))


def _last(node: ast.expr) -> str:
    """Return the last name of a path: ``parts`` of ``self.parts``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
