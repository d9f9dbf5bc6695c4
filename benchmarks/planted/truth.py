"""What an edit did to a program, found without the plugin: counted by a backend of our own.

Nothing of pytest_graphbreak is imported. The program runs twice: compiled, with Dynamo's debug log
read beside what the backend counts (graphs, runs of them, operators that they call), and once more
uncompiled, to count all of its operators. What is called in the program and not in a graph runs
without the compiler. Operators of a backward pass are left out: those follow from the forward one.
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
    graphs: list[None] = []
    runs: list[None] = []
    called: list[None] = []

    def backend(gm: Any, inputs: Any, **_: Any) -> Any:
        graphs.append(None)

        def run(*args: Any) -> Any:
            runs.append(None)
            with _counting(called):
                return gm.forward(*args)

        return run

    found = logged(_loaded(file, backend))
    return {
        "graphs": len(graphs),
        "executions": len(runs),
        "compiled": len(called),
        **{key: found[key] for key in ("places", "recompiles", "where", "eager")},
    }


def operators(file: str) -> dict[str, Any]:
    """How many operators the program calls where nothing is compiled."""
    import torch

    torch.compiler.set_stance("force_eager")
    program = _loaded(file, "eager")
    called: list[None] = []
    with _counting(called):
        program()
    return {"calls": len(called)}


def _counting(called: list[None]) -> Any:
    """A context that notes each operator, without those of a backward pass."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if torch._C._current_autograd_node() is None:
                called.append(None)
            return function(*args, **kwargs or {})

    return Count()


def _loaded(file: str, backend: Any) -> Callable[[], None]:
    text = Path(file).read_text().replace(BACKEND, "backend=_backend")
    names: dict[str, Any] = {"_backend": backend, "__name__": "planted", "__file__": file}
    sys.path.insert(0, str(Path(file).parent))
    exec(compile(text, file, "exec"), names)
    program: Callable[[], None] = names["test_planted"]
    return program


def worse(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """In what an edit made a program worse; empty where in nothing.

    It is ``lost`` where fewer operators run in graphs, and more outside of them.
    """
    counts = ("graphs", "recompiles", "places", "executions")
    found = [key for key in counts if after[key] > before[key]]
    if len(after["eager"]) > len(before["eager"]):
        found.append("eager")
    outside = [one["calls"] - one["compiled"] for one in (before, after)]
    if after["compiled"] < before["compiled"] and outside[1] > outside[0]:
        found.append("lost")
    return found
