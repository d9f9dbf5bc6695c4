"""``graphbreak fix``: what is kept is proved, and nothing else is written."""

from __future__ import annotations

import difflib
import importlib.util
import re
import textwrap
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from cases.broken import BROKEN, FAST
from pytest_graphbreak.cli import main
from pytest_graphbreak.layers.children.runner import ServerError
from pytest_graphbreak.repair.search import Search, SearchResult
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial
from tests.examples import sample
from tests.repair.conftest import Shop

pytestmark = pytest.mark.once

SAMPLE = ("disabled", "lengths")
"""Settings have tests of their own here."""


def search(target: Target, trials: Bench) -> SearchResult:
    return Search(target, trials).run()


@pytest.mark.parametrize("name", sample(FAST, SAMPLE))
def test_a_broken_program_is_fixed(name: str, tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / f"{name}.py")
    target.path.write_text(BROKEN[name])
    out = search(target, shared)
    assert out.first.error is None
    assert (out.before > 1, out.after) == (True, 1)
    assert not out.last.record.breaks
    assert not out.comparison.words
    assert len(out.comparison.drawn) >= 2
    assert list(tmp_path.iterdir()) == [target.path]


def test_a_recompile_that_stays_is_named_with_its_line(shop: Shop) -> None:
    shop.write(
        "a.py",
        """
        import torch


        def f(x, kind):
            y = x.sin()
            return y * len(kind)


        f = torch.compile(f, backend="eager")
        for kind in ("one", "three"):
            f(torch.ones(3), kind)
        """,
    )
    said = shop.run("fix", "a.py")
    assert said.code == 1
    assert "recompile 0/1   kind == 'one' (kind is 'three' now)\n" in said.out
    assert re.search(r"\n      a\.py:[567] in f\n          \S", said.out)


COUNTS = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.calls, self.scale = 0, 1.0

        def forward(self, x):
            self.calls += 1
            self.scale *= 0.5
            return self.linear(x) * self.scale

    model = torch.compile(Net(), backend="eager")
    for _ in range(4):
        model(torch.ones(2, 4))
"""


@pytest.mark.nightly
def test_numbers_of_a_module_count_no_drawn_input(shop: Shop) -> None:
    """A drawn input that raises counts where nothing is compiled, and not where Dynamo refuses it.

    The setting leaves one recompile: it is named all the same.
    """
    shop.write("counts.py", COUNTS)
    said = shop.run("fix", "counts.py")
    setting = "allow_unspec_int_on_nn_module: numbers on modules are inputs of the graph"
    assert f"kept  {setting} (4 -> 2)" in said.out, said.out
    assert "kept  dynamic=True: sizes and numbers are inputs of the graph (2 -> 1)\n" in said.out
    assert "graphs 4 -> 1\n" in said.out


SAYS = """
    import torch

    def f(x):
        y = x.sin()
        print(x.shape)
        return y + 1

    torch.compile(f, backend="eager")(torch.ones(4))
"""


CUT = SAYS.replace("print(x.shape)", "torch._dynamo.graph_break()")
FIXTURES = """
    import pytest
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(4, 4)

        def forward(self, x):
            y = self.a(x)
            print("hello")
            return y + 1

    @pytest.fixture(scope="module")
    def net():
        return torch.compile(Net(), backend="eager")

    @pytest.fixture
    def x():
        return torch.randn(3, 4)

    @pytest.mark.max_graphs(1)
    @pytest.mark.parametrize("size", [2, 3])
    def test_net(net, x, size):
        assert net(x[:size]).shape == (size, 4)
"""


def test_a_test_is_fixed_by_its_node_id(shop: Shop) -> None:
    """Its fixtures make weights of no seed, and the proof of the written file is a new Python.

    The copy has no name that pytest collects, and passes where it is named.
    """
    shop.write("test_a.py", FIXTURES)
    (shop.path / "pytest.ini").write_text("[pytest]\naddopts = --graph-budget\n")
    said = shop.succeed("fix", "test_a.py::test_net[3]")
    assert "Wrote a_fixed.py: test_a.py with patches.\n" in said.out
    options = ("-q", "-p", "no:cacheprovider", "-o", "addopts=")
    assert shop.python("-m", "pytest", *options, "--collect-only").stdout.count("::test_net") == 2
    assert "2 passed" in shop.python("-m", "pytest", *options, "a_fixed.py").stdout


WHOLE = "import torch\ntorch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))"


@pytest.mark.parametrize(
    ("command", "source", "code", "words"),
    [
        ("fix", WHOLE, 0, "Nothing to fix"),
        ("fix", "print('hello')", 0, "Nothing was compiled"),
        ("fix", "raise ValueError('mine')", 2, "ValueError: mine"),
        ("fix", "def f(:", 2, "not valid Python"),
        ("repro", "print('hello')", 0, "No graph break came"),
        ("repro", "raise ValueError('mine')", 2, "mine"),
        ("dynamic", "1", 2, "graphbreak dynamic: a.py: it compiles nothing\n"),
        (
            "export",
            "import torch",
            2,
            "export: a.py: it calls nothing that it compiles\n",
        ),
    ],
)
def test_what_has_no_break_or_does_not_run(
    command: str, source: str, code: int, words: str, shop: Shop
) -> None:
    (shop.path / "a.py").write_text(source)
    said = shop.run(command, "a.py")
    assert said.code == code
    assert words in (said.err if code else said.out)
    assert shop.files() == {"a.py"}


TWO = """
    import torch

    # as small as can be
    def f(x):
        y = x * x.sum().item()
        torch._dynamo.graph_break()
        return y + 1

    torch.compile(f, backend="eager")(torch.ones(4))
"""


def test_after_an_interrupt_nothing_is_written(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what was found until then, since it was not proved as it is written."""
    from pytest_graphbreak.cli.messages import Progress

    def step(self: Progress, done: int, most: int, words: str) -> None:
        if words == "the patched files as written":
            assert (shop.path / "a_fixed.py").exists()
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "step", step)
    shop.write("a.py", CUT)
    assert shop.run("fix", "a.py").code == 130
    assert shop.files() == {"a.py"}


def test_a_patch_is_a_line_where_the_program_compiles_or_a_line_less(shop: Shop) -> None:
    shop.write("a.py", TWO)
    said = shop.succeed("fix", "a.py")
    assert said.out.count("kept  ") == 2
    assert "graphs 3 -> 1\n" in said.out
    before, after = ((shop.path / name).read_text().splitlines() for name in ("a.py", "a_fixed.py"))
    changed = [line for line in difflib.ndiff(before, after[1:]) if line[0] in "+-"]
    assert changed == [
        "-     torch._dynamo.graph_break()",
        "+ torch._dynamo.config.capture_scalar_outputs = True",
    ]


GATE = """
    import torch

    class Gate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(4, 4)

        def forward(self, x):
            x = self.a(x)
            if x.mean() > 0:
                x = x * 2
            return x.sin()

    net = Gate()
    with torch.no_grad():
        torch.compile(net, backend="eager")(torch.ones(2, 4))
"""


def test_what_is_written_raises_nothing_that_the_program_does_not(shop: Shop) -> None:
    """It was not called with gradients; a patch that forbids them is none."""
    shop.write("a.py", GATE)
    shop.succeed("fix", "a.py")
    text = (shop.path / "a_fixed.py").read_text()
    assert "            x = torch.where(x.mean() > 0, x * 2, x)\n" in textwrap.indent(text, "    ")
    (shop.path / "a_fixed.py").write_text(f"{text}\nnet(torch.ones(2, 4)).sum().backward()\n")
    assert shop.python("a_fixed.py").returncode == 0


GROWS = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(4, 4)
            self.losses = []

        def forward(self, x):
            y = self.a(x).tanh()
            self.losses.append(y.mean().item())
            return y.cos().sum()

    net = torch.compile(Net(), backend="eager")
    for step in range(3):
        net(torch.randn(2, 4)).backward()
"""


def test_a_setting_by_which_longer_runs_leave_the_compiler_is_not_kept(shop: Shop) -> None:
    """Of three calls each is one graph; the ninth would reach the recompile limit."""
    shop.write("a.py", GROWS)
    said = shop.run("fix", "a.py")
    assert said.code == 1
    why = "1 function at the recompile limit if the program runs four times as long"
    assert f"capture_scalar_outputs: .item() becomes a node of the graph: {why}\n" in said.out
    assert shop.files() == {"a.py"}


def test_of_what_is_left_code_before_and_after_is_shown_and_what_judges_it(shop: Shop) -> None:
    shop.write("a.py", SAYS)
    said = shop.run("fix", "a.py")
    assert said.code == 1
    lines = said.out.splitlines()
    at = lines.index("          print(x.shape)")
    words = ("        before", "        after", "      more: ", "What is left is yours: copy a.py ")
    places = [next(n for n, x in enumerate(lines) if x.startswith(word)) for word in words]
    assert [at, *places] == sorted([at, *places])
    assert lines[-1].endswith(" prove a.py a_patched.py")


def test_a_module_is_patched_beside_itself_and_a_library_is_not(shop: Shop) -> None:
    body = "import torch\n\n\ndef g(x):\n    torch._dynamo.graph_break()\n    return x + 1\n"
    (shop.path / "mine").mkdir()
    (shop.path / "mine/net.py").write_text(body)
    shop.write(
        "a.py",
        """
        import torch
        from mine.net import g

        def f(x):
            return g(x.sin())

        torch.compile(f, backend="eager")(torch.ones(3))
    """,
    )
    said = shop.succeed("fix", "a.py")
    assert "Wrote mine/net_fixed.py: mine/net.py with patches.\n" in said.out
    assert shop.files() == {"a.py", "mine/net.py", "mine/net_fixed.py"}
    assert (shop.path / "mine/net.py").read_text() == body
    text = (shop.path / "mine/net_fixed.py").read_text()
    assert text.partition("\n")[2] == body.replace("    torch._dynamo.graph_break()\n", "")


@pytest.mark.parametrize("seconds", ["0", "-3", "1e7", "soon"])
def test_a_run_takes_a_number_of_seconds(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["fix", "a.py", "--timeout", seconds])
    assert "argument --timeout: invalid number of seconds value" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fix", "repro"])
def test_a_run_whose_server_was_killed_is_an_error(
    command: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(*_: object, **__: object) -> Trial:
        raise ServerError("the process that runs the program was killed; try again")

    monkeypatch.setattr(Bench, "measure", measure)
    shop.write("a.py", SAYS)
    said = shop.run(command, "a.py")
    assert said.code == 2
    assert said.err.splitlines()[-1] == (
        f"graphbreak {command}: the process that runs the program was killed; try again"
    )
    assert shop.files() == {"a.py"}


def test_a_file_of_tests_that_does_not_run_alone_says_how_to_name_a_test(shop: Shop) -> None:
    shop.write("test_a.py", "import only_pytest_finds_it")
    said = shop.run("fix", "test_a.py")
    assert said.code == 2
    assert "a test of it is named as test_a.py::test_name" in said.err


@pytest.mark.parametrize(
    "command", sample(["fix", "repro", "dynamic", "export"], ["fix", "export"])
)
def test_the_lines_that_led_to_an_error_are_shown(command: str, shop: Shop) -> None:
    """Those that Dynamo was tracing as well, and the operator's own words."""
    shop.write(
        "a.py",
        """
        import torch

        def layer(x):
            return x @ torch.ones(5, 5)

        @torch.compile(backend="eager")
        def f(x):
            return layer(x.relu())

        print("begun")
        f(torch.ones(2, 3))
        """,
    )
    said = shop.run(command, "a.py")
    assert said.code == 2
    first, *lines = said.err[said.err.index("graphbreak ") :].splitlines()
    assert first.startswith(f"graphbreak {command}: a.py does not run: RuntimeError: ")
    assert "2x3" in first or "[2, 3]" in first
    assert lines == [
        "    a.py:12 in <module>",
        "        f(torch.ones(2, 3))",
        "    a.py:9 in f",
        "        return layer(x.relu())",
        "    a.py:5 in layer",
        "        return x @ torch.ones(5, 5)",
        "    the end of what it printed:",
        "    begun",
    ]


def test_a_file_that_does_otherwise_under_its_own_name_is_not_kept(shop: Shop) -> None:
    own = "import sys\nif '_fixed' in sys.argv[0]:\n    raise ValueError('my name')\n"
    shop.write("a.py", own + textwrap.dedent(CUT))
    said = shop.run("fix", "a.py")
    assert said.code == 1
    assert "the patched file is not written: differs: " in said.err
    assert "my name" in said.err
    assert shop.files() == {"a.py"}


@pytest.mark.parametrize(
    ("command", "missing", "words"),
    [
        ("fix", "torch", "torch is not installed in this Python ("),
        ("repro", "torch", "torch is not installed in this Python ("),
        ("fix", "libcst", "libcst, which rewrites source, is not installed: "),
    ],
)
def test_what_is_not_installed_is_said(
    command: str, missing: str, words: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == missing else find(name, package)

    monkeypatch.setattr("importlib.util.find_spec", without)
    shop.write("a.py", SAYS)
    said = shop.run(command, "a.py")
    assert (said.code, said.out) == (2, "")
    assert said.err.count(f"graphbreak {command}: {words}") == 1
    assert missing == "torch" or said.err.endswith(" -m pip install libcst\n")
    assert shop.files() == {"a.py"}
