"""The line after ``try:``: what it says to type can be typed, and does what it says."""

from __future__ import annotations

import operator
import re

import pytest

pytest.importorskip("torch")

import torch
import torch._dynamo

from pytest_graphbreak.advice.explanation import by_name

pytestmark = pytest.mark.once

SWITCH = re.compile(r"torch\._dynamo\.config\.\w+(?: = (?:True|False)|\.add\([\w.]+\))")
DOTTED = re.compile(r"(?<!\w)torch(?:_xla)?(?:\.[A-Za-z_]\w*)+")
BARE = re.compile(r"(?<![\w.])(?:config|decorators|mark_\w+)\b")


@pytest.mark.parametrize("name", sorted(by_name()))
def test_every_name_in_it_is_there_as_it_is_written(name: str) -> None:
    line = by_name()[name].short
    assert not BARE.search(line)
    assert line.count("torch._dynamo.config") == len(SWITCH.findall(line))
    for dotted in DOTTED.findall(line):
        if not dotted.startswith("torch_xla"):  # held by the examples of the pages, on the device
            operator.attrgetter(dotted.removeprefix("torch."))(torch)
