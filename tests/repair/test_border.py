"""What a program shows of itself, in runs of the original and of the patched one."""

from __future__ import annotations

import pytest
import torch

from pytest_graphbreak.repair.border import ProgramRun, Results, _Comparing
from pytest_graphbreak.repair.calls import CallResult
from pytest_graphbreak.repair.values import flatten

pytestmark = pytest.mark.once


def run_of(*outputs: float) -> ProgramRun:
    """A run whose compiled callable ``f`` was called once for each output."""
    calls = [CallResult("f", flatten(torch.tensor(value), "output")) for value in outputs]
    return ProgramRun(Results(calls=calls), lines={})


def test_an_original_that_calls_more_often_in_its_second_run_is_unsteady() -> None:
    comparison = _Comparing([run_of(1), run_of(1, 1)], run_of(2), factor=1).comparison()
    assert comparison.difference is not None
    assert comparison.unsteady == "f is called 2 times in place of 1"
