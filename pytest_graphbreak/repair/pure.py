"""Checks whether a function of the user's visibly does nothing but compute.

If it is not certain, the function counts as impure: the answer only decides whether the report has
to warn.
"""

from __future__ import annotations

import ast
import builtins
from typing import Final

from pytest_graphbreak.repair.source import Function, functions

_MODULES: Final = frozenset(
    {"binascii", "hashlib", "itertools", "math", "numpy", "operator", "scipy", "torch", "zlib"}
)
"""Modules whose functions compute, except for the names below."""
# fmt: off
_IMPURE: Final = frozenset({
    "append", "extend", "insert", "update", "pop", "popitem", "clear", "remove", "setdefault",
    "write", "send", "put", "random", "rand", "randn", "randint", "randperm", "seed",
    "manual_seed", "default_rng", "time", "now", "uuid4", "next", "open", "print", "input",
    "exec", "eval", "setattr", "delattr", "globals", "locals", "vars", "save", "load", "copyto",
})
RANDOM: Final = frozenset({
    "dropout", "alpha_dropout", "bernoulli", "multinomial", "normal", "poisson", "rand", "randn",
    "randint", "randperm", "rand_like", "randn_like", "randint_like", "rrelu", "gumbel_softmax",
})
"""Names of functions that have a side effect, or return something else each time."""
METHODS: Final = frozenset({
    "abs", "amax", "amin", "argmax", "argmin", "bool", "ceil", "clamp", "clone", "contiguous",
    "cos", "cumsum", "detach", "diff", "div", "double", "exp", "expand", "expm1", "flip", "float",
    "floor", "half", "isfinite", "isnan", "log", "log1p", "long", "masked_fill", "matmul", "max",
    "maximum", "mean", "min", "minimum", "mm", "mul", "neg", "norm", "permute", "pow", "prod",
    "relu", "reshape", "roll", "round", "sigmoid", "sign", "sin", "softmax", "sqrt", "square",
    "std", "sub", "sum", "tanh", "to", "tolist", "transpose", "tril", "triu", "unsqueeze",
    "squeeze", "var", "view", "where", "add", "bmm", "dot", "size", "dim", "numel", "flatten",
})
"""Methods of tensors that compute; on another object they may do something else."""
# fmt: on
LEVELS: Final = ("debug", "info", "warning", "error", "exception", "critical", "log")
"""Methods of a logger that write output."""
_BUILTINS: Final = frozenset({"abs", "min", "max", "float", "int", "len", "round", "sum", "tuple"})


def find(source: str, name: str) -> Function | None:
    """Return the ``def`` of a qualified name, or None."""
    return next(functions(ast.parse(source), name), None)


def parameters(function: Function) -> list[str]:
    given = function.args
    return [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def imports(source: str) -> dict[str, str]:
    """Return the names that the imports at the top of a file bind, with their full names."""
    found: dict[str, str] = {}
    for one in ast.parse(source).body:
        if isinstance(one, ast.Import):
            for alias in one.names:
                top = alias.name.partition(".")[0]
                found[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(one, ast.ImportFrom) and not one.level:
            for alias in one.names:
                found[alias.asname or alias.name] = f"{one.module}.{alias.name}"
    return found


def is_pure(function: Function, known: dict[str, str]) -> bool:
    """Return whether a function visibly reads only its arguments, and changes nothing.

    ``known`` are the imports of its file.
    """
    own = set(parameters(function))
    held = {one for one in own if one in ("self", "cls")}
    bound = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return not any(_does_more(node, own | bound, held, known) for node in ast.walk(function))


def _does_more(node: ast.AST, local: set[str], held: set[str], known: dict[str, str]) -> bool:
    if isinstance(
        node, ast.Global | ast.Nonlocal | ast.Yield | ast.YieldFrom | ast.Await | ast.AugAssign
    ):
        return True
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Delete | ast.With | ast.AsyncWith):
        return True
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return True
    if isinstance(node, ast.Attribute):
        in_place = node.attr.endswith("_") and not node.attr.endswith("__")
        return in_place or node.attr in _IMPURE
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        if node.id in local:
            return node.id in held
        if hasattr(builtins, node.id):
            return node.id in _IMPURE
        return known.get(node.id, "").partition(".")[0] not in _MODULES
    return False


def computes(value: ast.expr) -> bool:
    """Return whether an expression visibly only computes, with functions of torch alone."""
    return all(_computes(node) for node in ast.walk(value))


def _computes(node: ast.AST) -> bool:
    if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom | ast.Lambda):
        return False
    if isinstance(node, ast.keyword):
        return node.arg not in (None, "out", "inplace", "generator")
    if not isinstance(node, ast.Call):
        return True
    if isinstance(node.func, ast.Name):
        return node.func.id in _BUILTINS
    if not isinstance(node.func, ast.Attribute):
        return False
    name = node.func.attr
    module = ast.unparse(node.func.value) in ("torch", "F", "math", "torch.nn.functional")
    return name not in _IMPURE | RANDOM and not name.endswith("_") and (module or name in METHODS)
