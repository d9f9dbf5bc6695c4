"""``graphbreak run``: a script runs as under python, and is reported."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from pytest_graphbreak.model.record import Record
from pytest_graphbreak.report.unjudged import script_lines
from tests.cli.conftest import Workspace
from tests.cli.tools import entry, python

pytestmark = pytest.mark.once

NET = """
    import torch

    def f(x):
        y = torch.sin(x)
        print("hello from f")
        return y + 1

    torch.compile(f, backend="eager")(torch.ones(3))
"""
PLAIN = """
    import sys
    print(sys.argv, __name__, sys.path[0], __file__, __spec__)
"""


def write(workspace: Workspace, source: str, name: str = "net.py") -> str:
    path = workspace.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source))
    return name


def test_the_output_then_the_report(workspace: Workspace) -> None:
    said = workspace.run("run", "--device", "cpu", write(workspace, NET), code=0)
    assert said.out == "hello from f\n"
    lines = said.err.splitlines()
    assert lines[1] == "net.py   exit 0"
    assert "  dynamo   2 graphs = 1 entry + 1 after a break; 1 graph break, 0 recompiles" in lines
    assert "           net.py:6 in f" in lines
    assert '               print("hello from f")' in lines


def test_json_and_markdown(workspace: Workspace) -> None:
    files = ("--json", "out/r.json", "--markdown", "out/r.md")
    workspace.run("run", "--device", "cpu", *files, write(workspace, NET), code=0)
    test = entry(workspace, "out/r.json")
    assert (test["nodeid"], test["outcome"], test["verdict"]) == ("net.py", "passed", "none")
    assert test["graphs"] == {"dynamo": 2}
    assert test["breaks"][0]["where"]["function"] == "f"
    document = json.loads((workspace.path / "out" / "r.json").read_text())
    assert document["environment"]["profile"] == "cpu"
    assert document["session"]["exit"] == 0
    page = (workspace.path / "out" / "r.md").read_text()
    assert "dynamo   2 graphs = 1 entry + 1 after a break; 1 graph break, 0 recompiles" in page
    assert "graph break  GB0059" in page


@pytest.mark.parametrize(("most", "code", "verdict"), [("2", 0, "ok"), ("1", 1, "over")])
def test_max_graphs_is_a_gate(workspace: Workspace, most: str, code: int, verdict: str) -> None:
    script = write(workspace, NET)
    said = workspace.run("run", "--max-graphs", most, "--json", "r.json", script, code=code)
    test = entry(workspace)
    assert test["verdict"] == verdict
    assert test["cap"]["every"] == int(most)
    assert (test["failed_by"] == "gate") is (code == 1)
    assert ("graph budget: 2 dynamo graphs, --max-graphs allows 1 (+1)" in said.err) is (code == 1)
    assert (test["message"] is not None) is (code == 1)


FUNCTION = """
    import torch

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(4, requires_grad=True)
    torch.compile(lambda x: Double.apply(x).sum())(x).backward()
    print("hits", torch._dynamo.utils.counters["inductor"]["fxgraph_cache_hit"])
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++ on a CPU")
def test_max_compiled_is_a_gate_on_a_warm_start(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AOTAutograd's cache takes no custom Function: it is traced at each start (fairchem#2162)."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(workspace.path / "inductor"))
    script = write(workspace, FUNCTION)
    cold = workspace.run("run", "--max-compiled", "2", script)
    assert (cold.code, cold.out) == (0, "hits 0\n")
    warm = workspace.run("run", "--max-compiled", "0", script)
    assert (warm.code, warm.out) == (1, "hits 2\n")
    assert "2 inductor graphs compiled and not loaded, --max-compiled allows 0 (+2)" in warm.err
    assert "AOTAutograd bypassed its cache" in warm.err
    assert "Unsupported call_function target autograd_function_apply" in warm.err


def test_nothing_left_of_the_compiled_code_fails_the_gate(workspace: Workspace) -> None:
    source = NET.replace("y = torch.sin(x)", "y = x; torch._dynamo.graph_break()")
    source = source.replace("return y + 1", "return None")
    said = workspace.run("run", "--max-graphs", "1", write(workspace, source), code=1)
    assert "no dynamo graph" in said.err


def test_a_script_that_fails_keeps_its_code_and_is_reported(workspace: Workspace) -> None:
    script = write(workspace, NET + "    exit(7)")
    said = workspace.run("run", "--max-graphs", "1", "--json", "r.json", script, code=7)
    test = entry(workspace)
    assert (test["outcome"], test["failed_by"], test["verdict"]) == ("failed", "test", "none")
    assert test["graphs"] == {"dynamo": 2}
    assert "graph budget" not in said.err


@pytest.mark.parametrize(
    ("end", "code", "err"),
    [
        ("raise SystemExit", 0, ""),
        ("raise SystemExit('that was wrong')", 1, "that was wrong\n"),
        ("raise SystemExit(-1)", 255, ""),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt\n"),
    ],
)
def test_exit_codes(workspace: Workspace, end: str, code: int, err: str) -> None:
    said = workspace.run("run", write(workspace, end), code=code)
    assert err in said.err


@pytest.mark.parametrize("source", ["def f():\n    return 1 / 0\n\nf()\n", "a = (\n"])
def test_an_exception_looks_as_it_does_under_python(workspace: Workspace, source: str) -> None:
    name = write(workspace, source, "sub/fails.py")
    plain = python(name, cwd=workspace.path)
    assert workspace.run("run", name, code=plain.returncode).err.startswith(plain.stderr)


def test_without_torch_there_is_nothing_to_count() -> None:
    assert [*map(str, script_lines("a.py", "exit 0", Record()))] == [
        "a.py   exit 0",
        "  graphs   none: neither torch nor JAX was used",
    ]


@pytest.mark.parametrize("name", ["net.py", "sub/net.py"])
def test_the_script_sees_what_it_sees_under_python(workspace: Workspace, name: str) -> None:
    write(workspace, PLAIN, name)
    before = (sys.argv, list(sys.path), sys.modules["__main__"])
    said = workspace.run("run", "--device", "cpu", name, "-v", "--json", "theirs", "--", "x")
    assert said.out == python(name, "-v", "--json", "theirs", "--", "x", cwd=workspace.path).stdout
    assert (sys.argv, list(sys.path), sys.modules["__main__"]) == before


@pytest.mark.usefixtures("forks")
def test_a_module(workspace: Workspace) -> None:
    write(workspace, "", "pack/__init__.py")
    write(
        workspace,
        PLAIN + "    import torch; torch.compile(torch.sin, backend='eager')",
        "pack/it.py",
    )
    said = workspace.run("run", "--json", "r.json", "-m", "pack.it", "--json", "theirs", code=0)
    shown, plain = (
        line.partition("ModuleSpec")[0]
        for line in (
            said.out,
            python("-m", "pack.it", "--json", "theirs", cwd=workspace.path).stdout,
        )
    )
    assert shown == plain
    assert entry(workspace)["nodeid"] == "pack/it.py"


def test_a_directory_and_a_package_run_by_their_main(workspace: Workspace) -> None:
    write(workspace, "print('main of', __name__)", "bundle/__main__.py")
    assert workspace.run("run", "bundle").out == "main of __main__\n"
    assert workspace.run("run", "-m", "bundle").out == "main of __main__\n"


def test_pickle_finds_the_classes_of_main(workspace: Workspace) -> None:
    write(workspace, "import pickle\nclass C: pass\nprint(type(pickle.loads(pickle.dumps(C()))))")
    assert workspace.run("run", "net.py").out == "<class '__main__.C'>\n"


def test_threads_are_waited_for(workspace: Workspace) -> None:
    source = NET.replace(
        "torch.compile", "import threading, time\n    work = lambda: torch.compile"
    )
    source += "    threading.Thread(target=lambda: (time.sleep(0.3), work())).start()\n"
    source = source.replace("(torch.ones(3))\n", "(torch.ones(3))\n", 1)
    workspace.run("run", "--json", "r.json", write(workspace, source), code=0)
    assert entry(workspace)["graphs"] == {"dynamo": 2}


POOL = """
    import time, torch
    from concurrent.futures import ThreadPoolExecutor

    def work():
        time.sleep(0.3)
        torch.compile(lambda x: x - 5, backend="eager")(torch.ones(3))

    pool = ThreadPoolExecutor(1)
    pool.submit(work)
"""


def test_a_pool_that_nobody_shuts_down_ends_with_the_script(workspace: Workspace) -> None:
    """Its workers end with the interpreter only; what they were given is the script's."""
    workspace.run("run", "--json", "r.json", write(workspace, POOL), code=0)
    assert entry(workspace)["graphs"] == {"dynamo": 1}


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("import sys; sys.stderr.close(); sys.stdout.close()", 0, "net.py   exit 0"),
        ("import sys; sys.stderr.close(); 1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("import os; os.fork() or exit(3); print(os.wait()[1] >> 8)", 0, "net.py   exit 0"),
    ],
)
def test_whatever_the_script_does_the_report_is_made_once(
    workspace: Workspace, source: str, code: int, words: str
) -> None:
    write(workspace, source)
    said = python(
        "-m", "pytest_graphbreak", "run", "--json", "r.json", "net.py", cwd=workspace.path
    )
    assert said.returncode == code
    assert said.stderr.count(words) == 1
    assert "pytest_graphbreak" not in said.stderr
    assert entry(workspace)["nodeid"] == "net.py"
    assert said.stdout == ("3\n" if "fork" in source else "")


def test_a_module_that_is_not_there(workspace: Workspace) -> None:
    said = workspace.run("run", "-m", "no_such.module", code=1)
    assert said.err.startswith("graphbreak run: Error while finding module specification for")
    assert "Traceback" not in said.err


def test_the_script_may_change_the_directory(workspace: Workspace) -> None:
    (workspace.path / "else").mkdir()
    said = workspace.run("run", "--json", "r.json", write(workspace, "import os; os.chdir('else')"))
    os.chdir(workspace.path)
    assert said.code == 0
    assert entry(workspace)["nodeid"] == "net.py"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("gone.py",), "gone.py: No such file or directory"),
        (("--device", "tt", "net.py"), "no TT device here"),
        (("--log", "net.py/run.log", "net.py"), "net.py"),
    ],
)
def test_what_cannot_be_run_is_said(
    workspace: Workspace, args: tuple[str, ...], words: str
) -> None:
    write(workspace, "print('it ran')")
    said = workspace.run("run", *args, code=2)
    assert words in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


def test_a_report_that_cannot_be_written_fails_a_run_that_did_not(workspace: Workspace) -> None:
    write(workspace, "pass")
    said = workspace.run("run", "--json", "net.py/r.json", "net.py", code=2)
    assert "cannot be written" in said.err


@pytest.mark.parametrize("most", ["-1", "one"])
def test_a_wrong_limit_is_a_usage_error(
    workspace: Workspace, most: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        workspace.run("run", "--max-graphs", most, "net.py")
    assert stop.value.code == 2
    words = f"argument --max-graphs: {most!r} is not a number of graphs, 0 or more"
    assert words in capsys.readouterr().err


def test_the_log_can_be_analysed(workspace: Workspace) -> None:
    """Standard error of native code is in the log; what Python code writes is not."""
    source = (
        NET + "    import os, sys\n    os.write(2, b'native\\n'); print('mine', file=sys.stderr)"
    )
    write(workspace, source)
    command = "-m pytest_graphbreak run --device cpu --log o/run.log net.py"
    said = python(*command.split(), cwd=workspace.path)
    assert said.returncode == 0, said.stderr
    assert said.stdout == "hello from f\n"
    assert said.stderr.startswith("mine\n\nnet.py   exit 0\n")
    log = (workspace.path / "o" / "run.log").read_text()
    assert "native\n" in log
    assert "mine" not in log
    analysed = workspace.run("analyze", "o/run.log", "--json", "a.json", code=0)
    assert entry(workspace, "a.json")["graphs"] == {"dynamo": 2}
    assert "net.py > run.log 2>&1" in analysed.out  # what to run is the script, not this command


@pytest.mark.nightly
def test_the_log_of_a_run_of_pytest(workspace: Workspace) -> None:
    """pytest captures standard error before torch is imported, and closes what it put there."""
    test = NET.replace("torch.compile(", "def test_it():\n        torch.compile(")
    write(workspace, test, "test_it.py")
    ours = "-m pytest_graphbreak run --device cpu --log run.log --json r.json"
    said = python(*ours.split(), *["-m", "pytest", "-q", "test_it.py"], cwd=workspace.path)
    assert said.returncode == 0, said.stderr
    assert "Logging error" not in said.stderr
    assert entry(workspace)["graphs"] == {"dynamo": 2}
    assert workspace.run("analyze", "run.log", "--json", "a.json").code == 0
    assert entry(workspace, "a.json")["graphs"] == {"dynamo": 2}


def test_tt_that_is_asked_for_is_what_torch_xla_opens(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_graphbreak.cli import run
    from pytest_graphbreak.config.device import Device

    monkeypatch.setattr(run, "choose", lambda *asked: Device("tt", "n150"))  # there is none here
    for before, inside in ((None, "TT"), ("CPU", "CPU")):
        monkeypatch.setenv("PJRT_DEVICE", before or "")
        if before is None:
            monkeypatch.delenv("PJRT_DEVICE")
        write(
            workspace,
            "import os; print(os.environ['PJRT_DEVICE'], 'TTXLA_LOGGER_FILE' in os.environ)",
        )
        said = workspace.run("run", "--device", "tt", "net.py")
        assert said.out == f"{inside} True\n"


def test_on_tt_the_log_is_on(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "TT")
    write(workspace, "import os; print(os.environ['TTXLA_LOGGER_FILE'])")
    said = workspace.run("run", "net.py", code=0)
    assert not Path(said.out.strip()).parent.exists()
    assert "TTXLA_LOGGER_FILE" not in os.environ
    write(workspace, "import os; print(os.environ.get('XLA_HLO_DEBUG'))")
    assert workspace.run("run", "net.py").out.strip() == "None"
    assert (
        workspace.run("run", "--log", "run.log", "net.py").out.strip() == "1"
    )  # analysis needs it
