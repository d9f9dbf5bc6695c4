"""What an edit did to a program, found without the plugin: counted by a backend of our own.

Nothing of pytest_graphbreak is imported. The program runs twice: compiled, with Dynamo's debug log
read beside the calls of the backend, and once more uncompiled, to count its operators: operations
that are captured no more, of a program that computes as much, have left the compiler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cases.dynamo_oracle import logged

BACKEND = 'backend="eager"'


def counted(file: str) -> dict[str, Any]:
    """The counts of the program in a file, in this process."""
    graphs: list[int] = []

    def backend(gm: Any, inputs: Any) -> Any:
        graphs.append(sum(node.op.startswith("call_") for node in gm.graph.nodes))
        return gm.forward

    found = logged(_loaded(file, backend))
    return {
        "graphs": len(graphs),
        "ops": sum(graphs),
        **{key: found[key] for key in ("places", "recompiles", "where", "eager")},
    }


def operators(file: str) -> dict[str, Any]:
    """How many operators the program calls where nothing is compiled."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.calls += 1
            return function(*args, **kwargs or {})

    torch.compiler.set_stance("force_eager")
    program = _loaded(file, "eager")
    with Count() as count:
        program()
    return {"calls": count.calls}


def _loaded(file: str, backend: Any) -> Callable[[], None]:
    text = Path(file).read_text().replace(BACKEND, "backend=_backend")
    names: dict[str, Any] = {"_backend": backend, "__name__": "planted", "__file__": file}
    sys.path.insert(0, str(Path(file).parent))
    exec(compile(text, file, "exec"), names)
    program: Callable[[], None] = names["test_planted"]
    return program


def worse(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """In what an edit made a program worse; empty where in nothing."""
    found = [key for key in ("graphs", "recompiles", "places") if after[key] > before[key]]
    if len(after["eager"]) > len(before["eager"]):
        found.append("eager")
    if after["ops"] < before["ops"] and after["calls"] >= before["calls"]:
        found.append("lost")
    return found
