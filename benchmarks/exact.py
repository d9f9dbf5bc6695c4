"""Whether the counts are exact: every adversarial case, on every torch, in any order.

    python -m benchmarks.exact [--orders 20] [--every 1] [PYTHON...]

The cases of ``cases/dynamo.py`` (of ``cases/xla.py`` where torch_xla is installed,
of ``cases/jax_cases.py`` where JAX is) are run as tests with the plugin on, among
others that leave settings of torch changed, by each of the Pythons that are named,
or by this one: in ``--orders`` random orders, the same under two xdist workers, and
each in a forked process, where these are installed. Those of JAX are also run in the
order of the file, in reverse, and each in a thread of its own, and their table is
first held against the oracle. What the report says of a case is held against what an
oracle without the plugin found: graphs, breaks, recompiles, and of Dynamo and torch_xla
how often graphs ran and how many values were read. Prints a matrix and a line for each
count that is not exact; the exit code is 1 where there is one. A case of which Dynamo itself does
not run in a forked process is left out there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cases.dynamo_oracle import OWN_BACKEND

ROOT: Final = Path(__file__).parents[1]

DYNAMO: Final = """
import logging, os, warnings
import pytest, torch
from cases.dynamo import CASES
logging.getLogger("torch").setLevel(logging.ERROR)
MINOR = tuple(int(part) for part in torch.__version__.split(".")[:2])
FORKED = bool(os.environ.get("EXACT_FORKED"))
HERE = [c for c in CASES.values() if c.since <= MINOR and (c.forks or not FORKED)]

def compile(function, **options):
    return torch.compile(function, backend="eager", **options)

@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", HERE[::EVERY], ids=lambda case: case.name)
def test_case(case):
    case.run(compile)
"""

XLA: Final = """
import pytest
from cases.xla import CASES

@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", list(CASES.values())[::EVERY], ids=lambda case: case.name)
def test_case(case):
    case.run()
"""

JAX: Final = """
import os, threading
import pytest
from cases.jax_cases import CASES

@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", list(CASES.values())[::EVERY], ids=lambda case: case.name)
def test_case(case):
    if not os.environ.get("EXACT_THREADS"):
        case.run()
        return
    faults = []

    def run():
        try:
            case.run()
        except BaseException as fault:
            faults.append(fault)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if faults:
        raise faults[0]
"""

JAX_LEAKS: Final = """
import jax

LEAKS = {
    "held": lambda: HELD.append(jax.jit(lambda x: x * 2).lower(1.0).compile()),
    "shared": lambda: __import__("cases.jax_cases").jax_cases.SHARED(1.0),
    "eager": lambda: jax.numpy.ones(3).sum(),
    "random": lambda: jax.random.normal(jax.random.key(0), (3,)),
    "logs": lambda: jax.config.update("jax_log_compiles", True),
    "misses": lambda: jax.config.update("jax_explain_cache_misses", True),
    "traced": lambda: jax.make_jaxpr(jax.numpy.cos)(1.0),
}
HELD = []

@pytest.mark.parametrize("leak", LEAKS)
def test_leak(leak):
    LEAKS[leak]()
"""
"""Tests that leave programs compiled, or held, among the cases of JAX."""

LEAKS: Final = """
import torch
import torch._dynamo.config as config, torch._functorch.config

LEAKS = {
    "scalars": lambda: setattr(config, "capture_scalar_outputs", True),
    "shapes": lambda: setattr(config, "capture_dynamic_output_shape_ops", True),
    "limit": lambda: setattr(config, "cache_size_limit", 1),
    "dynamic": lambda: setattr(config, "assume_static_by_default", False),
    "static": lambda: setattr(config, "automatic_dynamic_shapes", False),
    "floats": lambda: setattr(config, "specialize_float", not config.specialize_float),
    "errors": lambda: setattr(config, "suppress_errors", True),
    "disable": lambda: setattr(config, "disable", True),
    "loggers": lambda: config.reorderable_logging_functions.add(print),
    "views": lambda: setattr(torch._functorch.config, "view_replay_for_aliased_outputs", False),
    "stance": lambda: torch.compiler.set_stance("force_eager"),
    "grad": lambda: torch.set_grad_enabled(False),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16).__enter__(),
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "device": lambda: torch.set_default_device("meta"),
}

@pytest.mark.parametrize("leak", LEAKS)
def test_leak(leak):
    LEAKS[leak]()
"""
"""Tests that leave a setting of torch, among the cases: no count of a case may tell."""

CONFTEST: Final = """
import os, random

def pytest_collection_modifyitems(items):
    order = os.environ["EXACT_SEED"]
    if order.isdecimal():
        random.Random(int(order)).shuffle(items)
    elif order == "reversed":
        items.reverse()
"""

TRUE: Final = {
    "dynamo": """
import json, torch
from cases.dynamo import CASES
print(json.dumps({n: list(c.expected(torch.__version__)) for n, c in CASES.items()}))
""",
    "xla": """
import json
from cases.xla import CASES
print(json.dumps({n: [c.graphs, c.recompiles] for n, c in CASES.items()}))
""",
    "jax": """
import json
from cases.jax_cases import CASES
here = lambda case: (why for why in case.why if not why.host)
causes = lambda case: sorted(why.cause for why in here(case) for _ in range(why.count))
print(json.dumps({n: [c.programs, *causes(c)] for n, c in CASES.items()}))
""",
}

ABOUT: Final = """
import importlib.metadata as m, importlib.util as u, json, platform, sys
has = lambda name: u.find_spec(name) is not None
version = lambda name: m.version(name) if has(name) else None
print(json.dumps({"python": platform.python_version(), "torch": version("torch"),
    "xla": version("torch_xla"), "jax": version("jax"),
    "xdist": has("xdist"), "forked": has("pytest_forked")}))
"""


@dataclass
class Column:
    """One way to run: how many counts were exact, of how many, and which were not."""

    exact: int = 0
    of: int = 0
    wrong: list[str] = field(default_factory=list)


INI: Final = {
    "dynamo": "[pytest]\n",
    "xla": "[pytest]\n",
    "jax": "[pytest]\ngraph_budget_jax_device = cpu:0\n",  # of four virtual ones
}

SETTINGS: Final = {
    "PYTHONPATH": str(ROOT),
    "PJRT_DEVICE": "CPU",
    "OMP_NUM_THREADS": "1",
}


def _python(python: str, code: str) -> Any:
    done = subprocess.run(
        [python, "-c", code], cwd=ROOT, env=_environ(), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def _environ(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TORCH_", "GRAPHBREAK_"))}
    return kept | SETTINGS | more


def _run(python: str, folder: Path, seed: int | str, *args: str) -> dict[str, list[Any]]:
    """One run of the suite: what the report says of each case."""
    report = folder / "graphs.json"
    report.unlink(missing_ok=True)
    more = {"EXACT_SEED": str(seed)} | ({"EXACT_FORKED": "1"} if "--forked" in args else {})
    if "threads" in args:
        args, more = (), more | {"EXACT_THREADS": "1"}
    done = subprocess.run(
        [
            *(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"),
            *(f"--graph-budget-report={report}", *args),
        ],
        cwd=folder,
        env=_environ(**more),
        capture_output=True,
        text=True,
    )
    if not report.exists():
        raise SystemExit(done.stdout + done.stderr)
    data = json.loads(report.read_text())
    cases = (test for test in data["tests"] if "::test_case[" in test["nodeid"])
    return {test["nodeid"].partition("[")[2][:-1]: test for test in cases}


ORACLES: Final = {"dynamo": ("-m", "cases.dynamo_oracle"), "xla": ("cases/xla_runs.py", "raw")}


class _Runs:
    """How often graphs ran and values were read, by oracles in processes without the plugin."""

    def __init__(self, python: str, layer: str) -> None:
        self._python = python
        self._layer = layer
        self._known: dict[str, Any] = {}

    def learn(self, names: Iterable[str]) -> None:
        new = [name for name in names if name not in self._known]
        if not new or self._layer not in ORACLES:
            return
        done = subprocess.run(
            [self._python, *ORACLES[self._layer], *new],
            cwd=ROOT,
            env=_environ(),
            capture_output=True,
            text=True,
            check=True,
        )
        self._known |= json.loads(done.stdout)

    def of(self, name: str) -> list[int]:
        """Executions, and on torch_xla reads; nothing where the oracle does not apply."""
        if self._layer not in ORACLES or (self._layer == "dynamo" and name in OWN_BACKEND):
            return []
        found = self._known[name]
        executions = found["executions"] + found.get("executions_replicated", 0)
        return [executions] if self._layer == "dynamo" else [executions, found["reads"]]

    def seen(self, name: str, test: Any) -> list[int]:
        counts = [test[key].get(self._layer, 0) for key in ("executions", "reads")]
        return counts[: len(self.of(name))]


def _counts(layer: str, test: Any) -> list[Any]:
    graphs, recompiles = test["graphs"].get(layer, 0), test["recompiles"].get(layer, 0)
    if layer == "jax":
        causes = sorted(graph["cause"] for graph in test["graph_list"])
        return [graphs, *causes]
    if layer == "xla":
        return [graphs, recompiles]
    breaks, eager = (
        [item for item in test[key] if item["layer"] == layer] for key in ("breaks", "eager")
    )
    return [graphs, sum(item["count"] for item in breaks), len(breaks), recompiles, len(eager)]


def _ways(
    about: Any, layer: str, orders: int
) -> dict[str, list[tuple[int | str, tuple[str, ...]]]]:
    """How the cases of a layer are run, way by way: the order of each run, and its arguments."""
    ways: dict[str, list[tuple[int | str, tuple[str, ...]]]] = {}
    if layer == "jax":
        ways |= {"in order": [("as they are", ())], "reversed": [("reversed", ())]}
    ways[f"{orders} random orders"] = [(seed, ()) for seed in range(orders)]
    # Both workers would need the one client of torch_xla; forked has a process for each test.
    ways["xdist"] = [(0, ("-n1" if layer == "xla" else "-n2",))] if about["xdist"] else []
    ways["forked"] = [(0, ("--forked",))] if about["forked"] else []
    if layer == "jax":
        ways["threads"] = [(0, ("threads",))]
    return ways


def _title(about: Any, layer: str) -> str:
    if layer == "jax":
        return f"jax {about['jax']}, Python {about['python']}"
    title = f"torch {about['torch']}, Python {about['python']}"
    return title if layer == "dynamo" else f"torch_xla {about['xla']}, {title}"


def _oracle(python: str, true: dict[str, Any], every: int) -> Column:
    """The table of the cases of JAX, held against the oracle."""
    names = list(true)[::every]
    code = (
        "import json; from cases.forked import in_child; from cases.jax_cases import CASES; "
        "from cases.jax_oracle import measure"
    )
    answers = _python(
        python,
        f"{code}; besides = lambda case: case.host + case.refused; "
        f"print(json.dumps([[in_child(measure, n), besides(CASES[n])] for n in {names!r}]))",
    )
    column = Column(of=len(names))
    for name, (answer, besides) in zip(names, answers, strict=True):
        found = [answer.get(key) for key in ("xla", "log")]
        if found == [true[name][0] + besides] * 2:
            column.exact += 1
        else:
            column.wrong.append(f"oracle: {name} {found or answer}, table {true[name]}")
    return column


def check(python: str, orders: int, every: int) -> Iterator[tuple[str, str, Column]]:
    """Each layer and way of one Python with its column; what cannot be run there has none."""
    about = _python(python, ABOUT)
    sources = {"dynamo": DYNAMO + LEAKS, "xla": XLA + LEAKS, "jax": JAX + JAX_LEAKS}
    for layer, package in (("dynamo", "torch"), ("xla", "xla"), ("jax", "jax")):
        if not about[package]:
            continue
        title, true = _title(about, layer), _python(python, TRUE[layer])
        ran = _Runs(python, layer)
        if layer == "jax":
            yield title, "oracle", _oracle(python, true, every)
        with tempfile.TemporaryDirectory() as directory:
            folder = Path(directory)
            (folder / "test_cases.py").write_text(sources[layer].replace("EVERY", str(every)))
            (folder / "conftest.py").write_text(CONFTEST)
            (folder / "pytest.ini").write_text(INI[layer])
            for way, runs in _ways(about, layer, orders).items():
                column = Column()
                for seed, args in runs:
                    tests = _run(python, folder, seed, *args)
                    ran.learn(tests)
                    for name, test in tests.items():
                        column.of += 1
                        found, bad = _counts(layer, test) + ran.seen(name, test), test["errors"]
                        expected = true[name] + ran.of(name)
                        if found == expected and not bad and test["outcome"] == "passed":
                            column.exact += 1
                        else:
                            column.wrong.append(
                                f"{title}, {way} {seed}: {name} {found}, true {expected}, "
                                f"{test['outcome']} {' '.join(bad)}"
                            )
                yield title, way, column


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exact")
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", default=[sys.executable])
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--every", type=int, default=1, help="every n-th case only")
    asked = parser.parse_args()
    matrix: dict[str, dict[str, str]] = {}
    wrong: list[str] = []
    for python in asked.pythons:
        for title, way, column in check(python, asked.orders, asked.every):
            cell = f"{column.exact} of {column.of}" if column.of else "-"
            matrix.setdefault(title, {})[way] = cell
            wrong += column.wrong
            for line in (f"{title}, {way}: {column.exact} of {column.of}", *column.wrong):
                print(line, file=sys.stderr, flush=True)
    for ways in dict.fromkeys(tuple(cells) for cells in matrix.values()):
        print(f"| | {' | '.join(ways)} |")
        print(f"| --- |{' ---: |' * len(ways)}")
        for title, cells in matrix.items():
            if tuple(cells) == ways:
                print(f"| {title} | {' | '.join(cells.values())} |")
    print("\nNot exact: " + ("none" if not wrong else ""))
    for line in wrong:
        print(f"- {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
