"""Suites of others, unchanged, with the plugin and without: the same outcomes, test by test.

    python -m benchmarks.suites [--einops] [SUITE PYTEST-ARGUMENT...]

A suite is a directory that pytest runs in, such as an unpacked source package;
``--einops`` fetches that of einops from PyPI, whose tests compile its layers
and functions. Both runs are in this Python: once with ``-p no:graphbreak``, once with
``--graph-budget-report``. Prints how many outcomes are the same, those that are
not, and what was counted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final

EINOPS: Final = "0.8.2"
NOT: Final = ("-p", "no:graphbreak")


def outcomes(path: Path) -> dict[str, str]:
    """What a junit file says of each test: passed, failed, error or skipped."""
    found = {}
    for case in ET.parse(path).iter("testcase"):
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        name = f"{case.get('classname')}::{case.get('name')}"
        found[name] = kinds[0] if kinds else "passed"
    return found


def run(suite: Path, arguments: list[str], more: tuple[str, ...], out: Path) -> tuple[int, float]:
    """One run: its exit code, and the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *(f"--junitxml={out}", *more, *arguments),
        ],
        cwd=suite,
        env=os.environ
        | {
            "EINOPS_TEST_BACKENDS": "numpy,torch",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(
                filter(None, (str(suite.absolute()), os.environ.get("PYTHONPATH")))
            ),
            # Otherwise the second run finds what the first one compiled.
            "TORCHINDUCTOR_CACHE_DIR": str(out.with_suffix(".cache")),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if not out.exists():
        raise SystemExit(f"pytest {' '.join(more)} wrote no report:\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, spent


def compare(suite: Path, arguments: list[str]) -> tuple[bool, Iterator[str]]:
    """Whether the outcomes are the same, and what to print."""
    with tempfile.TemporaryDirectory() as directory:
        off, on, graphs = (Path(directory, name) for name in ("off.xml", "on.xml", "graphs.json"))
        code_off, spent_off = run(suite, arguments, NOT, off)
        code_on, spent_on = run(suite, arguments, (f"--graph-budget-report={graphs}",), on)
        without, with_it = outcomes(off), outcomes(on)
        report = json.loads(graphs.read_text())
    different = [
        f"{name}: {without.get(name, 'not run')} without, {with_it.get(name, 'not run')} with"
        for name in sorted({*without, *with_it})
        if without.get(name) != with_it.get(name)
    ]
    if code_off != code_on:
        different.append(f"the exit code: {code_off} without, {code_on} with")

    def lines() -> Iterator[str]:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(Counter(without.values()).items()))
        yield f"{len(without)} tests ({kinds}), exit code {code_off}: {len(different)} differences"
        yield f"CPU time {spent_off:.1f} s without, {spent_on:.1f} s with"
        yield from (f"- {line}" for line in different)
        yield from _counted(report)

    return not different, lines()


def _counted(report: Any) -> Iterator[str]:
    """Markdown: the tests that compiled, by function, and what they made."""
    yield "\n| test | cases | graphs | breaks | recompiles | errors |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    groups: dict[str, list[Any]] = {}
    for test in report["tests"]:
        if test["frames"]["attempted"] or test["graphs"]:
            groups.setdefault(test["nodeid"].partition("[")[0], []).append(test)
    for name, tests in groups.items():
        graphs = Counter[str]()
        for test in tests:
            graphs.update(test["graphs"])
        yield (
            f"| {name} | {len(tests)} | "
            f"{', '.join(f'{layer} {n}' for layer, n in sorted(graphs.items())) or '0'} | "
            f"{sum(len(test['breaks']) for test in tests)} | "
            f"{sum(sum(test['recompiles'].values()) for test in tests)} | "
            f"{sum(len(test['errors']) for test in tests)} |"
        )


def fetch_einops(directory: Path) -> Path:
    """Its source package, by pip."""
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"),
            *("--no-build-isolation", "-d", str(directory), f"einops=={EINOPS}"),
        ],
        check=True,
    )
    (archive,) = directory.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")
    return directory / f"einops-{EINOPS}"


def _versions() -> Iterator[str]:
    for package in ("torch", "torch_xla", "jax"):
        with suppress(metadata.PackageNotFoundError):
            yield f"{package} {metadata.version(package)}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suites")
    parser.add_argument("--einops", action="store_true", help="fetch and run that of einops")
    parser.add_argument("suite", nargs="?", type=Path)
    asked, rest = parser.parse_known_args()
    print(f"{', '.join(_versions())}, Python {platform.python_version()}\n", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        if asked.einops:
            suite = fetch_einops(Path(directory))
            arguments = rest or ["einops/tests/test_layers.py", "einops/tests/test_ops.py"]
            arguments += ["einops/tests/test_other.py"] if not rest else []
        elif asked.suite is not None:
            suite, arguments = asked.suite, rest
        else:
            parser.error("name the directory of a suite, or give --einops")
        same, lines = compare(suite, arguments)
        print("\n".join(lines))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
