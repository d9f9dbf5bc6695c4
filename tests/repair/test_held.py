"""What code notes in a list or dictionary of an object is noted when the graph has run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo.config
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.remedies.programs import program
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.held import definition
from pytest_graphbreak.repair.rewrite.scope import UnfitError
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from tests.repair.test_fix import NEWER, search
from tests.repair.test_sound import bits, loaded

NET = """\
import collections
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2
        self.losses = []
        self.history = {"a": [], "b": []}
        self.means = collections.defaultdict(list)
        self.amount, self.best = 0.0, float("-inf")
        self.count = 0
        self.sums, self.hits = {"a": 0.0, "b": 0}, [0] * 10

    def forward(self, x, n=3, name="a"):
        y = x * self.scale
        BODY
        return y + 1


"""
NOTES = {
    "a value": "self.losses.append(y.sum().item())",
    "a tensor": "self.losses.append(y.detach())",
    "itself": "self.losses.append(y)",
    "a text": "self.losses.append(f'{y.max().item():.2f} of {n}')",
    "a dictionary": "self.losses.append({'sum': y.sum().item(), 'n': n, 'name': name})",
    "a number": "self.losses.append(n)",
    "a float": "self.losses.append(round(float(y.mean()), 3))",
    "a list": "self.losses.extend(y.tolist())",
    "below a key": "self.history['a'].append(y.min().item())",
    "below a name": "self.means[name].append(y.norm().item())",
    "below a new key": "self.means.setdefault(name, []).append(y.sum().item())",
    "what is changed": "self.losses.append(y.sum().item())\n        y = y.mul_(2)",
    "a tensor that is changed": "self.losses.append(y)\n        y.add_(1)",
    "twice": "self.history['a'].append(y.sum().item())\n        self.history['b'].append(y)",
    "a sum": "self.amount += y.sum().item()",
    "a running mean": "self.amount = 0.9 * self.amount + 0.1 * float(y.mean())",
    "a sum of what is changed": "self.amount -= y.max().item()\n        y = y.mul_(2)",
    "a counter": "self.count += 1",
    "a counter of rows": "self.count = self.count + len(x)",
    "a sum below a key": "self.sums['a'] += y.sum().item()",
    "a sum in a list": "self.hits[n] += int((y > 0).sum())",
    "before an error": "self.losses.append(y.sum().item())\n        y = y.reshape(-1)",
}
USED = {
    "read": "self.losses.append(y.sum().item())\n        y = y + len(self.losses)",
    "a counter that is read": "self.count += 1\n        y = y + self.count",
    "a counter that is changed twice": "self.count += 1\n        self.count += 2",
    "a sum of tensors": "self.amount += y.sum()",
    "the larger one": "self.best = max(self.best, y.max().item())",
    "a number that is not known": "self.other += 1",
    "noted twice": "self.losses.append(y.sum().item())\n        self.losses.append(1)",
    "no list": "self.scale.append(y.sum().item())",
    "not known": "self.other.append(y.sum().item())",
    "another method": "self.losses.remove(y.sum().item())",
    "a key that is computed": "self.history[str(n)].append(y.sum().item())",
}
OUTSIDE = {
    "printed": ("def main(net):\n    print(net.losses)\n\n\nmain(Net())\n", True),
    "stacked": ("net = Net()\nif net.losses:\n    print(torch.stack(net.losses))\n", False),
    "another name": ("net = Net()\nmine = net.losses\n", False),
    "given away": ("def total(one):\n    return one\n\n\ntotal(Net().losses)\n", False),
    "none at first": ("net = Net()\nnet.losses, net.scale = None, 3\n", False),
    "another's": ("net = Net()\nnet.losses = torch.nn.ParameterList()\n", False),
    "read by a function": ("def total(net):\n    return sum(net.losses)\n", True),
    "compiled": ("@torch.compile\ndef total(net):\n    return sum(net.losses)\n", False),
    "passed on": (
        "def total(net):\n    return sum(net.losses)\n\n\nf = torch.compile(total)\n",
        False,
    ),
}


def placed(body: str, after: str = "") -> tuple[str, Frame]:
    source = NET.replace("BODY", body) + after
    return source, Frame("a.py", "Net.forward", 0, body.partition("\n")[0])


def rewritten(source: str, where: Frame) -> tuple[str, str, str]:
    found, changed = definition(source, where), apply(source, "held", where)
    assert found is not None
    assert changed is not None
    return (*found, changed)


@pytest.mark.parametrize("name", sorted(NOTES))
def test_what_is_noted_later_is_what_was_noted(name: str) -> None:
    """With several objects, numbers that vary, and what the caller does with the result."""
    torch._dynamo.reset()
    function, text, changed = rewritten(*placed(NOTES[name]))
    assert function in changed
    plain, patched = (
        loaded(NET.replace("BODY", NOTES[name])),
        loaded(program("given"), text, changed),
    )
    switches = {"recompile_limit": 99, "reorderable_logging_functions": {patched[function]}}
    nets = [[space["Net"](), space["Net"]()] for space in (plain, patched)]
    with torch._dynamo.config.patch(switches):
        compiled = [torch.compile(net, backend="eager", fullgraph=True) for net in nets[1]]

        @settings(max_examples=8, deadline=None)
        @given(st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=3), st.integers(0, 9))
        def check(values: list[float], n: int) -> None:
            for number, runs in enumerate((nets[0], compiled)):
                for run in runs:
                    x = torch.tensor(values, requires_grad=number < 0)
                    run(x, n, "ab"[n % 2]).mul_(2)
            assert [seen(net) for net in nets[0]] == [seen(net) for net in nets[1]]

        check()


def seen(net: Any) -> str:
    numbers = (net.amount, net.best, net.count, net.sums, net.hits)
    notes = (numbers, net.losses, net.history, dict(net.means))
    return repr(_plain(notes))


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return bits(value)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("name", sorted(USED))
def test_what_is_used_in_compiled_code_stays_in_it(name: str) -> None:
    source, where = placed(USED[name])
    assert definition(source, where) is None
    with pytest.raises(UnfitError):
        apply(source, "held", where)


@pytest.mark.parametrize("name", sorted(OUTSIDE))
def test_code_that_is_not_compiled_may_use_it_under_its_own_name(name: str) -> None:
    after, fits = OUTSIDE[name]
    assert (definition(*placed(NOTES["a value"], after)) is not None) is fits


@pytest.mark.parametrize(
    ("after", "fits"),
    [
        ("def reset(net):\n    net.amount = 0.0\n\n\nreset(Net())\n", True),
        ("print(Net().amount / 3)\n", True),
        ("net = Net()\nnet.amount = torch.zeros(())\n", False),
        ("net = Net()\nfor net.amount in range(3):\n    pass\n", False),
        ("@torch.compile\ndef mean(net):\n    return net.amount / 2\n", False),
    ],
)
def test_a_number_stays_a_number_that_no_compiled_code_reads(after: str, fits: bool) -> None:
    assert (definition(*placed(NOTES["a sum"], after)) is not None) is fits


GAN = """\
import torch


class Trainer:
    def __init__(self):
        self.step = 0
        self.history = {"d": [], "g": []}
        self.both = [torch.compile(one, backend="eager") for one in (self.first, self.second)]

    def first(self, x):
        loss = x.square().mean()
        self.history["d"].append(loss.detach())
        return loss

    def second(self, x):
        loss = x.abs().mean()
        if self.step % 3 == 0:
            print("step", self.step, loss.item())
        self.history["g"].append(loss.item())
        return loss

    def train(self, x):
        for one in self.both:
            one(x)
        self.step += 1


trainer = Trainer()
for n in range(7):
    trainer.train(torch.full((4,), n + 0.5))
print(trainer.history["d"], trainer.history["g"])
"""


@pytest.mark.skipif(not NEWER, reason="older versions of PyTorch break at other places")
def test_lists_and_numbers_of_a_trainer_make_no_graphs(tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / "a.py")
    target.path.write_text(GAN)
    out = search(target, shared)
    assert not out.comparison.words
    assert not out.last.record.breaks
    assert not any(patch.leaves for patch in out.kept)
    assert out.after <= 3  # the number of a step is an input from its second value on
