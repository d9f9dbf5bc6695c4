"""``graphbreak repro``: the script that is written shows the break, and no other file stays."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pytest_graphbreak.model.items import Break, Frame
from pytest_graphbreak.repair import repro
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.writing import CutFunction, Writer
from tests.repair.conftest import Shop

pytestmark = pytest.mark.once

SCRIPT = """
    import torch

    SCALE = 2.0

    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(4, 4)

        def forward(self, x):
            x = self.a(x) * SCALE
            print("inner")
            return x

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return helper(self.inner(x), limit=3)

    def helper(x, limit):
        if x.sum() > limit:
            return x + 1
        return x - 1

    def main():
        model = torch.compile(Outer(), backend="eager")
        with torch.no_grad():
            model(torch.ones(2, 4))

    main()
"""


def test_each_break_has_a_script_of_its_smallest_function(shop: Shop) -> None:
    shop.write("a.py", SCRIPT)
    said = shop.succeed("repro", "a.py", "--out", "here")
    assert "2 of 2 breaks reproduced in here" in said.out
    assert "           inner of Outer by its path" in said.out
    assert shop.files() == {"a.py", "here/a_repro_1.py", "here/a_repro_2.py"}
    first = (shop.path / "here/a_repro_1.py").read_text()
    body = first.partition("def main():")[2]
    assert body.startswith(
        """
    torch.manual_seed(0)
    full_model, _ = load_the_original_full_model()
    model = full_model.get_submodule("inner")
    compiled = torch.compile(model, backend="eager")
    with torch.set_grad_enabled(False):
        result = compiled("""
    )
    second = (shop.path / "here/a_repro_2.py").read_text()
    assert 'torch.compile(program["helper"], backend="eager")' in second
    assert "torch.tensor([[" in second  # small values are written down
    done = shop.python("here/a_repro_1.py")
    assert (done.returncode, done.stdout) == (0, "inner\n"), done.stderr
    assert "# Run it to see the break: torch prints it.\n" in first
    assert "Graph break in user code at" in done.stderr
    assert 'print("inner")' in done.stderr


def test_a_test_of_a_package_in_the_root_that_has_no_init_file(shop: Shop) -> None:
    """``python -m pytest`` has the root on its path, and a script has it, too."""
    for folder in ("yolo", "tests"):
        (shop.path / folder).mkdir()
    shop.write(
        "yolo/head.py",
        """
        import torch

        class Head(torch.nn.Module):
            def forward(self, x):
                if x.max().item() > 0.9:
                    x = x + 1
                return x * 2
        """,
    )
    shop.write(
        "tests/test_yolo.py",
        """
        import torch
        from yolo.head import Head

        def test_yolo():
            torch.compile(Head(), backend="eager")(torch.ones(2, 4))
        """,
    )
    said = shop.succeed("repro", "tests/test_yolo.py::test_yolo")
    assert "1 of 1 break reproduced in repros" in said.out
    script = [sys.executable, shop.path / "repros/yolo_repro_1.py"]
    run = subprocess.run(script, capture_output=True, cwd="/", text=True)
    assert run.returncode == 0, run.stderr
    assert "Graph break" in run.stderr


LOCAL = """
    import pytest
    import torch

    @pytest.fixture
    def run():
        def f(x):
            y = x.sin()
            print("local")
            return y + 1

        return torch.compile(f, backend="eager")

    def test_local(run):
        run(torch.ones(3))
"""


def test_a_function_of_a_fixture_is_taken_out_as_it_is_compiled(shop: Shop) -> None:
    """With its backend, though it was compiled before the call phase of the test."""
    shop.write("test_a.py", LOCAL)
    said = shop.succeed("repro", "test_a.py::test_local")
    assert "as the program compiles it" in said.out
    (script,) = (shop.path / "repros").glob("*.py")
    assert ', backend="eager")' in script.read_text()


CLOSED = """
    import torch

    def make(scale):
        def f(x):
            print("local")
            return x * scale
        return f

    def outer(x):
        return make(x.dim())(x)

    torch.compile(outer, backend="eager")(torch.ones(3))
"""


def test_what_cannot_be_taken_out_is_run_with_its_caller_and_says_why(shop: Shop) -> None:
    shop.write("a.py", CLOSED)
    said = shop.succeed("repro", "a.py")
    assert "repros/a_repro_1.py   outer" in said.out
    assert "tried before: make.<locals>.f: it is defined inside" in said.out


BRANCH = """
    import torch

    def f(x):
        return x + 1 if x.sum() > 3 else x - 1

    torch.compile(f, backend="eager")(torch.ones(4))
"""


def test_as_test_writes_a_test_that_is_red_until_it_is_fixed(shop: Shop) -> None:
    shop.write("a.py", BRANCH)
    assert shop.run("repro", "a.py", "--as-test", "--out", "tests").code == 0
    name = "tests/test_a_repro_1.py"
    assert "@pytest.mark.max_graphs(1, breaks=0)" in (shop.path / name).read_text()
    (shop.path / "pytest.ini").write_text("[pytest]\n")

    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", name)
    done = shop.python(*command)
    assert f"FAILED {name}::test_no_break" in done.stdout
    source = (shop.path / "a.py").read_text()
    patched = source.replace(
        "x + 1 if x.sum() > 3 else x - 1", "torch.where(x.sum() > 3, x + 1, x - 1)"
    )
    assert patched != source
    (shop.path / "a.py").write_text(patched)
    done = shop.python(*command)
    assert "1 passed" in done.stdout


def test_a_script_for_tt_sets_the_device_type(tmp_path: Path) -> None:
    """The text only: TT hardware is nowhere near."""
    path = tmp_path / "a.py"
    path.write_text("def f(x):\n    print(x)\n    return x\n")
    where = Frame("a.py", "f", 2, "print(x)")
    break_ = Break("dynamo", "print", where)
    writer = Writer(Target(path), "TT", {"backend": "tt"}, as_test=False)
    cut = CutFunction('program["f"]', "", inline="torch.ones(2).to(device)", grad=True)
    lines = writer.cut(break_, where, cut, "a.pt").splitlines()
    assert lines.index("import torch_xla.runtime as xr") < lines.index("def main():")
    first = lines.index("def main():") + 1
    assert lines[first] == '    xr.set_device_type("TT")'
    assert '    compiled = torch.compile(program["f"], backend="tt")' in lines
    assert lines.index("    device = torch_xla.device()") < lines.index("    torch_xla.sync()")

    method = Frame("a.py", "Model.forward", 2, "print(x)")
    cut = CutFunction('full_model.get_submodule("a.b")', "a.b", by_path=True)
    lines = writer.cut(break_, method, cut, "a.pt").splitlines()
    first = lines.index("def main():") + 1
    assert lines[first : first + 7] == [
        '    xr.set_device_type("TT")',
        "    torch.manual_seed(0)",
        "    full_model, _ = load_the_original_full_model()",
        '    model = full_model.get_submodule("a.b")',
        '    file = Path(__file__).with_name("a.pt")',
        "    saved = torch.load(file, weights_only=False)",
        '    compiled = torch.compile(model, backend="tt")',
    ]


SETS = """
    import sys
    import torch

    torch.set_default_dtype(torch.float64)

    def f(x):
        y = x + torch.ones(2)
        print(sys.argv[1:])
        return y

    assert sys.argv[1:] == ["--steps", "3"], sys.argv
    torch.compile(f, backend="eager")(torch.ones(2))
"""


def test_what_the_program_sets_is_set_and_it_gets_its_arguments(shop: Shop) -> None:
    shop.write("a.py", SETS)
    shop.succeed("repro", "--args=--steps 3", "a.py")
    script = (shop.path / "repros/a_repro_1.py").read_text()
    (shop.path / "repros/b.py").write_text(f"{script}    print(main().dtype)\n")
    assert "torch.float64" in shop.python("repros/b.py").stdout


ENVIRONMENT = """
    import os

    os.environ["GRAPHBREAK_TESTED"] = "twice"
    import own
    import torch

    def f(x):
        if own.MODE == "twice":
            print("inner")
        return x + 1

    torch.compile(f, backend="eager")(torch.ones(2))
"""


@pytest.mark.parametrize(("tries", "what"), [(5, "f"), (0, "the whole program")])
def test_a_program_that_sets_the_environment_before_it_imports(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, tries: int, what: str
) -> None:
    """And it imports a module beside it, also where the whole of it runs."""
    monkeypatch.setattr(repro, "MOST_TRIES", tries)
    shop.write("own.py", 'import os\n\nMODE = os.environ["GRAPHBREAK_TESTED"]\n')
    shop.write("a.py", ENVIRONMENT)
    said = shop.succeed("repro", "a.py", "--out", "here")
    assert f"here/a_repro_1.py   {what}\n" in said.out
    text = (shop.path / "here/a_repro_1.py").read_text()
    assert text.count("sys.path.insert(") == 1  # no directory that torch makes for itself
    done = shop.python("here/a_repro_1.py")
    assert done.stdout == "inner\n", done.stderr


NOWHERE_CUT = Break("dynamo", "Unsupported", Frame("net.py", "f", 3, "print(x)"), id="GB0059")


@pytest.mark.usefixtures("forks")
def test_a_test_that_cannot_be_cut_is_run_by_pytest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tests = "def test_a(): print('it ran')\ndef test_b(): assert False\n"
    Path("test_net.py").write_text(tests)
    target = Target(Path("test_net.py"), "test_a")
    Path("repros").mkdir()
    Path("repros/a.py").write_text(Writer(target, "", {}, as_test=False).whole(NOWHERE_CUT))
    assert "1 passed" in subprocess.check_output([sys.executable, "repros/a.py"], text=True)
    text = Writer(target, "", {}, as_test=True).whole(NOWHERE_CUT)
    assert "@pytest.mark.max_graphs(1, breaks=0)\ndef test_no_break():\n    main()\n" in text
    compile(text, "test_repro.py", "exec")


NESTED = """
    import torch

    class Inner(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.a = torch.nn.Linear(width, width)
            self.ready = False

        def forward(self, x):
            if self.ready:
                print("inner")
            return self.a(x)

    device = "cpu"
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(Inner(300)))
    net.to(device).eval()
    net[1][0].ready = True
    x = torch.randn(2, 300)
    model = torch.compile(net, backend="eager")
    with torch.no_grad():
        model(x)
"""


def test_large_inputs_are_in_a_file_and_the_model_is_not(shop: Shop) -> None:
    """The model is loaded as the program loads it, and has what the program does to it later."""
    shop.write("a.py", NESTED)
    said = shop.succeed("repro", "a.py")
    assert "1.0 of Sequential by its path" in said.out
    assert shop.files() == {"a.py", "repros/a_repro_1.py", "repros/a_repro_1.pt"}
    text = (shop.path / "repros/a_repro_1.py").read_text()
    assert 'model = full_model.get_submodule("1.0")' in text
    assert "randn" not in text
    data = shop.path / "repros/a_repro_1.pt"
    assert data.stat().st_size < 10_000  # of the weights it would be 360 000
    with zipfile.ZipFile(data) as packed:
        pickled = next(name for name in packed.namelist() if name.endswith("data.pkl"))
        assert b"Inner" not in packed.read(pickled)
