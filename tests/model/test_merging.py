"""What was added to a growing record: each layer and each process goes on with its own items."""

from __future__ import annotations

from pytest_graphbreak.model.items import Break, Graph, Recompile
from pytest_graphbreak.model.merging import added_since, merge, of_process
from pytest_graphbreak.model.record import Record


def a_record(layer: str, *names: str) -> Record:
    return Record(
        layers=(layer,),
        graphs={layer: len(names)},
        recompiles={layer: len(names)},
        recompile_list=tuple(Recompile(layer, name) for name in names),
        graph_list=tuple(Graph(layer, name, cause="recompile") for name in names),
    )


def test_an_upper_layer_goes_on_before_the_items_of_a_lower_one() -> None:
    before = merge((a_record("dynamo", "0/1"), a_record("triton", "kernel")))
    after = merge((a_record("dynamo", "0/1", "0/2"), a_record("triton", "kernel")))
    added = added_since(after, before)
    assert [item.graph for item in added.recompile_list] == ["0/2"]
    assert [graph.name for graph in added.graph_list] == ["0/2"]


def test_this_process_goes_on_before_the_items_of_a_child() -> None:
    child = of_process(a_record("dynamo", "7/1"), "worker")
    before = merge((a_record("dynamo", "0/1"), child))
    added = added_since(merge((a_record("dynamo", "0/1", "0/2"), child)), before)
    assert [item.graph for item in added.recompile_list] == ["0/2"]
    assert [graph.name for graph in added.graph_list] == ["0/2"]


def test_the_time_of_what_was_added_is_its_own() -> None:
    before = Record(breaks=(Break("dynamo", "r", count=1, seconds=2.0),))
    after = Record(breaks=(Break("dynamo", "r", count=3, seconds=5.0),))
    (graph_break,) = added_since(after, before).breaks
    assert (graph_break.count, graph_break.seconds) == (2, 3.0)
