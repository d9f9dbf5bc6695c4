"""Training scripts as people write them become one graph for each function that they compile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from cases.training import SCRIPTS
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from tests.examples import sample
from tests.repair.test_fix import NEWER, search

pytestmark = pytest.mark.once

LEFT: Final = {
    "times its parts": "start = time.perf_counter()",
    "an early exit": "if (y - x).abs().max() < 1e-3:",
}
"""The first place that stays, and is named."""
SAMPLE: Final = ("a list of losses", "unwraps phases with numpy")
MOST_RUNS: Final = 16
"""Of the program, for the slowest of them."""


@pytest.mark.skipif(not NEWER, reason="older versions of PyTorch break at other places")
@pytest.mark.parametrize("name", sample(sorted(SCRIPTS), SAMPLE))
def test_a_training_script_is_fixed(name: str, tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / f"{re.sub(r'[^a-zA-Z]', '_', name)}.py")
    functions, source = SCRIPTS[name]
    target.path.write_text(source)
    before = shared.runs
    out = search(target, shared)
    assert out.first.error is None
    assert not out.comparison.words
    assert shared.runs - before <= MOST_RUNS
    if name in LEFT:
        codes = [one.item.where.code for one in out.problems if one.item and not one.fixed]
        assert codes[0] == LEFT[name]
        return
    assert (out.after, out.last.record.breaks) == (functions, ())
    assert not out.last.record.recompile_list
