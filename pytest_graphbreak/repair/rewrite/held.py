"""Rewrites statements that note a value in a list, dictionary or number that an object holds.

``self.losses.append(loss.item())`` becomes ``_graphbreak_later_1(id(self), ...)``, a function of
the file that does the same when the graph has run. Inside of the graph the list would be an input
of it: code is compiled again whenever the list has grown. So it is with ``self.total += 1``. No
other code that may be compiled may use it.
"""

from __future__ import annotations

import ast
import builtins
import zlib
from collections.abc import Iterator
from typing import Final

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.pure import imports
from pytest_graphbreak.repair.rewrite.later import changes
from pytest_graphbreak.repair.rewrite.outside import compiled
from pytest_graphbreak.repair.rewrite.passed import written_to
from pytest_graphbreak.repair.rewrite.scope import Surroundings, UnfitError, statements

_NOTES: Final = frozenset({"append", "appendleft", "extend", "add", "update", "insert"})
_MAKES: Final = frozenset(
    {"list", "dict", "set", "deque", "defaultdict", "Counter", "OrderedDict", "field"}
)
_FORMATS: Final = frozenset(
    {"str", "round", "float", "int", "bool", "abs", "dict", "list", "tuple"}
)
_READS: Final = frozenset({"item", "tolist"})
_OPEN: Final = (
    *(ast.JoinedStr, ast.FormattedValue, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Dict),
    *(ast.IfExp, ast.Compare, ast.BoolOp),
)


KINDS: Final = (ast.Expr, ast.Assign, ast.AugAssign)


def to_held(node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the call that replaces a statement which notes a value. Raises ``UnfitError``."""
    name, passed = _call(node, place)
    return [f"{name}({', '.join(passed)})"]


def to_held_note(node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the call that notes it when the compiled call ends. Raises ``UnfitError``."""
    name, passed = _call(node, place)
    return [f"_graphbreak_note({name!r}, [{', '.join(passed)}])"]


def _call(node: ast.stmt, place: Surroundings) -> tuple[str, list[str]]:
    """Return the name of the function for a statement, and its arguments."""
    name, holder, given, _ = _parts(node, place)
    copies = ", True" if changes(place) else ""
    passed = [
        f"*_graphbreak_given({ast.unparse(one)}{copies if read else ''})" for one, read in given
    ]
    return name, [f"id({ast.unparse(holder)})", *passed]


def definition(source: str, where: Frame) -> tuple[str, str] | None:
    """Return the name and source of the function that notes the value, or None if none does."""
    try:
        fits = statements(source, where, KINDS)
        name, _, _, body = _parts(*fits[0]) if fits else ("", None, [], "")
    except (SyntaxError, UnfitError):
        return None
    if not name:
        return None
    lines = [
        "@torch.compiler.disable",
        f"def {name}(holder, *given):",
        "    given = _graphbreak_values(given)",
        f"    {body}",
    ]
    return name, "\n".join(lines)


Given = list[tuple[ast.expr, bool]]
"""What is computed in the graph, each with whether its value is read afterwards."""


def _parts(node: ast.stmt, place: Surroundings) -> tuple[str, ast.expr, Given, str]:
    """Return the name of the function, the object, what it is given, and its statement."""
    found, is_number = _changed(node)
    module, text = ast.parse("".join(place.text)), ast.unparse(node)
    if is_number:
        _is_our_number(found.attr, module, node)
    else:
        _is_ours(found.attr, module, imports("".join(place.text)))
    given: Given = []
    inner = ast.unparse(_Lifted(given, found).visit(ast.parse(text).body[0]))
    return f"_graphbreak_later_{zlib.crc32(text.encode()) % 10_000}", found.value, given, inner


def _changed(node: ast.stmt) -> tuple[ast.Attribute, bool]:
    """Return the attribute that a statement changes, and whether it is a number, no container."""
    target = written_to(node)
    if isinstance(target, ast.Attribute) and _container(target) is not None:
        return target, True
    if target is None:
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            raise UnfitError("it is no call of a method")
        if call.func.attr not in _NOTES:
            raise UnfitError("it notes nothing")
        target = call.func.value
    found = _container(target)
    if found is None:
        raise UnfitError("no object holds what it changes")
    return found, False


def _container(node: ast.expr) -> ast.Attribute | None:
    """Return ``self.means`` of ``self.means``, ``self.means["a"]`` or ``.setdefault("a", [])``."""
    while True:
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant | ast.Name):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            fresh = len(node.args) == 2 and not node.keywords and _fresh(node.args[1])
            if node.func.attr != "setdefault" or not fresh:
                return None
            node = node.func.value
        else:
            break
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    return node if isinstance(node, ast.Attribute) and isinstance(root, ast.Name) else None


def _fresh(node: ast.expr | None) -> bool:
    """Return whether an expression makes a new list, dictionary or set of plain values."""
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func).rpartition(".")[2]
        parts = [*node.args, *(one.value for one in node.keywords)]
        return name in _MAKES and all(isinstance(one, ast.Name | ast.Constant) for one in parts)
    if isinstance(node, ast.Dict):
        return all(isinstance(one, ast.Constant) or _fresh(one) for one in node.values)
    if isinstance(node, ast.List | ast.Set):
        return all(isinstance(one, ast.Constant) for one in node.elts)
    if isinstance(node, ast.BinOp):  # [0] * n
        return isinstance(node.left, ast.List) and _fresh(node.left)
    return False


def _is_our_number(name: str, module: ast.Module, node: ast.stmt) -> None:
    """Raise ``UnfitError`` if it may be no number, or code that may be compiled uses it, too."""
    functions = (one for one in compiled(module) if one.name != "__init__")
    inside = (part for one in functions for part in ast.walk(one))
    uses, own = (
        sum(isinstance(one, ast.Attribute) and one.attr == name for one in nodes)
        for nodes in (inside, ast.walk(node))
    )
    if uses > own:
        raise UnfitError(f"{name} is used by other code that is compiled")
    assert isinstance(node, ast.Assign | ast.AugAssign)
    if not _counts(node.value, name):
        raise UnfitError(f"{name} may get something else than a number")
    parts = [*ast.walk(module)]
    sets = [one for one in parts if isinstance(one, ast.AnnAssign | ast.Assign | ast.AugAssign)]
    values = [value for one in sets for value in _sets(one, name)]
    stores = [
        one
        for one in parts
        if isinstance(one, ast.Attribute) and one.attr == name and isinstance(one.ctx, ast.Store)
    ]
    if len(stores) > len(values) or not all(one and _counts(one, name) for one in values):
        raise UnfitError(f"{name} may be no number")
    text = ast.unparse(node)
    starts = (one for one in sets if not isinstance(one, ast.AugAssign) and _sets(one, name))
    if all(ast.unparse(one) == text for one in starts):
        raise UnfitError(f"what {name} is was not found")


def _counts(node: ast.expr, name: str) -> bool:
    """Return whether an expression is visibly a number: of constants, reads, and the one before."""
    if isinstance(node, ast.BinOp):
        return _counts(node.left, name) and _counts(node.right, name)
    if isinstance(node, ast.UnaryOp):
        return _counts(node.operand, name)
    if isinstance(node, ast.Attribute):
        return node.attr == name
    if isinstance(node, ast.Call):
        return _is_read(node) or ast.unparse(node.func) in ("len", "float", "int")
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _is_ours(name: str, module: ast.Module, imported: dict[str, str]) -> None:
    """Raise ``UnfitError`` if code that may be compiled uses a container in another way, too."""
    parents = {id(part): one for one in ast.walk(module) for part in ast.iter_child_nodes(one)}
    inside = {id(part) for one in compiled(module) for part in ast.walk(one)}
    made, uses = 0, list[object]()
    for node in ast.walk(module):
        if isinstance(node, ast.AnnAssign | ast.Assign) and (value := _sets(node, name)):
            if not _fresh(value[0]):
                raise UnfitError(f"{name} may be another object's, too")
            made += 1
        elif not isinstance(node, ast.Attribute) or node.attr != name:
            continue
        elif isinstance(node.ctx, ast.Load):
            parent = parents[id(node)]
            if id(node) in inside:
                key = parent.slice if isinstance(parent, ast.Subscript) else None
                uses.append(key.value if isinstance(key, ast.Constant) else None)
            elif _escapes(parent, node, imported):
                raise UnfitError(f"{name} gets another name")
    if not made:
        raise UnfitError(f"what {name} is was not found")
    if len(uses) > 1 and (None in uses or len(set(uses)) < len(uses)):
        raise UnfitError(f"{name} is used by other code that is compiled")


def _sets(node: ast.AnnAssign | ast.Assign | ast.AugAssign, name: str) -> list[ast.expr | None]:
    """Return the value that a statement sets an attribute to, in a list; empty if it does not."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for one in targets:
        if isinstance(one, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = zip(one.elts, node.value.elts, strict=False)
            return [value for to, value in pairs if getattr(to, "attr", "") == name]
        for part in ast.walk(one):
            if isinstance(part, ast.Attribute) and part.attr == name:
                if isinstance(part.ctx, ast.Store):
                    return [node.value if part is one else None]
            elif isinstance(node, ast.AnnAssign) and ast.unparse(part) == name:
                return [node.value]
    return []


def _escapes(parent: ast.AST, node: ast.Attribute, imported: dict[str, str]) -> bool:
    """Return whether a use in code that is not compiled may give a container another name."""
    if isinstance(parent, ast.Call) and node in parent.args:
        root: ast.expr = parent.func
        while isinstance(root, ast.Attribute):
            root = root.value
        name = root.id if isinstance(root, ast.Name) else "str" if _text(root) else ""
        return not (hasattr(builtins, name) or name in imported)
    kinds = (ast.Attribute, ast.Subscript, ast.comprehension, ast.For, ast.FormattedValue)
    return not isinstance(parent, kinds)


def _text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


class _Lifted(ast.NodeTransformer):
    """Replaces what is computed in the graph by ``given[0]``, and the object by its own."""

    def __init__(self, given: Given, held: ast.Attribute) -> None:
        self._given = given
        self._held = ast.unparse(held)
        self._holder = held.attr

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and ast.unparse(node) == self._held:
            return ast.parse(f"_graphbreak_held(holder).{self._holder}", mode="eval").body
        found: ast.AST = super().visit(node)
        return found

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        node.value = self._expression(node.value)
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, ast.expr) or isinstance(node, ast.Constant) or _fresh(node):
            return super().generic_visit(node)
        if any(ast.unparse(one) == self._held for one in ast.walk(node)):
            return super().generic_visit(node)  # the call itself
        if _is_read(node):
            assert isinstance(node, ast.Call)
            function = node.func
            if isinstance(function, ast.Attribute):
                function.value = self._passed(function.value, read=True)
            else:
                node.args = [self._passed(node.args[0], read=True)]
            return node
        if any(_is_read(one) for one in _inner(node)) and _open(node):
            return self._inside(node)
        if isinstance(node, ast.Starred | ast.NamedExpr | ast.Await):
            raise UnfitError("it is given more than values")
        return self._passed(node, read=False)

    def _inside(self, node: ast.expr) -> ast.AST:
        """Return an expression with its parts replaced, but not the function that it calls."""
        if not isinstance(node, ast.Call):
            return super().generic_visit(node)
        node.args = [self._expression(one) for one in node.args]
        node.keywords = [
            ast.keyword(one.arg, value=self._expression(one.value)) for one in node.keywords
        ]
        return node

    def _expression(self, node: ast.expr) -> ast.expr:
        found = self.visit(node)
        assert isinstance(found, ast.expr)
        return found

    def _passed(self, node: ast.expr, *, read: bool) -> ast.expr:
        self._given.append((node, read))
        return ast.parse(f"given[{len(self._given) - 1}]", mode="eval").body


def _is_read(node: ast.AST) -> bool:
    """Return whether an expression reads the value of what may be a tensor."""
    if not isinstance(node, ast.Call) or node.keywords:
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in _READS and not node.args
    name = ast.unparse(node.func)
    plain = len(node.args) == 1 and not any(map(_is_read, _inner(node)))
    return name in ("float", "int") and plain


def _inner(node: ast.AST) -> Iterator[ast.AST]:
    return (one for one in ast.walk(node) if one is not node)


def _open(node: ast.expr) -> bool:
    """Return whether an expression only makes a text or a number of what it holds."""
    if isinstance(node, ast.Call):
        text = isinstance(node.func, ast.Attribute) and _text(node.func.value)
        named = isinstance(node.func, ast.Name) and node.func.id in _FORMATS
        return text or named
    return isinstance(node, _OPEN)
