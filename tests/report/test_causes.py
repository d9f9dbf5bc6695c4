"""Why a test is red, cause by cause: long lists are counted, what follows is below."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pytest_graphbreak.judging.difference import observed_changes
from pytest_graphbreak.judging.findings import findings_of_changes
from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.record import (
    Break,
    Eager,
    Frame,
    Graph,
    Recompile,
    Record,
)
from pytest_graphbreak.report import text
from pytest_graphbreak.report.footer import SourceLines
from pytest_graphbreak.report.lines import lines
from tests.changes import total

pytestmark = pytest.mark.pure

HERE = Frame("net.py", "Net.forward", 18, "return self.body(x)")
BODY = Frame("net.py", "Body.forward", 30, "x = self.head(x)")
HEAD = Frame("net.py", "Head.forward", 40, "print(x)")
PRINT = Break("dynamo", "Failed to trace builtin operator", HEAD, "GB0059")


def graphs(number: int) -> tuple[Graph, ...]:
    return tuple(Graph("dynamo", f"{index}/0", "entry", 5, where=HERE) for index in range(number))


def lost(*changes: Difference) -> Verdict:
    return Verdict("lost", (total("ops", before=40, after=10), *changes))


def of(record: Record) -> list[str]:
    """The lines of what stands for itself in a record."""
    found = findings_of_changes(observed_changes(record), record)
    return [str(line) for one in found for line in lines(one)]


def test_each_graph_says_what_is_left_of_all() -> None:
    shown = [*map(str, text.shrunk(lost(), Record(layers=("dynamo",), graph_list=graphs(2))))]
    assert shown[0] == "  - dynamo graph 0/0 has 5 of the 10 operations that are left"


def test_of_many_graphs_the_first_are_reported() -> None:
    shown = [*map(str, text.shrunk(lost(), Record(layers=("dynamo",), graph_list=graphs(15))))]
    assert "  ... and 3 more graphs (the JSON report has them all)" in shown
    assert sum("operations that are left" in line for line in shown) == text.MOST_PLACES


def test_nothing_is_to_be_looked_for_where_a_break_says_it() -> None:
    one = Record(layers=("dynamo",), graph_list=graphs(1))
    assert "fix: code that was compiled before" in " ".join(map(str, text.shrunk(lost(), one)))
    broken = lost(Difference("break", "dynamo", where=HEAD, before=0, after=1))
    assert "fix:" not in " ".join(map(str, text.shrunk(broken, one)))


class Defined(SourceLines):
    """Source lines of a checkout in which each function begins at line 7."""

    def definition_of(self, function: Frame) -> Frame:
        return Frame(function.file, function.function, 7, "def forward(self, x):")


def test_an_entry_that_is_gone_is_shown_where_it_is_defined_with_what_runs_in_its_place() -> None:
    gone = Difference("graph", "dynamo", cause="entry", where=Frame("net.py", "f"), before=1)
    lazy = Difference("graph", "xla", cause="sync", where=HERE, reason="a sync", after=1, parent=0)
    record = Record(graph_list=(Graph("xla", "1", "sync", where=HERE),))
    verdict = Verdict("lost", (gone, replace(lazy, items=(0,))))
    assert [*map(str, text.places(verdict, record, Defined()))] == [
        "  - entry   no longer compiled",
        "      net.py:7 in f",
        "          def forward(self, x):",
        "      and because of it:",
        "        net.py:18 in Net.forward is a graph more: a sync",
    ]


def test_of_many_places_the_first_are_reported() -> None:
    many = tuple(
        Break("dynamo", "why", Frame("net.py", f"f{number}", number, "print()"))
        for number in range(1, 15)
    )
    record = Record(layers=("dynamo",), breaks=many)
    shown = [*map(str, text.places(Verdict("new", observed_changes(record)), record))]
    assert shown[-1] == "  ... and 2 more places (the JSON report has them all)"


def test_a_break_that_is_reworded_names_both() -> None:
    change = Difference(
        "break", "dynamo", where=HEAD, reason=PRINT.reason, id=PRINT.id, was="GB0001"
    )
    known = Verdict("changed", (replace(change, before=1, after=1, items=(0,)),))
    shown = [*map(str, text.places(known, Record(breaks=(PRINT,))))]
    assert shown[0] == "  ~ GB0001 is now GB0059 Failed to trace builtin operator"
    assert shown[1] == "      net.py:40 in Head.forward"


def test_all_that_fell_with_a_break_stands_below_it() -> None:
    again = [
        Recompile("dynamo", "1/1", "x size mismatch", BODY),
        Recompile("dynamo", "1/2", "self.training changed", BODY),
    ]
    stack = (HERE, BODY, HEAD)
    record = Record(
        layers=("dynamo", "xla"),
        breaks=(
            replace(PRINT, stack=stack),
            Break("dynamo", "Unsupported method call", replace(BODY, line=20), "GB0156"),
        ),
        eager=(Eager("dynamo", "skipped", HERE), Eager("dynamo", "skipped", BODY)),
        recompile_list=tuple(again),
        graph_list=(Graph("xla", "1", "sync", where=HERE, reason="x was pending"),),
    )
    shown = of(record)
    start = shown.index("      and because of it:")
    assert shown[start + 1 :] == [
        "        net.py:20 in Body.forward breaks, too: GB0156  Unsupported method call",
        "        net.py:18 in Net.forward runs without the compiler",
        "        net.py:30 in Body.forward is compiled again (2 times)",
        "        net.py:18 in Net.forward is a graph more: x was pending",
    ]


def test_what_a_caller_compiles_again_stands_with_it() -> None:
    size = "tensor 'x' size mismatch at index 0. expected 3, actual 4 (x has shape [4] now)"
    items = [Recompile("dynamo", "0/1", size, HERE)]
    items += [
        Recompile(
            "dynamo", f"{number}/1", size, Frame("net.py", f"f{number}", number, "def"), (HERE,)
        )
        for number in range(1, 11)
    ]
    record = Record(layers=("dynamo",), recompile_list=tuple(items))
    shown = of(record)
    start = shown.index("      and recompiled with its caller, since x has shape [4] now:")
    assert shown[start + 1] == "        net.py:1 in f1   1/1"
    assert shown[-1] == "        ... and 2 more functions"
    stack = (*(item.where for item in items), HEAD)
    fell = of(replace(record, breaks=(replace(PRINT, stack=stack),)))
    assert "        net.py:10 in f10 is compiled again (once)" in fell


def test_code_that_left_the_compiler_is_reported_with_its_number() -> None:
    record = Record(layers=("dynamo",), eager=(Eager("dynamo", "skipped", HERE, 3),))
    assert of(record)[:2] == [
        "  + eager   skipped",
        "      net.py:18 in Net.forward   3 times",
    ]
