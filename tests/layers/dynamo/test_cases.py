"""Every case of ``cases/dynamo.py`` has its true counts: alone, and in any order."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cases.dynamo import CASES, Case  # noqa: E402
from pytest_graphbreak.model.layers import CAUSES  # noqa: E402
from pytest_graphbreak.model.record import Record  # noqa: E402
from tests.examples import sample  # noqa: E402
from tests.layers.dynamo.tools import (  # noqa: E402, F401
    HERE,
    MINOR,
    _quiet,
    counts,
    watch,
    window,
)

ROOT = Path(__file__).parents[3]
FORKING = [case for case in HERE if case.forks][MINOR[1] // 2 % 2 :: 2]
"""Every other case, the others on the next version of torch: a process each takes its time."""


ON_PUSH = HERE[::4] if find_spec("torch_xla") else HERE
"""What torch_xla changes of Dynamo, it changes for each case: a push has each fourth with it."""


def compile(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="eager", **options)


@pytest.mark.parametrize("case", sample(HERE, ON_PUSH), ids=lambda case: case.name)
def test_counts(case: Case) -> None:
    seen = watch(case, compile)
    assert seen.errors == ()
    assert counts(seen) == case.expected(torch.__version__)
    _is_whole(seen)


def _is_whole(seen: Record) -> None:
    """What holds for every record."""
    assert seen.layers == ("dynamo",)
    assert seen.is_explained("dynamo")
    assert len({graph.name for graph in seen.graph_list}) == len(seen.graph_list)
    assert len(seen.recompile_list) == seen.recompiles.get("dynamo", 0)
    assert seen.frames.compiled <= seen.frames.attempted
    for graph in seen.graph_list:
        assert graph.cause in CAUSES["dynamo"]
        assert graph.cached is None  # nothing is compiled below, and no cache was asked
        assert graph.ops or sys.version_info < (3, 11)  # there, Dynamo hands over an empty one
        assert graph.where.line, graph
        assert graph.where.code, graph
        assert bool(graph.reason) == (graph.cause != "entry"), graph
    for item in (*seen.breaks, *seen.eager):
        assert item.reason
        assert item.where.code, item
        assert not item.where.file.startswith("/")
    for item in seen.breaks:
        assert item.stack[-1] == item.where
        assert all("torch_dynamo_resume_in" not in frame.function for frame in item.stack)
        for text in (item.reason, item.explanation, *item.hints):
            assert "0x" not in text
            assert "\n" not in text
            assert "/site-packages/" not in text
            assert str(ROOT) not in text


@pytest.mark.parametrize("name", ["ddp_buckets", "ddp_buckets_recompiled"])
def test_ddp_cuts_one_graph_into_buckets(name: str) -> None:
    graphs = watch(CASES[name], compile).graph_list
    whole = ["entry", "bucket", "bucket", "bucket"]
    again = ["recompile", *whole[1:]] if name == "ddp_buckets_recompiled" else []
    assert [graph.cause for graph in graphs] == whole + again
    assert [graph.name for graph in graphs[:4]] == ["0/0", "0/0+1", "0/0+2", "0/0+3"]
    for number, graph in enumerate(graphs):
        assert graph.ops == 2
        assert graph.where.function == "Wide.forward"
        if graph.cause == "bucket":
            assert graph.sources == (f"0/{number // 4}",)
            assert graph.reason == f"DDP cut graph 0/{number // 4} into 4 gradient buckets"


@pytest.mark.once
@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.nightly)])
def test_order_changes_nothing(step: int) -> None:
    """Every sixth case; `tox -e exact` runs all of them, in twenty orders."""
    order = HERE[::step]
    random.Random(1).shuffle(order)
    wrong = {}
    for case in order:
        seen = watch(case, compile)
        if seen.errors or counts(seen) != case.expected(torch.__version__):
            wrong[case.name] = (counts(seen), seen.errors)
    assert wrong == {}


def uncleared(case: Case) -> list[Any]:
    """The counts of a case and its errors; nothing is reset for it."""
    with window() as seen:
        case.run(compile)
    return [*counts(seen[0]), *seen[0].errors]


ALONE = """
import gc, logging, sys, warnings
import torch
from tests.layers.alone import run_alone
from tests.layers.dynamo import test_cases as here

here.compile(torch.sin)(torch.ones(2))  # imports what every child would import again
torch._dynamo.reset()
logging.getLogger("torch").setLevel(logging.ERROR)
warnings.simplefilter("ignore")
gc.freeze()  # a collection in a fork would write to every page, and so copy it
run_alone(here.FORKING[:: int(sys.argv[1])], here.uncleared)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each case runs in a forked process")
@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.nightly)])
def test_alone_in_a_process(step: int) -> None:
    """No case ran before, and nothing was reset for it."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(step)],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},  # CUDA does not survive a fork
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(map(json.loads, done.stdout.splitlines()))
    assert found == {case.name: list(case.expected(torch.__version__)) for case in FORKING[::step]}
