"""Sizes that vary from call to call become inputs of the graph.

Before::

    f = torch.compile(f, dynamic=False)

After::

    f = torch.compile(f, dynamic=True)

Where that is no gain, the sizes that vary are marked above the call, a line for each argument::

    torch._dynamo.mark_dynamic(x, 0)
    y = f(x)

When not: where the code needs a size as a number (``range(x.shape[0])``, ``if n % 2:``), it is
compiled for each; then pad to a few sizes. Nor on a device whose compiler takes fixed sizes only:
it compiles each graph of Dynamo for each size. A graph of fixed sizes may be faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache

import libcst as cst

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.patch import COMPILES, Change, SourcePatch
from pytest_graphbreak.repair.rewrite.compiles import calls_of_compiled, compile_calls, insert
from pytest_graphbreak.repair.rewrite.tree import code, parse
from pytest_graphbreak.repair.trial import Trial


def recompiles(trial: Trial) -> Iterator[SourcePatch]:
    """Propose to make sizes inputs: all in the program's calls, then those that vary."""
    title = "dynamic=True: sizes and numbers are inputs of the graph"
    yield SourcePatch(title, as_dynamic, COMPILES)
    for call in trial.varies:
        for name, dims in call["dims"].items():
            text = str(dims[0] if len(dims) == 1 else dims)
            base, bracket, key = name.partition("[")
            if base in call["parameters"]:
                place = call["parameters"].index(base)
                change = marking(place, base, bracket + key, text)
                title = f"mark_dynamic for the sizes that vary: {name} {text}"
                yield SourcePatch(title, change, COMPILES)


@lru_cache(maxsize=64)
def as_dynamic(source: str, where: Frame) -> str | None:
    """Return a file in which ``dynamic=True`` is an argument of each call of ``torch.compile``."""
    tree = parse(source)
    changes: dict[cst.CSTNode, str]
    changes = {call: code(_with_dynamic(call)) for call in compile_calls(tree)}
    return tree.replaced(changes) if changes else None


def _with_dynamic(call: cst.Call) -> cst.Call:
    arguments = [x for x in call.args if x.keyword is None or x.keyword.value != "dynamic"]
    if arguments:
        arguments[-1] = arguments[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    argument = cst.ensure_type(cst.parse_expression("f(dynamic=True)"), cst.Call).args[0]
    return call.with_changes(args=[*arguments, argument])


@cache
def marking(place: int, name: str, key: str, dims: str) -> Change:
    """Return the change that marks sizes of an argument above each call of what is compiled.

    The argument is a variable at its ``place``, or given by its ``name``; ``key`` is what leads
    from there to the tensor: ``['ids']``.
    """

    def change(source: str, where: Frame) -> str | None:
        tree = parse(source)
        lines: dict[cst.CSTNode, str] = {}
        for call in calls_of_compiled(tree):
            keywords = [x.value for x in call.args if x.keyword and x.keyword.value == name]
            values = [*keywords, *(x.value for x in call.args[place : place + 1] if not x.keyword)]
            if values and isinstance(values[0], cst.Name):
                text = f"torch._dynamo.mark_dynamic({values[0].value}{key}, {dims})"
                lines[call] = text
        return insert(tree, lines) if lines else None

    return change
