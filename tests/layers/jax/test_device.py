"""Which device the jax layer counts for."""

from __future__ import annotations

import os

import pytest

from pytest_graphbreak.layers.jax.device import (
    VARIABLE,
    JaxTarget,
    is_on_device,
    name_device,
    parse_device,
)
from pytest_graphbreak.layers.jax.executables import Executable
from tests.conftest import Suite

pytestmark = pytest.mark.jax


def program(platform: str = "cpu", *devices: int, default: str = "cpu") -> Executable:
    return Executable("f", platform, devices or (0,), "jit", default_platform=default)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("tt", JaxTarget("tt")),
        (" TT ", JaxTarget("tt")),
        ("cpu:1", JaxTarget("cpu", 1)),
        ("cuda", JaxTarget("gpu")),
        ("gpu:0", JaxTarget("gpu", 0)),
    ],
)
def test_a_device_is_named(text: str, target: JaxTarget) -> None:
    assert parse_device(text) == target


@pytest.mark.parametrize("text", ["", "cpu:", "cpu:one", "cpu 1", "1", "cpu:-1"])
def test_what_names_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a platform of JAX \(tt\)"):
        parse_device(text)


def test_without_a_name_it_is_the_device_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert is_on_device(program("cpu", default="cpu"))
    assert not is_on_device(program("cpu", default="tt"))


@pytest.mark.parametrize(
    ("named", "platform", "on"),
    [
        ("cpu", "cpu", True),
        ("cpu:0", "cpu", True),
        ("cpu:2", "cpu", True),
        ("cpu:1", "cpu", False),
        ("tt", "cpu", False),
        ("cuda:0", "cuda", True),
        ("cuda:0", "gpu", True),
    ],
)
def test_a_program_over_several_devices_is_on_each(
    monkeypatch: pytest.MonkeyPatch, named: str, platform: str, on: bool
) -> None:
    monkeypatch.setenv(VARIABLE, named)
    assert is_on_device(program(platform, 0, 2)) is on


def test_the_environment_is_put_back_and_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    back = name_device("cpu:1")
    assert os.environ[VARIABLE] == "cpu:1"
    name_device("tt")()  # it was set
    assert os.environ[VARIABLE] == "cpu:1"
    back()
    assert VARIABLE not in os.environ


def test_a_mistake_in_the_ini_file_is_a_usage_error(suite: Suite) -> None:
    suite.write("def test_it(): pass")
    result = suite.run("--graph-budget", "-o", "graph_budget_jax_device=cpu:x")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*graph_budget_jax_device: 'cpu:x' is not a platform of JAX*"])
