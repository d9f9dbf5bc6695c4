"""``--graph-budget-profile``: the label that counts are filed under."""

from __future__ import annotations

import pytest
import yaml

from pytest_graphbreak.config.device import choose
from pytest_graphbreak.config.settings import from_config
from tests.conftest import BROKEN, CLEAN, Suite
from tests.options.tools import on_tt

pytestmark = pytest.mark.once


def test_a_name_and_its_fields(suite: Suite) -> None:
    suite.write(CLEAN)
    report = suite.report("--graph-budget-profile=ci-{device}-{torch}", "--graph-budget-device=cpu")
    minor = ".".join(report["environment"]["torch"].split(".")[:2])
    assert report["environment"]["profile"] == f"ci-cpu-{minor}"


def test_the_suites_own_arch_is_that_of_the_device(suite: Suite) -> None:
    """There is no TT card here, so the run is not made."""
    suite.pytester.makeconftest("def pytest_addoption(parser):\n    parser.addoption('--arch')\n")
    settings = from_config(suite.pytester.parseconfig("--arch=n150"))
    device = choose("tt", settings.arch, on_tt(suite.path))
    assert (device.arch, device.profile) == ("n150", "tt-n150")


def test_another_profile_gets_an_override(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.run("--graph-budget-update", "--graph-budget-profile=one")
    suite.write(BROKEN)
    suite.run("--graph-budget-update", "--graph-budget-profile=two").assert_outcomes(passed=1)
    data = yaml.safe_load(suite.baseline())
    assert data["profile"] == "one"
    entry = data["tests"]["test_model"]
    assert entry["graphs"] == {"dynamo": 1}
    assert entry["overrides"]["two"]["graphs"] == {"dynamo": 2}
    suite.run("--graph-budget", "--graph-budget-profile=two").assert_outcomes(passed=1)
    suite.run("--graph-budget", "--graph-budget-profile=one").assert_outcomes(failed=1)
