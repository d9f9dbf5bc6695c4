"""Every case of ``cases/jax_cases.py`` has its true counts, causes and lines, in any order."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")

from cases.jax_cases import CASES, MINOR, Case
from pytest_graphbreak.layers.jax.device import VARIABLE
from pytest_graphbreak.model.items import Graph
from pytest_graphbreak.model.layers import CAUSES
from pytest_graphbreak.model.record import Record
from tests.layers.jax.tools import watched

pytestmark = pytest.mark.jax

ROOT = Path(__file__).parents[3]
HERE = list(CASES.values())


def programs(seen: Record) -> int:
    return seen.graphs.get("jax", 0)


@pytest.fixture(autouse=True)
def _first_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the four virtual devices the first is the one to count for, the others are not counted."""
    monkeypatch.setenv(VARIABLE, "cpu:0")


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    import logging

    level = logging.getLogger("jax").level
    logging.getLogger("jax").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("jax").setLevel(level)


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    seen = watched(case.run)
    assert seen.errors == ()
    assert programs(seen) == case.programs
    here = [why for why in case.why if not why.host]
    expected = Counter[tuple[str, str]]()
    for why in here:
        expected[why.cause, why.code] += why.count
    graphs = seen.graph_list
    assert Counter((graph.cause, _line(graph)) for graph in graphs) == expected
    _is_whole(seen)
    for why in here:
        reasons = [
            graph.reason for graph in graphs if (graph.cause, _line(graph)) == (why.cause, why.code)
        ]
        assert all(why.reason in reason for reason in reasons), (why.reason, reasons)


def _line(graph: Graph) -> str:
    """The line of the case; the place itself may be in a library that the case calls."""
    return next(frame.code for frame in reversed(graph.stack) if frame.file == "cases/jax_cases.py")


def _is_whole(seen: Record) -> None:
    """What holds for every record."""
    (layer,) = seen.layers
    assert seen.is_explained(layer)
    assert len({graph.name for graph in seen.graph_list}) == len(seen.graph_list)
    again = [graph for graph in seen.graph_list if graph.cause == "retrace"]
    assert len(again) == seen.recompiles.get(layer, 0) == len(seen.recompile_list)
    for graph in seen.graph_list:
        assert graph.cause in CAUSES[layer]
        assert graph.where.line, graph
        assert graph.stack[-1] == graph.where
        if graph.cause == "retrace":
            assert graph.reason, graph
        _is_clean(graph)


def _is_clean(graph: Graph) -> None:
    """No address, which differs in each run, and no path of this machine."""
    for text in (graph.reason, graph.name):
        assert "0x" not in text
        assert "\n" not in text
        assert "/site-packages/" not in text
        assert str(ROOT) not in text


def test_order_changes_nothing() -> None:
    """Every fourth case; `tox -e exact` runs all of them, in twenty orders."""
    order = HERE[::4]
    random.Random(1).shuffle(order)
    wrong = {}
    for case in order:
        seen = watched(case.run)
        if seen.errors or programs(seen) != case.programs:
            wrong[case.name] = (programs(seen), seen.errors)
    assert wrong == {}


def uncleared(case: Case) -> list[Any]:
    """The programs of a case and its errors; no cache is cleared for it."""
    seen = watched(case.run, cold=False)
    return [programs(seen), *seen.errors]


ALONE = """
import sys
from tests.layers.alone import run_alone
from tests.layers.jax import test_cases as here

run_alone(here.HERE[int(sys.argv[1])::8], here.uncleared)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each case runs in a forked process")
def test_alone_in_a_process() -> None:
    """No case ran before, and nothing was cleared for it; every eighth, others on another jax."""
    first = (MINOR[1] + 3) % 8
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(first)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {VARIABLE: "cpu:0"},
    )
    found: dict[str, Any] = dict(json.loads(line) for line in done.stdout.splitlines())
    assert found == {case.name: [case.programs] for case in HERE[first::8]}
