"""Counts classes of the survey without the plugin, to hold its results against.

    python -m benchmarks.survey.independent --of 20 [--seed 1] [NAME...]

The classes are drawn by chance from those that ran. Graphs are the calls of a
backend of this module, breaking places and recompiles are read from what Dynamo
logs; each class has a process of its own. The exit code is 1 where one differs.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
from typing import Any

from benchmarks.survey.data import INDEPENDENT, RESULTS, read
from benchmarks.survey.run import alone, warm


class _Limits(logging.Handler):
    """What Dynamo warns of when it would compile once too often: it logs a recompile as well."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "recompile_limit" in record.getMessage()


def counted(name: str) -> dict[str, Any]:
    """Graphs, recompiles and breaking places of two calls with the same inputs."""
    import torch

    from benchmarks.survey.measure import small
    from tests.models.independent import _Log

    torch._logging.set_logs(graph_breaks=True, recompiles=True)
    log = _Log()
    for module in ("symbolic_convert", "convert_frame", "guards"):
        for artifact in ("graph_breaks", "recompiles"):
            logging.getLogger(f"torch._dynamo.{module}.__{artifact}").addHandler(log)
    limits = _Limits()
    logging.getLogger("torch._dynamo.convert_frame").addHandler(limits)
    model, inputs = small(name)
    graphs = 0

    def backend(graph: Any, _: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    torch._dynamo.reset()
    torch.manual_seed(0)
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        compiled(**inputs)
        compiled(**inputs)
    return {
        "graphs": graphs,
        "recompiles": log.recompiles - limits.count,
        "breaks": len(log.places),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.survey.independent")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--of", type=int, default=20, help="how many classes (20)")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    results = {each["model"]: each for each in read(RESULTS) if each["status"] == "ran"}
    names = asked.names or random.Random(asked.seed).sample(sorted(results), asked.of)
    warm(observed=False)
    agreed = []
    for name in names:
        has = results[name]
        expected = {
            "graphs": has.get("graphs", 0),
            "recompiles": len(has.get("recompiles", ())),
            "breaks": len({(one["file"], one["code"]) for one in has.get("breaks", ())}),
        }
        found = alone(lambda name=name: counted(name))
        agreed.append(found == expected)
        word = "agrees" if agreed[-1] else f"DIFFERS: {expected} in the survey"
        print(name, word, found, flush=True)
    reported = dict(zip(names, agreed, strict=True))
    if asked.names and INDEPENDENT.exists():
        drawn = json.loads(INDEPENDENT.read_text("utf-8"))["classes"]
        reported = drawn | {name: agrees for name, agrees in reported.items() if name in drawn}
    classes = dict(sorted(reported.items()))
    text = json.dumps({"of": asked.of, "seed": asked.seed, "classes": classes}, indent=1)
    INDEPENDENT.write_text(text + "\n", "utf-8")
    return 0 if all(agreed) else 1


if __name__ == "__main__":
    sys.exit(main())
