"""Every example of the advice, run: fewer graphs after than before, and equal outputs."""

from __future__ import annotations

import tempfile
import traceback
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from pytest_graphbreak import advice
from pytest_graphbreak.advice.triage import triage
from tests.advice import running
from tests.advice.running import Case, Outcome

pytestmark = pytest.mark.once

HERE = [case for case in running.cases("") if case.applies]

OF_ANOTHER_NAME = {
    "break",  # a word of the reports: it shows breaks of other families
    "callee",
    "entry",
    "recompile",
    "loop-break",  # Dynamo names the break in the loop, not the loop
    "limit",  # the last of many recompiles, which are of the family value
    "unbacked",  # what comes up when .item() is captured
    "generator",  # what breaks in it is named
    "disabled-1",  # a print, three times
    "c-call-1",  # .tolist(), before the C call
}
"""Pages, and examples of pages, that break for the reason of another page."""


@pytest.fixture(autouse=True)
def _quiet(recwarn: pytest.WarningsRecorder) -> None:
    """Some examples warn, and some make torch warn: that is what they are about."""


@pytest.mark.parametrize("case", HERE, ids=str)
def test_it_makes_fewer_graphs_and_equal_outputs(case: Case, tmp_path: Path) -> None:
    """What it breaks by is advised on by its own page."""
    example = case.example
    if example.raises:
        error = raised(case)
        assert type(error).__name__ == example.raises
        after = running.run(example.after, example.inputs, tmp_path)
        eager = running.uncompiled(example.after, example.inputs, tmp_path)
        torch.testing.assert_close(after.outputs, eager)
        assert is_of_another_name(case) or case.name in topics(error)
        return
    before = run_before(case)
    after = running.run(example.after, example.inputs, tmp_path)
    # On Python 3.12 and 3.13 a `while` is one graph and then runs eagerly, on 3.14 it is none at
    # all: code comes back then.
    left = len(before.record.eager) - len(after.record.eager)
    back = after.graphs <= max(before.graphs, 1) and left > 0
    assert after.graphs < before.graphs or back
    torch.testing.assert_close(after.outputs, before.outputs, check_dtype=False)
    assert before.record.graphs.get("dynamo", 0) == before.graphs
    assert after.record.graphs.get("dynamo", 0) == after.graphs
    record = before.record
    assert is_of_another_name(case) or case.name in running.families(record) | also(case)


def is_of_another_name(case: Case) -> bool:
    return bool({case.name, str(case)} & OF_ANOTHER_NAME)


def topics(error: Exception) -> set[str]:
    """The pages that are advised for what was raised."""
    trace = "".join(traceback.format_exception(error))
    failure = triage(type(error).__name__, str(error), trace)
    family = advice.family(failure.broke) if failure.broke is not None else None
    return {failure.topic, family.name} if family else {failure.topic}


def run_before(case: Case) -> Outcome:
    """The code before; each test runs its own, so that its count depends on no other test."""
    with tempfile.TemporaryDirectory() as folder:
        return running.run(case.example.before, case.example.inputs, Path(folder))


def raised(case: Case) -> Exception:
    """What the code before raises."""
    try:
        run_before(case)
    except Exception as error:
        return error
    return pytest.fail(f"{case} raised nothing")


def also(case: Case) -> set[str]:
    """Older torch tells None from a tensor by identity: a failed guard of the family object."""
    return {case.name} if case.name == "type" and running.VERSION < (2, 9) else set()
