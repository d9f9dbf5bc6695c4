"""One run of a program in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.target import parse
from pytest_graphbreak.repair.trial import Trial, bench, printed

PROGRAM = """
import logging
import torch

torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
print(logging.getLogger("a").name)
"""


@pytest.mark.parametrize("alone", [False, True])
def test_a_file_that_is_named_like_a_module_of_python_is_no_obstacle(
    alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the directory where the command is typed, not beside the program."""
    (tmp_path / "logging.py").write_text("raise RuntimeError('not this one')")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    with bench(120) as trials:
        trial = trials.measure(parse("models/net.py"), compare=False, alone=alone)
    assert trial.error is None
    assert trial.record.graphs == {"dynamo": 1}
    assert trial.lines == ["a"]


RAISES = """
import torch


def f(x):
    torch._assert_async((x > 0).all())
    return x * 2


torch.compile(f, backend="eager")(torch.ones(3))
"""


@pytest.mark.usefixtures("forks")
def test_inputs_with_which_both_raise_are_not_equal_but_counted(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(RAISES)
    target = parse(str(tmp_path / "a.py"))
    with bench(120) as trials:
        trials.measure(target, compare=False)
        trial = trials.measure(target)
    assert trial.same
    assert trial.raising == 4  # negated, zeros, and twice with random numbers
    assert trial.compared == 2  # the call itself, and large numbers


def test_a_number_that_lost_its_format_is_another_line() -> None:
    """Torch 2.13 drops the format of a number in a text that a graph break cuts."""
    first = Trial(Record(), lines=("loss 1.4467", "0.3402968394291114 s"))
    same = Trial(Record(), lines=("0.1198371663 s", "loss 1.4471"))
    other = Trial(Record(), lines=("0.1198371663 s", "loss 1.446656346321106"))
    assert printed(first, same, drops=False) is None
    assert printed(first, other, drops=False) is not None
