"""The true counts of the dynamo cases, found without the observer.

``python -m cases.dynamo_oracle [NAME...]`` prints a JSON object: for each
case what a backend says that counts its calls and those of what it returned, what
Dynamo's counters and compilation metrics say, and its own debug log, each case in a
process of its own. Nothing of
pytest_graphbreak is imported.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cases.forked import in_child

OWN_BACKEND = (
    "backend_error",
    "backend_error_suppressed",
    "backend_that_compiles",
    "explain_call",
    "backend_called_to_verify",
    "strict_export_clean",
)
"""Cases that bring a backend of their own, or in which torch itself calls what one returned: the
executions that are counted here are not theirs."""

BREAK = re.compile(r"Graph break (?:\(.*suppressed.*\) )?in user code at (.+):(\d+)\n")
SKIPPED = re.compile(
    r"(?:Graph break: skip: from user code at:|cannot properly resume from this graph break).*?"
    r'((?:  File "[^\n]*\n(?:    [^\n]*\n)*)+)',
    re.DOTALL,
)
FILE = re.compile(r'  File "([^"]+)", line (\d+)')
WONT = re.compile(r"WON'T CONVERT (\S+) (\S+) line (\d+)")
SKIPPING = re.compile(r"Skipping frame (?!because)(.*?) (\S+)\s+(\S+\.py)\s+(\d+)\n", re.DOTALL)
PREFIX = re.compile(
    r"(?m)^[VIWE]\d{4} [\d:.]+ \d+ [^\]]+\] ?(?:\[(!?[\d/]+)(?:_\d+)?\] )?(?:\[__\w+\] )?"
)


def measure(name: str) -> dict[str, Any]:
    """Run one case in this process and count."""
    import torch
    from torch._dynamo import utils

    from cases.dynamo import CASES

    calls = 0
    executions: list[None] = []

    def backend(gm: Any, inputs: Any) -> Any:
        nonlocal calls
        calls += 1

        def run(*args: Any) -> Any:
            executions.append(None)  # in one step, whatever the threads do
            return gm.forward(*args)

        return run

    def compile(function: Any, **options: Any) -> Any:
        return torch.compile(function, backend=backend, **options)

    found = logged(lambda: CASES[name].run(compile))
    return {
        "calls": calls,
        "executions": len(executions),
        "unique_graphs": utils.counters["stats"]["unique_graphs"],
        **found,
    }


def logged(run: Callable[[], object]) -> dict[str, Any]:
    """What Dynamo's debug log says of what is run."""
    import torch
    import torch._dynamo
    from torch._dynamo import utils

    torch._logging.set_logs(dynamo=logging.DEBUG, graph_breaks=True, recompiles=True)
    with tempfile.TemporaryFile("w+") as log:
        kept = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            run()
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
        log.seek(0)
        text = log.read()
    metrics = [m for m in utils.get_compilation_metrics() if m.is_forward is not False]
    return read(text, {str(m.compile_id) for m in metrics if m.fail_type})


def read(text: str, failed: set[str]) -> dict[str, Any]:
    """Count the events of a debug log; ``failed`` are the compile ids that came to nothing."""
    recompiled = {
        str(found[1])
        for found in PREFIX.finditer(text)
        if text.startswith("Recompiling function", found.end())
    }
    plain = PREFIX.sub("", text)
    breaks = [(found[1], int(found[2])) for found in BREAK.finditer(plain)]
    for found in SKIPPED.finditer(plain):
        file, line = FILE.findall(found[1])[-1]
        breaks.append((file, int(line)))
    eager = {(found[1], found[3]) for found in WONT.finditer(plain)}
    for found in SKIPPING.finditer(plain):
        if "no content in function call" not in found[1] and "No ops traced" not in found[1]:
            eager.add((found[2], found[4]))
    return {
        "events": len(breaks),
        "places": len(set(breaks)),
        "where": sorted({f"{Path(file).name}:{line}" for file, line in breaks}),
        "steps": plain.count("step triggered compile"),
        "recompiles": len(recompiled - failed),
        "eager": sorted(" ".join(item) for item in eager),
    }


if __name__ == "__main__":
    import torch._dynamo  # noqa: F401  # once, and not in each child

    from cases.dynamo import CASES

    print(json.dumps({name: in_child(measure, name) for name in sys.argv[1:] or CASES}, indent=1))
