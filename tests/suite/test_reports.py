"""What pytest shows of our failures, whole where there is no terminal."""

from __future__ import annotations

import io
import json
import re

import pytest
from _pytest._io import TerminalWriter

from pytest_graphbreak.suite.reports import FailureText
from pytest_graphbreak.text.output import BLANK, TextLine, pack, plain_text, unpack

pytestmark = pytest.mark.pure

LINES = [
    TextLine("4 dynamo graphs, the block allows 0 (+4)", "headline", head="graph budget: "),
    BLANK,
    TextLine(
        "Unsupported Tensor.item() call with capture_scalar_outputs=False", "new", 2, "+ GB0124 "
    ),
    TextLine("keep it a tensor", "advice", 6, "fix: "),
    TextLine("", "command", 2, "explain  ", "graphbreak explain GB0124"),
]


def test_a_failure_keeps_its_kinds_on_the_way_to_another_process() -> None:
    there = unpack(json.loads(json.dumps(pack(LINES))))
    assert there == LINES
    failure = FailureText(there, ("test_a.py", 3, "test_it"))
    for has_colours, headline in ((False, "{}"), (True, "\x1b[1m{}\x1b[0m")):
        writer = TerminalWriter(out := io.StringIO())
        writer.hasmarkup = has_colours
        failure.toterminal(writer)
        shown = out.getvalue()
        assert headline.format(plain_text(LINES[:1])) in shown
        assert re.sub(r"\x1b\[\d+m", "", shown) == plain_text(LINES) + "\n"
