"""Caching precompile: what a package brings is counted, and what came before a test is an error.

Each run is a process of its own: a package is loaded where nothing was compiled before.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from pytest_graphbreak.layers.dynamo import late
from pytest_graphbreak.layers.dynamo.events import Attempt, Made, Started
from pytest_graphbreak.layers.dynamo.late import PackageLoads, package_loaded
from pytest_graphbreak.layers.dynamo.observer import DynamoObserver
from pytest_graphbreak.model.places import Places

MODEL = """
def f(x):
    y = x @ x  # no kernel that a C++ compiler has to make
    print("", end="")
    return y @ x
"""
CONFTEST = """
from pathlib import Path
from types import SimpleNamespace
import torch
from torch._dynamo.precompile_context import PrecompileContext

torch._dynamo.config.caching_precompile = True  # as TORCH_CACHING_PRECOMPILE=1, before the import
artifacts = Path("artifacts")
# torch.compiler saves packages from 2.10 on; torch 2.9 leaves that to the PrecompileContext alone.
public = hasattr(PrecompileContext, "save_to_dynamo_cache")
if artifacts.exists() and public:
    torch.compiler.load_cache_artifacts(artifacts.read_bytes())
elif artifacts.exists():
    PrecompileContext.populate_caches(PrecompileContext.deserialize(artifacts.read_bytes()))

def pytest_sessionfinish():
    if not artifacts.exists():
        saved = torch.compiler.save_cache_artifacts() if public else PrecompileContext.serialize()
        artifacts.write_bytes(saved[0])
"""
TESTS = """
import model, torch

def test_first():
    torch.compile(model.f)(torch.ones(4, 4))

def test_second():
    torch.compile(model.f)(torch.ones(4, 4))
"""


def report(folder: Path, cache: str, test: str) -> list[dict[str, object]]:
    """The tests of a run in ``folder``, with an empty cache directory of that name."""
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--graph-budget-report=report.json", test],
        cwd=folder,
        env={
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(folder / cache),
        },
        capture_output=True,
    )
    tests: list[dict[str, object]] = json.loads((folder / "report.json").read_text())["tests"]
    return tests


@pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++"))), reason="inductor needs a C++ compiler"
)
@pytest.mark.usefixtures("forks")
def test_counts_are_the_same_cold_and_warm(tmp_path: Path) -> None:
    pytest.importorskip("torch._dynamo.package", reason="this torch has no packages")
    for name, text in {
        "pytest.ini": "[pytest]\n",
        "model.py": MODEL,
        "conftest.py": CONFTEST,
        "test_it.py": TESTS,
    }.items():
        (tmp_path / name).write_text(text)

    def counted(tests: list[dict[str, object]]) -> list[object]:
        assert [test["errors"] for test in tests] == [[]] * len(tests)
        return [(test["graphs"], [g["cached"] for g in test["graph_list"]]) for test in tests]  # type: ignore[attr-defined]

    cold = counted(report(tmp_path, "cold", "test_it.py"))
    assert cold[0] == ({"dynamo": 2}, ["compiled", "compiled"])
    assert cold[1] == ({"dynamo": 2}, ["loaded", "loaded"])

    warm = report(tmp_path, "warm", "test_it.py")
    assert counted(warm) == [({"dynamo": 2}, ["loaded", "loaded"])] * 2
    assert [graph["cause"] for graph in warm[0]["graph_list"]] == ["entry", "break"]  # type: ignore[attr-defined]
    assert "2 graphs came with packages of precompiled code" in str(warm[0]["note"])


def test_what_was_loaded_while_nobody_looked_is_an_error_from_then_on() -> None:
    loads = PackageLoads()
    assert not loads.begin(None)
    assert not loads.begin({"dynamo_cache": Counter(dynamo_cache_hit=0)})
    loads.end({"dynamo_cache": Counter(dynamo_cache_hit=2)})  # seen
    assert not loads.begin({"dynamo_cache": Counter(dynamo_cache_hit=2)})
    loads.end({})  # the test cleared the counters
    assert not loads.begin({})
    assert loads.begin({"dynamo_cache": Counter(dynamo_cache_hit=1)})
    assert loads.begin({"dynamo_cache": Counter(dynamo_cache_hit=1)})


def test_what_a_fixture_loads_is_distinguished_from_what_it_compiles() -> None:
    compiled, brought = Attempt("0/0"), Attempt("1/0", packaged=True)
    assert not package_loaded([Started(compiled), Made(compiled, 0)])
    assert package_loaded(
        [Started(compiled), Made(compiled, 0), Started(brought), Made(brought, 0)]
    )


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What these tests load is loaded for no other."""
    monkeypatch.setattr(late, "PACKAGE_LOADS", PackageLoads())
    yield
    torch._dynamo.utils.counters["dynamo_cache"].clear()


@pytest.mark.usefixtures("fresh")
def test_a_window_after_a_load_that_nobody_saw_cannot_count() -> None:
    torch._dynamo.utils.counters["dynamo_cache"]["dynamo_cache_hit"] += 1
    seen = DynamoObserver().open(Places(Path.cwd())).close()
    assert seen is not None
    assert late.PACKAGE_BEFORE_TEST in seen.errors


@pytest.mark.usefixtures("fresh")
def test_so_it_is_where_a_fixture_loads() -> None:
    window = DynamoObserver().open(Places(Path.cwd()))
    brought = Attempt("1/0", packaged=True)
    with window.excluded():
        window._sensors.events.extend([Started(brought), Made(brought, 0)])
    seen = window.close()
    assert seen is not None
    assert late.PACKAGE_BEFORE_TEST in seen.errors


@pytest.fixture
def sensor() -> late.PackageSensor:
    """One that is not put in; ``sensor_failed`` is what it said of itself."""
    fell: list[str] = []
    sensor = late.PackageSensor([], tuple, lambda what, fault: fell.append(f"{what}: {fault}"))
    sensor.fell = fell  # type: ignore[attr-defined]
    return sensor


def test_what_torch_left_out_of_a_package_brings_no_graph(sensor: late.PackageSensor) -> None:
    codes = {
        test_what_torch_left_out_of_a_package_brings_no_graph.__code__: SimpleNamespace(
            bypassed=True, backend_ids=["a"]
        ),
        sensor_of_another.__code__: SimpleNamespace(bypassed=False, backend_ids=["b", "c"]),
    }
    assert sensor._around(lambda package: 7, SimpleNamespace(_codes=codes)) == 7
    made = [event.attempt for event in sensor._events if isinstance(event, Made)]
    assert [attempt.code.name for attempt in made if attempt.code] == ["sensor_of_another"] * 2
    assert sensor.fell == []  # type: ignore[attr-defined]


def sensor_of_another() -> None: ...


def test_a_package_of_another_shape_is_reported(sensor: late.PackageSensor) -> None:
    assert sensor._around(lambda package: 7, SimpleNamespace()) == 7
    (said,) = sensor.fell  # type: ignore[attr-defined]
    assert said.startswith("packages of precompiled code: ")


def test_a_name_that_is_gone_is_reported_where_packages_are_on(sensor: late.PackageSensor) -> None:
    gone = AttributeError("install is gone")
    sensor._gone(gone)
    assert sensor.fell == []  # type: ignore[attr-defined]
    with torch._dynamo.config.patch(caching_precompile=True):
        sensor._gone(gone)
    said = ["packages of precompiled code: install is gone"]
    assert sensor.fell == said  # type: ignore[attr-defined]
