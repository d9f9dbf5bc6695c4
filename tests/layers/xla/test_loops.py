"""Loops on torch_xla: executions and reads are torch_xla's own, each with the line that asked."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("PJRT_DEVICE", "CPU")
pytest.importorskip("torch_xla")

from tests.layers.xla.tools import runs

pytestmark = [pytest.mark.usefixtures("_forks_run_cases"), pytest.mark.nightly]
WAYS = [("forked", "loops"), ("order", "1", "loops")]


def test_the_loops_run_without_us() -> None:
    bare = runs("raw", "loops")
    assert not [name for name, found in bare.items() if "error" in found]
    assert sum(found["executions"] > 1 for found in bare.values()) >= 35


@pytest.mark.parametrize("how", WAYS)
def test_counts_are_those_of_a_fresh_process(how: tuple[str, ...]) -> None:
    bare, seen = runs("raw", "loops"), runs(*how)
    for counted in ("graphs", "executions", "reads"):
        assert {name: found[counted] for name, found in seen.items()} == {
            name: found[counted] for name, found in bare.items()
        }, counted


@pytest.mark.parametrize("how", WAYS)
def test_what_ran_and_what_was_read_has_the_line_that_asked(how: tuple[str, ...]) -> None:
    listed = [(name, run) for name, found in runs(*how).items() for run in found["runs"]]
    lines = [run["where"].get("code", "") for _, run in listed]
    # Reads by .cpu() and print are counted without a line.
    assert [line for line in lines if line and not line.endswith("# asks")] == []
    assert any(lines)
