"""Rewrites calls that draw a random number outside of torch, as nodes of the graph.

``np.random.normal(0, 0.1)`` becomes ``_graphbreak_drawn(float, "np.random.normal", 0, 0.1)``, a
function of the file that calls the same when the graph comes to it: the numbers are the same, and
in the same order. Dynamo makes a break there, since it does not know the number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.repair.pure import imports
from pytest_graphbreak.repair.rewrite.line import Replacement, Statement, replaced, text_of
from pytest_graphbreak.repair.rewrite.scope import walk
from pytest_graphbreak.repair.source import FUNCTIONS, Function, named_functions

NAME: Final = "_graphbreak_drawn"
_FLOATS: Final = {
    **dict.fromkeys(("rand", "randn", "random", "random_sample", "standard_normal"), 0),
    **dict.fromkeys(("standard_exponential", "standard_cauchy"), 0),
    **dict.fromkeys(("exponential", "chisquare", "rayleigh", "weibull", "pareto", "power"), 1),
    **dict.fromkeys(("standard_gamma", "standard_t"), 1),
    **dict.fromkeys(("uniform", "normal", "lognormal", "laplace", "logistic", "gumbel"), 2),
    **dict.fromkeys(("beta", "gamma", "vonmises", "wald", "f"), 2),
    "triangular": 3,
}
"""Functions of NumPy that give a float, and an array if they get more arguments than this."""
_INTEGERS: Final = {
    **dict.fromkeys(("randint", "integers", "binomial", "negative_binomial"), 2),
    **dict.fromkeys(("poisson", "geometric"), 1),
}
_PYTHON: Final = {
    "random": 0,
    **dict.fromkeys(("expovariate", "paretovariate"), 1),
    **dict.fromkeys(("uniform", "gauss", "normalvariate", "lognormvariate", "betavariate"), 2),
    **dict.fromkeys(("gammavariate", "weibullvariate", "vonmisesvariate"), 2),
    "triangular": 3,
}
"""Functions of Python's ``random`` that give a float."""
_BELOW: Final = {"randrange": 2, "randint": 2}
"""Those that give an integer; ``randint(a, b)`` is ``randrange(a, b + 1)``."""
_TABLES: Final[Mapping[str, Mapping[str, Mapping[str, int]]]] = {
    "numpy.random": {"float": _FLOATS, "int": _INTEGERS},
    "random": {"float": _PYTHON, "int": _BELOW},
}
_BEFORE: Final = frozenset({"uniform", "randint", "randrange"})
"""Those of which Dynamo draws the number before the graph runs, without a break.

PyTorch 2.13 gives inductor a number of 64 bits there, and inductor reads one of 32.
"""
_MAKERS: Final = {
    "numpy.random.default_rng": "numpy.random",
    "numpy.random.RandomState": "numpy.random",
    "numpy.random.Generator": "numpy.random",
    "random.Random": "random",
}


def sources(source: str) -> dict[str, str]:
    """Return the names at the top of a file that draw, with the module whose functions they have.

    A name that a function of the file sets is not the one at the top, and is left out.
    """
    module = ast.parse(source)
    found = imports(source)
    for one in module.body:
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call):
            made = _MAKERS.get(_full(ast.unparse(one.value.func), found), "")
            found |= {to.id: made for to in one.targets if made and isinstance(to, ast.Name)}
    inner = [one for one in ast.walk(module) if isinstance(one, (*FUNCTIONS, ast.Lambda))]
    return {name: full for name, full in found.items() if name not in set(_set(inner))}


def together(source: str, function: str) -> list[str]:
    """Return the names of the functions that have to be changed with one that draws, and its own.

    Dynamo draws some numbers of Python's ``random`` before the graph runs, so that the order would
    be another one.
    """
    known = sources(source)
    drawing = {
        name: [last for home, last in _draws(one, known) if home == "random"]
        for name, one in named_functions(ast.parse(source))
    }
    early = [name for name, lasts in drawing.items() if _BEFORE.intersection(lasts)]
    return [function, *(one for one in early if one != function and drawing.get(function))]


def _draws(function: Function, known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each function that may draw and is called."""
    for one in walk(function.body):
        if isinstance(one, ast.Call):
            home, _, last = _full(ast.unparse(one.func), known).rpartition(".")
            yield home, last


def _set(inner: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda]) -> list[str]:
    names = [part.arg for one in inner for part in ast.walk(one) if isinstance(part, ast.arg)]
    for one in inner:
        for part in ast.walk(one):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                names.append(part.id)
            elif isinstance(part, ast.alias):
                names.append(part.asname or part.name.partition(".")[0])
    return names


def _full(name: str, known: Mapping[str, str]) -> str:
    """Return a dotted name with the module that its first part stands for, or an empty text."""
    first, _, rest = name.partition(".")
    return ".".join(part for part in (known.get(first, ""), rest) if part) if first in known else ""


def to_drawn(node: Statement, known: Mapping[str, str]) -> Replacement | None:
    """Rewrite all calls of a function that draw one number; None if there is none."""
    if not isinstance(node, cst.FunctionDef):
        return None
    drawing = _Drawing(known)
    changed = node.visit(drawing)
    return cst.ensure_type(changed, cst.FunctionDef) if drawing.done else None


class _Drawing(cst.CSTTransformer):
    """Replaces calls; where one is compared in a test it is a tensor, for ops that decide by it."""

    def __init__(self, known: Mapping[str, str]) -> None:
        super().__init__()
        self.done = False
        self._known = known

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        kind = self._kind(updated_node)
        if not kind:
            return updated_node
        self.done = True
        name, args = self._below(updated_node)
        first = [cst.Arg(cst.Name(kind)), cst.Arg(cst.SimpleString(f'"{name}"'))]
        return updated_node.with_changes(func=cst.Name(NAME), args=[*first, *args])

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If:
        return updated_node.with_changes(test=_as_tensors(updated_node.test))

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> cst.IfExp:
        return updated_node.with_changes(test=_as_tensors(updated_node.test))

    def _kind(self, call: cst.Call) -> str:
        """Return ``float`` or ``int`` for a call that draws one number, or an empty text."""
        if not m.matches(call.func, _DOTTED):
            return ""
        home, last = self._function(call)
        names = {one.keyword.value for one in call.args if one.keyword is not None}
        plain = sum(one.keyword is None for one in call.args)
        if any(one.star for one in call.args) or names & {"size", "dtype", "endpoint"}:
            return ""
        if names and (home, last) == ("random", "randint"):
            return ""
        tables = _TABLES.get(home, {})
        return next((kind for kind, table in tables.items() if plain <= table.get(last, -1)), "")

    def _function(self, call: cst.Call) -> tuple[str, str]:
        home, _, last = _full(text_of(call.func), self._known).rpartition(".")
        return home, last

    def _below(self, call: cst.Call) -> tuple[str, list[cst.Arg]]:
        """Return the function and its arguments, for an integer below the last of them.

        ``random.randint(a, b)`` may give b, and is ``random.randrange(a, b + 1)``.
        """
        name, args = text_of(call.func), list(call.args)
        if self._function(call) == ("random", "randint"):
            name = f"{name.removesuffix('randint')}randrange"
            last = cst.parse_expression(f"({text_of(args[-1].value)}) + 1")
            args[-1] = cst.Arg(last)
        return name, args


_DOTTED: Final = m.Attribute(value=m.Name() | m.Attribute(value=m.Name()))
_CALL: Final = m.Call(func=m.Name(NAME))


def _as_tensors(test: cst.BaseExpression) -> cst.BaseExpression:
    """Return a test in which numbers that are drawn and compared are tensors."""

    def tensor(call: cst.CSTNode) -> cst.CSTNode:
        kind = cst.ensure_type(cst.ensure_type(call, cst.Call).args[0].value, cst.Name).value
        return cst.parse_expression(f"torch.tensor({text_of(call)}, dtype=torch.{kind}64)")

    def side(found: cst.CSTNode, name: str) -> cst.CSTNode:
        value = getattr(found, name)
        return found.with_changes(**{name: tensor(value)}) if m.matches(value, _CALL) else found

    left = replaced(test, m.Comparison(left=_CALL), lambda one: side(one, "left")) or test
    right = m.ComparisonTarget(comparator=_CALL)
    return replaced(left, right, lambda one: side(one, "comparator")) or left
