"""Finds what a program sets before it compiles: options, devices, configs, seeds, environment."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pytest_graphbreak.repair.pure import imports
from pytest_graphbreak.repair.source import Function

_CALLS: Final = frozenset(
    {
        *("set_custom_compile_options", "set_device_type", "set_default_dtype", "manual_seed"),
        *("seed", "set_float32_matmul_precision", "use_deterministic_algorithms", "use_spmd"),
        *("set_default_device", "set_stance"),
    }
)
_CONFIGS: Final = ("torch._dynamo.config.", "torch._inductor.config.", "torch.backends.")


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings: ``environment`` goes before the import of torch, ``lines`` after ``imports``."""

    imports: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def settings(source: str) -> Setup:
    """Return the statements of a program that set something to a plain value, in order.

    Statements in its functions count too, but not those that only a condition reaches.
    """
    known = imports(source)
    loads: dict[str, str] = {}
    for one in ast.walk(ast.parse(source)):
        if isinstance(one, ast.Import | ast.ImportFrom):
            loads |= {
                alias.asname or alias.name.partition(".")[0]: ast.unparse(one)
                for alias in one.names
            }
    environment: list[str] = []
    lines: list[str] = []
    needed: list[str] = []
    for node in _statements(ast.parse(source).body):
        target = _target(node)
        root, _, rest = target.partition(".")
        full = f"{known.get(root, root)}.{rest}" if rest else known.get(root, root)
        if full.startswith("os.environ"):
            environment.append(ast.unparse(node))
        elif full.startswith(_CONFIGS) or (
            isinstance(node, ast.Expr) and full.rpartition(".")[2] in _CALLS
        ):
            lines.append(ast.unparse(node))
            needed += [loads[root]] if root in loads else []
    return Setup(*(tuple(dict.fromkeys(one)) for one in (needed, environment, lines)))


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for one in body:
        main = isinstance(one, ast.If) and "__name__" in ast.unparse(one.test)
        if isinstance(one, Function) or (main and isinstance(one, ast.If)):
            yield from _statements(one.body)
        yield one


def _target(node: ast.stmt) -> str:
    """Return what a statement sets or calls if all values are plain, else ""."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        values = [*node.value.args, *(one.value for one in node.value.keywords)]
        return ast.unparse(node.value.func) if all(map(_is_plain, values)) else ""
    if isinstance(node, ast.Assign) and _is_plain(node.value):
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            target = target.value
        return ast.unparse(target) if isinstance(target, ast.Attribute) else ""
    return ""


def _is_plain(node: ast.expr) -> bool:
    """Return whether a node is a literal or a dtype of torch."""
    if isinstance(node, ast.Attribute):
        return ast.unparse(node).startswith("torch.")
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True
