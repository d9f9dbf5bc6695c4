"""``--graph-budget-profile``: the label that counts are filed under."""

from __future__ import annotations

import pytest

from pytest_graphbreak.config.device import choose
from pytest_graphbreak.config.settings import from_config
from tests.conftest import CLEAN, Suite
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
