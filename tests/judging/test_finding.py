"""A finding: what happened at one place, made once, and the same for every test that has it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pytest_graphbreak.judging.difference import observed_changes
from pytest_graphbreak.judging.finding import (
    GONE,
    NEW,
    SEEN,
    Finding,
    NamedPlace,
    distinct_findings,
)
from pytest_graphbreak.judging.findings import findings_of_changes, findings_of_record
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.items import Break, Frame, Graph, LineRuns
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.record import Record

pytestmark = pytest.mark.pure

TEST = Frame("test_net.py", "test_it", 9, "f(x)")
HEAD = Frame("net.py", "Head.forward", 40, "print(x)")
PRINT = Break("dynamo", "Failed to trace builtin operator", HEAD, "GB0059", stack=(TEST, HEAD))


def of(record: Record) -> list[Finding]:
    return findings_of_changes(observed_changes(record), record)


def test_a_break_names_its_place_and_the_calls_that_led_there() -> None:
    (finding,) = of(record_of("dynamo", breaks=(replace(PRINT, process="7"),)))
    assert (finding.sign, finding.kind, finding.id) == ("+", "break", "GB0059")
    assert finding.title == "GB0059  Failed to trace builtin operator"
    assert (finding.stack, finding.calls) == ((TEST, HEAD), (TEST,))
    assert finding.circumstances == "in process 7"


def test_a_disabled_function_is_shown_where_it_is_defined_and_called() -> None:
    definition = Frame("net.py", "log", 3, "@torch.compiler.disable")
    item = Break("dynamo", "disabled", HEAD, stack=(TEST, HEAD), disabled=definition)
    (finding,) = of(record_of("dynamo", breaks=(item,)))
    assert finding.places == (NamedPlace("", definition),)
    assert finding.calls == (TEST, HEAD)
    assert finding.generalize().calls == (HEAD,)


def test_findings_of_tests_are_one_with_all_of_their_tests() -> None:
    first = Finding("+", "break", "dynamo", "print", where=HEAD, growth=2)
    other = replace(first, where=TEST)
    named = [("a", first), ("b", replace(first, growth=1)), ("b", other)]
    both, alone = distinct_findings(named, lambda finding: finding.key)
    assert (both.tests, both.growth, both.count) == (("a", "b"), 3, 2)
    assert alone.tests == ("b",)
    assert both.generalize_if_shared().stack == first.generalize().stack


def test_what_no_place_has_is_known_by_its_kind_and_reason() -> None:
    assert Finding("-", "other", reason="no baseline").place_key == ("other", "no baseline")


@pytest.mark.parametrize("kind", ["entry", "unreached"])
def test_a_function_that_is_lost_is_known_by_its_name(kind: str) -> None:
    known = Frame("models/head.py", "dec", code="def dec(x):")
    lost = Finding(GONE, kind, "dynamo", where=known)
    assert lost.place_key == replace(lost, where=replace(known, code="")).place_key
    added = replace(lost, sign=NEW)
    assert added.place_key == known.key


def test_without_a_judgement_graphs_of_the_deepest_layer_are_findings() -> None:
    graphs = [
        Graph("xla", "1", "fx", where=HEAD),
        Graph("xla", "2", "backward", where=HEAD),
        Graph("xla", "3", "split", where=HEAD, reason="aten::histc runs on the CPU"),
    ]
    (finding,) = findings_of_record(record_of("xla", graphs=3, graph_list=graphs))
    assert (finding.sign, finding.kind, finding.count) == (SEEN, "split", 1)
    assert finding.title == "split   aten::histc runs on the CPU"


def test_without_a_judgement_programs_of_jax_outside_of_functions_are_findings() -> None:
    graphs = [Graph("jax", "f", "jit", where=HEAD), Graph("jax", "add", "eager", where=HEAD)]
    (finding,) = findings_of_record(record_of("jax", graphs=2, graph_list=graphs))
    assert finding.kind == "eager"


def test_runs_say_what_asked() -> None:
    line = LineRuns("xla", "sync", count=3, where=HEAD)
    record = record_of("xla", execution_list=(line,))
    change = Difference("execution", "xla", cause="sync", where=HEAD, after=3, items=(0,))
    (finding,) = findings_of_changes((change,), record)
    assert finding.title == "3 executions in all: torch_xla.sync()"
    assert finding.fix == ()
