"""The table of ``cases/jax_cases.py`` is what XLA itself wrote and JAX itself logged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")

from cases.jax_cases import CASES, MINOR, Case

ROOT = Path(__file__).parents[3]
EVERY = int(os.environ.get("GRAPHBREAK_ORACLE_EVERY", "8"))
HERE = list(CASES.values())[MINOR[1] % EVERY :: EVERY]
"""Every eighth case, others on another jax: a process each takes its time. All in `jax-cases`."""
TOGETHER = ("six_threads_of_six_shapes",)
"""Where threads compile at once, no line is known of what each compiled."""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    names = [case.name for case in HERE]
    done = subprocess.run(
        [sys.executable, "-m", "cases.jax_oracle", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


pytestmark = [
    pytest.mark.jax,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="each case has a forked process"),
]


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_counts(case: Case, found: dict[str, Any]) -> None:
    answer = found[case.name]
    assert "error" not in answer, answer
    true = case.programs + case.host + case.refused
    assert (answer["xla"], answer["begun"], answer["log"]) == (true, true, true)


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_lines(case: Case, found: dict[str, Any]) -> None:
    if case.refused or case.name in TOGETHER:
        return
    lines: Counter[str] = Counter()
    for code, _, count in found[case.name]["lines"]:
        lines[code] += count
    expected: Counter[str] = Counter()
    for why in case.why:
        expected[why.code] += why.count
    assert lines == expected


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_devices(case: Case, found: dict[str, Any]) -> None:
    """What runs on the host is on none of the lines whose executables are on the first device."""
    for code, devices, _ in found[case.name]["lines"]:
        on = {why.host for why in case.why if why.code == code}
        if devices and len(on) == 1 and " " not in devices:
            assert on == {"0" not in devices.split(",")}
