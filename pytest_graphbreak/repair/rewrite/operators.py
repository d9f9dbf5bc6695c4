"""The statements of ``torch.cond``: what its sides may do, take and give."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.repair.patch import UnfitError
from pytest_graphbreak.repair.rewrite.names import changing, draws
from pytest_graphbreak.repair.rewrite.tree import code, function, only, statements, walk

_FRESH: Final = m.OneOf(m.BinaryOperation(), m.Comparison())
"""What is surely a new tensor, and no input of the operator."""
_LEAVES: Final = m.OneOf(
    *(m.Return(), m.Break(), m.Continue(), m.Raise(), m.Yield(), m.Await(), m.Try(), m.With()),
    *(m.Global(), m.Nonlocal(), m.Del(), m.NamedExpr(), m.Import(), m.ImportFrom()),
    m.AssignTarget(target=m.Attribute()),
)
"""What no side of an operator can do."""


def cond_of(
    test: str,
    sides: Sequence[Sequence[cst.BaseStatement]],
    results: Sequence[str],
    operands: Sequence[str],
    head: str,
) -> Sequence[cst.BaseStatement]:
    """Return ``HEADtorch.cond(...)`` below the functions of its sides, which take the operands."""
    names = ", ".join(operands)
    lines = [
        function(f"_when_{name}({names})", [*side, *statements(f"return {result}")])
        for name, side, result in zip(("true", "false"), sides, results, strict=True)
    ]
    values = f"({names},)" if operands else "()"
    return [*lines, *statements(f"{head}torch.cond({test}, _when_true, _when_false, {values})")]


def refuse(nodes: Sequence[cst.BaseStatement]) -> None:
    """Raise ``UnfitError`` if statements do what no side of an operator can do."""
    if call := draws(nodes):
        raise UnfitError(f"`{call}` draws random numbers")
    bad = changing(nodes) or [node for node in walk(nodes) if m.matches(node, _LEAVES)]
    if bad:
        raise UnfitError(f"it holds `{code(bad[0])[:60]}`")


def output_of(name: str, side: Sequence[cst.BaseStatement], lists: Collection[str] = ()) -> str:
    """Return an expression for a result that is no input: cloned where it may be one."""
    if name in lists:
        return f"[_tensor.clone() for _tensor in {name}]"
    values = [
        statement.value
        for statement in map(only, side)
        if isinstance(statement, cst.Assign)
        and m.matches(statement.targets[-1].target, m.Name(name))
    ]
    return name if values and m.matches(values[-1], _FRESH) else f"{name}.clone()"


def return_value(value: cst.BaseExpression | None) -> str:
    """Return the value of a ``return``, its names cloned: an operator may not give an input."""
    elements = [x.value for x in value.elements] if isinstance(value, cst.Tuple) else [value]
    texts = [
        f"{code(part)}.clone()" if isinstance(part, cst.Name) else code(part)
        for part in elements
        if part is not None
    ]
    return f"({', '.join(texts)},)" if isinstance(value, cst.Tuple) else texts[0]
