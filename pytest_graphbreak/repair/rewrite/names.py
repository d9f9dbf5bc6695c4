"""What the names of a function are bound to around a statement, by the scopes of libcst."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import libcst as cst
from libcst import matchers as m
from libcst.metadata import Assignment

from pytest_graphbreak.repair.rewrite.tree import Place, Tree, calls, code, only, walk

_LOOPS: Final = (cst.For, cst.While)
_IN_PLACE: Final = m.OneOf(
    m.AugAssign(),
    m.Call(
        func=m.Attribute(
            attr=m.Name(m.MatchIfTrue(lambda name: name.endswith("_") and name[-2:] != "__"))
        )
    ),
    m.Call(args=[m.ZeroOrMore(), m.Arg(keyword=m.Name("out")), m.ZeroOrMore()]),
    m.Call(args=[m.ZeroOrMore(), m.Arg(keyword=m.Name("inplace")), m.ZeroOrMore()]),
    m.AssignTarget(target=m.Subscript()),
)
"""Matches what may change a tensor in place."""
_NEW: Final = (
    *("abs", "arange", "cat", "clone", "cos", "exp", "full", "full_like", "item", "max", "mean"),
    *("min", "norm", "ones", "ones_like", "sin", "sqrt", "stack", "sum", "tanh", "tensor"),
    *("where", "zeros", "zeros_like"),
)
_FRESH: Final = m.OneOf(
    *(m.BinaryOperation(), m.Comparison(), m.Integer(), m.Float()),
    m.Call(func=m.Attribute(attr=m.OneOf(*map(m.Name, _NEW)))),
)
"""Matches what is surely a new tensor: it shares memory with no other name."""
RANDOM: Final = frozenset(
    {
        *("dropout", "alpha_dropout", "bernoulli", "multinomial", "normal", "poisson", "rand"),
        *("randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "rrelu"),
        *("gumbel_softmax", "random", "uniform", "choice", "shuffle", "sample", "gauss"),
    }
)
"""Names of functions that draw random numbers."""


def bindings(place: Place, name: str = "") -> list[Assignment]:
    """Return where the function binds names of its own, or one of them."""
    scope = place.tree.scopes[place.function.body]
    every = scope.assignments if scope is not None else ()
    mine = (x for x in every if isinstance(x, Assignment) and x.scope is scope)
    return [x for x in mine if name in ("", x.name)]


def bound_names(place: Place, nodes: Sequence[cst.CSTNode]) -> list[str]:
    """Return the names of the function that nodes bind, in their order."""
    order = {node: at for at, node in enumerate(walk(nodes))}
    inner = [x for x in bindings(place) if x.node in order]
    return list(dict.fromkeys(x.name for x in sorted(inner, key=lambda x: order[x.node])))


def read(place: Place, nodes: Iterable[cst.CSTNode]) -> list[str]:
    """Return the names of the function that nodes read, also in nested functions, in order.

    ``x += 1`` reads ``x``.
    """
    scope, names = place.tree.scopes[place.function.body], []
    for node in walk(list(nodes)):
        access = place.tree.accesses.get(node)
        if access is not None and any(x.scope is scope for x in access.referents):
            names += [x.name for x in access.referents if isinstance(x, Assignment)]
        elif isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name):
            names.append(node.target.value)
    return list(dict.fromkeys(names))


def reads_first(place: Place, name: str, lines: Sequence[cst.BaseStatement]) -> bool:
    """Return whether lines may read a name before they set it."""
    for line in lines:
        if name in read(place, [line]):
            return True
        if isinstance(only(line), cst.Assign) and name in bound_names(place, [line]):
            return False
    return True


def before(place: Place) -> set[str]:
    """Return the names that are bound when the statement begins, if the lines before it all ran."""
    start = place.tree.start(place.node)
    return {
        x.name
        for x in bindings(place)
        if isinstance(x.node, cst.Param) or place.tree.start(x.node) < start
    }


def after(place: Place) -> list[str]:
    """Return the names that are read when the statement has run: below it, or around it again."""
    return read(place, _later(place))


def changed_after(place: Place) -> set[str]:
    """Return the names whose tensors may be changed in place when the statement has run.

    Also those that share memory with what is changed, by an assignment: ``y = x``, ``y = x[0]``.
    """
    names, shared = set(changed_names(place, _later(place))), _sharing(place)
    while wider := {name for pair in shared if names & pair for name in pair} - names:
        names |= wider
    return names


def _sharing(place: Place) -> list[set[str]]:
    """Return the names of each assignment that may give tensors another name."""
    pairs = []
    for node in walk([place.function.body]):
        if isinstance(node, cst.Assign) and not m.matches(node.value, _FRESH):
            pairs.append({*bound_names(place, [node]), *read(place, [node.value])})
    return pairs


def _later(place: Place) -> list[cst.CSTNode]:
    """Return the outermost nodes of the function that may run when the statement has."""
    nodes: list[cst.CSTNode] = []
    end = place.tree.end(place.node)
    loops = [parent for parent in _parents(place) if isinstance(parent, _LOOPS)]

    def visit(node: cst.CSTNode) -> None:
        if node is place.node:
            return
        position = place.tree.positions.get(node)
        late = position is not None and (position.start.line, position.start.column) >= end
        if late or isinstance(node, cst.FunctionDef | cst.Lambda):
            nodes.append(node)
        elif node in loops:
            for child in node.children:
                nodes.extend(_without(child, place.node))
        else:
            for child in node.children:
                visit(child)

    visit(place.function.body)
    return nodes


def _without(node: cst.CSTNode, inner: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the largest parts of a node that do not hold another one."""
    if node is inner:
        return []
    if not any(part is inner for part in walk([node])):
        return [node]
    return [part for child in node.children for part in _without(child, inner)]


def _parents(place: Place) -> list[cst.CSTNode]:
    """Return the nodes around the statement in its function, innermost first."""
    nodes, node = [], place.tree.parents[place.node]
    while node is not place.function:
        nodes.append(node)
        node = place.tree.parents[node]
    return nodes


def value(place: Place, name: str) -> cst.BaseExpression | None:
    """Return what a name is when the statement begins, if one assignment alone sets it."""
    nodes = [binding.node for binding in bindings(place, name)]
    if len(nodes) != 1 or isinstance(nodes[0], cst.Param):
        return None
    statement = place.tree.parents[place.tree.parents[nodes[0]]]
    single = isinstance(statement, cst.Assign) and len(statement.targets) == 1
    return statement.value if isinstance(statement, cst.Assign) and single else None


def changed_names(place: Place, nodes: Sequence[cst.CSTNode]) -> list[str]:
    """Return the names whose tensors nodes may change in place: ``x += 1``, ``x[0] = 1``."""
    return [base for base in map(base_of, changing(nodes)) if base]


def changing(nodes: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    """Return the nodes that may change a tensor in place."""
    return [node for node in walk(nodes) if m.matches(node, _IN_PLACE)]


def base_of(node: cst.CSTNode) -> str:
    """Return ``x`` of ``x[0] += 1``, ``x.data.add_(1)``; "" where no name is at the beginning."""
    part: cst.CSTNode = node
    while not isinstance(part, cst.Name):
        if isinstance(part, cst.AugAssign | cst.AssignTarget):
            part = part.target
        elif isinstance(part, cst.Call):
            part = part.func
        elif isinstance(part, cst.Attribute | cst.Subscript):
            part = part.value
        else:
            return ""
    return part.value


def draws(nodes: Sequence[cst.CSTNode]) -> str:
    """Return the first call that draws random numbers, or ""."""
    for node in nodes:
        for call in calls(node):
            last = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
            if isinstance(last, cst.Name) and last.value in RANDOM:
                return code(call)[:60]
    return ""


def imports(tree: Tree) -> set[str]:
    """Return the names that imports of the module bind."""
    scope = tree.scopes[tree.module]
    every = scope.assignments if scope is not None else ()
    all_bindings = (x for x in every if isinstance(x, Assignment))
    return {x.name for x in all_bindings if isinstance(x.node, cst.Import | cst.ImportFrom)}


_MODULES: Final = m.OneOf(
    *map(m.Name, ("torch", "F", "math")), m.Attribute(attr=m.Name("functional"))
)
_BUILTINS: Final = frozenset({"abs", "min", "max", "float", "int", "len", "round", "sum", "tuple"})
# fmt: off
_METHODS: Final = frozenset({
    "abs", "all", "amax", "amin", "any", "argmax", "argmin", "bool", "ceil", "clamp", "clone",
    "contiguous", "cos", "cumsum", "detach", "diff", "div", "double", "exp", "expand", "expm1",
    "flip", "float", "floor", "half", "isfinite", "isnan", "item", "log", "log1p", "long",
    "masked_fill", "matmul", "max", "maximum", "mean", "min", "minimum", "mm", "mul", "neg", "norm",
    "permute", "pow", "prod", "relu", "reshape", "roll", "round", "sigmoid", "sign", "sin",
    "softmax", "sqrt", "square", "std", "sub", "sum", "tanh", "to", "tolist", "transpose", "tril",
    "triu", "unsqueeze", "squeeze", "var", "view", "where", "add", "bmm", "dot", "size", "dim",
    "numel", "flatten",
})
"""Methods of tensors that compute; on another object they may do something else."""
# fmt: on


def computes(value: cst.BaseExpression) -> bool:
    """Return whether an expression visibly only computes, with functions of torch alone."""
    bad = m.NamedExpr() | m.Await() | m.Yield() | m.Lambda()
    every = list(walk([value]))
    return all(map(_computes, calls(value))) and not any(m.matches(node, bad) for node in every)


def _computes(call: cst.Call) -> bool:
    if isinstance(call.func, cst.Name):
        return call.func.value in _BUILTINS
    if not isinstance(call.func, cst.Attribute) or changing([call]) or draws([call]):
        return False
    keywords = {x.keyword.value for x in call.args if x.keyword is not None}
    computing = m.matches(call.func.value, _MODULES) or call.func.attr.value in _METHODS
    return computing and "generator" not in keywords and not any(x.star for x in call.args)
