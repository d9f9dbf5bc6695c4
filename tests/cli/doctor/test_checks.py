"""What the doctor finds, check by check, and what it says to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_graphbreak.cli import doctor as checks
from pytest_graphbreak.cli.doctor import NOTE, OK, PROBLEM, CheckResult, SmallFunction
from tests.options.tools import cards, machine, on_tt


def states(found: list[CheckResult]) -> list[str]:
    return [finding.state for finding in found]


def test_each_problem_says_what_to_do() -> None:
    found = [
        checks.package("torch", None, checks.OLDEST_TORCH, "dynamo", needed=True),
        checks.package("torch", "2.5.1+cu124", checks.OLDEST_TORCH, "dynamo"),
        checks.package("jax", "0.6.2", checks.OLDEST_JAX, "jax"),
        *checks.torch_xla("2.13.0", "2.9.0", None),
        *checks.variables({"TORCHDYNAMO_DISABLE": "1", "JAX_DISABLE_JIT": "true"}),
    ]
    wrong = [finding for finding in found if finding.state == PROBLEM]
    assert len(wrong) == 6
    assert all(finding.do for finding in wrong)


def test_versions_that_fit() -> None:
    for version in ("2.9.0", "2.9.0a0+1", "2.13.0+cpu", None):
        assert checks.package("torch", version, checks.OLDEST_TORCH, "dynamo").state == OK
    assert states(list(checks.torch_xla("2.9.1+cpu", "2.9.0", None))) == [OK]
    assert states(list(checks.torch_xla("2.13.0", None, None))) == [OK]


def test_the_fork_of_tt_xla_has_another_number() -> None:
    found = list(checks.torch_xla("2.11.0", "2.9.0+git1234", "0.9"))
    assert [(finding.about, finding.state) for finding in found] == [
        ("torch_xla", OK),
        ("tt plugin", OK),
    ]
    lonely = list(checks.torch_xla("2.11.0", None, "0.9"))
    assert states(lonely) == [OK, NOTE]
    assert states(list(checks.torch_xla(None, None, "0.9", jax="0.7.1"))) == [OK, OK]


def test_devices_are_named(tmp_path: Path) -> None:
    cards(tmp_path, "n150")
    (found,) = checks.devices(on_tt(tmp_path))
    assert found.what == "tt-n150, xla-cpu, cpu; auto takes tt-n150"


def test_a_card_without_its_software_is_reported() -> None:
    first, second = checks.devices(machine(nodes="tenstorrent"))
    assert first.what == "cpu; auto takes cpu"
    assert "torch_xla" in second.what
    assert "venv/activate" in second.do


def test_a_card_that_is_not_known_is_reported(tmp_path: Path) -> None:
    *_, last = checks.devices(on_tt(tmp_path))
    assert "tt-unknown" in last.what


@pytest.mark.parametrize(
    ("environ", "state", "word"),
    [
        ({"TORCH_CACHING_PRECOMPILE": "1"}, PROBLEM, "cannot be counted"),
        ({"TORCH_COMPILE_DISABLE": "1"}, PROBLEM, "TORCH_COMPILE_DISABLE"),
        ({"TTXLA_LOGGER_LEVEL": "INFO"}, NOTE, "headers"),
        ({"JAX_DISABLE_JIT": "1"}, PROBLEM, "JAX_DISABLE_JIT"),
        ({"JAX_COMPILATION_CACHE_DIR": "/tmp/c"}, NOTE, "/tmp/c"),
        ({"PT_XLA_DEBUG_LEVEL": "1"}, NOTE, "PT_XLA_DEBUG_FILE"),
        ({"TT_COMPILE_ONLY_SYSTEM_DESC": "/nowhere.ttsys"}, PROBLEM, "/nowhere.ttsys"),
    ],
)
def test_variables_that_stand_in_the_way(environ: dict[str, str], state: str, word: str) -> None:
    reported, found = checks.variables(environ)
    ((name, value),) = environ.items()
    assert f"{name}={value}" in reported.what
    assert found.state == state
    assert word in found.what + found.do


@pytest.mark.parametrize(
    "environ",
    [
        {"TORCHDYNAMO_DISABLE": "0"},
        {"TTXLA_LOGGER_LEVEL": "DEBUG", "TTXLA_LOGGER_FILE": "/tmp/x"},
        {"PT_XLA_DEBUG_LEVEL": "1", "PT_XLA_DEBUG_FILE": "/tmp/x"},
        {"PT_XLA_DEBUG_LEVEL": "0"},
        {"HOME": "/root"},
    ],
)
def test_variables_that_do_not(environ: dict[str, str]) -> None:
    assert states(list(checks.variables(environ))) == [OK]


def broken(directory: Path, source: str) -> dict[str, str]:
    """An environment in which torch is installed and does not work."""
    (directory / "torch.py").write_text(source)
    return {**os.environ, "PYTHONPATH": str(directory)}


@pytest.mark.once
def test_a_torch_that_cannot_be_imported(tmp_path: Path) -> None:
    environ = broken(tmp_path, "raise ImportError('libtorch.so: undefined symbol')")
    (found,) = checks.probe_results("dynamo", 60, environ)
    assert found.state == PROBLEM
    assert found.what.endswith("exit code 1: ImportError: libtorch.so: undefined symbol")


@pytest.mark.once
def test_a_probe_that_hangs_is_ended(tmp_path: Path) -> None:
    environ = broken(tmp_path, "import time; time.sleep(600)")
    (found,) = checks.probe_results("dynamo", 1, environ)
    assert "did not come to its end in 1 s" in found.what


@pytest.mark.once
@pytest.mark.usefixtures("forks")
def test_dynamo_is_seen_here() -> None:
    pytest.importorskip("torch")
    (found,) = checks.probe_results("dynamo", 300, os.environ)
    assert found.state == OK, found
    assert "saw 4 graphs = 1 entry + 1 after a break + 2 recompiles" in found.what


@pytest.mark.usefixtures("xla_forks")
def test_xla_is_seen_here() -> None:
    pytest.importorskip("torch_xla")
    (found,) = checks.probe_results("xla", 300, os.environ)
    assert found.state == OK, found
    assert "saw 1 graph = 1 fx" in found.what


@pytest.mark.jax
def test_jax_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (found,) = checks.probe_results("jax", 300, os.environ)
    assert (found.about, found.state) == ("jax", OK), found.what
    assert "saw 3 graphs = 1 jit + 1 retrace + 1 eager, 1 recompile, 0 breaks" in found.what


PROBED = SmallFunction("2 graphs", "2 graphs", "the compiler", [], [], [])


def test_a_layer_that_cannot_say_why_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_probe", lambda *_: replace(PROBED, reasons=[""]))
    (first,) = checks.probe_results("jax", 1, {})
    assert first.state == PROBLEM
    assert "not why" in first.what
    assert "jax 0.7.1" in first.do


@pytest.mark.nightly
@pytest.mark.once
def test_blindness_is_a_problem() -> None:
    pytest.importorskip("torch")
    found = list(checks.probe_results("dynamo", 300, {**os.environ, "TORCHDYNAMO_DISABLE": "1"}))
    assert PROBLEM in states(found)
    assert OK not in states(found)
    assert "Dynamo is disabled" in found[0].what


@pytest.mark.parametrize(
    ("layer", "step"), [("dynamo", "versions.md"), ("xla", "of one version"), ("tt", "tt-hardware")]
)
def test_a_layer_that_cannot_be_seen_has_a_next_step(
    layer: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        checks, "_probe", lambda *_: replace(PROBED, saw="0 graphs", notes=["as it is"])
    )
    first, note = checks.probe_results(layer, 1, {})
    assert first.state == PROBLEM
    assert step in first.do
    assert (note.state, note.what) == (NOTE, "as it is")
