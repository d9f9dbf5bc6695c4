"""The part of a statement that only writes, which may run later than the code around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import libcst as cst
from libcst import matchers as m
from msgspec import Struct

from pytest_graphbreak.repair.patch import UnfitError
from pytest_graphbreak.repair.rewrite.names import changing, computes, draws, imports
from pytest_graphbreak.repair.rewrite.tree import (
    Place,
    Tree,
    body,
    code,
    function,
    only,
    statements,
    walk,
)

_LEVELS: Final = ("debug", "info", "warning", "error", "exception", "critical", "log")
_LOGS: Final = m.Call(func=m.Attribute(attr=m.OneOf(*map(m.Name, _LEVELS))))
"""Matches a call of a logger's method."""
_WRITES: Final = {"builtins.print", "warnings.warn"}
_DEFINES: Final = (cst.Import, cst.ImportFrom, cst.FunctionDef, cst.ClassDef)


class Writing(Struct, frozen=True):
    """What a statement writes, and what the function passes to it."""

    line: cst.BaseStatement
    remainder: Sequence[cst.BaseStatement]
    """What the statement does besides."""
    arguments: dict[str, str]
    """The names that it reads, with the text that passes each."""
    numbers: tuple[str, ...]
    """Those that may be numbers of Python."""

    @property
    def values(self) -> str:
        return ", ".join(self.arguments.values())

    def definition(self, name: str) -> str:
        """Return the function of a name that writes, and is not compiled."""
        back = [f"{x} = {x}.item() if {x}_is_number else {x}" for x in self.numbers]
        names = [f"{x}, {x}_is_number" if x in self.numbers else x for x in self.arguments]
        lines = [*statements("\n".join(back)), self.line.with_changes(leading_lines=[])]
        head = f"{name}({', '.join(names)})"
        return f"@torch.compiler.disable\n{code(function(head, lines))}"


def writing(place: Place) -> Writing:
    """Return what a statement writes. Raises ``UnfitError`` if it does more."""
    node, remainder = place.node, list[cst.BaseStatement]()
    part: cst.BaseStatement = node
    lines: Sequence[cst.BaseStatement] = [node]
    fits = _writes(node, place)
    if isinstance(node, cst.If) and isinstance(node.body, cst.IndentedBlock) and not node.orelse:
        lines = [x for x in node.body.body if _writes(x, place) or _prepares(x, place)]
        others = [x for x in node.body.body if x not in lines]
        remainder = [node.with_changes(body=cst.IndentedBlock(others))] if others else []
        fits = any(_writes(line, place) for line in lines)
        part = node.with_changes(body=cst.IndentedBlock(lines), leading_lines=[])
    elif isinstance(node, cst.If) and isinstance(node.orelse, cst.Else):
        lines = [*body(node.body), *body(node.orelse.body)]
        fits = all(_writes(line, place) for line in lines)
        part = node.with_changes(leading_lines=[])
    if not fits:
        raise UnfitError("it does more than write")
    if call := draws([part]):
        raise UnfitError(f"`{call}` draws random numbers, which would have another order then")
    reads = [node.test, *lines] if isinstance(node, cst.If) else [node]
    return Writing(part, remainder, *_arguments(reads, place))


def _writes(node: cst.BaseStatement, place: Place) -> bool:
    """Return whether a line only writes: output, or to an object that no function reads."""
    statement = only(node)
    if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        names = place.tree.names_of(statement.value.func)
        if names & _WRITES or m.matches(statement.value, _LOGS):
            return True
        target: cst.CSTNode = statement.value.func
    elif isinstance(statement, cst.AugAssign) and isinstance(statement.target, cst.Subscript):
        target = statement.target
    else:
        return False
    if not isinstance(target, cst.Attribute | cst.Subscript):
        return False
    return _is_only_written(target.value, place.tree)


def _is_only_written(node: cst.CSTNode, tree: Tree) -> bool:
    """Return whether a node is a variable of the module that functions use here only."""
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    access, module = tree.accesses.get(node), tree.scopes[tree.module]
    referents = access.referents if access is not None else ()
    if not referents or any(x.scope is not module for x in referents):
        return False
    uses = {use.node for x in referents for use in x.references if use.scope is not module}
    return uses == {node} and isinstance(node, cst.Name) and node.value not in imports(tree)


def _prepares(node: cst.BaseStatement, place: Place) -> bool:
    """Return whether a line computes a value for what is written beside it, and no more."""
    statement = only(node)
    if not isinstance(statement, cst.Assign) or not computes(statement.value):
        return False
    targets = [x.target for x in statement.targets]
    names = [target.value for target in targets if isinstance(target, cst.Name)]
    nodes, scope = set(walk([place.node])), place.tree.scopes[place.function.body]
    uses = [x.node for name in names if scope for a in scope[name] for x in a.references]
    return len(names) == len(targets) and all(use in nodes for use in uses)


def _arguments(
    parts: Sequence[cst.CSTNode], place: Place
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the names that a line reads, each with what is passed, and those that may be numbers.

    What has a method or an attribute is a tensor. It is copied where code of the file may change
    one in place before the graph has run.
    """
    tree, nodes = place.tree, set(walk(parts))
    functions = [function for _, function in tree.functions]
    changes = bool(changing(functions)) or bool(changing(list(tree.module.body)))
    arguments, numbers, tensors = dict[str, str](), [], set()
    for node in nodes:
        if not isinstance(node, cst.Name):
            continue
        name, has_attribute = node.value, isinstance(tree.parents[node], cst.Attribute)
        tensors |= {name} if has_attribute else set()
        if node not in tree.accesses or _is_fixed(node, tree) or _is_local(node, tree, nodes):
            continue
        copy = f"{name}.clone() if isinstance({name}, torch.Tensor) else {name}"
        arguments[name] = copy if changes and has_attribute else arguments.get(name, name)
        numbers += [] if has_attribute else [name]
    variables = tuple(dict.fromkeys(name for name in numbers if name not in tensors))
    copies = ", True" if changes else ""
    arguments |= {name: f"*_graphbreak_value({name}{copies})" for name in variables}
    return dict(sorted(arguments.items())), variables


def _is_local(node: cst.CSTNode, tree: Tree, nodes: set[cst.CSTNode]) -> bool:
    """Return whether the line itself binds what it reads."""
    return any(getattr(x, "node", None) in nodes for x in tree.accesses[node].referents)


def _is_fixed(node: cst.CSTNode, tree: Tree) -> bool:
    """Return whether a name is the same later: a builtin, an import, what the line writes to."""
    referents, module = tree.accesses[node].referents, tree.scopes[tree.module]
    if any(x.scope is not module for x in referents):
        return not any(hasattr(x, "node") for x in referents)
    if all(isinstance(getattr(x, "node", None), _DEFINES) for x in referents):
        return True
    parent = tree.parents[node]
    logs = isinstance(parent, cst.Attribute) and m.matches(tree.parents[parent], _LOGS)
    return logs or _is_only_written(node, tree)
