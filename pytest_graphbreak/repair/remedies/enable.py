"""Code that was taken out of the compiler goes back in, and breaks that were left over go.

Before::

    @torch.compiler.disable
    def helper(x):
        torch._dynamo.graph_break()
        return x + 1

After: the same without the decorator and the break; a line ``f = torch.compiler.disable(f)`` goes.

When not: where the function was disabled since it gives other results compiled, or is slower; the
run of the patched program tells the former.

``propose`` is called for each break, ``item``, of the run ``trial``. A ``SourcePatch`` is a change
of one file; each is tried by a run of its own. ``tree`` finds places in a file with libcst.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import libcst as cst

from pytest_graphbreak import advice
from pytest_graphbreak.model.items import Break
from pytest_graphbreak.repair.patches import Change, SourcePatch, UnfitError
from pytest_graphbreak.repair.remedies.tree import (
    Place,
    Tree,
    attribute_of,
    calls,
    code,
    only,
    parse,
    rewriting,
    with_lines,
)
from pytest_graphbreak.repair.trial import Trial

_DISABLES: Final = {"torch.compiler.disable", "torch._dynamo.disable"}
"""The names of the decorator that is removed."""


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to remove an explicit break, or what disables a function.

    ``advice`` names a break by torch's words. The conditions with ``in`` take breaks to which it
    gives no such name; a patch too many costs a run of the program, no more.
    """
    here, name = item.where, advice.name(item)
    if name == "graph-break" or "graph_break" in here.code:
        yield SourcePatch("the explicit graph break is gone", rewriting(no_break, here), here.file)
    if name == "disabled" or "disable" in item.reason:
        yield from _propose_enabled(item, trial)


def _propose_enabled(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to compile the disabled functions of the files on the stack, the one named first.

    The line that breaks need not name what is disabled: a hook is called by a line of torch. So all
    disabled functions are proposed, those first whose name is in the line or in torch's words about
    it. ``Net.__init__`` is called by the name of its class: ``y = Net(x)``.
    """
    text = "\n".join((item.where.code, item.reason, item.explanation, *item.hints))
    is_named: dict[tuple[str, str], bool] = {}  # by file and function
    for file in dict.fromkeys((item.where.file, *(x.file for x in item.stack), *trial.sites)):
        source = trial.source(file)
        for name in _disabling_nodes(parse(source)) if source else ():
            parts = name.split(".")
            owner = parts[-2] if parts[-1] == "__init__" and len(parts) > 1 else ""
            is_named[file, name] = (owner or parts[-1]) in text
    for file, name in sorted(is_named, key=lambda key: not is_named[key]):
        title = f"{name.rpartition('.')[2]} is compiled: no torch.compiler.disable"
        yield SourcePatch(title, enabling(name), file)


def _is_disable(node: cst.CSTNode, tree: Tree) -> bool:
    """Return whether a node is ``torch.compiler.disable``, or a call of it with options."""
    called = node.func if isinstance(node, cst.Call) else node
    return bool(tree.names_of(called) & _DISABLES)


def _disabling_nodes(tree: Tree) -> dict[str, list[cst.CSTNode]]:
    """Return the nodes that disable functions, by the qualified name of the function.

    Decorators, and calls such as ``torch.compiler.disable(f)``, whose argument is the name. A
    decorator ``@torch.compiler.disable(recursive=False)`` is a call, too, but not of a function.
    """
    nodes: dict[str, list[cst.CSTNode]] = {}
    for name, function in tree.functions:
        for decorator in function.decorators:
            if _is_disable(decorator.decorator, tree):
                nodes.setdefault(name, []).append(decorator)
    for call in calls(tree.module):
        functions = [x.value for x in call.args if x.keyword is None or x.keyword.value == "fn"]
        if functions and _is_disable(call.func, tree):
            nodes.setdefault(code(functions[0]), []).append(call)
    return nodes


def enabling(function: str) -> Change:
    """Return the change that takes away what disables a function, by its qualified name.

    A decorator goes, and so does the line ``f = torch.compiler.disable(f)``. Of another call the
    function stays: ``g = torch.compiler.disable(f)`` becomes ``g = f``.
    """

    def change(source: str) -> str | None:
        tree = parse(source)
        gone: dict[cst.CSTNode, str] = {}
        inner: dict[cst.CSTNode, str] = {}
        for node in _disabling_nodes(tree).get(function, ()):
            if not isinstance(node, cst.Call):
                gone[node] = ""
            elif code(set_to := tree.parents[node]) == f"{function} = {code(node)}":
                gone[tree.parents[set_to]] = ""
            else:
                inner[node] = function
        if gone:
            return with_lines(tree, gone)
        return tree.replaced(inner) if inner else None

    return change


def no_break(place: Place) -> str:
    """Return "", no line, in the place of ``torch._dynamo.graph_break()``.

    Raises ``UnfitError`` for any other statement. It is a ``tree.Writer``.
    """
    statement = only(place.node)
    call = statement.value if isinstance(statement, cst.Expr) else None
    if not isinstance(call, cst.Call) or "graph_break" not in (attribute_of(call), code(call.func)):
        raise UnfitError("it is no call of graph_break")
    return ""
