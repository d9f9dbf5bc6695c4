"""Statements that only write, as calls that are made when the graph has run."""

from __future__ import annotations

import ast

import pytest
from msgspec import structs

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.later import definition, together
from pytest_graphbreak.repair.rewrite.scope import UnfitError

HEAD = """\
losses, meters = [], {"loss": Meter()}
shown = losses


def f(x, limit=2.0):
    y = x * 2
"""


def placed(*statement: str) -> tuple[str, Frame]:
    body = "".join(f"    {line}\n" for line in statement)
    return f"{HEAD}{body}    return y\n", Frame("a.py", "f", 0, statement[0])


@pytest.mark.parametrize(
    ("statement", "function"),
    [
        (["print('y', y.mean().item())"], "(y):\n    print('y', y.mean().item())"),
        (["losses.append(y.sum().item())"], "(y):\n    losses.append(y.sum().item())"),
        (["meters['loss'].update(y.item())"], "(y):\n    meters['loss'].update(y.item())"),
        (["if y.max() > limit:", "    print('large')"], "(y, limit):\n    if y.max() > limit:"),
    ],
)
def test_what_only_writes_is_a_function_of_its_tensors(statement: list[str], function: str) -> None:
    source, where = placed(*statement)
    found = definition(source, where)
    assert found is not None
    name, text = found
    assert function in text
    changed = apply(source, "later", where)
    assert changed is not None
    assert f"    {name}(" in changed
    assert statement[0] not in changed
    ast.parse(changed)


def test_a_branch_keeps_what_it_computes() -> None:
    source, where = placed(
        "if y.isnan().any():", "    print('NaN')", "    y = y * 0", "else:", "    y += 1"
    )
    changed = apply(source, "later", where)
    assert changed is not None
    kept = changed[changed.index("    if y.isnan().any():") :]
    assert kept == (
        "    if y.isnan().any():\n        y = y * 0\n    else:\n        y += 1\n    return y\n"
    )


def test_what_an_inlined_function_writes_is_noted_with_its_tensors() -> None:
    source, where = placed("if y.max() > limit:", "    print('large', x.shape)")
    found = definition(source, where, alone=True)
    assert found is not None
    changed = apply(source, "note", where)
    assert changed == f"{HEAD}    _graphbreak_note('{found[0]}', [y, limit, x])\n    return y\n"
    inner = structs.replace(where, code="print('large', x.shape)")
    assert apply(source, "note_block", inner) == changed
    number, place = placed("print(x.sum() / n)")
    assert "[x, *_graphbreak_given(n)])" in (apply(number, "note", place) or "")


@pytest.mark.parametrize(
    "statement",
    [
        ["y.add_(1)"],
        ["shown.clear()", "z = shown"],
        ["if y.max() > 2:", "    y = y + 1"],
        ["if y.max() > 2:", "    y = y + 1", "    print(y.mean())"],
        ["x.update(y)"],
        ["print(np.random.rand())"],
        ["print('noise', torch.randn(3))"],
    ],
)
def test_what_does_more_than_write_stays(statement: list[str]) -> None:
    source, where = placed(*statement)
    assert definition(source, where) is None
    with pytest.raises(UnfitError):
        apply(source, "later", where)


def test_a_tensor_that_may_change_is_passed_as_it_is_then() -> None:
    source = (
        "class Net:\n    def forward(self, x):\n        n = 2\n"
        "        print(self.scale.sum().item(), n, x)\n"
        "        self.scale.mul_(2)\n        return x\n"
    )
    where = Frame("a.py", "Net.forward", 0, "print(self.scale.sum().item(), n, x)")
    found, changed = definition(source, where), apply(source, "later", where)
    assert found is not None
    assert changed is not None
    name, text = found
    assert f"def {name}(scale, n, x, x_is_number):\n" in text
    assert "    x = x.item() if x_is_number else x\n    print(scale.sum().item(), n, x)" in text
    passed = "self.scale.clone(), n, *_graphbreak_given(x, True)"
    assert f"{name}({passed})" in changed


def test_a_module_of_the_file_may_change_its_input() -> None:
    source, where = placed("print(y.sum().item())")
    kept, copied = (apply(f"{source}\n\n{one}\n", "later", where) for one in ("", INPLACE))
    assert kept is not None
    assert "(y)\n" in kept
    assert copied is not None
    assert "(y.clone())\n" in copied


INPLACE = "relu = torch.nn.ReLU(inplace=True)"


def test_an_argument_may_be_another_tensor_than_its_default() -> None:
    """A number as its default does not say that it is one: it is passed as it is then."""
    source = HEAD + "    print('limit', limit)\n    limit.add_(1)\n    return y\n"
    changed = apply(source, "later", Frame("a.py", "f", 0, "print('limit', limit)"))
    assert changed is not None
    assert "(limit.clone() if isinstance(limit, torch.Tensor) else limit)" in changed


OBJECTS = """\
import logging

log = logging.getLogger("a")
history, rates = [], {"lr": 0.1}
meter = Meter()


class Net:
    def forward(self, x):
        rate, y = {"lr": 1.0}, x * 2
        LINE
        history.append(1)
        meter.total += 1
        return y
"""
PASSED = {
    "print(meter.total, meter.name)": "(*_graphbreak_given(meter.total, True))",
    "print(len(history), history[-1])": "(*_graphbreak_given(len(history), True), "
    "*_graphbreak_given(history[-1], True))",
    "log.debug('%s', meter.average())": "(*_graphbreak_given(meter.average(), True))",
    "self.log.info('%s', self.name)": "(id(self), *_graphbreak_given(self.name, True))",
    "print(rate['lr'])": "(*_graphbreak_given(rate['lr'], True))",
    "print(self.norm(), y.shape)": "(*_graphbreak_given(self.norm(), True), "
    "y.clone() if isinstance(y, torch.Tensor) else y)",
    "print(outer.name)": "(*_graphbreak_given(outer.name, True))",
}
STAYS = (
    "print(history)",
    "print(sum(one for one in history))",
    "if x.sum() > 2:\n            print(history[0])",
    "print(meter.total if history else 0, history[0] if history else 0)",
    "self.info(meter.total)",
    "print(self)",
)
"""Lines that may not run where they stand, or of which a part would be read too late."""


@pytest.mark.parametrize("line", sorted(PASSED))
def test_what_an_object_holds_is_passed_as_it_is_then(line: str) -> None:
    source, where = OBJECTS.replace("LINE", line), Frame("a.py", "Net.forward", 0, line)
    found, changed = definition(source, where), apply(source, "later", where)
    assert found is not None
    assert changed is not None
    assert f"{found[0]}{PASSED[line]}\n" in changed
    assert "_graphbreak_held(holder).log.info('%s', name)" in found[1] or "self" not in line[:5]


@pytest.mark.parametrize("line", STAYS)
def test_what_is_read_too_late_stays(line: str) -> None:
    where = Frame("a.py", "Net.forward", 0, line.partition("\n")[0])
    assert definition(OBJECTS.replace("LINE", line), where) is None


SUMS = """\
import torch
from collections import defaultdict

sums, scores, table = {"loss": 0.0}, defaultdict(float), torch.zeros(3)


def f(x, n):
    y = x * 2
    LINE
    OTHER
    return y
"""


@pytest.mark.parametrize(
    ("line", "function"),
    [
        ("sums['loss'] += y.sum().item()", "(y):\n    sums['loss'] += y.sum().item()"),
        ("sums['loss'] = 0.9 * sums['loss'] + y.item()", "(y):\n    sums['loss'] = "),
        ("scores[n] += float(y.sum())", "    scores[n] += float(y.sum())"),
        ("table[n] = y.sum()", ""),  # a tensor
        ("n[0] = y.sum().item()", ""),  # an argument
        ("y[0] = 1.0", ""),
    ],
)
def test_what_a_dictionary_of_the_module_gets_is_written_later(line: str, function: str) -> None:
    source, where = SUMS.replace("LINE", line), Frame("a.py", "f", 0, line)
    found = definition(source.replace("OTHER", "y = y + 1"), where)
    assert found is None if not function else found is not None and function in found[1]
    read = f"y = y + {line.partition('[')[0]}['seen']"
    assert definition(source.replace("OTHER", read), where) is None


SEVERAL = """\
import collections

stats, bar = collections.defaultdict(list), tqdm(range(3))
optimizer = torch.optim.SGD(parameters)


def f(x):
    y = x * 2
    optimizer.zero_grad()
    optimizer.step()
    stats["sum"].append(y.sum().item())
    bar.update(1)
    if x.shape[0] > 2:
        stats["n"].append(x.shape[0])
    bar.write("all")
    y = OTHER
    return y


def g(x):
    stats["g"].append(x.max().item())
    return x
"""


@pytest.mark.parametrize(
    ("other", "code", "moved"),
    [
        ("y + 1", 'stats["sum"].append(y.sum().item())', 2),
        ("y + 1", "bar.update(1)", 2),
        ("y + 1", 'stats["g"].append(x.max().item())', 1),
        ("y + 1", "optimizer.step()", 0),
        ("y + len(stats)", 'stats["sum"].append(y.sum().item())', 0),
        ("y.add(bar.n)", "bar.update(1)", 0),
    ],
)
def test_lines_that_write_to_one_object_move_together(other: str, code: str, moved: int) -> None:
    source = SEVERAL.replace("OTHER", other)
    where = Frame("a.py", "g" if "max" in code else "f", 0, code)
    places = together(source, where)
    found = [definition(source, one) for one in places]
    assert len(places) == max(moved, 1 + ("max" not in code))
    assert all(found) is bool(moved)


def test_the_only_line_that_writes_to_an_object_may_be_noted() -> None:
    source = SEVERAL.replace("OTHER", "y")
    where = Frame("a.py", "f", 0, "bar.update(1)")
    assert definition(source, where)
    assert definition(source, where, alone=True) is None
    with pytest.raises(UnfitError):
        apply(source, "note", where)
    assert definition(source.replace('bar.write("all")', ""), where, alone=True)


def test_what_the_line_itself_changes_is_read_where_it_is_written() -> None:
    line = "if stopper(y.sum().item()):"
    source = f"stopper = Stopper()\n\n\ndef f(y):\n    {line}\n        print(stopper.best)\n"
    body = f"{source}    return y\n\n\nclass Stopper:\n    def __call__(self, n):\n"
    found = definition(f"{body}        self.best = n\n", Frame("a.py", "f", 0, line))
    assert found is not None
    assert "(y):\n    if stopper(y.sum().item()):\n        print(stopper.best)" in found[1]
    other = f"{body}        self.best = n\n\n\ndef g(x):\n    return x + stopper.best\n"
    assert definition(other, Frame("a.py", "f", 0, line)) is None


def test_lines_of_an_object_stay_where_a_callee_writes_to_it_too() -> None:
    source = SEVERAL.replace("OTHER", "g(y)")
    assert together(source, Frame("a.py", "f", 0, 'stats["sum"].append(y.sum().item())')) == []
    assert len(together(source, Frame("a.py", "f", 0, "bar.update(1)"))) == 2
