"""Rewrites that turn numbers read from tensors into constants of the graph."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.repair.rewrite.line import TIGHT, Replacement, Statement, in_brackets

_TORCH: Final = m.Name("torch")
_READ: Final = m.Call(func=m.Attribute(attr=m.OneOf(m.Name("tolist"), m.Name("item"))), args=[])
_REDUCED: Final = m.Call(
    func=m.Attribute(attr=m.OneOf(m.Name("sum"), m.Name("max"), m.Name("min"))), args=[]
)
_MAKERS: Final = ("arange", "zeros", "ones", "empty", "full", "linspace")
_SIZED: Final = m.Call(
    func=m.Attribute(value=_TORCH, attr=m.OneOf(*(m.Name(name) for name in _MAKERS)))
)
_REPEATED: Final = m.Call(func=m.Attribute(attr=m.Name("repeat_interleave")))
_PLACES: Final = m.Call(
    func=m.Attribute(attr=m.Name("nonzero")), args=[m.AtMostN(m.Arg(keyword=m.Name()), n=1)]
)
_PLACES_OF: Final = m.Call(
    func=m.Attribute(value=_TORCH, attr=m.OneOf(m.Name("nonzero"), m.Name("where"))),
    args=[m.Arg(keyword=None), m.AtMostN(m.Arg(keyword=m.Name("as_tuple")), n=1)],
)
_METHODS: Final = frozenset(
    {"repeat", "expand", "view", "reshape", "split", "narrow", "new_zeros", "new_ones", "new_full"}
)
"""Methods whose arguments are sizes."""
_FUNCTIONS: Final = frozenset({"pad", "interpolate", "split"})
"""Functions whose arguments are sizes, except for the first."""
_PLAIN: Final = m.OneOf(
    m.Integer(),
    m.Float(),
    m.UnaryOperation(operator=m.Minus()),
    m.SimpleString(),
    m.Name(value="None"),
    m.Name(value="True"),
    m.Name(value="False"),
)
_MASK: Final = m.OneOf(
    m.Comparison(),
    m.UnaryOperation(operator=m.BitInvert()),
    m.BinaryOperation(operator=m.OneOf(m.BitAnd(), m.BitOr())),
    m.Call(func=m.Attribute(attr=m.Name("bool"))),
)
"""Expressions that have the form of a mask, wherever they are an index."""


def numbers(value: cst.BaseExpression) -> cst.Call:
    """Return ``torch._graphbreak_numbers(t)`` for ``t``."""
    return _call("torch._graphbreak_numbers", value)


def _call(function: str, value: cst.BaseExpression) -> cst.Call:
    if isinstance(value, cst.Tuple) and not value.lpar:
        value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.Call(func=cst.parse_expression(function), args=[cst.Arg(value)])


class _Constants(cst.CSTTransformer):
    """Rewrites ``t.tolist()``, ``torch.arange(t.sum())``, ``x.repeat_interleave(t)``, ``x[t > 0]``.

    In a line that breaks it also rewrites what may be a tensor in place of a size: ``x[:n]``,
    ``x.view(h, w)``, and if ``masks`` also ``x[t]``, where ``t`` may be a mask.
    """

    def __init__(
        self, *, breaks: bool, masks: bool = False, counters: Collection[str] = ()
    ) -> None:
        super().__init__()
        self.done = False
        self._breaks = breaks
        self._masks = masks
        self._counters = counters

    def _is_plain(self, node: cst.BaseExpression) -> bool:
        """Return whether the node is a literal, such as a number or None, or a counter."""
        counts = isinstance(node, cst.Name) and node.value in self._counters
        return counts or m.matches(node, _PLAIN)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        node = updated_node
        if m.matches(node, _READ):
            assert isinstance(node.func, cst.Attribute)
            value = node.func.value
            if node.func.attr.value == "item":  # one number, any dimensions
                value = cst.Call(
                    func=cst.Attribute(value, cst.Name("reshape")),
                    args=[cst.Arg(cst.Tuple(elements=[]))],
                )
            self.done = True
            return numbers(value)
        if m.matches(node, _PLACES_OF | _PLACES):
            return self._nonzero(node)
        if m.matches(node, _REPEATED):
            return self._repeated(node)
        if m.matches(node, _SIZED):
            return self._sized(node, 0)
        if self._breaks and isinstance(node.func, cst.Attribute):
            name = node.func.attr.value
            # torch.split(x, n) and x.split(n) have the same name.
            module = m.matches(node.func.value, m.OneOf(_TORCH, m.Name("F"))) or m.matches(
                node.func.value, m.Attribute(attr=m.Name("functional"))
            )
            if module and name in _FUNCTIONS:
                return self._sized(node, 1)
            if not module and name in _METHODS:
                return self._sized(node, 0)
        return node

    def leave_Slice(self, original_node: cst.Slice, updated_node: cst.Slice) -> cst.Slice:
        if not self._breaks:
            return updated_node
        ends = {
            name: numbers(value)
            for name in ("lower", "upper")
            if (value := getattr(updated_node, name)) is not None and self._may_be(value)
        }
        self.done = self.done or bool(ends)
        return updated_node.with_changes(**ends)

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.Subscript:
        parts = [one.slice for one in updated_node.slice]
        masks = [isinstance(one, cst.Index) and self._is_mask(one.value) for one in parts]
        if not any(masks):
            return updated_node
        self.done = True
        if len(parts) == 1:
            assert isinstance(parts[0], cst.Index)
            index = _call("torch._graphbreak_places", parts[0].value)
            return updated_node.with_changes(slice=[_element(index)])
        elements: list[cst.BaseElement] = []
        for one, mask in zip(parts, masks, strict=True):
            if isinstance(one, cst.Index):
                value = _call("torch._graphbreak_each", one.value) if mask else one.value
                elements.append(cst.StarredElement(value) if mask else cst.Element(value))
            else:
                assert isinstance(one, cst.Slice)
                ends = [one.lower, one.upper, one.step]
                given = [cst.Arg(end or cst.Name("None")) for end in ends]
                elements.append(cst.Element(cst.Call(cst.Name("slice"), given)))
        return updated_node.with_changes(slice=[_element(cst.Tuple(elements))])

    def _is_mask(self, node: cst.BaseExpression) -> bool:
        if m.matches(node, _MASK):
            return True
        named = m.OneOf(m.Name(), m.Subscript(value=m.Name()), m.Call(func=m.Attribute()))
        return self._masks and m.matches(node, named) and not self._is_plain(node)

    def _may_be(self, node: cst.BaseExpression) -> bool:
        """Return whether a size may be a tensor that is not read yet."""
        if isinstance(node, cst.Tuple | cst.List):
            return any(self._may_be(one.value) for one in node.elements)
        done = m.Call(func=m.Attribute(attr=m.Name("_graphbreak_numbers")))
        return not self._is_plain(node) and not m.matches(node, done)

    def _sized(self, node: cst.Call, first: int) -> cst.Call:
        args = []
        for place, arg in enumerate(node.args):
            given = arg.keyword is None or arg.keyword.value in ("size", "output_size")
            if place >= first and given and not arg.star:
                wanted = self._may_be if self._breaks else self._reduced
                if wanted(arg.value):
                    self.done = True
                    arg = arg.with_changes(value=numbers(arg.value))
            args.append(arg)
        return node.with_changes(args=args)

    def _reduced(self, node: cst.BaseExpression) -> bool:
        return m.matches(node, _REDUCED)

    def _nonzero(self, node: cst.Call) -> cst.BaseExpression:
        """Rewrite ``t.nonzero()`` or ``torch.where(t)`` for the number of places in this graph."""
        assert isinstance(node.func, cst.Attribute)
        method = not m.matches(node.func.value, _TORCH)
        named = [arg for arg in node.args if arg.keyword is not None]
        if named and not m.matches(named[0].value, m.Name("True") | m.Name("False")):
            return node
        as_tuple = node.func.attr.value == "where" or (
            bool(named) and m.matches(named[0].value, m.Name("True"))
        )
        value = node.func.value if method else node.args[0].value
        self.done = True
        name = "places" if as_tuple else "nonzero"
        return _call(f"torch._graphbreak_{name}", value)

    def _repeated(self, node: cst.Call) -> cst.Call:
        """Add the size of the result, which is all that depends on the values of ``repeats``."""
        named = {arg.keyword.value for arg in node.args if arg.keyword is not None}
        place = 1 if m.matches(node.func, m.Attribute(value=_TORCH)) else 0
        plain = [arg for arg in node.args if arg.keyword is None]
        if "output_size" in named or len(plain) <= place:
            return node
        repeats = plain[place].value
        if isinstance(repeats, cst.Integer):
            return node
        if not self._breaks and not m.matches(node.func, m.Attribute(value=_TORCH)):
            return node  # most methods of this name get a number
        self.done = True
        total = cst.Call(func=cst.Attribute(in_brackets(repeats), cst.Name("sum")))
        size = cst.Arg(numbers(total), keyword=cst.Name("output_size"), equal=TIGHT)
        last = node.args[-1].with_changes(comma=cst.Comma(cst.SimpleWhitespace(""), _SPACE))
        return node.with_changes(args=[*node.args[:-1], last, size])


_SPACE: Final = cst.SimpleWhitespace(" ")


def _element(value: cst.BaseExpression) -> cst.SubscriptElement:
    return cst.SubscriptElement(cst.Index(value))


def _condition(node: cst.BaseExpression) -> cst.BaseExpression:
    """Rewrite the parts of a condition that may be tensors; ``and`` and ``not`` then read none."""
    if isinstance(node, cst.BooleanOperation):
        return node.with_changes(left=_condition(node.left), right=_condition(node.right))
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return node.with_changes(expression=_condition(node.expression))
    known = m.OneOf(m.Comparison(comparisons=[m.ComparisonTarget(operator=m.Is() | m.IsNot())]))
    return node if m.matches(node, known) else numbers(node)


def counters(source: str) -> frozenset[str]:
    """Return the names that only count: ``for i in range(n)``, ``for i, x in enumerate(xs)``."""
    tree = ast.parse(source)
    counting: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Call):
            called, target = ast.unparse(node.iter.func), node.target
            if called == "enumerate" and isinstance(target, ast.Tuple):
                counting.add(target.elts[0])
            elif called == "range":
                counting.add(target)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    others = {one.id for one in names if isinstance(one.ctx, ast.Store) and one not in counting}
    others |= {one.arg for one in ast.walk(tree) if isinstance(one, ast.arg)}
    return frozenset(one.id for one in counting if isinstance(one, ast.Name)) - others


def to_constants(
    node: Statement, counters: Collection[str], masks: bool = False
) -> Replacement | None:
    """Rewrite the numbers that a statement or its head reads; if it reads none, the condition.

    ``counters`` are names that hold numbers, ``masks`` whether the size of a selection is read.
    """
    change = _Constants(breaks=True, masks=masks, counters=counters)
    if isinstance(node, cst.SimpleStatementLine):
        changed = node.visit(change)
        return changed if change.done and isinstance(changed, cst.BaseStatement) else None
    if isinstance(node, cst.For):
        iterated = node.iter.visit(change)
        assert isinstance(iterated, cst.BaseExpression)
        return node.with_changes(iter=iterated) if change.done else None
    if isinstance(node, cst.If | cst.While):
        test = node.test.visit(change)
        assert isinstance(test, cst.BaseExpression)
        if not change.done:
            test = _condition(node.test)
        return node.with_changes(test=test)
    return None


def all_to_constants(node: Statement) -> Replacement | None:
    """Rewrite everything that a function visibly reads, even if no break was reported there."""
    if not isinstance(node, cst.FunctionDef):
        return None
    change = _Constants(breaks=False)
    body = node.body.visit(change)
    return node.with_changes(body=body) if change.done else None
