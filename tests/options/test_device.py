"""``--graph-budget-device``: where fixtures compile; and the choice of ``auto``."""

from __future__ import annotations

import pytest

from pytest_graphbreak.device import Device, DeviceError, Machine, choose, profile_name
from tests.conftest import CLEAN, Suite


def machine(*packages: str, env: dict[str, str] | None = None, nodes: str = "") -> Machine:
    """A machine with these packages, environment and device nodes (by prefix)."""
    return Machine(
        env or {},
        lambda name: name in packages,
        lambda pattern: [pattern] if nodes and nodes in pattern else [],
    )


TT = ("torch_xla", "pjrt_plugin_tt")


@pytest.mark.parametrize(
    ("here", "profile"),
    [
        (machine(), "cpu"),
        (machine("torch_xla"), "xla-cpu"),
        (machine("torch_xla", env={"PJRT_DEVICE": "CPU"}), "xla-cpu"),
        (machine("torch_xla", env={"PJRT_DEVICE": "TPU"}), "xla-tpu"),
        (machine(nodes="nvidia"), "cuda"),
        (machine("torch_xla", nodes="nvidia"), "cuda"),
        (machine("torch_xla", env={"PJRT_DEVICE": "TPU"}, nodes="nvidia"), "xla-tpu"),
        (machine(*TT), "xla-cpu"),  # the plugin, and no card
        (machine(*TT, nodes="tenstorrent"), "tt-n150"),
        (machine(*TT, env={"TT_COMPILE_ONLY_SYSTEM_DESC": "d.ttsys"}), "tt-n150"),
        (machine(nodes="tenstorrent"), "cpu"),  # a card, and no plugin
    ],
)
def test_auto_takes_the_best_that_is_there(here: Machine, profile: str) -> None:
    assert choose("auto", "n150", here).profile == profile


def test_tt_where_there_is_none_says_what_was_looked_for() -> None:
    with pytest.raises(DeviceError) as caught:
        choose("tt", None, machine())
    for name in ("torch_xla", "pjrt_plugin_tt", "/dev/tenstorrent/"):
        assert name in str(caught.value)


@pytest.mark.parametrize("asked", ["xla", "cuda"])
def test_so_do_the_others(asked: str) -> None:
    with pytest.raises(DeviceError, match=f"no {asked} device here"):
        choose(asked, None, machine())


def test_cpu_is_always_there() -> None:
    assert choose("cpu", None, machine(*TT, nodes="tenstorrent")) == Device("cpu", "cpu")


@pytest.mark.parametrize("template", ["{nothing}", "{0}", "{", "{device.x}"])
def test_a_template_that_cannot_be_filled(template: str) -> None:
    with pytest.raises(DeviceError, match="the fields are"):
        profile_name(template, Device("cpu", "cpu"))


def test_tt_is_a_usage_error_here(suite: Suite) -> None:
    suite.write(CLEAN)
    result = suite.run("--graph-budget-device=tt")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: no TT device here: looked for and did not find *"])


def test_an_unknown_device_is_a_usage_error(suite: Suite) -> None:
    suite.write(CLEAN)
    result = suite.run("--graph-budget-device=gpu")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --graph-budget-device *'gpu' is not one of auto, tt*"])


def test_the_ini_key(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.pytester.makeini("[pytest]\ngraph_budget_device = cpu\n")
    assert suite.report()["environment"]["device"] == "cpu"


def test_the_fixture_compiles_there(suite: Suite) -> None:
    suite.write(
        """
        import torch

        def test_it(compile_model):
            model = torch.nn.Linear(4, 4)
            run = compile_model(model, torch.ones(2, 4), backend="eager")
            assert run.output.shape == (2, 4)
            assert (run.graphs, run.breaks, run.recompiles) == (1, 0, 0)
            assert run.record.graphs["dynamo"] == 1
        """
    )
    report = suite.report("--graph-budget-device=cpu")
    assert report["tests"][0]["outcome"] == "passed"
    assert report["tests"][0]["graphs"] == {"dynamo": 1}
