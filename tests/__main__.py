"""Runs the suite: ``python -m tests pure`` is the half that needs no torch, ``torch`` the rest.

``xla`` is the rest in an environment that comes after that of ``torch``: what no layer of a device
and no version of torch changes is left out (``ONCE``, and tests that are marked ``once``). What is
marked ``nightly`` repeats another test with more data: it is left out of all three. ``whole`` runs
all that there is, both halves of it, with three times as many examples (``tests/examples.py``).
``jax`` is what needs JAX, in an environment without torch.

With more arguments it runs just these, as pytest does: ``python -m tests torch
tests/judging/test_verdict.py -k name``. Each run without them has two workers; all of them are
made, and the exit code is that of the first that failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests import examples

ROOT: Final = Path(__file__).parents[1]

PURE: Final = (
    # The longest first: the workers then end together.
    "tests/test_regexes.py",
    "tests/model/test_fourth_layer.py",
    "tests/baseline/test_*.py",
    "tests/cli/test_accept.py",
    "tests/report/test_schemas.py",
    "tests/test_workflows.py",
    "tests/report/test_accepting.py",
    "tests/report/test_budget.py",
    "tests/judging/test_cap.py",
    "tests/judging/test_causes.py",
    "tests/judging/test_difference.py",
    "tests/judging/test_finding.py",
    "tests/judging/test_guards.py",
    "tests/judging/test_rules.py",
    "tests/config/test_checkout.py",
    "tests/config/test_descriptor.py",
    "tests/runs/test_containers.py",
    "tests/test_distribution.py",
    "tests/config/test_git.py",
    "tests/runs/test_incoming_keys.py",
    "tests/model/test_*.py",
    "tests/test_platforms.py",
    "tests/test_public.py",
    "tests/test_rooms.py",
    "tests/test_suite.py",
    "tests/layers/children/test_processes.py",
    "tests/watching/test_script.py",
    "tests/runs/test_union.py",
    "tests/judging/test_verdict.py",
    "tests/cli/test_analyze.py",
    "tests/cli/test_analyze_dump.py",
    "tests/cli/test_artifacts.py",
    "tests/cli/test_check.py",
    "tests/cli/test_compare.py",
    "tests/cli/test_untrusted.py",
    "tests/cli/test_report.py",
    "tests/cli/test_unusual_checkouts.py",
    "tests/advice/test_match.py",
    "tests/golden/test_recorded.py",
    "tests/benchmarks/test_planted.py",
    "tests/logs/test_[!l]*.py",
    "tests/suite/test_absent.py",
    "tests/suite/test_changed_lines.py",
    "tests/suite/test_collection.py",
    "tests/repair/test_printed.py",
    "tests/repair/test_search.py",
    "tests/layers/children/test_runner.py",
    "tests/repair/test_writing.py",
    "tests/report/test_[!slrp]*.py",
    "tests/text/test_*.py",
    "tests/report/test_root_causes.py",
    "tests/report/test_settings.py",
    "tests/report/test_source.py",
    "tests/report/test_summary.py",
)
"""Files that need no torch. They are run without it, once, and not again with each torch."""

APART: Final = (
    "tests/advice/test_situations.py",
    "tests/advice/test_situations_xla.py",
    "tests/processes",
    "tests/repair",
    "tests/layers",
    "tests/docs",
    "tests/cli",
    "tests/demo",
    "tests/golden",
    "tests/suite/test_blind.py",
)
"""What takes the observers apart or starts processes that other processes watch: not gated."""

ONCE: Final = (
    "tests/advice/test_registry.py",
    "tests/cli/test_untrusted_ids.py",
    "tests/cli/test_live.py",
    "tests/cli/test_pasted.py",
    "tests/cli/test_run.py",
    "tests/cli/test_run_watched.py",
    "tests/config/test_typed.py",
    "tests/layers/dynamo/test_counters.py",
    "tests/layers/dynamo/test_precompile.py",
    "tests/options/test_dir.py",
    "tests/options/test_graph_budget.py",
    "tests/options/test_new.py",
    "tests/options/test_profile.py",
    "tests/options/test_prune.py",
    "tests/options/test_record.py",
    "tests/options/test_update.py",
    "tests/processes/test_faults.py",
    "tests/processes/test_plugins.py",
    "tests/repair/remedies/test_*.py",
    "tests/repair/test_[!x]*.py",
    "tests/runs/test_incoming.py",
    "tests/suite/test_blind.py",
    "tests/suite/test_marker.py",
    "tests/suite/test_session.py",
)
"""Files that need torch, and do the same with any; ``tests/repair/test_xla.py`` is of torch_xla.

A test that does in a file of others has the marker ``once``.
"""

GATED_JAX: Final = ("tests/jax_models",)
APART_JAX: Final = ("tests/layers/jax",)
JAX: Final = (*GATED_JAX, *APART_JAX)
"""What needs JAX, and is skipped without it."""

ALSO_JAX: Final = (
    "tests/advice/test_jax.py",
    "tests/advice/test_situations_jax.py",
    "tests/cli/doctor/test_checks.py",
    "tests/docs/test_examples.py::test_a_page_does_what_it_shows[docs/how-to/jax.md]",
    "tests/golden/test_live.py",
    "tests/suite/test_absent.py",
    "tests/suite/test_jax.py",
)
"""Files of other halves in which some tests need JAX."""

HALVES: Final = ("pure", "torch", "xla", "whole", "jax")

WORKERS: Final = ("-n2", "--dist=worksteal")


def pure() -> list[str]:
    return files(PURE)


def once() -> list[str]:
    return [file for file in files(ONCE) if file not in pure()]


def files(patterns: Sequence[str]) -> list[str]:
    """The files of patterns, each once. Raises ``LookupError`` for a pattern of no file."""
    found: dict[str, None] = {}
    for pattern in patterns:
        paths = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))
        if not paths:
            raise LookupError(f"tests/__main__.py: no file is named {pattern}")
        found |= dict.fromkeys(paths)
    return list(found)


def runs(half: str) -> list[list[str]]:
    """The arguments of pytest for each run of a half."""
    if half == "whole":
        return [[*WORKERS, *pure()], *_with_torch(WORKERS, pure())]
    if half == "jax":
        options = [*WORKERS, *_but("nightly")]
        return [[*options, "--graph-budget", *GATED_JAX], [*options, *APART_JAX, *ALSO_JAX]]
    if half == "pure":
        return [[*WORKERS, *_but("nightly"), *pure()]]
    if half == "torch":
        return _with_torch([*WORKERS, *_but("nightly")], pure())
    return _with_torch([*WORKERS, *_but("nightly or once")], [*pure(), *once()])


def _but(markers: str) -> list[str]:
    return ["-m", f"not ({markers})"]


def _with_torch(options: Sequence[str], left: Sequence[str]) -> list[list[str]]:
    """The run that is under the gate, and the other. ``left`` are files that are in neither."""
    without = [f"--ignore={path}" for path in (*left, *JAX)]
    # Our own medicine: what compiles is held to baselines/.
    gated = [*options, "--graph-budget", *without, *(f"--ignore={path}" for path in APART)]
    # pytest runs a file that is named, even where it is to be ignored.
    apart = [path for path in APART if path not in left]
    return [[*gated, "tests"], [*options, *without, *apart]]


def main(half: str, *arguments: str) -> int:
    if half == "whole":
        os.environ[examples.ALL] = "1"
    codes = [pytest(list(arguments))] if arguments else [pytest(run) for run in runs(half)]
    return next((code for code in codes if code), 0)


def pytest(arguments: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT).returncode


if __name__ == "__main__":
    if sys.argv[1:2] not in [[half] for half in HALVES]:
        sys.exit(f"usage: python -m tests {'|'.join(HALVES)} [arguments of pytest]")
    sys.exit(main(*sys.argv[1:]))
