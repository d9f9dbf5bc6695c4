"""Sizes that vary from call to call become inputs of the graph.

Before::

    f = torch.compile(f, dynamic=False)

After::

    f = torch.compile(f, dynamic=True)

When not: where the code needs a size as a number (``range(x.shape[0])``, ``if n % 2:``), it is
compiled for each; then pad to a few sizes. Nor on a device whose compiler takes fixed sizes only:
it compiles each graph of Dynamo for each size. A graph of fixed sizes may be faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import libcst as cst

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch, switch
from pytest_graphbreak.repair.rewrite.tree import calls, parse
from pytest_graphbreak.repair.trial import Trial

_NOT_STATIC: Final = switch("assume_static_by_default", "False")
_COMPILE: Final = "torch.compile"


def recompiles(trial: Trial) -> Iterator[SourcePatch]:
    """Propose to make all sizes and numbers inputs: in the program's own calls, or by a setting."""
    for file in trial.sites:
        here = Frame(file, "<module>", 0, "")
        if _compiles(trial.source(here)):
            edit = Rewrite(as_dynamic, here)
            yield SourcePatch("dynamic=True: sizes and numbers are inputs of the graph", (edit,))
    title = "assume_static_by_default = False: sizes and numbers are inputs of the graph"
    yield SourcePatch(title, (_NOT_STATIC,))


@lru_cache(maxsize=64)
def as_dynamic(source: str, where: Frame) -> str | None:
    """Return a file in which ``dynamic=True`` is an argument of each call of ``torch.compile``."""
    changes: dict[cst.CSTNode, Sequence[cst.CSTNode]]
    changes = {call: [_with_dynamic(call)] for call in _compiles(source)}
    return parse(source).replaced(changes) if changes else None


def _with_dynamic(call: cst.Call) -> cst.Call:
    arguments = [x for x in call.args if x.keyword is None or x.keyword.value != "dynamic"]
    if arguments:
        arguments[-1] = arguments[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    argument = cst.ensure_type(cst.parse_expression("f(dynamic=True)"), cst.Call).args[0]
    return call.with_changes(args=[*arguments, argument])


def _compiles(source: str) -> list[cst.Call]:
    tree = parse(source)
    return [call for call in calls(tree.module) if _COMPILE in tree.names_of(call.func)]
