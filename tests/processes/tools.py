"""A suite run with the plugin and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from tests.conftest import Suite


def outcomes(result: pytest.RunResult) -> dict[str, str]:
    """What ``-rA`` says of each test."""
    said = [line.split() for line in result.outlines if "test_it.py::" in line]
    return {
        words[1].split("::", 1)[1]: words[0]
        for words in said
        if words[0].isupper() and words[1].startswith("test_it.py")
    }


def both_ways(suite: Suite, source: str, *args: str, apart: bool = False) -> dict[str, Any]:
    """Run a suite without the plugin and with the report; the tests of the report by name.

    ``apart``: in processes of their own, since torch_xla reports to nobody later
    if what it compiled first was not observed.
    """
    (suite.path / "test_it.py").write_text(source)
    run = suite.pytester.runpytest_subprocess if apart else suite.run
    plain = run("-rA", "-p", "no:graphbreak", *args)
    seen = run("-rA", "--graph-budget-report=graphs.json", *args)
    assert plain.parseoutcomes().get("failed", 0) == 0, plain.stdout.str()
    assert outcomes(seen) == outcomes(plain), seen.stdout.str()
    return suite.reported()
