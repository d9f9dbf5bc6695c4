"""Scripts for cuts of torch_xla count by its metric, which a module of the test stands for here."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pytest_graphbreak.model.items import NOWHERE, Break, Frame, Graph
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair import lazy
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Trial
from pytest_graphbreak.repair.writing import Writer

pytestmark = pytest.mark.pure

METRICS = """
graphs = 0


def metric_data(name):
    assert name == "CompileTime"
    return (graphs, 0.0, ()) if graphs else None


def cut(value=0):
    global graphs
    graphs += 1
    return value
"""
OTHER = """
from torch_xla.debug.metrics import cut



def cut_here():
    cut()
"""
PROGRAM = """
import sys

from torch_xla.debug.metrics import cut

from other import cut_here


def inner():
    return cut()


def numbers():
    for n in range(2):
        yield cut(n)


def step(n):
    cut(); cut_here(); inner()
    return max(map(cut, [n]))


def fails():
    raise ValueError(cut())


for n in range(2):
    step(n)
print([cut() for n in range(3)])
sum(numbers())
try:
    fails()
except ValueError:
    cut()
sys.exit(0)
"""
LINES = {
    "cut(); cut_here(); inner()": ("step", 2),
    "return max(map(cut, [n]))": ("step", 2),
    "return cut()": ("inner", 2),
    "print([cut() for n in range(3)])": ("<module>", 3),
    "yield cut(n)": ("numbers", 2),
    "raise ValueError(cut())": ("fails", 1),
    "cut()": ("<module>", 1),
}


def graphs_of(where: Frame, count: int, cause: str = "access") -> list[Graph]:
    return [Graph("xla", str(n), cause, where=where, reason="value read") for n in range(count)]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torch_xla/debug").mkdir(parents=True)
    for name, text in (
        ("torch_xla/__init__.py", ""),
        ("torch_xla/debug/__init__.py", ""),
        ("torch_xla/debug/metrics.py", METRICS),
        ("other.py", OTHER),
        ("a.py", PROGRAM),
    ):
        (tmp_path / name).write_text(textwrap.dedent(text))
    return tmp_path / "a.py"


def run(path: Path, record: Record) -> tuple[lazy.LazyCut, int, str]:
    """The first cut of a record, and the exit code and the last line of its script."""
    out = path.parent / "here"
    out.mkdir(exist_ok=True)
    writer = Writer(Target(path), "CPU", {}, as_test=False, out=out)
    cut = lazy.cuts(record)[0]
    (out / "script.py").write_text(lazy.script(writer, cut, record))
    done = subprocess.run([sys.executable, "here/script.py"], capture_output=True, text=True)
    return cut, done.returncode, (done.stderr.splitlines() or [""])[-1]


@pytest.mark.parametrize("code", LINES)
def test_the_graphs_of_a_line_are_those_while_it_is_the_innermost(code: str, program: Path) -> None:
    function, count = LINES[code]
    elsewhere = Frame("other.py", "cut_here", 8, "cut()")
    graphs = [*graphs_of(Frame("a.py", function, 7, code), count), *graphs_of(elsewhere, 2)]
    record = record_of("xla", graphs=len(graphs), graph_list=graphs)
    cut, exit_code, last = run(program, record)
    words = f"AssertionError: graphs that end at a.py:7: {count}, by CompileTime of torch_xla"
    assert (exit_code, last) == (1, words)
    assert lazy.missing(cut, Trial(Record(), error=last)) is None
    assert lazy.missing(cut, Trial(Record())) == "no graph ended there"
    without = re.sub(r"\bcut\b", "int", code)
    program.write_text(re.sub(f"(?m)^( *){re.escape(code)}$", rf"\1{without}", PROGRAM))
    assert run(program, record)[1:] == (0, "")


def test_of_a_recompile_the_first_graph_of_the_line_may_stay(program: Path) -> None:
    where = Frame("a.py", "<module>", 33, "print([cut() for n in range(3)])")
    graphs = [*graphs_of(where, 2, "recompile"), *graphs_of(where, 1, "sync")]
    record = record_of("xla", graphs=3, graph_list=graphs)
    first, second = lazy.cuts(record)
    assert (first.item.reason, first.item.count, first.graphs, first.most) == (
        *("recompile: value read", 2, 3, 1),
    )
    assert (second.item.reason, second.item.count, second.most) == ("sync: value read", 1, 0)
    assert run(program, record)[1] == 1
    assert "assert line.graphs <= 1, " in Path("here/script.py").read_text()
    program.write_text(PROGRAM.replace("import cut\n", "import cut as cuts\n\ncut = int\n"))
    assert run(program, record)[1:] == (0, "")


def test_what_has_no_script() -> None:
    where = Frame("a.py", "f", 7, "y.item()")
    one_graph = record_of("xla", graphs=1, graph_list=graphs_of(where, 1, "sync"))
    assert lazy.cuts(one_graph) == []
    assert lazy.cuts(record_of("xla", graphs=2, graph_list=graphs_of(NOWHERE, 2))) == []
    break_ = Break("dynamo", "Tensor.item()", where)
    compiled = Graph("xla", "9", "recompile", where=where, sources=("0/0",))
    split = Graph("xla", "10", "split", where=NOWHERE)
    graphs = [*graphs_of(where, 2), compiled, split]
    assert lazy.cuts(record_of("xla", graphs=4, graph_list=graphs, breaks=(break_,))) == []
