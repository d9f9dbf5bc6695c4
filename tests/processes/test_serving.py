"""The engine of docs/how-to/serving.md: what its blocks say is what the worker itself knows."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Suite
from tests.docs.tools import ROOT, write_files

pytest.importorskip("torch")

PAGE = ROOT / "docs" / "how-to" / "serving.md"

WITNESS = """
from torch._dynamo.utils import counters

from serving.worker import Worker


class Witness(Worker):
    def __init__(self, device):
        if device == "xla":
            import torch_xla
        super().__init__(device)
        counters.clear()

    def compiled_graphs(self):
        '''By Dynamo's own counter, and by torch_xla's.'''
        if self.device != "xla":
            return counters["stats"]["unique_graphs"], 0
        import torch_xla.debug.metrics as metrics

        device = metrics.metric_data("CompileTime")
        return counters["stats"]["unique_graphs"], device[0] if device else 0

    def unpadded(self, prompts):
        import serving.worker as buckets

        buckets.LENGTHS = (*range(1, 33),)
        return self.step(prompts)
"""

TESTS = """
import pytest

from serving.engine import Engine, EngineDied
from serving.traffic import traffic
from serving.witness import Witness


@pytest.fixture(scope="module")
def engine():
    engine = Engine({device!r}, worker=Witness, method="spawn")
    yield engine
    engine.close()


def graphs(record):
    return record.graphs.get("dynamo", 0), record.graphs.get("xla", 0)


def test_the_counts_are_those_of_the_worker(engine, graph_budget):
    with graph_budget() as warm:
        engine.warm_up()
    assert graphs(warm.record) == engine._ask("compiled_graphs")
    assert warm.record.graphs["dynamo"] == 6
    for seed in range(3):
        with graph_budget(max_graphs=0) as steady:
            for prompts, temperature in traffic(seed, requests=67):
                engine.generate(prompts, temperature, tokens=1)
        assert graphs(steady.record) == (0, 0)
    assert graphs(warm.record) == engine._ask("compiled_graphs")


def test_each_request_has_its_own(engine, graph_budget):
    before = engine._ask("compiled_graphs")
    counts = []
    with graph_budget() as seen:
        for number in range(2):
            with graph_budget() as one:
                engine._ask("unpadded", [[1] * (17 + number)])
            counts.append(graphs(one.record))
            engine.generate([[1] * 17], tokens=1)
    after = engine._ask("compiled_graphs")
    assert graphs(seen.record) == tuple(b - a for a, b in zip(before, after))
    assert counts == [(1, {xla}), (1, {xla})]


def test_killed_between_two_requests(engine, graph_budget):
    with graph_budget(max_graphs=0):
        engine.generate([[1] * 8], tokens=1)
        engine.process.kill()
        with pytest.raises(EngineDied):
            engine.generate([[1] * 8], tokens=1)
"""


def reported(suite: Suite, **config: Any) -> pytest.RunResult:
    write_files(PAGE, suite.path)
    (suite.path / "serving" / "witness.py").write_text(WITNESS)
    suite.write(TESTS.format(**config))
    return suite.run("test_it.py")


@pytest.fixture(autouse=True)
def _path(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package of the page, for the run and for what it starts; nothing of it stays."""
    monkeypatch.syspath_prepend(suite.path)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "serving"]:
        del sys.modules[name]


@pytest.mark.once
def test_counts_through_the_boundary(suite: Suite) -> None:
    reported(suite, device="cpu", xla=0).assert_outcomes(passed=3)


@pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla")
def test_counts_on_the_device(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    reported(suite, device="xla", xla=1).assert_outcomes(passed=3)
