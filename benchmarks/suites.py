"""Suites of others, unchanged, with the plugin and without: the same outcomes and warnings.

    python -m benchmarks.suites [SUITE...] [--source SUITE=DIRECTORY] [--only PATTERN]

A suite is a key of ``SUITES``; without one, all are run whose packages this Python has. Its sources
are those of the installed version, fetched from GitHub, or what ``--source`` names. Each file is
run by pytest in a process of its own, once with ``-p no:graphbreak`` and once with
``--graph-budget-report``. Prints a line for each file, and what differs: the outcome of a test, how
often a warning came (of Python, or that torch printed), the exit code. The exit code is 1 where
something differs.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
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
    "chex": Suite("chex", "google-deepmind/chex", ("chex/_src/*_test.py",)),
    "equinox": Suite("equinox", "patrick-kidger/equinox", ("tests/test_*.py",)),
    "optax": Suite("optax", "google-deepmind/optax", ("optax/*/*_test.py",)),
    "flax": Suite("flax", "google/flax", ("tests/core/*.py",)),
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


def pytest_sessionfinish() -> None:
    if path := os.environ.get(OUT):
        Path(path).write_text(json.dumps([_outcomes, _warnings]))


@dataclass(frozen=True)
class Run:
    """One run of one file."""

    code: int | None
    outcomes: dict[str, str]
    warnings: dict[str, int]


_PRINTED: Final = re.compile(r"^.*(?:\[W\d|c10 warn|Warning:|Check failed|Fatal Python).*$", re.M)
_STAMP: Final = re.compile(r"\d\d:\d\d:\d\d[.\d]*|\d{6,}|\bW\d{4}\b")


def run(suite: Suite, root: Path, file: str, *options: str) -> Run:
    """Run one file of a suite; ``code`` is None where it was stopped."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory, "out.json")
        paths = (ROOT, root, root / Path(file).parent, root / "test")
        environment = {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "OMP_NUM_THREADS": "1",
            "TORCHINDUCTOR_CACHE_DIR": directory,
            OUT: str(out),
        }
        plugin = ("-p", "benchmarks.suites", "-p", "no:cacheprovider", "-q")
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *plugin, *options, str(root / file)],
                cwd=(root / file).parent,
                env=os.environ | environment | suite.environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            return Run(None, {}, {})
        outcomes, warnings = json.loads(out.read_text()) if out.exists() else ({}, {})
        printed = Counter(_STAMP.sub("", line) for line in _PRINTED.findall(done.stderr))
        return Run(done.returncode, outcomes, {**warnings, **printed})


def differences(off: Run, on: Run) -> Iterator[str]:
    """Yield what differs with the plugin."""
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


def compare(suite: Suite, root: Path, only: str) -> bool:
    """Run all files of a suite; return whether everything is the same."""
    same = True
    for file in _files(suite, root, only):
        with tempfile.TemporaryDirectory() as directory:
            off = run(suite, root, file, "-p", "no:graphbreak")
            on = run(suite, root, file, f"--graph-budget-report={directory}/graphs.json")
        found = [*differences(off, on)]
        same &= not found
        kinds = Counter(outcome.rpartition(" ")[2] for outcome in off.outcomes.values())
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        warned = sum(off.warnings.values())
        print(f"{file}: {counts or off.code}, {warned} warnings: {len(found)} differences")
        print(*(f"  {line}" for line in found), sep="\n", end="\n" if found else "", flush=True)
    return same


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
    asked = parser.parse_args(arguments)
    sources = dict(source.split("=", 1) for source in asked.source)
    names = asked.suites or [name for name, suite in SUITES.items() if suite.version()]
    same = True
    for name in names:
        suite = SUITES[name]
        print(f"\n{name}: {suite.package} {suite.version()}", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            root = Path(sources[name]) if name in sources else fetch(suite, Path(directory))
            same &= compare(suite, root.absolute(), asked.only)
    return not same


if __name__ == "__main__":
    sys.exit(main())
