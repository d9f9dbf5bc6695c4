"""Suites of others, unchanged, with the plugin and without: the same outcomes and warnings.

    python -m benchmarks.suites [SUITE...] [--source SUITE=DIRECTORY] [--only PATTERN] [--quick]

A suite is a key of ``SUITES``; without one, all are run whose packages this Python has. Its sources
are those of the installed version, fetched from GitHub, or what ``--source`` names. Each file (or
all of them, for a suite that is ``together``) is run by pytest in a process of its own: with
``-p no:graphbreak``, with ``--graph-budget-record``, with ``--graph-budget``, and with that in a
random order; ``--quick``: only the first, and ``--graph-budget-report``. Prints a line for each,
with the CPU time of each run, and what differs: the outcome of a test, how often a warning came (of
Python, or that torch printed), the exit code, a count. The exit code is 1 where something differs.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import re
import resource
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pytest

ROOT: Final = Path(__file__).parents[1]
OUT: Final = "GRAPHBREAK_SUITES_OUT"
SHUFFLED: Final = "GRAPHBREAK_SUITES_SHUFFLED"
LIMIT: Final = 1800
"""Seconds that a file may take."""


@dataclass(frozen=True)
class Suite:
    """A suite: the package that it tests, its repository, and the files that are run.

    ``files`` are patterns from the root of the repository, ``without`` are left out.
    """

    package: str
    repository: str
    files: tuple[str, ...]
    without: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    tag: str = "v{}"
    together: bool = False

    def version(self) -> str | None:
        """Return the version that is installed here, without what a build adds; None if none is."""
        try:
            return metadata.version(self.package).partition("+")[0]
        except metadata.PackageNotFoundError:
            return None


_XLA: Final = (
    "operations_hlo devices callback metrics autocast autocast_xla data_type async_closures "
    "as_stride_use_slice compilation_cache_utils deprecation dynamic_shapes_detector gmm "
    "grad_checkpoint gradient_accumulation hlo_metadata inplace_update input_output_aliases "
    "mat_mul_precision ops_error_message placeholder python_ops syncfree_optimizers while_loop "
    "xla_graph_execution"
)

SUITES: Final = {
    "xla": Suite(
        "torch_xla",
        "pytorch/xla",
        (*(f"test/test_{name}.py" for name in _XLA.split()), "test/dynamo/test_*.py"),
        environment={"PJRT_DEVICE": "CPU"},
    ),
    "xla-spmd": Suite(
        "torch_xla",
        "pytorch/xla",
        ("test/spmd/test_*.py",),
        ("*/test_train_*.py",),
        {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "4"},
    ),
    "dynamo": Suite("torch", "pytorch/pytorch", ("test/dynamo/test_*.py",)),
    "tensordict": Suite("tensordict", "pytorch/tensordict", ("test/test_compile.py",)),
    "einops": Suite("einops", "arogozhnikov/einops", ("einops/tests/test_*.py",)),
    # Together: its folder has a ``warnings.py``, which Python would import from there. What is left
    # out needs a process of its own, as in chex's test.sh.
    "chex": Suite(
        "chex",
        "google-deepmind/chex",
        ("chex/_src/*_test.py",),
        ("*/fake_set_n_cpu_devices_test.py",),
        together=True,
    ),
    # Without a seed the sizes of its arrays are random, and with them what is compiled
    # (equinox/internal/_getkey.py).
    "equinox": Suite(
        "equinox",
        "patrick-kidger/equinox",
        ("tests/test_*.py",),
        environment={"EQX_GETKEY_SEED": "0"},
    ),
    "optax": Suite("optax", "google-deepmind/optax", ("optax/*/*_test.py",)),
    "flax": Suite("flax", "google/flax", ("tests/core/*.py",)),
    # Its fakes of torch_xla and the wrappers of compiled modules, but no groups of processes.
    "lightning": Suite(
        "lightning",
        "Lightning-AI/pytorch-lightning",
        (
            "tests/tests_fabric/test_*.py",
            "tests/tests_fabric/*/test_*.py",
            "tests/tests_fabric/plugins/*/test_*.py",
            "tests/tests_pytorch/*/test_xla*.py",
            "tests/tests_pytorch/*/test_tpu.py",
            "tests/tests_pytorch/plugins/precision/test_xla.py",
            "tests/tests_pytorch/utilities/test_compile.py",
        ),
        ("*_integration.py", "*/test_cli.py", "*/test_distributed.py", "*/test_spike.py"),
        tag="{}",
        together=True,
    ),
    "torchao": Suite(
        "torchao",
        "pytorch/ao",
        (
            "test/dtypes/test_bitpacking.py",
            "test/quantization/test_qat.py",
            "test/quantization/test_quant_primitives.py",
            "test/test_low_bit_optim.py",
        ),
        together=True,
    ),
    "geometric": Suite(
        "torch_geometric",
        "pyg-team/pytorch_geometric",
        ("test/nn/test_compile_*.py", "test/nn/conv/test_*.py", "test/nn/models/test_basic_gnn.py"),
        environment={"FULL_TEST": "1"},  # else those that compile are skipped
        tag="{}",
        together=True,
    ),
    "frame": Suite(
        "pytorch_frame",
        "pyg-team/pytorch-frame",
        ("test/nn/*/test_*.py",),
        tag="{}",
        together=True,
    ),
    "tabpfn": Suite(
        "tabpfn", "PriorLabs/TabPFN", ("tests/test_architectures/test_*.py",), together=True
    ),
    "tt-xla": Suite(
        "pjrt-plugin-tt", "tenstorrent/tt-xla", ("tests/torch/ops/test_*.py",), tag="{}"
    ),
}


# As a plugin of the runs: it writes outcomes and warnings, since no report of pytest has both.

_outcomes: dict[str, str] = {}
_warnings: Counter[str] = Counter()
_ADDRESS: Final = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)? ?m?s\b")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        _outcomes[report.nodeid] = f"{report.when} {report.outcome}"


def pytest_warning_recorded(warning_message: Any, nodeid: str) -> None:
    text = _ADDRESS.sub("...", str(warning_message.message))
    _warnings[f"{warning_message.category.__name__}: {text}"] += 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get(SHUFFLED):
        random.Random(0).shuffle(items)


def pytest_sessionfinish() -> None:
    if path := os.environ.get(OUT):
        Path(path).write_text(json.dumps([_outcomes, _warnings]))


@dataclass(frozen=True)
class Run:
    """One run. ``code`` is None where it was stopped; ``seconds`` are of CPU."""

    code: int | None
    outcomes: dict[str, str]
    warnings: dict[str, int]
    counts: dict[str, dict[str, int]]
    seconds: float


_PRINTED: Final = re.compile(r"^.*(?:\[W\d|c10 warn|Warning:|Check failed|Fatal Python).*$", re.M)
_STAMP: Final = re.compile(r"\d\d:\d\d:\d\d[.\d]*|\d{6,}|\bW\d{4}\b")


def run(suite: Suite, root: Path, files: Sequence[str], *options: str, mixed: bool = False) -> Run:
    """Run files of a suite in one process."""
    folder = root if suite.together else (root / files[0]).parent
    with tempfile.TemporaryDirectory() as directory:
        out, report = Path(directory, "out.json"), Path(directory, "graphs.json")
        # Last, and as ``suites``: a suite may have a ``benchmarks`` of its own.
        paths = (root, folder, root / "test", root / "tests", ROOT / "benchmarks")
        environment = {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "OMP_NUM_THREADS": "1",
            "TORCHINDUCTOR_CACHE_DIR": directory,
            OUT: str(out),
            SHUFFLED: "1" if mixed else "",
        }
        plugin = ("-p", "suites", "-p", "no:cacheprovider", "-p", "no:randomly", "-q")
        if options != OFF:
            options = (*options, f"--graph-budget-report={report}")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *plugin, *options]
                + [str(root / file) for file in files],
                cwd=folder,
                env=os.environ | environment | suite.environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            return Run(None, {}, {}, {}, 0)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        outcomes, warnings = json.loads(out.read_text()) if out.exists() else ({}, {})
        tests = json.loads(report.read_text())["tests"] if report.exists() else []
    printed = Counter(_STAMP.sub("", line) for line in _PRINTED.findall(done.stderr))
    counts = {test["nodeid"]: test["graphs"] for test in tests if test["graphs"]}
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(done.returncode, outcomes, {**warnings, **printed}, counts, seconds)


OFF: Final = ("-p", "no:graphbreak")


def differences(off: Run, on: Run, counts: dict[str, dict[str, int]]) -> Iterator[str]:
    """Yield what differs with the plugin, and from the counts of its first run."""
    if not off.outcomes:
        yield f"no test ran without the plugin, which ended with {off.code}"
    if off.code != on.code:
        yield f"exit code {off.code} without, {on.code} with"
    for name in sorted({*off.outcomes, *on.outcomes}):
        before, after = off.outcomes.get(name, "not run"), on.outcomes.get(name, "not run")
        if before != after:
            yield f"{name}: {before} without, {after} with"
    for text in sorted({*off.warnings, *on.warnings}):
        count, now = off.warnings.get(text, 0), on.warnings.get(text, 0)
        if count != now:
            yield f"{count} times without, {now} with: {text[:300]}"
    for name in sorted({*counts, *on.counts}):
        if counts.get(name) != on.counts.get(name):
            yield f"{name}: {counts.get(name)} first, {on.counts.get(name)} now"


def compare(suite: Suite, root: Path, only: str, quick: bool) -> bool:
    """Run all files of a suite; return whether everything is the same."""
    same = True
    named = _files(suite, root, only)
    for files in [named] if suite.together else [[file] for file in named]:
        off = run(suite, root, files, *OFF)
        runs = {"report": run(suite, root, files)} if quick else _judged(suite, root, files)
        counts = next(iter(runs.values())).counts
        found = {mode: [*differences(off, on, counts)] for mode, on in runs.items()}
        if found.get("mixed"):  # its own order may matter to a suite
            mixed = run(suite, root, files, *OFF, mixed=True)
            found["mixed"] = [*differences(mixed, runs["mixed"], counts)]
        same &= not any(found.values())
        kinds = Counter(outcome.rpartition(" ")[2] for outcome in off.outcomes.values())
        outcomes = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        graphs = sum(sum(layers.values()) for layers in counts.values())
        print(f"{files[0]}{f' and {len(files) - 1} more' * (len(files) > 1)}:", end=" ")
        print(f"{outcomes or off.code}; {len(counts)} tests make {graphs} graphs")
        print(f"  off: {off.seconds:.0f} s of CPU, {sum(off.warnings.values())} warnings")
        for mode, on in runs.items():
            print(f"  {mode}: {on.seconds:.0f} s, {len(found[mode])} differences")
            for line in found[mode]:
                print(f"    {line}", flush=True)
    return same


def _judged(suite: Suite, root: Path, files: Sequence[str]) -> dict[str, Run]:
    """Run files with their baselines recorded, and then judged by them, in two orders."""
    with tempfile.TemporaryDirectory() as baselines:
        place = f"--graph-budget-dir={baselines}"
        record = run(suite, root, files, "--graph-budget-record", place)
        gate = run(suite, root, files, "--graph-budget", place)
        return {
            "record": record,
            "gate": gate,
            "mixed": run(suite, root, files, "--graph-budget", place, mixed=True),
        }


def _files(suite: Suite, root: Path, only: str) -> list[str]:
    found = (path for pattern in suite.files for path in sorted(root.glob(pattern)))
    names = (path.relative_to(root).as_posix() for path in found)
    return [
        name
        for name in names
        if fnmatch(name, only) and not any(fnmatch(name, pattern) for pattern in suite.without)
    ]


def fetch(suite: Suite, directory: Path) -> Path:
    """Return the sources of the version that is installed, fetched from GitHub."""
    tag = suite.tag.format(suite.version())
    address = f"https://codeload.github.com/{suite.repository}/tar.gz/refs/tags/{tag}"
    with urllib.request.urlopen(address, timeout=600) as answer:
        data = answer.read()
    with tarfile.open(fileobj=io.BytesIO(data)) as packed:
        packed.extractall(directory, filter="data")
    (root,) = directory.iterdir()
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suites")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--source", action="append", default=[], metavar="SUITE=DIRECTORY")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="of the files' paths")
    parser.add_argument("--quick", action="store_true", help="with a report only")
    asked = parser.parse_args(arguments)
    sources = dict(source.split("=", 1) for source in asked.source)
    names = asked.suites or [name for name, suite in SUITES.items() if suite.version()]
    same = True
    for name in names:
        suite = SUITES[name]
        print(f"\n{name}: {suite.package} {suite.version()}", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            root = Path(sources[name]) if name in sources else fetch(suite, Path(directory))
            same &= compare(suite, root.absolute(), asked.only, asked.quick)
    return not same


if __name__ == "__main__":
    sys.exit(main())
