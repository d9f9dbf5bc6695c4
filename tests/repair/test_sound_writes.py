"""Lines that are written later, or only in eager code, change nothing but when they are written.

Each program is run as it is and rewritten, compiled as one graph, with drawn values: results,
arguments, gradients, what is printed and warned, and the lists and counters of the module.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.config
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.remedies.programs import program
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.later import definition
from pytest_graphbreak.repair.rewrite.scope import UnfitError
from tests.repair.test_sound import LISTS, bits, loaded

HEAD = """\
import logging
import warnings
logger = logging.getLogger("a")
losses, seen = [], []
steps = 0
scale = torch.ones(2)


class Log:
    def info(self, text, *values):
        print(text % values)


class Meter:
    def __init__(self):
        self.total, self.name, self.parts, self.log = 0, "m", [], Log()

    @property
    def half(self):
        return self.total / 2

    def average(self, n=2):
        return self.total / n

    def __call__(self, n):
        self.total += n
        return self.total > 3


meter = Meter()


def bump():
    global steps
    steps += 1
    meter.total += 1
    return steps


"""
LATER = {
    "prints": "y = x * 2\nprint('y', y.mean().item())\nreturn y + 1",
    "prints a text": "y = x * 2\nprint(f'{y.sum().item():.3f}', tuple(y.shape))\nreturn y",
    "prints an argument": "print(x.sum().item())\nreturn x + 1",
    "prints a number that is read": "n, m = x.max().item(), x.shape[0]\nprint(n, m + 1)\n"
    "return x * m",
    "prints below a number": "n = x.size(0)\nif n % 2 == 0:\n    print(n, x.sum().item())\n"
    "return x",
    "prints a number": "n = len(x.shape)\nprint(n, x.sum().item())\nreturn x * n",
    "prints in a loop": "for n in range(3):\n    x = x * 2\n    print(n, x.sum().item())\nreturn x",
    "prints two names of one line": "for n in (1, 2):\n    print(n, x.min().item())\n"
    "    x = x + n\n"
    "return x",
    "collects": "y = torch.sin(x)\nlosses.append(y.sum().item())\nreturn y",
    "warns": "y = x.exp()\nif y.max() > 2:\n    warnings.warn('large')\nreturn y",
    "prints on one side": "if x.max() > 1:\n    print('large', x.max().item())\nelse:\n"
    "    print('small')\nreturn x - 1",
    "computes beside it": "if x.isnan().any():\n    print('NaN', x.sum().item())\nreturn x * 2",
    "changes it afterwards": "y = x * 2\nprint(y.sum().item())\ny.add_(1)\nreturn y",
    "changes an argument": "print(x.sum().item())\nx.mul_(2)\nreturn x",
    "changes a view": "y = x * 2\nz = y.view(-1)\nprint(y.sum().item())\nz.mul_(3)\nreturn y",
    "changes what it is a view of": "y = x * 2\nz = y.view(-1)\nprint(z.sum().item())\n"
    "y.mul_(3)\nreturn y",
    "changes another name": "y = x\nprint(y.sum().item())\nx += 1\nreturn y",
    "changes it in an operator": "y = x * 2\nprint(y.sum().item())\ntorch.add(y, 1, out=y)\n"
    "return y",
    "changes it through numpy": "y = x * 2\nprint(y.sum().item())\nother(y)\nreturn y",
    "changes a tensor that it prints whole": "y = x * 2\nprint(y)\ny[0] = 3\nreturn y",
    "changes a tensor of the module": "print(scale.sum().item(), x.sum().item())\n"
    "scale.mul_(2)\nreturn x * scale",
    "counts": "global steps\nprint(steps, x.sum().item())\nsteps += 1\nreturn x * 2",
    "binds it again": "y = x * 2\nprint(y.sum().item())\ny = y + 1\nreturn y",
    "returns it to be changed": "y = x * 2\nprint(y.sum().item())\nreturn y",
    "prints what the line itself changes": "if meter(x.sum().item()):\n    print(meter.total)\n"
    "return x * 2",
    "prints what the line and others change": "meter.total += 1\n"
    "if meter(x.sum().item()):\n    print(meter.total)\nreturn x * 2",
    "prints what a function changes": "if x.sum() > bump():\n    print(meter.total)\nreturn x * 2",
    "collects what is returned": "losses.append(x.sum().item())\nreturn x * len(losses)",
}
HOLDS = {
    "what changes before": "meter.total += 1\nprint(meter.total, x.sum().item())\nreturn x * 2",
    "what changes after": "print(meter.total, x.sum().item())\nmeter.total += 1\nreturn x * 2",
    "what a callee changes": "bump()\nprint(steps, meter.total, x.sum().item())\nreturn x * 2",
    "a property": "meter.total += 2\nprint(meter.half, x.sum().item())\nreturn x * 2",
    "a method": "meter.total += 2\nprint(meter.average(4), x.sum().item())\nreturn x * 2",
    "a text": "meter.name = meter.name + 'n'\nprint(meter.name, x.sum().item())\nreturn x * 2",
    "a length": "meter.parts.append(1)\nprint(len(meter.parts), x.sum().item())\nreturn x * 2",
    "a list": "seen.append(2)\nprint(len(seen), seen[-1], x.sum().item())\nreturn x * 2",
    "a tensor": "meter.total = meter.total + x\nprint(meter.total.sum().item())\nreturn x * 2",
    "in a list": "meter.total += 3\nlosses.append(meter.total)\nreturn x * 2",
    "below a branch": "meter.total += 1\nif x.sum() > 2:\n    print(meter.total)\nreturn x * 2",
    "another name": "one = meter\none.total += 1\nprint(meter.total, x.sum().item())\nreturn x",
    "of a local object": "one = meter\nprint(one.name, one.total, x.sum().item())\n"
    "one.total += 1\nreturn x * 2",
    "a logger": "one = meter\none.total += 1\n"
    "one.log.info('%s: %d %.3f', one.name, one.total, x.sum())\nreturn x * 2",
    "a dictionary": "found = {'sum': x.sum(), 'n': 3}\n"
    "print(found['n'], f\"{found['sum'].item():.2f}\")\nreturn x * 2",
}
"""What an object holds is written as it was where the line stands."""
EAGER = {
    "prints": ("print('y', y.mean().item())", True),
    "warns": ("warnings.warn('called')", True),
    "collects": ("losses.append(y.sum().item())", True),
    "changes in place": ("y.clamp_(0)", False),
    "changes through torch": ("torch.clamp_(y, 0)", False),
    "changes through a module of torch": ("torch.nn.init.zeros_(y)", False),
    "changes in an operator": ("torch.add(y, 1, out=y)", False),
    "checks": ("torch._check(bool(y.sum() > 0))", False),
    "logs": ("logger.info('y %s', y.sum().item())", True),
}
RAISES = (
    "must_be_small(y)",
    "print(must_be_small(y))",
    "losses.append(must_be_small(y))",
    "log(y)",
    "print('y', must_be_small(y).shape)",
    "print(f'{must_be_small(y)}')",
    "logger.info('y %s', must_be_small(y))",
)
"""Lines that raise for some values."""
INDICES = {
    "adds": "out.index_add_(0, at, x[at] * weight[row[0]])",
    "sets": "out[at] = x[at] + weight[row[0]]",
    "skips": "if at.numel() == 0:\n        continue\n    out[at] += x[at].sin()",
    "counts": "out[at] += x[at]\n    out = out + 1",
    "carries": "total = total * 2\n    out[at] += total",
    "writes elsewhere": "out[0] += 1",
    "adds all": "out += weight[row[0]]",
}
CONDITIONS = ("mask.any(-1)", "mask.sum(-1) > 0", "mask.sum(-1) > 1", "weight.sum(-1) > 0")
MASKS = ("mask", "torch.nn.functional.one_hot(mask.long().argmax(0), 3).T")
GROUPED = """\
import itertools


def sign(n):
    return n < 0


def f(x, numbers):
    for key, group in itertools.groupby(numbers, {key}):
        x = x * sum(group) + (1 if key else 2)
    return x
"""
OTHER = """

def other(y):
    y.mul_(2)


def must_be_small(y):
    if not bool((y < 3).all()):
        raise ValueError(f"{y.max().item()} is too large")
    return y


log = must_be_small
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    torch._dynamo.reset()
    before = set(torch._dynamo.config.reorderable_logging_functions)
    with torch._dynamo.config.patch(recompile_limit=99):
        yield
    torch._dynamo.config.reorderable_logging_functions.intersection_update(before)


def source_of(body: str, code: str = "") -> tuple[str, Frame]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    marks = ("print(", "losses.", "warnings.", "if ", "one.log.")
    found = (one.strip() for one in body.splitlines() if one.strip().startswith(marks))
    line = code or next(found)
    return f"{HEAD}def f(x):\n{lines}{OTHER}", Frame("a.py", "f", 0, line)


def outcome(space: dict[str, Any], function: Any, x: torch.Tensor) -> dict[str, Any]:
    """Return everything that a caller sees of a call and a second one after it."""
    space["meter"].__init__()
    for name, value in (("losses", []), ("seen", []), ("steps", 0), ("scale", torch.ones(2))):
        if isinstance(value, list):
            space[name].clear()
        else:
            space[name] = value
    results, written = [], io.StringIO()
    inputs = [x.clone(), x.clone() + 1]
    with contextlib.redirect_stdout(written), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for one in inputs:
            found = function(one)
            results.append(bits(found))
            found.add_(1)  # what a caller does with it afterwards
    return {
        "results": results,
        "inputs": [bits(one) for one in inputs],
        "scale": bits(space["scale"]),
        "steps": space["steps"],
        "written": written.getvalue(),
        "warned": [str(one.message) for one in caught if "torch" not in str(one.filename)],
        "lists": [repr(space["losses"]), repr(space["seen"])],
    }


@pytest.mark.parametrize("name", sorted(LATER | HOLDS))
def test_what_is_written_later_says_what_it_would_have_said(name: str) -> None:
    source, where = source_of((LATER | HOLDS)[name])
    found = definition(source, where)
    try:
        changed = apply(source, "later", where)
    except UnfitError:
        changed = None
    assert (found is None) == (changed is None)
    assert name not in HOLDS or found
    if found is None or changed is None:
        return
    function, text = found
    plain, patched = loaded(source), loaded(program("given"), text, changed)
    torch._dynamo.config.reorderable_logging_functions.add(patched[function])
    run = torch.compile(patched["f"], backend="eager", fullgraph=name in HOLDS)

    @settings(max_examples=6, deadline=None, phases=(Phase.explicit, Phase.generate))
    @example([1.0, 2.0])
    @given(LISTS)
    def check(values: list[float]) -> None:
        # Not -0.0: a number that Dynamo makes a constant is guarded by ==, which 0.0 passes.
        x = torch.tensor(values) + 0.0
        wanted = outcome(plain, plain["f"], x)
        assert outcome(patched, run, x) == wanted

    check()


@pytest.mark.parametrize("name", sorted(EAGER))
def test_what_runs_only_in_eager_code_changes_no_result(name: str) -> None:
    line, only_writes = EAGER[name]
    source, where = source_of(f"y = x * 2\n{line}\nreturn y + 1", line)
    changed = apply(source, "only_eager", where)
    assert (changed is not None) is only_writes
    if changed is None:
        return
    plain, patched = loaded(source), loaded(changed)
    run = torch.compile(patched["f"], backend="eager", fullgraph=True)

    @settings(max_examples=6, deadline=None)
    @given(LISTS)
    def check(values: list[float]) -> None:
        x = torch.tensor(values)
        seen, wanted = outcome(patched, run, x), outcome(plain, plain["f"], x)
        assert (seen["results"], seen["inputs"]) == (wanted["results"], wanted["inputs"])

    check()


def _written(source: str, where: Frame, kind: str) -> tuple[str, ...]:
    """Return the parts of the rewritten program; the program itself if it cannot be rewritten."""
    try:
        changed = apply(source, kind, where)
    except UnfitError:
        return (source,)
    found = definition(source, where) if kind == "later" else None
    parts = (program("given"), found[1]) if found else ()
    return (source,) if changed is None else (*parts, changed)


@pytest.mark.parametrize("kind", ["only_eager", "later"])
@pytest.mark.parametrize("line", RAISES)
def test_what_a_line_raises_is_raised_without_it_in_the_graph(line: str, kind: str) -> None:
    """Its type and its message, and for the same inputs; so not every line can be rewritten."""
    source, where = source_of(f"y = x * 2\n{line}\nreturn y + 1", line)
    plain, patched = loaded(source), loaded(*_written(source, where, kind))
    later = [one for name, one in patched.items() if name.startswith("_graphbreak_later")]
    torch._dynamo.config.reorderable_logging_functions.update(later)
    run = torch.compile(patched["f"], backend="eager")

    def seen(space: dict[str, Any], function: Any, x: torch.Tensor) -> list[Any]:
        try:
            return [outcome(space, function, x)[key] for key in ("results", "inputs")]
        except Exception as error:
            return [type(error), str(error)]

    @settings(max_examples=8, deadline=None)
    @example([1.0, 2.0])
    @example([0.0, -1.0])
    @given(LISTS)
    def check(values: list[float]) -> None:
        x = torch.tensor(values)
        assert seen(patched, run, x) == seen(plain, plain["f"], x)

    check()


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("name", sorted(INDICES))
def test_a_loop_over_all_indices_does_what_the_loop_over_some_did(
    name: str, condition: str
) -> None:
    held = [rewritten for mask in MASKS if (rewritten := _indices(name, condition, mask))]
    sound = name in ("adds", "sets", "skips")
    assert len(held) == sound * {"mask.any(-1)": 2, "mask.sum(-1) > 0": 1}.get(condition, 0)


def _indices(name: str, condition: str, mask: str) -> bool:
    """Check one program with drawn masks; return whether it is rewritten at all."""
    source = (
        "def f(x, mask, weight):\n    total = torch.ones(())\n    out = torch.zeros_like(x)\n"
        f"    mask = {mask}\n    hit = ({condition}).nonzero()\n"
        "    for row in hit:\n        (at,) = torch.where(mask[row].squeeze(0))\n"
        f"        {INDICES[name].replace(chr(10), chr(10) + '    ')}\n"
        f"    return out\n"
    )
    changed = apply(source, "every_index", Frame("a.py", "f", 0, ""))
    if changed is None:
        return False
    plain, patched = loaded(source), loaded(changed)

    @settings(max_examples=8, deadline=None, phases=(Phase.explicit, Phase.generate))
    @example([1.0, 2.0], [[True, False], [False, True], [False, False]])
    @given(LISTS, st.lists(st.lists(st.booleans(), min_size=2, max_size=2), min_size=3, max_size=3))
    def check(values: list[float], rows: list[list[bool]]) -> None:
        given = torch.tensor(values), torch.tensor(rows), torch.tensor([[1.0], [0.0], [-2.0]])
        assert bits(patched["f"](*given)) == bits(plain["f"](*given))

    check()
    return True


@pytest.mark.parametrize("key", ["sign", "lambda n: n % 2"])
def test_a_group_with_its_key_by_name_is_the_same_group(key: str) -> None:
    source = GROUPED.format(key=key)
    changed = apply(source, "group_key", Frame("a.py", "f", 0, ""))
    assert changed is not None
    plain, patched = loaded(source), loaded(changed)

    @settings(max_examples=15, deadline=None)
    @given(st.lists(st.integers(-3, 3), max_size=5), LISTS)
    def check(numbers: list[int], values: list[float]) -> None:
        torch._dynamo.reset()
        run = torch.compile(patched["f"], backend="eager", fullgraph=True)
        x = torch.tensor(values)
        assert bits(run(x, numbers)) == bits(plain["f"](x, numbers))

    check()
