"""The page on security says the limits that the code has."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.artifacts import containers, incoming
from pytest_graphbreak.baseline import files, tree
from pytest_graphbreak.layers.tt import programs
from pytest_graphbreak.logs import dynamo_attempts, dynamo_breaks, sources
from pytest_graphbreak.model import forms, report
from pytest_graphbreak.report import checkout, html, markdown
from pytest_graphbreak.text import lines, safe

pytestmark = pytest.mark.pure

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "security.md"
MIB = 2**20


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("a report, or an archive of reports | {} MiB", containers.MOST_BYTES // MIB),
        ("what an archive holds, unpacked | {} MiB", containers.MOST_UNPACKED // MIB),
        ("reports in one directory or archive | {} |", containers.MOST_FILES),
        ("values in one report | {} |", incoming.MOST_VALUES),
        ("tests in all reports of a command | {} |", incoming.MOST_TESTS),
        ("(node id, file) | {} characters", forms.LONGEST_NAME),
        ("a profile | {} characters", report.LONGEST_PROFILE),
        ("a version or a device in a report | {} characters", forms.LONGEST_FACT),
        ("any other text of a report | {} characters", forms.LONGEST_TEXT),
        ("; {} of a failure's message", report.LONGEST_MESSAGE),
        ("a count in a report | {} |", forms.MOST_COUNT),
        ("a baseline file | {} MiB", files.LARGEST // MIB),
        ("and {} levels of nesting", tree.DEEPEST),
        ("a call of git | {} seconds", checkout.SLOWEST),
        ("read once, in parts of at most {} MiB", lines.LONGEST // MIB),
        ("recompiles of a log | {} of each", dynamo_attempts.KEPT),
        ("recompiles of a log | {} of each", programs.KEPT),
        ("a reason in a log | {} characters kept", dynamo_breaks.LONGEST),
        ("kept, {} printed", safe.SHOWN),
        ("graphs of one test on a page | {} of a layer", html.MOST_GRAPHS),
        ("a comment on a pull request | {} characters", markdown.COMMENT),
        ("a message in a comment | {} characters", markdown._LONGEST_MESSAGE),
        ("of at most\n  {} MiB. A log", sources._LARGEST // MIB),
        ("of at most {} MiB, and only", checkout.MOST_BYTES // MIB),
    ],
)
def test_the_limits_are_those_of_the_code(words: str, value: int) -> None:
    assert words.format(f"{value:,}") in PAGE.read_text()
