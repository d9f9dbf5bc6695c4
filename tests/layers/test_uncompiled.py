"""The line by which code of a test is no longer compiled."""

from __future__ import annotations

import textwrap

import pytest

from pytest_graphbreak.layers.uncompiled import (
    compiles,
    loops,
    resets,
    uncompiled,
    uses,
)
from pytest_graphbreak.model.stacks import Line

TEST = Line("a.py", 1, "test_it")
UNCOMPILED = textwrap.dedent(
    """\
    def test_it():
        model = Net()
        run = model
        def train(x):
            return loss(run(x))
        out = train(run(x))
    """
).splitlines(keepends=True)


@pytest.mark.parametrize(
    ("function", "line"),
    [("Net.forward", 3), ("test_it.<locals>.train", 6), ("Other.forward", None)],
)
def test_the_line_that_goes_on_to_call_without_the_compiler(
    function: str, line: int | None
) -> None:
    found = uncompiled(function, Line("a.py", 1, "test_it"), lambda file: UNCOMPILED)
    assert (found and found.line) == line


def test_a_function_of_the_test_that_calls_it_and_another_one_that_is_compiled() -> None:
    text = """\
def test_it():
    model = Net()
    def loss_of(x):
        return model(x).sum()
    forward = loss_of
    update = torch.compile(lambda: step(model))
    forward(update())
"""
    found = uncompiled("Net.forward", TEST, lambda _: text.splitlines(True))
    assert found is not None
    assert found.line == 5


HELPERS = """\
def fit(model, steps=4):
    optimizer = SGD(model.parameters())
    CHANGE
    for step in range(steps):
        loss_of(compiled, step).backward()
def test_it():
    make_data()
    fit(steps=2, model=Net())
"""


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("compiled = model", 3),
        ("compiled = torch.compile(model, disable=True)", 3),
        ("compiled = other(model)", 8),
    ],
)
def test_a_helper_that_the_test_calls(change: str, line: int) -> None:
    text = HELPERS.replace("CHANGE", change).splitlines(True)
    helpers = {"fit": Line("a.py", 1, "fit")}
    found = uncompiled(
        "Net.forward", Line("a.py", 6, "test_it"), lambda _: text, lambda _, name: helpers.get(name)
    )
    assert (found.line if found else 8) == line


def test_helpers_that_call_each_other_end() -> None:
    text = "def test_it():\n    again(Net())\ndef again(net):\n    again(net)\n".splitlines(True)
    again = Line("a.py", 3, "again")
    assert uncompiled("Net.forward", TEST, lambda _: text, lambda *_: again) is None


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("run = torch.compile(net, disable=not FAST)", 3),
        ("torch._dynamo.config.disable = True", 3),
        ("torch.compiler.set_stance('force_eager')", 3),
        ("run = torch.compile(net, disable=False)", 4),
    ],
)
def test_the_line_that_turns_the_compiler_off(line: str, found: int) -> None:
    text = f"def test_it():\n    net = Net()\n    {line}\n    out = net(x)\n"
    off = uncompiled("Net.forward", Line("a.py", 1, "test_it"), lambda _: text.splitlines(True))
    assert off is not None
    assert off.line == found


def test_the_line_that_says_what_is_compiled() -> None:
    def found(text: str, name: str = "", **others: str) -> list[int]:
        texts = {"a.py": text, **others}
        source = lambda file: texts[file].splitlines(keepends=True)  # noqa: E731
        helpers = lambda _, name: Line("a.py", 1, name) if name == "build" else None  # noqa: E731
        return [line.line for line in compiles(TEST, source, helpers, name, [*others])]

    assert found("def test_it():\n    for n in SIZES:\n        torch.compile(f)\n") == [2, 3]
    assert found("def test_it():\n    re.compile('')\n    torch.compile(f)\n") == [3]
    assert found("run = torch.compile(f)\ndef test_it():\n    run()\n") == [1]
    two = "def test_it():\n    f.compile()\n    g.compile()\n"
    assert (found(two), found(two, "g"), found(two, "h")) == ([2, 3], [3], [])
    assert found("@torch.compile()\ndef f(x): ...\ndef test_it():\n    f(2)\n", "f") == [1]
    assert found("def test_it():\n    f()\n") == []
    assert found("def test_it():\n    f()\n", other="\nrun = torch.compile(f)\n") == [2]


def test_the_lines_of_a_helper_that_compiles() -> None:
    text = "def build(net):\n    net.head.compile()\ndef test_it():\n    build(Net())\n"
    helpers = {"build": Line("a.py", 1, "build")}
    lines = compiles(
        Line("a.py", 3, "test_it"),
        lambda _: text.splitlines(keepends=True),
        lambda _, name: helpers.get(name),
    )
    assert [line.line for line in lines] == [2]


def test_the_lines_that_use_a_name() -> None:
    text = "def f(): ...\nrun = f\nself.f = other.f\nconfig.limit = 1\n".splitlines(keepends=True)
    assert [line.line for line in uses("f", ["a.py"], lambda _: text)] == [2, 3]
    assert [line.line for line in uses("limit", ["a.py"], lambda _: text)] == [4]
    assert uses("g", ["a.py"], lambda _: text) == []


def test_the_loops_of_a_test_and_of_what_it_calls() -> None:
    text = """\
def run_all(run, items, times):
    for item in items:
        run(item)
def test_it():
    while waiting():
        run_all(
            run,
            make(3) + make(1),
            2,
        )
""".splitlines(keepends=True)
    helpers = {"run_all": Line("a.py", 1, "run_all")}
    found = loops(Line("a.py", 4, "test_it"), lambda _: text, lambda _, name: helpers.get(name))
    assert {line.line for line in found} >= {2, 5, 8}


@pytest.mark.parametrize(
    ("code", "line"),
    [("torch._dynamo.reset()", 2), ("torch.compiler.reset()", 2), ("cache.reset()", None)],
)
def test_a_reset_in_a_test_or_in_its_helper(code: str, line: int | None) -> None:
    text = f"def fresh(run):\n    {code}\ndef test_it():\n    run(fresh(run))\n".splitlines(True)
    helpers = {"fresh": Line("a.py", 1, "fresh")}

    def found(test: Line) -> int | None:
        reset = resets(test, lambda _: text, lambda _, name: helpers.get(name))
        return reset and reset.line

    assert found(Line("a.py", 1, "fresh")) == found(Line("a.py", 3, "test_it")) == line
