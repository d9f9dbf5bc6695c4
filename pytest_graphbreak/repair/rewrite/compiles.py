"""Where a program calls ``torch.compile``, and lines above a statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import libcst as cst

from pytest_graphbreak.repair.rewrite.tree import Tree, calls, code, walk
from pytest_graphbreak.repair.source import lines

_COMPILE: Final = "torch.compile"


def compile_calls(tree: Tree) -> list[cst.Call]:
    """Return the calls of ``torch.compile``, also as a decorator with options."""
    return [call for call in calls(tree.module) if _COMPILE in tree.names_of(call.func)]


def calls_of_compiled(tree: Tree) -> list[cst.Call]:
    """Return the calls of what the file compiles: by its variable, its own name, or at once."""
    compiled = compile_calls(tree)
    names = set[str]()
    for node in walk([tree.module]):
        if isinstance(node, cst.Assign) and node.value in compiled:
            names |= {code(target.target) for target in node.targets}
        elif isinstance(node, cst.FunctionDef) and any(
            _is_compile(x, tree) for x in node.decorators
        ):
            names.add(node.name.value)
    return [
        call for call in calls(tree.module) if call.func in compiled or code(call.func) in names
    ]


def with_setting(tree: Tree, setting: str) -> str:
    """Return a file with a line above the first statement that compiles.

    A decorator compiles, too: the line is above the outermost function or class around it. In a
    file that compiles nothing it is below the first import of torch. A module that the line needs
    and the file does not import has a line of its own.
    """
    needed = [name for name in ("torch", "warnings") if f"{name}." in setting]
    new = [*(f"import {name}" for name in needed if not _imports(tree, name)), setting]
    kinds = cst.Call | cst.Decorator
    uses = [x for x in walk([tree.module]) if isinstance(x, kinds) and _is_compile(x, tree)]
    if uses:
        return insert(tree, {uses[0]: "\n".join(new)})
    text = lines(tree.source)
    at = _below_imports(tree)
    text[at:at] = [f"{line}\n" for line in new]
    return "".join(text)


def insert(tree: Tree, new: Mapping[cst.CSTNode, str]) -> str:
    """Return a file with lines above the statements of nodes, as far to the right as these are."""
    text = lines(tree.source)
    places = {_start(node, tree): added for node, added in new.items()}
    for (line, column), added in sorted(places.items(), reverse=True):
        margin = text[line - 1][:column]
        text[line - 1 : line - 1] = [f"{margin}{part}\n" for part in added.split("\n")]
    return "".join(text)


def _is_compile(node: cst.Call | cst.Decorator, tree: Tree) -> bool:
    called = node.decorator if isinstance(node, cst.Decorator) else node
    called = called.func if isinstance(called, cst.Call) else called
    return _COMPILE in tree.names_of(called)


def _start(node: cst.CSTNode, tree: Tree) -> tuple[int, int]:
    """Return where the statement of a node begins; of a decorator, the outermost one around it."""
    statement, decorated = node, isinstance(node, cst.Decorator)
    while decorated or not isinstance(tree.parents[statement], cst.Module | cst.IndentedBlock):
        parent = tree.parents[statement]
        if isinstance(parent, cst.Module):
            break
        statement = parent
        decorated |= isinstance(statement, cst.Decorator)
    decorators = (
        statement.decorators if isinstance(statement, cst.FunctionDef | cst.ClassDef) else ()
    )
    return tree.start(decorators[0] if decorators else statement)


def _imports(tree: Tree, name: str) -> bool:
    """Return whether the file imports a module by its name."""
    imports = (alias for x in walk([tree.module]) if isinstance(x, cst.Import) for alias in x.names)
    return any((x.evaluated_alias or x.evaluated_name.partition(".")[0]) == name for x in imports)


def _below_imports(tree: Tree) -> int:
    """Return the number of lines down to the first import of torch, or to where one may stand."""
    last = 0
    for at, statement in enumerate(tree.module.body):
        text = code(statement)
        if text.startswith(("import torch", "from torch")):
            return tree.end(statement)[0]
        if (at == 0 and text.startswith(('"', "'", 'r"'))) or text.startswith("from __future__"):
            last = tree.end(statement)[0]
    return last
