"""Why a test is red, cause by cause: long lists are counted, what follows is below."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pytest_graphbreak.judging.difference import observed_changes
from pytest_graphbreak.judging.findings import findings_of_changes, losses
from pytest_graphbreak.judging.judgement import Case, Judgement
from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.items import Break, Eager, Frame, Graph, Recompile
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report import failure as text
from pytest_graphbreak.report.checkout import CheckoutLines
from pytest_graphbreak.report.failure import Context
from pytest_graphbreak.report.lines import lines
from pytest_graphbreak.report.root_causes import root_causes
from pytest_graphbreak.text.output import BLANK
from tests.changes import total
from tests.report.tools import Edited

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


def shown(verdict: Verdict, record: Record, source: CheckoutLines | None = None) -> list[str]:
    """What a failure says between its headline and its counts."""
    lines = text.failure(Judgement(Case(record), verdict), Context("t.py::t", "cpu", source=source))
    return [str(line) for line in lines[2 : lines.index(BLANK, 2)]]


def test_a_loss_is_of_the_function_that_holds_less_if_it_is_the_only_one() -> None:
    alone = Record(layers=("dynamo",), graph_list=graphs(1))
    look_for = (
        "      fix: look for a moved torch.compile, disable, force_eager, a caught error, "
        "or deleted operations"
    )
    place = "      net.py:18 in Net.forward"
    assert shown(lost(), alone) == ["  - less of it is compiled", place, look_for]
    several = replace(
        alone, graph_list=(*graphs(1), Graph("dynamo", "1/0", "entry", 5, where=BODY))
    )
    assert shown(lost(), several) == ["  - fewer operations are captured", look_for]


def test_a_loss_that_a_break_explains_is_none() -> None:
    broken = lost(Difference("break", "dynamo", where=HEAD, before=0, after=1))
    assert losses(broken, Record(layers=("dynamo",), graph_list=graphs(1))) == []


EDITED = Edited(replace(BODY, line=2), HEAD)


def test_what_is_compiled_no_more_is_the_place_and_not_what_is_compiled_in_its_stead() -> None:
    """``compile(model)`` became ``compile(model.body)``."""
    gone = [
        Difference("graph", "dynamo", cause="entry", where=Frame("net.py", name), before=1)
        for name in ("f", "g")
    ]
    new = Difference("graph", "dynamo", cause="entry", where=BODY, after=1, items=(0,))
    record = Record(graph_list=(Graph("dynamo", "0/0", "entry", 1, where=BODY),))
    verdict = lost(*gone, new)
    cause = shown(verdict, record, EDITED)
    assert cause[0] == "  - entry   no longer compiled"
    assert cause[3:-1] == ["      net.py:7 in f", "      and 1 other: g"]
    test = TestReport("t", "failed", "gate", verdict="lost", record=record, changes=verdict.changes)
    causes = root_causes([("t", test)])
    assert [cause.where.function for cause in causes.findings] == ["f", "g"]


def test_the_changed_line_comes_first_and_a_loss_has_six_lines_at_most() -> None:
    record = Record(layers=("dynamo",), graph_list=graphs(1)).with_notes("a stance is set")
    cause = shown(lost(), record, EDITED)
    assert cause[0] == "  - less of it is compiled"
    assert cause[1] == "      changed since the baseline (abc1234): net.py:2 in Body.forward"
    assert len(cause) == 6


def test_of_many_places_the_first_are_reported() -> None:
    many = tuple(
        Break("dynamo", "why", Frame("net.py", f"f{number}", number, "print()"))
        for number in range(1, 15)
    )
    record = Record(layers=("dynamo",), breaks=many)
    cause = shown(Verdict("new", observed_changes(record)), record)
    assert cause[-1] == "  ... and 2 more places (the JSON report has them all)"


def test_a_break_that_is_reworded_names_both() -> None:
    change = Difference(
        "break", "dynamo", where=HEAD, reason=PRINT.reason, id=PRINT.id, was="GB0001"
    )
    known = Verdict("changed", (replace(change, before=1, after=1, items=(0,)),))
    cause = shown(known, Record(breaks=(PRINT,)))
    assert cause[0] == "  ~ GB0001 is now GB0059 Failed to trace builtin operator"
    assert cause[1] == "      net.py:40 in Head.forward"


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
