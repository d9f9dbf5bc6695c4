"""Rewrites other statements and whole functions: removed calls, numbers, decorators."""

from __future__ import annotations

import ctypes
import math
from typing import Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.repair.rewrite.line import (
    READ,
    TIGHT,
    Replacement,
    Rewriter,
    Statement,
    kept_tensors,
    replaced,
    text_of,
)
from pytest_graphbreak.repair.rewrite.scope import UnfitError
from pytest_graphbreak.repair.rewrite.writes import NOTES, notes, reads, writes


def keep_tensor(node: Statement) -> Replacement | None:
    """Rewrite ``y * t.item()`` as ``y * t.detach()``, everywhere in one statement.

    Without ``detach`` gradients would flow through what was a number. Raises ``UnfitError`` if the
    number is kept by an object: code that is not compiled would find a tensor there.
    """
    if not isinstance(node, cst.SimpleStatementLine):
        return None
    kept = kept_tensors(node, "detach")
    if kept is not None and m.findall(node, _KEEPS):
        raise UnfitError("the number is kept by an object, which would hold a tensor")
    return kept


def _has_read(node: cst.CSTNode) -> bool:
    return bool(m.findall(node, READ))


_KEEPS: Final = m.OneOf(
    m.DictElement(value=m.MatchIfTrue(_has_read)),
    m.Assign(
        targets=[m.ZeroOrMore(), m.AssignTarget(target=m.Attribute()), m.ZeroOrMore()],
        value=m.MatchIfTrue(_has_read),
    ),
    m.AugAssign(target=m.Attribute(), value=m.MatchIfTrue(_has_read)),
    m.Expr(
        m.Call(
            func=m.Attribute(attr=m.Name(value=m.MatchIfTrue(NOTES.__contains__))),
            args=[
                m.ZeroOrMore(),
                m.Arg(value=m.MatchIfTrue(_has_read)),
                m.ZeroOrMore(),
            ],
        )
    ),
)
"""Matches ``{"loss": x.item()}``, ``self.best = x.item()`` and ``self.all.append(x.item())``."""


_CHANGES: Final = m.Call(
    func=m.OneOf(
        m.Attribute(attr=m.Name(value=m.MatchIfTrue(lambda name: name.endswith("_")))),
        m.Attribute(value=m.Name("torch")),
    )
)
"""Matches ``x.clamp_(0)`` and ``torch._check(x)``, which change a tensor or raise."""


def only_eager(node: Statement) -> Replacement | None:
    """Put a call that only writes under ``if not torch.compiler.is_compiling():``.

    Raises ``UnfitError`` if it calls what may raise: the error would be lost.
    """
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1:
        return None
    if not isinstance(node.body[0], cst.Expr) or not isinstance(node.body[0].value, cst.Call):
        return None
    call = node.body[0].value
    if m.matches(call, _CHANGES):
        return None
    for one in m.findall(call, m.Call()):
        name = text_of(cst.ensure_type(one, cst.Call).func)
        if not (writes(name) or notes(name) if one is call else reads(name)):
            raise UnfitError(f"{name} may raise, and compiled code would go on")
    return cst.If(
        test=cst.parse_expression("not torch.compiler.is_compiling()"),
        body=cst.IndentedBlock(body=[node.with_changes(leading_lines=[])]),
        leading_lines=node.leading_lines,
    )


_MADE: Final = m.Call(
    func=m.Attribute(value=m.Name("torch"), attr=m.Name("tensor")),
    args=[m.Arg(keyword=None, value=m.OneOf(m.Integer(), m.Float()))],
)


def tensor_to_number(node: Statement) -> Replacement | None:
    """Rewrite ``y * torch.tensor(3.0)`` as ``y * 3.0``, everywhere in one statement.

    The number is the value that the tensor has in float32: 0.1 is 0.10000000149011612.
    """

    def number(call: cst.CSTNode) -> cst.BaseExpression:
        value = cst.ensure_type(call, cst.Call).args[0].value
        if not isinstance(value, cst.Float):
            return value
        held = ctypes.c_float(float(value.value)).value
        return cst.Float(repr(held)) if math.isfinite(held) else cst.ensure_type(call, cst.Call)

    return replaced(node, _MADE, number) if isinstance(node, cst.SimpleStatementLine) else None


_FLAG: Final = m.Arg(keyword=m.Name(), value=m.Comparison())


def plain_flags(node: Statement) -> Replacement | None:
    """Rewrite ``f(x, causal=n > 1)`` as ``f(x, causal=True if n > 1 else False)``."""

    def decided(found: cst.CSTNode) -> cst.CSTNode:
        test = cst.ensure_type(found, cst.Arg).value
        choice = cst.IfExp(test=test, body=cst.Name("True"), orelse=cst.Name("False"))
        return found.with_changes(value=choice)

    return replaced(node, _FLAG, decided) if isinstance(node, cst.SimpleStatementLine) else None


def drop_graph_break(node: Statement) -> Replacement | None:
    """Rewrite ``torch._dynamo.graph_break()`` as ``pass``."""
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1:
        return None
    call = m.Expr(
        m.Call(func=m.OneOf(m.Attribute(attr=m.Name("graph_break")), m.Name("graph_break")))
    )
    if not m.matches(node.body[0], call):
        return None
    return node.with_changes(body=[cst.Pass()])


_DISABLE = m.Decorator(
    m.OneOf(
        m.Attribute(attr=m.Name("disable")),
        m.Name("disable"),
        m.Call(func=m.Attribute(attr=m.Name("disable"))),
        m.Call(func=m.Name("disable")),
    )
)


def enable(node: Statement) -> Replacement | None:
    """Remove ``@torch.compiler.disable`` from a function."""
    if not isinstance(node, cst.FunctionDef):
        return None
    kept = [one for one in node.decorators if not m.matches(one, _DISABLE)]
    return node.with_changes(decorators=kept) if len(kept) < len(node.decorators) else None


def transposed(node: Statement) -> Replacement | None:
    """Rewrite ``x.T`` as ``x.t()``, which is no second input of a loop beside ``x``."""

    def called(attribute: cst.CSTNode) -> cst.CSTNode:
        named = cst.ensure_type(attribute, cst.Attribute).with_changes(attr=cst.Name("t"))
        return cst.Call(named)

    matcher = m.Attribute(attr=m.Name("T"))
    return replaced(node, matcher, called) if isinstance(node, cst.FunctionDef) else None


_POSITIONAL: Final = m.Arg(keyword=None, star="")
_GROUPED: Final = m.Call(
    func=m.OneOf(m.Name("groupby"), m.Attribute(attr=m.Name("groupby"))),
    args=[_POSITIONAL, _POSITIONAL],
)


def group_key(node: Statement) -> Replacement | None:
    """Rewrite ``groupby(x, f)`` as ``groupby(x, key=f)``, the only form that Dynamo supports."""

    def named(call: cst.CSTNode) -> cst.CSTNode:
        first, key = cst.ensure_type(call, cst.Call).args
        key = key.with_changes(keyword=cst.Name("key"), equal=TIGHT)
        return call.with_changes(args=[first, key])

    return replaced(node, _GROUPED, named) if isinstance(node, cst.FunctionDef) else None


_WRITTEN: Final = m.OneOf(m.FormattedString(), m.ConcatenatedString())
_CHECKS: Final = m.Call(
    func=m.OneOf(
        m.Name("torch_compilable_check"), m.Attribute(attr=m.Name("torch_compilable_check"))
    ),
    args=[
        m.ZeroOrMore(),
        m.OneOf(m.Arg(_WRITTEN, keyword=None), m.Arg(_WRITTEN, keyword=m.Name("msg"))),
        m.ZeroOrMore(),
    ],
)
"""Matches a check of transformers 5 (``utils/import_utils.py``), which takes text or a function."""


def later_messages(node: Statement) -> Replacement | None:
    """Rewrite ``torch_compilable_check(ok, f"... {n}")`` as ``... (ok, lambda: f"... {n}")``.

    To write a size as text fixes it: the function is compiled for each.
    """

    def later(call: cst.CSTNode) -> cst.CSTNode:
        args = [
            one.with_changes(value=cst.Lambda(cst.Parameters(), one.value))
            if m.matches(one.value, _WRITTEN)
            else one
            for one in cst.ensure_type(call, cst.Call).args
        ]
        return call.with_changes(args=args)

    return replaced(node, _CHECKS, later) if isinstance(node, cst.FunctionDef) else None


_MADE_TO: Final = m.Decorator(
    m.OneOf(
        *map(m.Name, ("staticmethod", "classmethod", "property", "cached_property")),
        m.Attribute(attr=m.OneOf(m.Name("setter"), m.Name("cached_property"))),
    )
)
"""Decorators that make something else of a function, which no other decorator takes."""


def decorate(name: str) -> Rewriter:
    """Return a rewriter that puts a decorator on a function, before those that it has.

    It is put behind ``@property`` and its like, whose result is not a function.
    """

    def decorated(node: Statement) -> Replacement | None:
        if not isinstance(node, cst.FunctionDef):
            return None
        found = cst.Decorator(cst.parse_expression(name))
        made = [number for number, one in enumerate(node.decorators) if m.matches(one, _MADE_TO)]
        first = max(made, default=-1) + 1
        every = [*node.decorators[:first], found, *node.decorators[first:]]
        return node.with_changes(decorators=every)

    return decorated
