"""Versions of what owns the code: in the report, in the baseline, and in a red test."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pytest_graphbreak.baseline import Baselines, update
from pytest_graphbreak.baseline.model import Measured
from pytest_graphbreak.config.packages import owners
from pytest_graphbreak.model.budget import Values
from tests.conftest import Suite

pytestmark = pytest.mark.once


def measured(name: str, graphs: int = 1, **packages: str) -> Measured:
    values = Values({"dynamo": graphs})
    return Measured(
        f"tests/test_a.py::{name}", "cpu", {"torch": "2.13"}, values, ("dynamo",), packages
    )


def test_packages_are_those_with_a_version(tmp_path: Path) -> None:
    (tmp_path / "pytest.py").touch()
    files = ["pluggy/_hooks.py", "yaml/loader.py", "tests/test_a.py", "<string>", "", "pytest.py"]
    found = owners(files, tmp_path)
    assert list(found) == ["pluggy", "yaml"]
    assert all(version[0].isdigit() for version in found.values())


def test_an_update_writes_them_where_it_writes_anyway(tmp_path: Path) -> None:
    file = tmp_path / "tests" / "test_a.yaml"
    update(tmp_path, [measured("test_one", net="1.0"), measured("test_two")])
    assert 'torch: "2.13"\npackages: {net: "1.0"}\ntests:\n' in file.read_text()
    before = file.read_text()
    update(tmp_path, [measured("test_one", net="2.0"), measured("test_two", other="3")])
    assert file.read_text() == before
    update(tmp_path, [measured("test_one", net="2.0"), measured("test_two", 2, other="3")])
    assert 'packages: {net: "1.0", other: "3"}\n' in file.read_text()
    entry = Baselines(tmp_path).entry("tests/test_a.py::test_one")
    assert entry.packages == {"net": "1.0", "other": "3"}


NET = """
def f(x):
    y = x + 1
    {}
    return y * 2
"""
INSTALLED = "site-packages"


@pytest.fixture
def installed(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A suite whose model is in a package of its own, as ``transformers`` is."""
    pytest.importorskip("torch")
    site = suite.path / "lib" / INSTALLED
    site.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(site))
    suite.write(
        """
        import torch, outside_net

        def test_net():
            torch.compile(outside_net.f, backend="eager")(torch.ones(3))
        """
    )
    return suite


def install(suite: Suite, version: str, line: str) -> None:
    import pytest_graphbreak.config.packages as packages

    site = suite.path / "lib" / INSTALLED
    (site / "outside_net.py").write_text(NET.format(line))
    about = site / "outside_net-0.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: outside-net\nVersion: {version}\n"
    )
    sys.modules.pop("outside_net", None)
    packages.version.cache_clear()
    packages._owner_version.cache_clear()


def test_a_red_test_says_that_the_package_is_another_one(installed: Suite) -> None:
    install(installed, "5.21.0", "pass")
    installed.run("--graph-budget-record").assert_outcomes(passed=1)
    assert 'packages: {outside_net: "5.21.0"}\n' in installed.baseline()
    install(installed, "5.23.1", 'print("new")')
    result = installed.run("--graph-budget", "--graph-budget-report=graphs.json")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "      outside_net.py:4 in f",
            "  accept    *",
            "  baseline  baselines/test_it.yaml:* (*)",
            "  package   outside_net 5.21 -> 5.23",
        ]
    )
    report = json.loads((installed.path / "graphs.json").read_text())
    assert report["environment"]["packages"] == {"outside_net": "5.23.1"}
