"""``--graph-budget-device``: where fixtures compile; and the choice of ``auto``."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_graphbreak.config.device import (
    Device,
    DeviceError,
    Machine,
    choose,
    profile_name,
    runs_tt,
)
from tests.conftest import Suite
from tests.options.tools import TT, cards, machine, on_tt

pytestmark = pytest.mark.pure


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
        # Without torch, what JAX takes.
        (machine("jax"), "cpu"),
        (machine("jax", env={"JAX_PLATFORMS": "cpu"}, nodes="nvidia"), "cpu"),
        (machine("jax", env={"JAX_PLATFORMS": "tt,cpu"}), "tt-n150"),
        (machine("jax", "pjrt_plugin_tt", nodes="tenstorrent"), "tt-n150"),
        (machine("jax", nodes="tenstorrent"), "cpu"),  # a card, and no plugin
        (machine("jax", nodes="nvidia"), "cpu"),  # the same
        (machine("jax", "jax_cuda13_plugin", nodes="nvidia"), "cuda"),
        (machine("jax", "jax_cuda13_plugin"), "cpu"),  # a plugin, and no card
        (machine("jax", env={"JAX_PLATFORMS": "cuda"}), "cuda"),
        (machine("jax", "libtpu"), "tpu"),
        (machine("jax", "libtpu", env={"JAX_PLATFORMS": "cpu"}), "cpu"),
        (machine("jax", "torch", "libtpu"), "cpu"),  # torch says as it always did
        (machine("jax", "torch", "torch_xla"), "xla-cpu"),
    ],
)
def test_auto_takes_the_best_that_is_there(here: Machine, profile: str) -> None:
    assert choose("auto", "n150", here).profile == profile


def test_the_platforms_in_the_config_of_jax_win(monkeypatch: pytest.MonkeyPatch) -> None:
    jax: Any = SimpleNamespace(config=SimpleNamespace(jax_platforms="cpu"))
    here = machine("jax", env={"JAX_PLATFORMS": "cuda"})
    with monkeypatch.context() as patched:  # gone before the gate looks for a jax that it can see
        patched.setitem(sys.modules, "jax", jax)
        assert choose("auto", None, here).profile == "cpu"


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


@pytest.mark.parametrize(
    ("types", "profile"),
    [
        (["n150"], "tt-n150"),
        (["n300"], "tt-n300"),
        (["p150a"], "tt-p150"),
        (["p150b"], "tt-p150"),
        (["n150", "n150"], "tt-n150-x2"),
        (["n300"] * 4, "tt-n300-llmbox"),
        (["galaxy-wormhole"] * 32, "tt-galaxy-wh-6u"),
        (["p300c"] * 4, "tt-qb2-blackhole"),
        (["n150", "p150a"], "tt-n150+p150"),
        ([""], "tt-wormhole"),  # firmware that does not tell
        (["unknown"], "tt-wormhole"),
        (["new card/2"], "tt-new-card-2"),
        ([], "tt-unknown"),
    ],
)
def test_the_driver_names_the_card(tmp_path: Path, types: list[str], profile: str) -> None:
    cards(tmp_path, *types)
    assert choose("auto", None, on_tt(tmp_path)).profile == profile
    assert choose("tt", None, on_tt(tmp_path)).profile == profile


def test_a_blackhole_that_does_not_tell_its_card(tmp_path: Path) -> None:
    cards(tmp_path, "", pci="0xb140")
    assert choose("tt", None, on_tt(tmp_path)).arch == "blackhole"


def test_the_suite_knows_better(tmp_path: Path) -> None:
    cards(tmp_path, "n300", "n300", "n300", "n300")
    assert choose("tt", "n300", on_tt(tmp_path)).profile == "tt-n300"


@pytest.mark.parametrize(
    ("visible", "arch"),
    [("1", "n150"), ("0, 1", "n150-x2"), ("0000:01:00.0", "n150-x4"), ("", "n150-x4")],
)
def test_hidden_cards_do_not_count(tmp_path: Path, visible: str, arch: str) -> None:
    cards(tmp_path, *["n150"] * 4)
    assert choose("tt", None, on_tt(tmp_path, TT_VISIBLE_DEVICES=visible)).arch == arch


@pytest.mark.parametrize(
    ("file", "arch"),
    [
        ("/s/n150.ttsys", "n150"),
        ("P150b_system_desc.ttsys", "p150"),
        ("n300-llmbox_system_desc.ttsys", "n300-llmbox"),
        ("desc.ttsys", "unknown"),
        ("/n300/system.ttsys", "unknown"),
    ],
)
def test_a_described_system_is_known_by_its_file(tmp_path: Path, file: str, arch: str) -> None:
    cards(tmp_path, "n300")  # not what is compiled for
    here = on_tt(tmp_path, TT_COMPILE_ONLY_SYSTEM_DESC=file)
    assert choose("tt", None, here).arch == arch


def test_sysfs_that_cannot_be_read_is_no_error(tmp_path: Path) -> None:
    cards(tmp_path, "n150")
    file = tmp_path / "class" / "tenstorrent" / "tenstorrent!0" / "tt_card_type"
    file.unlink()
    file.mkdir()
    assert choose("tt", None, on_tt(tmp_path)).arch == "wormhole"


@pytest.mark.parametrize(
    ("asked", "here", "may"),
    [
        ("auto", machine(*TT, nodes="tenstorrent"), True),
        ("auto", machine(*TT, env={"TT_COMPILE_ONLY_SYSTEM_DESC": "d.ttsys"}), True),
        ("auto", machine(*TT), False),
        ("auto", machine("torch_xla", nodes="tenstorrent"), False),
        ("cpu", machine(*TT, nodes="tenstorrent"), False),
        ("cpu", machine(env={"PJRT_DEVICE": "TT"}), True),
        ("tt", machine(), True),  # that it is not here is said elsewhere
    ],
)
def test_whether_code_may_use_tt(asked: str, here: Machine, may: bool) -> None:
    assert runs_tt(asked, here) is may


@pytest.mark.parametrize("template", ["{nothing}", "{0}", "{", "{device.x}"])
def test_a_template_that_cannot_be_filled(template: str) -> None:
    with pytest.raises(DeviceError, match="the fields are"):
        profile_name(template, Device("cpu", "cpu"))


def test_so_it_is_where_only_a_fixture_would_compile_there(suite: Suite) -> None:
    suite.write("def test_it(compile_model):\n    assert False, 'not reached'\n")
    (suite.path / "pytest.ini").write_text("[pytest]\ngraph_budget_device = tt\n")
    result = suite.run(ret=4)
    result.stderr.fnmatch_lines(["ERROR: no TT device here: looked for and did not find *"])
