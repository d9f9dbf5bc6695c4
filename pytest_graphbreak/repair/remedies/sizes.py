"""Sizes that vary from call to call become inputs of the graph.

Before::

    f = torch.compile(f, dynamic=False)

After::

    f = torch.compile(f, dynamic=True)

Where only the sizes that vary should be inputs, each call marks them by ``mark_dynamic``, or by
``mark_unbacked`` where they may be 0 or 1, which are constants of a graph otherwise.

When not: where the code needs a size as a number (``range(x.shape[0])``, ``if n % 2:``), it is
compiled for each; then pad to a few sizes. Nor on a device whose compiler takes fixed sizes only:
it compiles each graph of Dynamo for each size. A graph of fixed sizes may be faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import libcst as cst

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch, switch
from pytest_graphbreak.repair.rewrite.helpers import _graphbreak_tensors, helper, wrap_calls
from pytest_graphbreak.repair.rewrite.tree import calls, parse
from pytest_graphbreak.repair.trial import Trial

if TYPE_CHECKING:
    import torch

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


def marked(trial: Trial) -> Iterator[SourcePatch]:
    """Propose to make only the sizes inputs that vary, and those of 0 and 1 as well."""
    for function in ("mark_dynamic", "mark_unbacked"):
        if table := varying(trial):
            sizes = [f"{name} {dims}" for args in table.values() for name, dims in args.items()]
            wrap = (helper(_graphbreak_tensors), *wrap_calls(_graphbreak_mark, table, function))
            yield SourcePatch(f"{function} for the sizes that vary: {', '.join(sizes)}", wrap)


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


def varying(trial: Trial) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the dimensions that vary, by callable and argument."""
    return {
        call["name"]: {name: tuple(dim for dim, _ in dims) for name, dims in call["dims"].items()}
        for call in trial.varies
    }


def _graphbreak_mark(model: Any, inner: Any, table: Any, function: str) -> Any:
    """Mark the sizes that vary, by argument, while a call lasts."""
    import copy

    dims = table.get(getattr(model, "__qualname__", type(model).__qualname__), {})
    mark = getattr(torch._dynamo.decorators, function)

    def marks(tensor: Any) -> Any:
        ours = ("_dynamo", "_specialize", "_has_dynamo")
        return {k: copy.copy(v) for k, v in vars(tensor).items() if k.startswith(ours)}

    def call(*args: Any, **kwargs: Any) -> Any:
        before: Any = []
        for name, tensor in _graphbreak_tensors(model, args, kwargs):
            if name in dims and all(tensor is not marked for marked, _ in before):
                before.append((tensor, marks(tensor)))
                for dim in dims[name]:
                    if dim < tensor.dim() and (
                        tensor.shape[dim] > 1 or function == "mark_unbacked"
                    ):
                        mark(tensor, dim)
        try:
            return inner(*args, **kwargs)
        finally:
            for tensor, had in before:
                for key in marks(tensor):
                    del vars(tensor)[key]
                vars(tensor).update(had)

    return call
