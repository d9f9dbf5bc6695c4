"""Which of Dynamo, torch_xla and torch.export each device graph comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.logs import origin
from pytest_graphbreak.logs.reading import Reading
from tests.logs.tools import analyse, dress
from tests.logs.writer import Style, Writer, broke, compilation, dynamo, join

pytestmark = pytest.mark.pure

EXPORTED = b"I0821 10:22:52.100000 4242 torch/fx/experimental/symbolic_shapes.py:3192] create_env\n"
IN_DYNAMO = EXPORTED.replace(b"] create_env", b"] [0/0] create_env")
GATE = b"V0821 10:22:52.100000 4242 torch/_dynamo/eval_frame.py:1] [0/0] some other line\n"


class Plugin:
    """The graphs of one process, one after the other."""

    def __init__(self, rank: str = "") -> None:
        self._writer = Writer(Style(rank=rank))
        self._number = 0

    def graph(self, name: str | None = None) -> bytes:
        self._number += 1
        return join(self._writer.graph(self._number, name=name))


def tt(reading: Reading) -> list[tuple[str, tuple[str, ...]]]:
    return [(item.cause, item.sources) for item in reading.record.graph_list if item.layer == "tt"]


def test_each_graph_follows_what_it_comes_from(tmp_path: Path) -> None:
    plugin = Plugin()
    reading = analyse(
        tmp_path,
        broke("0/0", 12, 'print("hi")'),
        dynamo("0/0"),
        IN_DYNAMO,
        plugin.graph(),
        dynamo("1/0", "torch_dynamo_resume_in_forward_at_12", line=12),
        plugin.graph(),
        plugin.graph(),
    )
    # Of which FX graph a part is, nothing says.
    assert tt(reading) == [("fx", ("0/0",)), ("fx", ("1/0",)), ("other", ())]
    assert reading.origins == {
        ("dynamo", "entry"): 1,
        ("dynamo", "break"): 1,
        ("torch_xla", "other"): 1,
    }


def test_torch_xla_tells_why_it_cut(tmp_path: Path) -> None:
    plugin = Plugin()
    reading = analyse(
        tmp_path,
        dynamo("0/0"),
        compilation("dynamo is compiling a FX graph to HLO"),
        plugin.graph(),
        compilation("dynamo is compiling a FX graph to HLO"),
        plugin.graph(),
        compilation("user torch_xla.sync"),
        plugin.graph(),
        compilation("most likely user code trying to access tensor value before torch_xla.sync"),
        plugin.graph(),
        compilation("torch_xla.sync when dynamo processing input graphs"),
        plugin.graph(),
    )
    assert [cause for cause, _ in tt(reading)] == ["fx", "split", "sync", "access", "pending"]
    assert reading.record.graphs == {"dynamo": 1, "xla": 5, "tt": 5}
    assert {origin for origin, _ in reading.origins} == {"dynamo", "torch_xla"}


def test_reports_of_torch_xla_as_other_machines_hand_them_on(tmp_path: Path) -> None:
    text = dynamo("0/0") + compilation("user torch_xla.sync") + Plugin().graph()
    plain = analyse(tmp_path, text).record.to_dict()
    for way in ("colour", "crlf", "stripped", "stamped"):
        other = dress(text, **{way: True})
        assert analyse(tmp_path, other).record.to_dict() == plain, way


def test_ranks_that_report_line_by_line(tmp_path: Path) -> None:
    reports = [
        dress(compilation(cause), rank=f"1,{rank}").splitlines(keepends=True)
        for rank, cause in enumerate(
            ("user torch_xla.sync", "torch_xla.sync when dynamo processing input graphs")
        )
    ]
    mixed = [line for pair in zip(*reports, strict=True) for line in pair]
    record = analyse(tmp_path, *mixed).record
    assert record.graphs == {"xla": 2}
    assert {(item.process, item.cause) for item in record.graph_list} == {
        ("rank 1,0", "sync"),
        ("rank 1,1", "pending"),
    }


def test_reshards_are_torch_xlas(tmp_path: Path) -> None:
    plugin = Plugin()
    reading = analyse(
        tmp_path, dynamo("0/0"), plugin.graph(), plugin.graph("ReplicateShardedData.4")
    )
    assert tt(reading) == [("fx", ("0/0",)), ("reshard", ())]
    assert reading.origins["torch_xla", "reshard"] == 1


def test_export_outside_dynamo(tmp_path: Path) -> None:
    plugin = Plugin()
    reading = analyse(tmp_path, dynamo("0/0"), plugin.graph(), GATE, EXPORTED, plugin.graph())
    assert reading.origins == {("dynamo", "entry"): 1, ("export", "other"): 1}


def test_strict_export_goes_through_dynamo(tmp_path: Path) -> None:
    plugin = Plugin()
    export = dynamo("0/0").replace(
        b"compiler function tt", b"compiler function dynamo_normalization_capturing_compiler"
    )
    reading = analyse(tmp_path, export, plugin.graph())
    assert reading.origins == {("export", "entry"): 1}


def test_ranks_do_not_mix(tmp_path: Path) -> None:
    one, two = Plugin("1,0"), Plugin("1,1")
    reading = analyse(
        tmp_path,
        dress(dynamo("0/0"), rank="1,0"),
        dress(dynamo("0/0"), rank="1,1"),
        one.graph(),
        two.graph(),
        two.graph(),
    )
    assert tt(reading) == [("fx", ("0/0",)), ("fx", ("0/0",)), ("other", ())]
    ranks = [item.process for item in reading.record.graph_list if item.layer == "tt"]
    assert ranks == [f"rank 1,{rank} thread 421D1300" for rank in (0, 1, 1)]


def test_a_graph_of_backward_that_comes_again_is_dynamos(tmp_path: Path) -> None:
    """torch_xla lowers it with the frames of the autograd engine, and in its own time."""
    plugin = Plugin()
    whole = "dynamo is compiling a FX graph to HLO"
    backward = [
        "backward (/venv/site-packages/torch/_functorch/_aot_autograd/runtime_wrappers.py:2240)",
        "<module> (/home/me/main.py:7)",
    ]
    reading = analyse(
        tmp_path,
        dynamo("0/0"),
        compilation(whole),
        plugin.graph(),
        compilation(whole, backward),
        plugin.graph(),
    )
    assert [cause for cause, _ in tt(reading)] == ["fx", "backward"]
    assert reading.origins == {("dynamo", "entry"): 1, ("dynamo", "backward"): 1}


def test_of_very_many_reports_the_first_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    most = origin.KEPT + 20
    record = analyse(tmp_path, compilation("user torch_xla.sync") * most).record
    assert record.graphs == {"xla": most}
    assert len(record.graph_list) == origin.KEPT


def test_a_graph_of_a_rank_where_dynamo_made_none_is_torch_xlas(tmp_path: Path) -> None:
    logged = dress(dynamo("0/0"), rank="1,0")
    reading = analyse(tmp_path, logged, Plugin("1,1").graph())
    assert tt(reading) == [("other", ())]
    assert reading.origins == {("torch_xla", "other"): 1}
