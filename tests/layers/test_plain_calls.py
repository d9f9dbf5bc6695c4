"""Calls of a test that may run its model without the compiler."""

from __future__ import annotations

import textwrap

import pytest

from pytest_graphbreak.layers.plain_calls import PlainCall, plain_call
from pytest_graphbreak.model.stacks import Line

pytest.importorskip("torch")  # its classes say which methods run no model
HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F
from app import Net, train, helper

def helper(model, x):
    CHANGE

"""
WHOLE = "model = Net().eval()\nrun = torch.compile(model, backend='eager')\n"
PARTS = "model = Net()\nfor layer in model.layers:\n    layer.compile()\n"
X = "torch.ones(2)"


def found(body: str, *, helper: str = "return model(x)", name: str = "test_it") -> str | None:
    """The code of the line that may call a model, in a test with this body."""
    head = HEAD.replace("CHANGE", helper)
    text = f"{head}def test_it(x):\n{textwrap.indent(body, '    ')}\n"
    test = Line("a.py", head.count("\n") + 1, name)
    helpers = {"helper": Line("a.py", 6, "helper")}
    line = plain_call(
        test, lambda _: text.splitlines(keepends=True), lambda _, name: helpers.get(name)
    )
    return None if line is None else line.line.code


@pytest.mark.parametrize(
    "body",
    [
        WHOLE + "for n in range(3):\n    out = run(torch.ones(n))\nout.sum().backward()",
        WHOLE + f"optimizer = torch.optim.SGD(model.parameters())\nrun({X})\noptimizer.step()",
        WHOLE + f"with torch.no_grad():\n    out = F.relu(run({X}))\nassert len(out) == 2",
        "model = Net()\nmodel.compile()\nmodel(x)",
        "model = Net()\nmodel = torch.compile(model)\nmodel(x)",
        "torch.compile(Net())(x)",
        "model = Net()\nrun = torch.compile(functools.partial(F.relu, model))\nrun(x)",
        "model = Net()\n@torch.compile\ndef step(x):\n    return model(x)\nstep(x)",
        "model = Net()\ndef step(x):\n    return model(x)\nrun = torch.compile(step)\nrun(x)",
        WHOLE + "def step(x):\n    return run(x).sum()\nstep(x).backward()",
        WHOLE + "if x.size(0) > 2:\n    run(x)",
        PARTS + "model(x)",
        PARTS.replace("layer in model.layers", "n, layer in enumerate(model.layers)") + "model(x)",
        "for i in range(len(model.layers)):\n    model.layers[i] = torch.compile(model.layers[i])\n"
        "model = Net()\nmodel(x)",
    ],
)
def test_each_call_is_known(body: str) -> None:
    assert found(body) is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (WHOLE + "first = model.layers[0]\nrun(first(x))", "run(first(x))"),
        (WHOLE + "out = (run if x else model)(x)", "out = (run if x else model)(x)"),
        (WHOLE + "out = model(x)", "out = model(x)"),
        (WHOLE + "out = model.forward(x)", "out = model.forward(x)"),
        (WHOLE + "out = model.embed(x)", "out = model.embed(x)"),
        (WHOLE + "run = model\nrun(x)", "run = model"),
        (WHOLE + "if x:\n    run = model\nrun(x)", "run = model"),
        (WHOLE + "out = [*map(model, x)]", "out = [*map(model, x)]"),
        (WHOLE + "out = [layer(x) for layer in model.layers]",) * 2,
        (WHOLE + "out = torch.func.functional_call(model, {}, x)",) * 2,
        (WHOLE + "train(model)", "train(model)"),
        (WHOLE + "def loss(x):\n    return model(x).sum()\nloss(x)", "return model(x).sum()"),
        ("model = Net()\nmodel(x)\nmodel = torch.compile(model)\nmodel(x)", "model(x)"),
        ("def step(x):\n    return Net()(x)\nrun = torch.compile(step)\nrun(step(x))",) * 2,
        (PARTS.replace("layers:", "layers[:2]:") + "model(x)", "layer.compile()"),
        (PARTS.replace("layer.c", "if layer.x: layer.c") + "model(x)",) * 2,
        ("model = Net()\nmodel.layers[0].compile()\nmodel(x)", "model(x)"),
        ("run = torch.compile(Net()) if x else Net()\nrun(x)",) * 2,
        ("run = torch.compile(Net(), disable=x)\nrun(x)",) * 2,
        ("torch.compiler.set_stance('force_eager')\nrun = torch.compile(Net())\nrun(x)",) * 2,
        (WHOLE + "x.run(1)", "x.run(1)"),
    ],
)
def test_a_call_that_may_run_the_model(body: str, code: str) -> None:
    assert found(body) in {code, *(line.strip() for line in code.splitlines())} - {None}


@pytest.mark.parametrize(
    ("helper", "code"),
    [("return model(x)", None), ("return model.part(x)", "return model.part(x)")],
)
def test_a_helper_is_followed_with_what_it_is_given(helper: str, code: str | None) -> None:
    assert found(WHOLE + "helper(run, x)", helper=helper) == code
    assert found(WHOLE + "helper(model, x)", helper=helper) == helper


def test_helpers_that_call_each_other_end() -> None:
    assert found("helper(x, x)", helper="return helper(model, x)") == "return helper(model, x)"


def test_what_is_not_found_may_call_anything() -> None:
    assert found(WHOLE + "run(x)", name="test_other") is not None


FIXTURES = """\
import torch
def compiled():
    model = Net()
    run = torch.compile(model)
    MORE
    RETURN run
class Net: pass
def test_it(compiled):
    compiled(torch.ones(2))
"""


@pytest.mark.parametrize(
    ("more", "end", "code"),
    [
        ("pass", "return", None),
        ("pass", "yield", None),
        ("model(3)", "return", "model(3)"),
        ("pass", "return model or", "compiled(torch.ones(2))"),
    ],
)
def test_a_fixture_that_gives_a_compiled_function(more: str, end: str, code: str | None) -> None:
    text = FIXTURES.replace("MORE", more).replace("RETURN", end).splitlines(keepends=True)
    fixtures = {"compiled": Line("a.py", 2, "compiled")}
    line = plain_call(Line("a.py", 8, "test_it"), lambda _: text, fixtures=fixtures)
    assert (None if line is None else line.line.code) == code


CLASSES = """\
import torch
class Shadow:
    def update(self, model):
        SHADOW
class Trainer:
    def __init__(self, model, run=None):
        self.model = model
        self.shadow = Shadow()
        CONSTRUCTOR
    def step(self, x):
        self.shadow.update(self.model)
        return self.run(x)
    def fit(self, x):
        self.model.train()
        return self.step(x).sum()
    def evaluate(self, x):
        EVALUATE
def test_it(x):
    model = Net()
    trainer = Trainer(model)
    TEST
class Net: pass
"""
OF_CLASSES = {
    f"{owner}.{name}": Line("a.py", line, name)
    for owner, name, line in (
        ("Shadow", "update", 3),
        ("Trainer", "__init__", 6),
        ("Trainer", "step", 10),
        ("Trainer", "fit", 13),
        ("Trainer", "evaluate", 16),
    )
}


def in_classes(
    constructor: str = "self.run = torch.compile(model)",
    shadow: str = "model.parameters()",
    evaluate: str = "return self.run(x)",
    test: str = "trainer.fit(x), trainer.evaluate(x)",
) -> PlainCall | None:
    """What may run a model in a test with a trainer that has these lines."""
    changes = {"CONSTRUCTOR": constructor, "SHADOW": shadow, "EVALUATE": evaluate, "TEST": test}
    text = CLASSES
    for word, line in changes.items():
        text = text.replace(word, line)
    lines = text.splitlines(keepends=True)
    return plain_call(Line("a.py", 18, "test_it"), lambda _: lines, lambda _, n: OF_CLASSES.get(n))


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"constructor": "self.run = model; self.run.compile()"},
        {"constructor": "self.model = self.run = torch.compile(model)"},
        {"constructor": "self.run = run", "test": "Trainer(model, torch.compile(model)).fit(x)"},
        {
            "constructor": "self.run = run",
            "test": "run = torch.compile(model); Trainer(model, run=run).fit(x)",
        },
        {"test": "with Trainer(model) as other: other.fit(x)"},
    ],
)
def test_methods_of_a_class_are_followed(changed: dict[str, str]) -> None:
    assert in_classes(**changed) is None


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"constructor": "self.run = model"}, "return self.run(x)"),
        ({"constructor": "self.run = torch.compile(model) if x else model"}, "return self.run(x)"),
        ({"shadow": "model(1)"}, "model(1)"),
        ({"test": "trainer.run = model; trainer.fit(x)"}, "trainer.run = model; trainer.fit(x)"),
        ({"test": "trainer.other(x)"}, "trainer.other(x)"),
        ({"test": "trainer = make(); trainer.fit(x)"}, "trainer = make(); trainer.fit(x)"),
    ],
)
def test_a_method_that_may_run_the_model(changed: dict[str, str], code: str) -> None:
    found = in_classes(**changed)
    assert found is not None
    assert (found.line.code, found.certain) == (code, False)


def test_what_is_compiled_is_also_called_plainly() -> None:
    found = in_classes(evaluate="return self.model(x)")
    assert found is not None
    assert (found.line.code, found.certain) == ("return self.model(x)", True)


def test_a_function_that_calls_both_may_compare_them() -> None:
    found = in_classes(evaluate="return self.run(x) - self.model(x)")
    assert found is not None
    assert not found.certain
