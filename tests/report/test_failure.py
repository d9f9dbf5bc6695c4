"""The words of a red test: the cause once, with all that fell with it; the worst first."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.config.typed import Typed
from pytest_graphbreak.judging.folding import Folding
from pytest_graphbreak.judging.judgement import Case, Judgement
from pytest_graphbreak.judging.verdict import judge
from pytest_graphbreak.model.budget import Values
from pytest_graphbreak.model.items import Break, Eager, Frame, Graph, Recompile
from pytest_graphbreak.model.record import Frames, Record
from pytest_graphbreak.report.failure import Context, add_changed, failure
from pytest_graphbreak.report.lines import calls
from pytest_graphbreak.report.unjudged import describe
from pytest_graphbreak.text.output import TextLine, plain_text
from tests.report.tools import Edited

pytestmark = pytest.mark.pure

CALLS = (
    Frame("tests/test_it.py", "test_it", 5, "model(x)"),
    Frame("net.py", "Net.forward", 20, "return self.bert(x)"),
    Frame("transformers/bert.py", "Bert.forward", 90, "x = self.encoder(x)"),
    Frame("transformers/bert.py", "Encoder.forward", 60, "x = layer(x)"),
    Frame("transformers/bert.py", "Layer.forward", 30, "x = self.attend(x)"),
)
WHERE = Frame("transformers/bert.py", "Layer.attend", 12, 'print("hi")')
PRINT = Break("dynamo", "Failed to trace builtin operator", WHERE, "GB0059", stack=(*CALLS, WHERE))
SKIPPED = Eager(
    "dynamo", PRINT.reason, Frame(WHERE.file, "Encoder.forward", 55, "def forward(self):")
)
LAYER = Frame(WHERE.file, "Layer.forward", 29, "def forward")
AGAIN = Recompile("dynamo", "2/1", "x requires_grad mismatch", LAYER)
ENTRY = Graph("dynamo", "0/0", "entry", where=Frame("net.py", "Net.forward", 18))
BROKEN = Record(
    layers=("dynamo",),
    graphs={"dynamo": 3},
    recompiles={"dynamo": 1},
    frames=Frames(attempted=5),
    breaks=(PRINT,),
    eager=(SKIPPED,),
    recompile_list=(AGAIN,),
    graph_list=(ENTRY,),
)


def red(record: Record, **graphs: int) -> str:
    """The text of a record against a baseline that has these graphs and nothing else."""
    expected = Expected(Values(graphs), "cpu", {"torch": "2.13"}, True, own=frozenset(graphs))
    context = Context(
        "tests/test_it.py::test_it",
        "cpu",
        baseline="baselines/tests/test_it.yaml",
        baseline_line=5,
        typed=Typed(("python", "-m", "pytest")),
        test=Frame("tests/test_it.py", "test_it", 3),
    )
    case = Case(record, expected, versions={"torch": "2.13.0+cpu"})
    verdict = judge(record, expected, versions=case.versions)
    return plain_text(failure(Judgement(case, verdict), context))


def test_the_stack_reaches_the_users_own_lines() -> None:
    """The two nearest calls, and the three outermost: the test and what it calls."""
    frames = [Frame("f.py", "f", line) for line in range(1, 9)]
    assert [str(line).strip() for line in calls(frames)] == [
        "from f.py:8 in f",
        "from f.py:7 in f",
        "... 3 calls between",
        "from f.py:3 in f",
        "from f.py:2 in f",
        "from f.py:1 in f",
    ]


def test_what_fell_for_itself_is_no_consequence() -> None:
    own = Recompile(
        "dynamo", "0/1", "x size mismatch", Frame("net.py", "Net.forward", 18), CALLS[:1]
    )
    limit = Eager("dynamo", "recompile_limit (8) was reached", SKIPPED.where)
    folding = Folding(BROKEN, [PRINT])
    assert (folding.parent_of_eager(limit), folding.parent_of_recompile(own)) == (None, None)
    assert (folding.parent_of_eager(SKIPPED), folding.parent_of_recompile(AGAIN)) == (PRINT, PRINT)


def test_a_test_that_failed_by_itself_is_reported_with_why_code_was_compiled_again() -> None:
    own = Recompile("dynamo", "0/1", "x size mismatch", Frame("net.py", "f", 18, "x + 1"))
    lines = plain_text(describe(replace(BROKEN, recompile_list=(AGAIN, own)))).split("\n")
    at = lines.index("    recompile 0/1   x size mismatch")
    assert lines[at + 1 : at + 3] == ["      net.py:18 in f", "          x + 1"]


def test_a_layer_that_is_gone_names_those_that_are_there() -> None:
    gone = Record(layers=("dynamo", "xla"), graphs={"dynamo": 2}, frames=Frames(1))
    assert red(gone, dynamo=1, xla=1).startswith(
        "graph budget: no xla graph any more, the baseline has 1 (2 dynamo graphs still)\n"
    )


def test_where_nothing_broke_the_test_itself_is_the_place() -> None:
    loaded = Record(layers=("jax",), notes=("jax: compiled 0, loaded 1",))
    shown = red(loaded, jax=1)
    assert "  - nothing was compiled\n      jax: compiled 0, loaded 1\n      tests/" in shown
    assert "1 function looked at" in red(Record(layers=("dynamo",), frames=Frames(1)), dynamo=1)


def test_a_sync_of_the_caller_fell_with_the_break_that_left_work_pending() -> None:
    called = Graph("xla", "1", "sync", where=Frame("tests/test_it.py", "test_it", 9))
    inside = Graph("xla", "2", "sync", where=Frame(WHERE.file, "Encoder.forward", 60))
    folding = Folding(BROKEN, [PRINT])
    assert (folding.parent_of_graph(inside), folding.parent_of_graph(called)) == (None, PRINT)
    assert Folding(BROKEN, []).parent_of_graph(called) is None


def test_code_that_was_traced_before_fell_with_the_break() -> None:
    above, below = (
        Break("dynamo", "Unsupported", Frame(WHERE.file, "Encoder.forward", line, "keys"))
        for line in (57, 61)
    )
    folding = Folding(BROKEN, [PRINT, above, below])
    assert [folding.parent_of_break(one) for one in (PRINT, above, below)] == [None, PRINT, None]
    first = Folding(BROKEN, [above, PRINT])
    assert [first.parent_of_break(one) for one in (above, PRINT)] == [None, None]


def test_what_waited_for_a_function_that_broke_off_fell_with_the_break() -> None:
    graphs = (ENTRY, Graph("dynamo", "2/0", "callee", where=AGAIN.where))
    waited, own = (
        Graph("xla", "5", "pending", sources=(name,), where=AGAIN.where, reason="x was pending")
        for name in ("2/0", "0/0")
    )
    folding = Folding(replace(BROKEN, graph_list=graphs), [PRINT])
    assert (folding.parent_of_graph(own), folding.parent_of_graph(waited)) == (None, PRINT)


LOST = TextLine("net.py:3 in f is no longer reached", "lost", 2, "- ")
GONE = TextLine("entry   gone", "gone", 2, "- ")
NEW = TextLine("recompile 0/1", "new", 2, "+ ")
PLACE = TextLine("net.py:4 in f", indent=6)
CHANGED = [
    "      changed since the baseline (abc1234): data.py:31 in batches",
    "          yield x[:3]",
]


@pytest.mark.parametrize(
    ("entries", "shown"),
    [
        ([[GONE], [LOST, PLACE]], [GONE, LOST, *CHANGED, PLACE]),
        ([[NEW, PLACE], [NEW]], [NEW, PLACE, *CHANGED, NEW]),
        ([[LOST], [NEW, PLACE]], [LOST, NEW, PLACE, *CHANGED]),
        ([[GONE, PLACE]], [GONE, PLACE]),
        (
            [[NEW, replace(PLACE, text="data.py:31 in batches")]],
            [NEW, "      data.py:31 in batches"],
        ),
    ],
)
def test_changed_lines_end_the_first_new_entry_and_begin_a_loss(
    entries: list[list[TextLine]], shown: list[object]
) -> None:
    entries = [[*entry] for entry in entries]
    add_changed(entries, [], Edited(Frame("data.py", "batches", 31, "yield x[:3]")))
    assert [str(line) for entry in entries for line in entry] == [*map(str, shown)]
