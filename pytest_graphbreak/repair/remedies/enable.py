"""Code that was taken out of the compiler goes back in, or as little of it as possible stays out.

Before::

    @torch.compiler.disable
    def helper(x):
        return x + 1

After: the same without the decorator; ``f = torch.compiler.disable(f)`` becomes ``f = f``, and a
line with ``torch._dynamo.graph_break()`` goes. A line that only writes, and that no other remedy
takes, runs ``if not torch.compiler.is_compiling():``. A function that cannot be compiled is
disabled as a whole, which is one break in place of several.

When not: where the function was disabled since it gives other results compiled, or is slower; the
run of the patched program tells the former.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.patch import (
    Change,
    Rewrite,
    SourcePatch,
    UnfitError,
    switch,
)
from pytest_graphbreak.repair.rewrite.names import computes
from pytest_graphbreak.repair.rewrite.reasons import inlined_frames, reads_value
from pytest_graphbreak.repair.rewrite.tree import (
    Place,
    Tree,
    attribute_of,
    calls,
    code,
    only,
    parse,
    rewriting,
)
from pytest_graphbreak.repair.trial import Trial

_DISABLES: Final = {"torch.compiler.disable", "torch._dynamo.disable"}
_WRITES: Final = ("print", "write", "writelines", "flush", "append", "extend", "update", "warn")
_LEVELS: Final = ("debug", "info", "warning", "error", "exception", "critical")


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    here, name = item.where, advice.name(item)
    if name == "graph-break" or "graph_break" in here.code:
        yield SourcePatch("the explicit graph break is gone", (Rewrite(without_break, here),))
    if name == "disabled" or "disable" in item.reason:
        yield from _propose_enabled(item, trial)
    if not reads_value(item) and name != "disabled":
        lost = f"`{here.code}` no longer happens in compiled code"
        title = "the statement runs only where the code is not compiled"
        yield SourcePatch(title, (Rewrite(only_eager, here),), lost)


def propose_uncompiled(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose fewer graphs around code that stays out of the graph: the last of all remedies."""
    frames = list(inlined_frames(item, trial))
    if frames:
        title = "nested_graph_breaks: a break cuts the outermost function once"
        yield SourcePatch(title, (switch("nested_graph_breaks"),))
    for frame in frames[:2]:
        last = frame.function.rpartition(".")[2]
        edit = Rewrite(disable, frame, decorator="torch.compiler.disable")
        note = f"{frame.function} is not compiled any more"
        yield SourcePatch(f"{last} runs uncompiled, as one piece", (edit,), note=note, leaves=True)


def _propose_enabled(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to compile the disabled functions of the files on the stack, the one named first.

    A hook is called by torch's own line, and ``__init__`` by the name of its class, so the line
    that breaks need not name what is disabled.
    """
    text = "\n".join((item.where.code, item.reason, item.explanation, *item.hints))
    functions: dict[tuple[str, str], bool] = {}
    for file in dict.fromkeys((item.where.file, *(x.file for x in item.stack), *trial.sites)):
        source = trial.source(Frame(file, "", 0, ""))
        for name in _disabling_nodes(parse(source)) if source else ():
            parts = name.split(".")
            owner = parts[-2] if parts[-1] == "__init__" and len(parts) > 1 else ""
            functions[file, name] = (owner or parts[-1]) in text
    for file, name in sorted(functions, key=lambda key: not functions[key]):
        title = f"{name.rpartition('.')[2]} is compiled: no torch.compiler.disable"
        yield SourcePatch(title, (Rewrite(enable, Frame(file, name, 0, "")),))


def _is_disable(node: cst.CSTNode, tree: Tree) -> bool:
    """Return whether a node is ``torch.compiler.disable``, or a call of it with options."""
    called = node.func if isinstance(node, cst.Call) else node
    return bool(tree.names_of(called) & _DISABLES)


def _disabling_nodes(tree: Tree) -> dict[str, list[cst.CSTNode]]:
    """Return the nodes that disable functions, by the qualified name of the function."""
    nodes: dict[str, list[cst.CSTNode]] = {}
    for name, function in tree.functions:
        for decorator in function.decorators:
            if _is_disable(decorator.decorator, tree):
                nodes.setdefault(name, []).append(decorator)
    for call in calls(tree.module):
        if call.args and _is_disable(call.func, tree):
            nodes.setdefault(code(call.args[0].value), []).append(call)
    return nodes


@lru_cache(maxsize=64)
def enable(source: str, where: Frame) -> str | None:
    """Return a file without what disables the function of a place."""
    tree = parse(source)
    changes: dict[cst.CSTNode, list[cst.CSTNode]] = {
        node: [node.args[0].value] if isinstance(node, cst.Call) else []
        for node in _disabling_nodes(tree).get(where.function, ())
    }
    return tree.replaced(changes) if changes else None


_DESCRIPTORS: Final = m.Decorator(
    m.OneOf(
        *map(m.Name, ("staticmethod", "classmethod", "property", "cached_property")),
        m.Attribute(attr=m.OneOf(m.Name("setter"), m.Name("cached_property"))),
    )
)
"""Decorators that make something else of a function, which no other decorator takes."""


def decorating(name: str) -> Change:
    """Return the change that puts a decorator before those of a function, or behind @property."""

    @lru_cache(maxsize=64)
    def change(source: str, where: Frame) -> str | None:
        tree = parse(source)
        changes: dict[cst.CSTNode, list[cst.CSTNode]] = {}
        for full, node in tree.functions:
            if full == where.function:
                ends = [at for at, x in enumerate(node.decorators, 1) if m.matches(x, _DESCRIPTORS)]
                first = max(ends, default=0)
                new = cst.Decorator(cst.parse_expression(name))
                every = [*node.decorators[:first], new, *node.decorators[first:]]
                changes[node] = [node.with_changes(decorators=every)]
        return tree.replaced(changes) if changes else None

    return change


disable: Final = decorating("torch.compiler.disable")


def _without_break(place: Place) -> Sequence[cst.BaseStatement]:
    statement = only(place.node)
    call = statement.value if isinstance(statement, cst.Expr) else None
    if not isinstance(call, cst.Call) or "graph_break" not in (attribute_of(call), code(call.func)):
        raise UnfitError("it is no call of graph_break")
    return []


def _only_eager(place: Place) -> Sequence[cst.BaseStatement]:
    """Return a line that runs in eager code only; UnfitError if it may raise or change a tensor."""
    statement = only(place.node)
    call = statement.value if isinstance(statement, cst.Expr) else None
    if not isinstance(call, cst.Call):
        raise UnfitError("it is no call alone")
    last = attribute_of(call) or code(call.func)
    arguments = [argument.value for argument in call.args]
    if last not in (*_WRITES, *_LEVELS) or not all(map(computes, arguments)):
        raise UnfitError(f"`{code(call)[:60]}` may raise, and compiled code would go on")
    test = cst.parse_expression("not torch.compiler.is_compiling()")
    line = place.node.with_changes(leading_lines=[])
    return [cst.If(test, cst.IndentedBlock([line]))]


without_break: Final = rewriting(_without_break)
only_eager: Final = rewriting(_only_eager)
