"""What a red test says of device graphs makes it green, in a process of its own each."""

from __future__ import annotations

import textwrap

import pytest

pytest.importorskip("torch_xla")

from tests.advice.situations import Situation, follow, xla_programs
from tests.examples import sample

ROWS = xla_programs.SITUATIONS


@pytest.mark.usefixtures("xla_forks")
@pytest.mark.parametrize("row", sample(ROWS, ROWS[::2]), ids=str)
def test_what_a_red_test_says_of_device_graphs_makes_it_green(
    row: Situation, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")

    def run(program: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=textwrap.dedent(program))
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)

    follow(row, run)
