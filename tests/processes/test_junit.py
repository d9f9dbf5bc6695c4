"""The counts in pytest's own JUnit file: plain, under xdist, and forked.

tt-xla reads its JUnit files by machine, and writes properties of its own into
them: both kinds have to arrive, as plain strings and ints.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tests.conftest import Suite

SOURCE = """
    import pytest
    import torch

    def f(x):
        y = torch.sin(x)
        print("hello")
        return y + 1

    @pytest.mark.parametrize("n", [1, 2])
    def test_model(n, record_property):
        record_property("owner", "tt-xla")
        compiled = torch.compile(f, backend="eager", dynamic=False)
        for size in range(n):
            compiled(torch.ones(size + 2))

    def test_nothing(record_property):
        record_property("owner", "tt-xla")
"""


def properties(suite: Suite) -> dict[str, dict[str, str]]:
    root = ElementTree.parse(suite.path / "junit.xml").getroot()
    return {
        case.attrib["name"]: {
            item.attrib["name"]: item.attrib["value"] for item in case.iter("property")
        }
        for case in root.iter("testcase")
    }


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize(
    ("module", "options"),
    [
        pytest.param("pytest", (), marks=pytest.mark.once),
        pytest.param("xdist", ("-n", "2"), marks=pytest.mark.once),
        ("pytest_forked", ("--forked",)),
    ],
    ids=["plain", "xdist", "forked"],
)
def test_counts_are_properties_of_each_test(
    module: str, options: tuple[str, ...], suite: Suite
) -> None:
    pytest.importorskip(module)
    suite.write(SOURCE)
    result = suite.pytester.runpytest_subprocess(
        *("-p", "no:cacheprovider", "--graph-budget-report=g.json", "--junitxml=junit.xml"),
        *options,
    )
    assert result.ret == 0
    assert properties(suite) == {
        "test_model[1]": {"owner": "tt-xla", "graphs": "2", "recompiles": "0", "breaks": "1"},
        "test_model[2]": {"owner": "tt-xla", "graphs": "4", "recompiles": "2", "breaks": "1"},
        "test_nothing": {"owner": "tt-xla"},
    }
