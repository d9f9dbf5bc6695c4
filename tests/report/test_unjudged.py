"""What is observed without a judgement: the most important first, by the models of a program."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pytest_graphbreak.config.typed import this_command
from pytest_graphbreak.judging.finding import NamedPlace
from pytest_graphbreak.judging.findings import findings_of_record
from pytest_graphbreak.model.items import Break, Frame, Graph, Recompile
from pytest_graphbreak.model.json import entry_json
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.unjudged import found_lines, homes_of, script_lines, unjudged_lines
from tests.reports import a_break, a_graph, a_test, as_tests, place

pytestmark = pytest.mark.pure

OFTEN = Break("dynamo", "often", Frame("a.py", "f", 1), count=9, seconds=0.9)
LONG = Break("dynamo", "long", Frame("a.py", "f", 2), count=2, seconds=42.0, owner="UNet")
NOBODY_KNOWS = Break("dynamo", "unknown", Frame("a.py", "f", 3), count=5)


def reasons(*breaks: Break) -> list[str]:
    return [item.reason for item in findings_of_record(Record(("dynamo",), breaks=breaks))]


def test_what_took_longest_comes_first() -> None:
    assert reasons(OFTEN, NOBODY_KNOWS, LONG) == ["long", "often", "unknown"]


def test_below_a_second_and_without_times_frequency_decides() -> None:
    assert reasons(NOBODY_KNOWS, OFTEN) == ["often", "unknown"]
    short = Break("dynamo", "short", Frame("a.py", "f", 4), seconds=0.95)
    assert reasons(short, OFTEN) == ["often", "short"]


def test_the_title_says_what_decides() -> None:
    record = Record(("dynamo",), breaks=(OFTEN, LONG))
    assert "  most compile time" in map(str, found_lines(findings_of_record(record)))
    often = Record(("dynamo",), breaks=(OFTEN,))
    assert "  most frequent" in map(str, found_lines(findings_of_record(often)))


def test_the_page_is_named_of_what_has_no_line_of_advice() -> None:
    advised = Break("dynamo", "Tensor.item() call", Frame("a.py", "f", 1, "n = x.item()"))
    branch = replace(advised, where=Frame("a.py", "f", 2, "if x.item():"), through="generator")
    other = Break("dynamo", "unheard of", Frame("a.py", "f", 3), id="GB9999")

    def ends(*breaks: Break) -> list[str]:
        lines = script_lines("a.py", "exit 0", Record(("dynamo",), breaks=breaks))
        return [str(line).strip() for line in lines if "graphbreak" in line.command][:-2]

    (finding,) = findings_of_record(Record(("dynamo",), breaks=(advised,)))
    assert finding.fix
    assert ends(advised) == []
    pages = ["explain it: {} explain branch", "explain it: {} explain GB9999"]
    tool = this_command().graphbreak()
    assert ends(advised, branch, branch, other) == [page.format(tool) for page in pages]


def graph(name: str, owner: str | None, seconds: float | None, **more: object) -> Graph:
    return Graph("dynamo", name, where=Frame("a.py", "f", 1), owner=owner, seconds=seconds)


PIPELINE = (graph("0/0", "TextEncoder", 1.5), graph("1/0", "UNet", 20), graph("2/0", "UNet", 3.25))


def test_graphs_are_listed_by_model() -> None:
    record = Record(("dynamo",), {"dynamo": 3}, graph_list=PIPELINE, breaks=(LONG,))
    titles = ["TextEncoder: 1 dynamo graph, 1.5 s", "UNet: 2 dynamo graphs, 23.2 s"]
    assert list(homes_of(record, "dynamo")) == titles
    said = "\n".join(line.text for line in script_lines("a.py", "exit 0", record))
    assert all(title in said for title in titles)


def test_a_device_graph_is_of_the_model_of_its_fx_graph_and_one_model_needs_no_name() -> None:
    lowered = [Graph("xla", "1", "fx", sources=(one.name,), where=one.where) for one in PIPELINE]
    record = Record(("dynamo", "xla"), graph_list=(*PIPELINE, *lowered))
    assert list(homes_of(record, "xla")) == ["TextEncoder: 1 xla graph", "UNet: 2 xla graphs"]
    one_model = Record(("dynamo",), graph_list=PIPELINE[1:])
    assert list(homes_of(one_model, "dynamo")) == ["dynamo graphs come from"]


def test_json_leaves_out_what_is_not_known() -> None:
    record = Record(("dynamo",), {"dynamo": 3}, graph_list=PIPELINE, breaks=(NOBODY_KNOWS, LONG))
    plain = entry_json(TestReport("t", "passed", record=record))
    assert not {"seconds", "owner", "raised"} & {*plain["breaks"][0]}
    assert (plain["breaks"][1]["seconds"], plain["breaks"][1]["owner"]) == (42.0, "UNet")
    assert plain["graph_list"][1]["seconds"] == 20


def test_a_lazy_line_that_compiles_again_is_one_entry_with_the_line_that_sets_it() -> None:
    line = Frame("a.py", "f", 3, "f(x, n)")
    origin = Frame("a.py", "f", 1, "x = torch.ones(n)")
    words = "as many inputs and outputs as before, and explicit sync compiles its graph again"
    graphs = [Graph("xla", str(n), "recompile", where=line, reason=words) for n in range(1, 7)]
    recompiles = [Recompile("xla", str(n), words, line, origin=origin) for n in range(1, 7)]
    record = record_of("xla", graphs=6, recompiles=6, graph_list=graphs, recompile_list=recompiles)
    (finding,) = findings_of_record(record)
    assert finding.count == 6
    assert NamedPlace("set in", origin) in finding.places


# Tests of a run without the gate.


def broken(nodeid: str, times: int = 1) -> dict[str, object]:
    graphs = [a_graph("0/0"), *(a_graph(f"{n}/0", "break") for n in range(times))]
    return a_test(nodeid, 1 + times, breaks=[a_break(count=times)], graph_list=graphs)


def test_counts_causes_and_the_reasons_that_most_tests_share() -> None:
    rare = a_break(place(file="net.py", code="print(x)"), id="GB0059", reason="print", count=9)
    tests = [broken("t.py::a"), broken("t.py::b", 2), a_test("t.py::c", 2, breaks=[rare])]
    lines = [*map(str, unjudged_lines(as_tests(*tests)))]
    assert lines[:2] == [
        "not judged: what 3 tests made, by cause",
        "  dynamo   7 graphs = 3 entries + 4 after a break; 2 graph breaks, 0 recompiles",
    ]
    shared, rare = [line for line in lines if "x  " in line]
    assert shared.startswith("       3x  graph break  GB0124")
    assert shared.endswith("   in 2 tests")
    assert rare == "       9x  graph break  GB0059  print   in 1 test"


def test_what_was_judged_is_not_looked_at() -> None:
    judged = [
        a_test("t.py::ok", 3, verdict="ok"),
        a_test("t.py::ungated", 3, ungated="being fixed"),
        a_test("t.py::failed", 3, outcome="failed", failed_by="test"),
        a_test("t.py::nothing", 0),
    ]
    assert list(unjudged_lines(as_tests(*judged))) == []
