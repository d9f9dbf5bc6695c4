"""Numbers that are read from tensors become constants of the graph, which checks them (--assume).

Before::

    for length in lengths.tolist():

After::

    for length in torch._graphbreak_numbers(lengths):

The numbers are those of the call that is compiled. Other values of small integer inputs are
compiled again; where numbers change otherwise, the graph raises RuntimeError.

When not: where the numbers vary from call to call, or a random number is one: only for sizes and
lengths that belong to an input, such as those of the images of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.patch import Preamble, Rewrite, SourcePatch
from pytest_graphbreak.repair.rewrite.helpers import _graphbreak_tensors, helper, wrap_calls
from pytest_graphbreak.repair.rewrite.names import draws
from pytest_graphbreak.repair.rewrite.reasons import reads_value
from pytest_graphbreak.repair.rewrite.tree import attribute_of, calls, code, parse
from pytest_graphbreak.repair.trial import Trial

if TYPE_CHECKING:
    import torch

_READS: Final = m.Call(func=m.Attribute(attr=m.OneOf(m.Name("item"), m.Name("tolist"))), args=[])
_NOTE: Final = (
    "compiled again for other values of small integer inputs; where the numbers change "
    "with another input, the graph raises RuntimeError"
)


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose constants for all numbers that functions with breaks read: one helps little."""
    if not reads_value(item):
        return
    places = {x.where.key: x.where for x in (item, *trial.record.breaks) if reads_value(x)}
    edits = [Rewrite(change, place) for place in places.values() if _fits(place, trial)]
    if edits:
        title = "the numbers that the code reads are constants of the graph, which checks them"
        yield SourcePatch(title, (*HELPERS, *edits), note=_NOTE, assumes=True)


def _fits(place: Frame, trial: Trial) -> bool:
    source = trial.source(place)
    return bool(source) and change(source, place) is not None


@lru_cache(maxsize=256)
def change(source: str, where: Frame) -> str | None:
    """Return a file in which a function reads its numbers as constants."""
    tree = parse(source)
    changes: dict[cst.CSTNode, list[cst.CSTNode]] = {}
    for name, function in tree.functions:
        if name != where.function:
            continue
        for call in calls(function.body):
            if m.matches(call, _READS) and not draws([call]):
                changes[call] = [_constant(call)]
    return tree.replaced(changes) if changes else None


def _constant(call: cst.Call) -> cst.BaseExpression:
    tensor = code(cst.ensure_type(call.func, cst.Attribute).value)
    shape = ".reshape(())" if attribute_of(call) == "item" else ""
    return cst.parse_expression(f"torch._graphbreak_numbers({tensor}{shape})")


_graphbreak_case = ""
_graphbreak_constant: Any = None


def _graphbreak_numbers(value: Any) -> Any:
    """Return the numbers of a tensor as constants of the graph, which checks them in each call."""
    if not torch.compiler.is_compiling():
        return value.tolist()
    if _graphbreak_case == "":  # reading it adds a guard: other small inputs get another graph
        pass
    numbers = _graphbreak_constant(value)
    constants = torch.tensor(numbers, dtype=value.dtype, device=value.device)
    same = (value == constants) | ((value != value) & (constants != constants))
    if value.is_floating_point():  # 0.0 == -0.0, and 1 / x distinguishes them
        same = same & ((torch.signbit(value) == torch.signbit(constants)) | (value != value))
    torch._assert_async(same.all(), "graphbreak: numbers that are constants of the graph changed")
    return numbers


def _graphbreak_by_case(model: Any, inner: Any) -> Any:
    """Compile again for other values of small integer arguments, except for ids and labels."""
    free = ("input_ids", "position_ids", "labels")

    def call(*args: Any, **kwargs: Any) -> Any:
        global _graphbreak_case
        case = [
            (name, tensor.tolist())
            for name, tensor in _graphbreak_tensors(model, args, kwargs)
            if not tensor.is_floating_point() and not tensor.is_complex()
            if tensor.numel() <= 4096 and not name.endswith(free)
        ]
        _graphbreak_case = repr(case)
        return inner(*args, **kwargs)

    return call


_CONSTANT: Final = Preamble(
    '_graphbreak_case = ""\n'
    "_graphbreak_constant = torch._dynamo.assume_constant_result(lambda value: value.tolist())"
)
HELPERS: Final = (
    _CONSTANT,
    helper(_graphbreak_numbers),
    # It is set even if the file is only imported: its functions call it.
    Preamble("_graphbreak_set = torch._graphbreak_numbers = _graphbreak_numbers"),
    helper(_graphbreak_tensors),
    *wrap_calls(_graphbreak_by_case),
)
