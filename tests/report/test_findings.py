"""Findings: the most important first, by the models of a program."""

from __future__ import annotations

import pytest

from pytest_graphbreak.model.json import entry_json
from pytest_graphbreak.model.record import Break, Frame, Graph, Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.findings import homes_of, observed, order
from pytest_graphbreak.report.logs import script_lines, script_markdown

pytestmark = pytest.mark.pure

OFTEN = Break("dynamo", "often", Frame("a.py", "f", 1), count=9, seconds=0.9)
LONG = Break("dynamo", "long", Frame("a.py", "f", 2), count=2, seconds=42.0, owner="UNet")
NOBODY_KNOWS = Break("dynamo", "unknown", Frame("a.py", "f", 3), count=5)


def reasons(*breaks: Break) -> list[str]:
    return [item.reason for item in observed(Record(("dynamo",), breaks=breaks))]


def test_what_took_longest_comes_first() -> None:
    assert reasons(OFTEN, NOBODY_KNOWS, LONG) == ["long", "often", "unknown"]


def test_below_a_second_and_without_times_frequency_decides() -> None:
    assert reasons(NOBODY_KNOWS, OFTEN) == ["often", "unknown"]
    short = Break("dynamo", "short", Frame("a.py", "f", 4), seconds=0.95)
    assert reasons(short, OFTEN) == ["often", "short"]


def test_the_title_says_what_decides() -> None:
    record = Record(("dynamo",), breaks=(OFTEN, LONG))
    assert order(observed(record)) == "most compile time"
    assert order(observed(Record(("dynamo",), breaks=(OFTEN,)))) == "most frequent"


def graph(name: str, owner: str | None, seconds: float | None, **more: object) -> Graph:
    return Graph("dynamo", name, where=Frame("a.py", "f", 1), owner=owner, seconds=seconds)


PIPELINE = (graph("0/0", "TextEncoder", 1.5), graph("1/0", "UNet", 20), graph("2/0", "UNet", 3.25))


def test_graphs_are_listed_by_model() -> None:
    record = Record(("dynamo",), {"dynamo": 3}, graph_list=PIPELINE, breaks=(LONG,))
    titles = ["TextEncoder: 1 dynamo graph, 1.5 s", "UNet: 2 dynamo graphs, 23.2 s"]
    assert list(homes_of(record, "dynamo")) == titles
    said = "\n".join(line.text for line in script_lines("a.py", "exit 0", record))
    assert all(title in said for title in titles)


def test_a_device_graph_is_of_the_model_of_its_fx_graph() -> None:
    lowered = tuple(
        Graph("xla", f"{number}", "fx", sources=(one.name,), where=one.where)
        for number, one in enumerate(PIPELINE)
    )
    record = Record(("dynamo", "xla"), graph_list=(*PIPELINE, *lowered))
    assert list(homes_of(record, "xla")) == ["TextEncoder: 1 xla graph", "UNet: 2 xla graphs"]


def test_one_model_needs_no_name() -> None:
    record = Record(("dynamo",), graph_list=PIPELINE[1:])
    assert list(homes_of(record, "dynamo")) == ["dynamo graphs come from"]


def test_markdown_has_time_model_and_the_line_of_torch() -> None:
    raised = Frame("torch/_dynamo/variables/tensor.py", "method_item", 7)
    item = Break("dynamo", "why", Frame("a.py", "f", 2), seconds=42.0, owner="VAE", raised=raised)
    text = script_markdown("a.py", "exit 0", Record(("dynamo",), {"dynamo": 2}, breaks=(item,)))
    assert "### Most compile time" in text
    assert "**1x graph break**, 42.0 s" in text
    assert "VAE" in text
    assert "variables/tensor.py:7" in text


def test_json_leaves_out_what_is_not_known() -> None:
    record = Record(("dynamo",), {"dynamo": 3}, graph_list=PIPELINE, breaks=(NOBODY_KNOWS, LONG))
    plain = entry_json(TestReport("t", "passed", record=record))
    assert "seconds" not in plain["breaks"][0]
    assert "owner" not in plain["breaks"][0]
    assert "raised" not in plain["breaks"][0]
    assert (plain["breaks"][1]["seconds"], plain["breaks"][1]["owner"]) == (42.0, "UNet")
    assert plain["graph_list"][1]["seconds"] == 20
