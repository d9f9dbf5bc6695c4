"""Hostile ids that pytest itself made: from a real run through what is printed and written.

What pages make of such texts is in ``test_untrusted.py`` and ``tests/report``.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
import yaml

from pytest_graphbreak.cli import main
from tests.conftest import Suite
from tests.text.tools import obeyed
from tests.untrusted import STRINGS

pytestmark = pytest.mark.once

SOURCE = f"""
    import pytest
    import torch

    IDS = {[text[:300] for text in STRINGS]!r}

    def f(x):
        return torch.sin(x)

    @pytest.mark.parametrize("n", range(len(IDS)), ids=IDS)
    def test_model(n):
        torch.compile(f, backend="eager")(torch.ones(3))
"""


def test_ids_of_pytest_do_nothing_anywhere(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    suite.write(SOURCE)
    monkeypatch.chdir(suite.path)
    options = ("--graph-budget", "-o", "graph_budget_new=report")
    result = suite.run(*options, "--graph-budget-report=graphs.json", "--junitxml=own.xml", ret=0)
    ElementTree.parse("own.xml")
    listed = [line for line in result.outlines if line.startswith("new")]
    assert len(listed) > 10
    assert not any(map(obeyed, result.outlines))

    capsys.readouterr()
    assert main(["check", "graphs.json"]) == 1
    assert main(["accept", "--yes", "graphs.json"]) == 0
    assert main(["check", "graphs.json"]) == 0
    said = capsys.readouterr()
    for line in (said.out + said.err).split("\n"):
        assert line.isprintable()
        assert not obeyed(line)

    cases = yaml.safe_load(suite.baseline())["tests"]["test_model"]["cases"]
    assert len(cases) == len(STRINGS)
    assert sorted(path.name for path in suite.path.iterdir() if "pwned" in path.name) == []
