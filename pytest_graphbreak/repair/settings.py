"""Finds what a program sets before it compiles: options, devices, configs, seeds, environment."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pytest_graphbreak.repair.pure import imports
from pytest_graphbreak.repair.source import Function

_CALLS: Final = frozenset(
    {
        *("set_custom_compile_options", "set_device_type", "set_default_dtype", "manual_seed"),
        *("seed", "set_float32_matmul_precision", "use_deterministic_algorithms", "use_spmd"),
        *("set_default_device", "set_stance", "set_mat_mul_precision"),
    }
)
_CONFIGS: Final = re.compile(r"torch\.(?:[\w.]+\.)?(?:_?config|backends)\.")
"""The beginning of the full name of a setting of torch."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings: ``environment`` goes before all imports, ``lines`` after ``imports``.

    ``environment`` has the imports that its statements need.
    """

    imports: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def settings(source: str) -> Setup:
    """Return the statements of a program that set something to a plain value, in order.

    Statements in its functions count too, but not those that only a condition reaches.
    """
    known = imports(source)
    loads = _loads(source)
    environment: list[str] = []
    lines: list[str] = []
    needed: list[str] = []
    for node in _statements(ast.parse(source).body):
        target, value = _target(node)
        root, _, rest = target.partition(".")
        full = f"{known.get(root, root)}.{rest}" if rest else known.get(root, root)
        plain = all(map(_is_plain, value))
        if full.startswith("os.environ") and (plain or _names(value) <= {root}):
            environment += [*loads.get(root, ()), ast.unparse(node)]
        elif plain and (_CONFIGS.match(full) or (_is_call(node) and _last(full) in _CALLS)):
            lines.append(ast.unparse(node))
            needed += loads.get(root, ())
    return Setup(*(tuple(dict.fromkeys(one)) for one in (needed, environment, lines)))


def _loads(source: str) -> dict[str, list[str]]:
    """Return the imports that bind each name: ``import a.b`` and ``import a.c`` both bind ``a``."""
    found: dict[str, list[str]] = {}
    for one in ast.walk(ast.parse(source)):
        if isinstance(one, ast.Import | ast.ImportFrom):
            for alias in one.names:
                alone = copy.copy(one)
                alone.names = [alias]
                name = alias.asname or alias.name.partition(".")[0]
                found.setdefault(name, []).append(ast.unparse(alone))
    return found


def _names(values: Iterable[ast.expr]) -> set[str]:
    """Return the names that expressions read."""
    return {one.id for value in values for one in ast.walk(value) if isinstance(one, ast.Name)}


def _is_call(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for one in body:
        main = isinstance(one, ast.If) and "__name__" in ast.unparse(one.test)
        if isinstance(one, Function) or (main and isinstance(one, ast.If)):
            yield from _statements(one.body)
        yield one


def _target(node: ast.stmt) -> tuple[str, list[ast.expr]]:
    """Return what a statement sets or calls, and with which values; "" for other statements."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        values = [*node.value.args, *(one.value for one in node.value.keywords)]
        return ast.unparse(node.value.func), values
    if isinstance(node, ast.Assign | ast.AugAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Subscript):
            return ast.unparse(target.value), [target.slice, node.value]
        if isinstance(target, ast.Attribute | ast.Name):
            return ast.unparse(target), [node.value]
    return "", []


def _is_plain(node: ast.expr) -> bool:
    """Return whether a node is a literal or a dtype of torch."""
    if isinstance(node, ast.Attribute):
        return ast.unparse(node).startswith("torch.")
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True
