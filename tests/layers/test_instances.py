"""Instances of the project's classes, by the variables and attributes that hold them."""

from __future__ import annotations

import ast

import pytest

from pytest_graphbreak.layers.instances import (
    Instances,
    compiled_path,
    followed,
    path_of,
    renamed,
)
from pytest_graphbreak.model.stacks import Line

TEXT = """\
import tools
class Shadow:
    def update(self, model): pass
class Trainer:
    def __init__(self, model, run=None):
        self.model = model
        self.given = run
        self.run = torch.compile(model)
        self.shadow = Shadow().to("cpu")
        self.losses = []
        self.losses = [0]
    def fit(self, x):
        self.shadow.update(self.model)
        tools.log(x)
class Net:
    def __init__(self): pass
    def forward(self, x): pass
    def embed(self, x): pass
def test_it(x):
    trainer = Trainer(Net(), run=fast)
    other = trainer
    net = Net()
    net = Net()
    with Shadow() as shadow:
        trainer.fit(x)
"""
LINES = TEXT.splitlines(keepends=True)
KNOWN = {
    "Shadow.update": Line("a.py", 3, "update"),
    "Trainer.__init__": Line("a.py", 5, "__init__"),
    "Trainer.fit": Line("a.py", 12, "fit"),
    "Net.__init__": Line("a.py", 16, "__init__"),
    "Net.forward": Line("a.py", 17, "forward"),
    "Net.embed": Line("a.py", 18, "embed"),
    "tools.log": Line("tools.py", 1, "log"),
}


def of_test() -> Instances:
    """What the variables of ``test_it`` hold, of which ``fast`` is a compiled function."""
    found = Instances("a.py", lambda _: LINES, lambda _, name: KNOWN.get(name), {}, {"fast"})
    test = next(one for one in ast.parse(TEXT).body if getattr(one, "name", "") == "test_it")
    found.read(test)
    return found


def call(text: str) -> ast.Call:
    parsed = ast.parse(text, mode="eval").body
    assert isinstance(parsed, ast.Call)
    return parsed


def test_variables_that_are_set_once_to_a_new_instance() -> None:
    assert {name: one.name for name, one in of_test().known.items()} == {
        "trainer": "Trainer",
        "shadow": "Shadow",
    }


def test_what_a_constructor_compiles_is_given_and_keeps() -> None:
    trainer = of_test().known["trainer"]
    assert trainer.compiled == {"run", "given"}
    assert trainer.handed == {"model"}
    assert set(trainer.attributes) == {"model", "given", "run", "shadow"}  # losses is set twice


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("trainer.fit(x)", "Trainer.fit"),
        ("trainer.shadow.update(m)", "Shadow.update"),
        ("Trainer(m).fit(x)", "Trainer.fit"),
        ("shadow.update(m)", "Shadow.update"),
        ("trainer.other(x)", None),
        ("trainer.losses.append(x)", None),
        ("Net().embed(x)", None),  # a model is not followed
        ("fit(x)", None),
    ],
)
def test_the_method_of_a_call(text: str, method: str | None) -> None:
    found = of_test().method(call(text))
    assert (found and found[0]) == (method and KNOWN[method])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("tools.log(x)", "tools.log"),
        ("Trainer(m)", "Trainer.__init__"),
        ("trainer.fit(x)", "Trainer.fit"),
        ("print(x)", None),
    ],
)
def test_functions_constructors_and_methods_are_called(text: str, name: str | None) -> None:
    found = of_test().called(call(text))
    assert (found and found[0]) == (name and KNOWN[name])


def test_a_function_is_followed_with_its_calls() -> None:
    helpers = KNOWN.get
    found = followed(Line("a.py", 19, "test_it"), lambda _: LINES, lambda _, name: helpers(name))
    assert [line.name for _, line, _ in found.calls].count("fit") == 1
    (owner,) = (one for call, line, one in found.calls if line.name == "fit")
    inner = followed(KNOWN["Trainer.fit"], lambda _: LINES, lambda _, name: helpers(name), owner)
    assert [line.name for _, line, _ in inner.calls] == ["update", "log"]


def test_paths() -> None:
    assert path_of(ast.parse("self.model.head", mode="eval").body) == "self.model.head"
    assert path_of(ast.parse("self.model[0].head", mode="eval").body) == ""
    assert compiled_path(ast.parse("model.forward", mode="eval").body) == "model"
    assert compiled_path(ast.parse("model.step", mode="eval").body) == "model.step"
    assert renamed({"model", "draft.step"}, {"net": "model", "d": "draft", "x": ""}) == {
        "net",
        "d.step",
    }
