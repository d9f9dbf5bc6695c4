"""Private names of torch, torch_xla and jax stand in the tables of ``layers/*/private.py`` only.

There a name that is missing becomes the verdict ``error`` that names it. Anywhere else it would be
our ImportError in the test of a user, or a wrong count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[2] / "pytest_graphbreak"
LAYERS: Final = PACKAGE / "layers"
PRIVATE: Final = re.compile(r"(torch|torch_xla|jax|jaxlib)(\.\w+)*\._(?!_)\w+(\.\w+)*")
KNOWN: Final = {
    # Modules that torch documents, and whether they are loaded is asked by their names.
    "torch._dynamo",
    "torch._dynamo.config",
    "torch._dynamo.reset",
    "torch._dynamo.graph_break",
    "torch._inductor.config",
    "torch._functorch.config",
    # Only imported beforehand, and only where it is there.
    "torch._inductor.codecache",
    # Settings that torch_xla changes when it is imported.
    "torch._dynamo.config.automatic_dynamic_shapes",
    "torch._dynamo.config.specialize_float",
    "torch._functorch.config.view_replay_for_aliased_outputs",
}


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.Attribute):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_private_names_are_in_the_tables() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}:{line} {name}"
        for path in sorted(LAYERS.rglob("*.py"))
        if path.name != "private.py"
        for line, name in _names(ast.parse(path.read_text(encoding="utf-8")))
        if PRIVATE.fullmatch(name)
        and name not in KNOWN
        and not name.startswith("torch.ops.")  # the names of operators stay
    }
    assert not found, "\n".join(sorted(found))
