"""What makes a name, out of the text of a program; nothing is run but what comes of it."""

from __future__ import annotations

import ast
import textwrap

import pytest

from pytest_graphbreak.repair.slicing import NotPlain, Slice, Spot
from pytest_graphbreak.repair.source import without_compile


def sliced(source: str, *names: str, spot: Spot | None = None, line: int | None = None) -> str:
    top, rest = Slice(textwrap.dedent(source), names, spot=spot, line=line).parts()
    return "\n".join([*top, "--", *rest])


def test_what_sets_up_a_model_stays_and_what_uses_it_goes() -> None:
    text = sliced(
        """
        import torch

        WIDTH = 4
        seed = 3

        class Model(torch.nn.Module):
            width = WIDTH

        def unused():
            pass

        torch.manual_seed(seed)  # the same each time
        x = torch.randn(2)
        config = dict(a=1)
        model = Model(config)
        model.eval().half()
        model.config.use_cache = False
        torch.nn.init.zeros_(model.a.weight)
        print(model)
        model = torch.compile(model, backend="eager")
        out = model(x)
        """,
        "model",
    )
    assert text == textwrap.dedent(
        """\
        import torch
        WIDTH = 4
        class Model(torch.nn.Module):
            width = WIDTH
        --
        seed = 3
        torch.manual_seed(seed)  # the same each time
        config = dict(a=1)
        model = Model(config)
        model.eval().half()
        model.config.use_cache = False
        torch.nn.init.zeros_(model.a.weight)"""
    )


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("torch.compile(Model(), backend='eager')", "Model()"),
        ("torch.compile(model=Model())", "Model()"),
        ("torch.compile(backend='eager')(Model())", "Model()"),
        ("wrap(torch.compile(a), 1)", "wrap(a, 1)"),
        ("re.compile('a')", "re.compile('a')"),
        ("torch.compiler.disable(f)", "torch.compiler.disable(f)"),
    ],
)
def test_compiling_is_taken_off(source: str, plain: str) -> None:
    assert ast.unparse(without_compile(ast.parse(source, mode="eval").body)) == plain


FUNCTION = """
    import torch
    from zoo import build

    model = None

    def main(kind, rate, path):
        import math

        if kind == "big":
            size = 8
        else:
            size = 4
        with torch.device("cpu"):
            model = build(size, rate)
            print(size)
        layers = []
        for number in range(2):
            layer = build(number, math.pi)
            layers.append(layer)
        for _ in range(3):
            model(layers)
        path = "changed"

    main("big", 0.5, "a")
"""


def spot(line: int = 22) -> Spot:
    return Spot("main", 7, line, {"kind": "'big'", "rate": "0.5", "path": "'a'"})


def test_the_body_of_a_function_with_its_plain_arguments() -> None:
    text = sliced(FUNCTION, "model", spot=spot(), line=24)
    assert text.partition("--\n")[2] == textwrap.dedent(
        """\
        kind = 'big'
        rate = 0.5
        if kind == 'big':
            size = 8
        else:
            size = 4
        with torch.device('cpu'):
            model = build(size, rate)"""
    )


def test_a_loop_that_is_over_is_kept_with_what_it_makes() -> None:
    text = sliced(FUNCTION, "layers", spot=spot(), line=24)
    assert "for number in range(2):\n    layer = build(number, math.pi)" in text
    assert "import math" in text
    assert "layers.append(layer)" in text


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("path", 22, "path is an argument of main that it changes"),
        ("layer", 19, "layer is bound in a loop"),
        ("layer", 12, "layer is not made by a plain statement"),
    ],
)
def test_what_is_not_plain_is_refused_by_name(name: str, line: int, words: str) -> None:
    with pytest.raises(NotPlain, match=words):
        sliced(FUNCTION, name, spot=spot(line))


def test_an_argument_that_is_no_plain_value_is_refused() -> None:
    with pytest.raises(NotPlain, match="model is an argument of run"):
        sliced("def run(model):\n    model(1)\n", "model", spot=Spot("run", 1, 2))


def test_a_plain_fixture_is_called_as_a_function() -> None:
    source = """\
        import pytest

        @pytest.fixture
        def width():
            return 4

        def test_it(width):
            model = Model(width)
            model(1)
        """
    top, rest = Slice(
        textwrap.dedent(source), ["model"], spot=Spot("test_it", 7, 9), script=False
    ).parts()
    assert top == ["import pytest", "def make_width():\n    return 4"]
    assert rest == ["width = make_width()", "model = Model(width)"]


def test_what_runs_in_a_script_only_is_opened_there_and_left_out_in_a_test() -> None:
    source = 'model = None\nif __name__ == "__main__":\n    model = Model()\n    model(1)\n'
    assert sliced(source, "model", line=4) == "--\nmodel = None\nmodel = Model()"
    assert Slice(source, ["model"], script=False).parts() == ([], ["model = None"])


def test_globals_that_definitions_use_stay_globals_in_their_order() -> None:
    text = sliced(
        """
        import os
        os.environ["MODE"] = "1"
        import torch
        scale = 2.0
        table = torch.arange(scale)

        def helper(model):
            return model * table

        model = torch.nn.Linear(1, 1)
        """,
        "helper",
        "model",
    )
    above, _, below = text.partition("--\n")
    assert above.splitlines()[:5] == [
        "import os",
        'os.environ["MODE"] = "1"',
        "import torch",
        "scale = 2.0",
        "table = torch.arange(scale)",
    ]
    assert below == "model = torch.nn.Linear(1, 1)"  # the argument of helper is another


def test_relative_imports_are_written_out() -> None:
    cut = Slice("from ..zoo import build\nmodel = build()\n", ["model"], package="tests.models")
    assert cut.parts()[0] == ["from tests.zoo import build"]


def test_text_in_long_strings_is_not_moved() -> None:
    source = 'def f():\n    text = """a\n    b"""\n    model = build(text)\n    model()\n'
    _, rest = Slice(source, ["model"], spot=Spot("f", 1, 5)).parts()
    made = compile("\n".join(rest).replace("build(text)", "text"), "here", "exec")
    names: dict[str, str] = {}
    exec(made, names)
    assert names["model"] == "a\n    b"
