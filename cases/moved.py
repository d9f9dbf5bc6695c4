"""Programs of the CPU moved to an XLA device, as their writers would move them: line by line.

Tensors are made on the device and modules are moved there, the backend is ``openxla``, and each
round of a loop at the top of the file ends with ``torch_xla.sync()``.
"""

from __future__ import annotations

import ast
from typing import Final

_MAKERS: Final = (
    *("arange", "eye", "from_numpy", "full", "ones", "rand", "randint", "randn", "tensor", "zeros"),
)


def on_xla(source: str) -> str:
    """Return a program that computes on torch_xla's device.

    Source: the text of a program whose backend is ``eager``, and which imports what it uses at
    its top.
    """
    tree = ast.parse(source)
    edits = [*_tensors(tree), *_modules(tree), *_syncs(tree)]
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    edits.append((_end(imports[-1]), "\nimport torch_xla\n\ndevice = torch_xla.device()"))
    lines = source.splitlines(keepends=True)
    for (line, column), text in sorted(edits, reverse=True):
        code = lines[line - 1].encode()
        lines[line - 1] = (code[:column] + text.encode() + code[column:]).decode()
    moved = "".join(lines).replace('backend="eager"', 'backend="openxla"')
    return moved.replace(".numpy()", ".cpu().numpy()")


_Edit = tuple[tuple[int, int], str]


def _tensors(tree: ast.Module) -> list[_Edit]:
    """Calls that make a tensor: on the device, or moved there if a generator of the CPU draws."""
    found: list[_Edit] = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) in _MADE):
            continue
        line, column = _end(node)
        if ast.unparse(node.func) == "torch.from_numpy" or any(
            one.arg == "generator" for one in node.keywords
        ):
            found.append(((line, column), ".to(device)"))
        else:
            found.append(((line, column - 1), ", device=device"))
    return found


_MADE: Final = {f"torch.{name}" for name in _MAKERS}


def _modules(tree: ast.Module) -> list[_Edit]:
    """Calls outside of functions that make a module; of nested ones the outermost."""
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef) and _is(node)}
    found: list[_Edit] = []
    todo: list[ast.AST] = [*tree.body]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        if isinstance(node, ast.Call) and _makes(node, classes):
            found.append((_end(node), ".to(device)"))
        else:
            todo += ast.iter_child_nodes(node)
    return found


def _is(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith("Module") for base in node.bases)


def _makes(node: ast.Call, classes: set[str]) -> bool:
    owner, _, name = ast.unparse(node.func).rpartition(".")
    return name in classes or (owner in ("nn", "torch.nn") and name[:1].isupper())


def _syncs(tree: ast.Module) -> list[_Edit]:
    loops: list[ast.For] = []
    todo: list[ast.stmt] = [*tree.body]
    for node in todo:
        if isinstance(node, ast.With):
            todo += node.body
        elif isinstance(node, ast.For):
            loops.append(node)
    return [
        (_end(node.body[-1]), f"\n{' ' * node.body[0].col_offset}torch_xla.sync()")
        for node in loops
    ]


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    if node.end_lineno is None or node.end_col_offset is None:
        raise ValueError("the tree was not made from a text")
    return node.end_lineno, node.end_col_offset
