"""The line after ``try:``: what it says to type can be typed, and does what it says."""

from __future__ import annotations

import logging
import operator
import re
import warnings
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
import torch._dynamo

from pytest_graphbreak import advice
from pytest_graphbreak.advice.explanation import by_name
from pytest_graphbreak.advice.match import SHORT_LIMIT
from pytest_graphbreak.model.record import Break, Frame
from tests.advice import running

pytestmark = pytest.mark.once

SWITCH = re.compile(r"torch\._dynamo\.config\.\w+(?: = (?:True|False)|\.add\([\w.]+\))")
DOTTED = re.compile(r"(?<!\w)torch(?:_xla)?(?:\.[A-Za-z_]\w*)+")
BARE = re.compile(r"(?<![\w.])(?:config|decorators|mark_\w+)\b")


@pytest.mark.parametrize("name", sorted(by_name()))
def test_every_name_in_it_is_there_as_it_is_written(name: str) -> None:
    line = by_name()[name].short
    assert not BARE.search(line)
    assert line.count("torch._dynamo.config") == len(SWITCH.findall(line))
    for dotted in DOTTED.findall(line):
        if not dotted.startswith("torch_xla"):  # held by the examples of the pages, on the device
            operator.attrgetter(dotted.removeprefix("torch."))(torch)


SWITCHES = {
    "item": "def f(x):\n    n = x.sum().item()\n    return x * n\n",
    "tolist": "def f(x):\n    n = x[:1].long().tolist()\n    return x * n[0]\n",
    "nonzero": "def f(x):\n    return x.nonzero() * 2\n",
    "mask": "def f(x):\n    return x[x > 0] * 2\n",
    "print": "def f(x):\n    x = x + 1\n    print('x')\n    return x * 2\n",
    "warnings": "def f(x):\n    x = x + 1\n    warnings.warn('x')\n    return x * 2\n",
    "logging": "def f(x):\n    x = x + 1\n    log.warning('x')\n    return x * 2\n",
    # Not GRU: torch_xla puts its own in the place of that one when it is imported.
    "rnn": "rnn = torch.nn.LSTM(4, 4)\n\ndef f(x):\n    return rnn(x.view(1, 4))[0] * 2\n",
}
"""Code that each switch is advised on."""


@pytest.mark.parametrize("name", sorted(SWITCHES))
def test_the_switch_fixes_the_break_that_it_is_printed_for(name: str, tmp_path: Path) -> None:
    before = _run(SWITCHES[name], tmp_path)
    if not before.record.breaks:
        pytest.skip("this torch does not break there")
    (line,) = {advice.short(item) for item in before.record.breaks}
    (statement,) = SWITCH.findall(line or "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        after = _run(f"{statement}\n{SWITCHES[name]}", tmp_path)
    assert not after.record.breaks, statement
    torch.testing.assert_close(after.outputs, before.outputs)


def test_every_switch_is_tried() -> None:
    advised = {name for name, one in by_name().items() if SWITCH.search(one.short)}
    assert advised - set(SWITCHES) == {"bucket"}  # tried by the example of its page


@pytest.mark.parametrize(
    ("code", "method"),
    [
        ("log.info('x')", "info"),
        ("self.logger.debug(f'{x}')", "debug"),
        ('logger.warning_once("x")', "warning_once"),
        ("logging.getLogger(__name__).error(x)", "error"),
        ("emit(", "info"),
    ],
)
def test_a_logger_is_advised_on_by_its_own_method(code: str, method: str) -> None:
    item = Break("dynamo", "logging.Logger method not supported", Frame("a.py", "f", 1, code))
    line = advice.short(item) or ""
    assert line.endswith(f".add(logging.Logger.{method})")
    assert len(line) <= SHORT_LIMIT


def _run(code: str, folder: Path) -> running.Outcome:
    head = "import logging, warnings\nlog = logging.getLogger('tests.advice')\n"
    logging.getLogger("tests.advice").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return running.run(head + code, "(torch.ones(4),),", folder)


@pytest.mark.parametrize(
    ("reason", "code", "name"),
    [
        ("Call to `torch._dynamo.graph_break()`", "optimizer.step()", "autograd"),
        ("Call to `torch._dynamo.graph_break()`", "torch._dynamo.graph_break()", "graph-break"),
        ("Call to `torch._dynamo.graph_break()`", "", "graph-break"),
        ("Attempted to inline function marked as skipped", "opt.zero_grad()", "autograd"),
        ("Attempted to inline function marked as skipped", "y = helper(x)", "c-call"),
    ],
)
def test_an_optimizer_belongs_outside_of_compiled_code(reason: str, code: str, name: str) -> None:
    assert advice.name(Break("dynamo", reason, Frame("a.py", "f", 2, code))) == name
