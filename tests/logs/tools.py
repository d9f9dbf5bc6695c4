"""Logs, and what is read of them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from pytest_graphbreak.logs import reading
from pytest_graphbreak.logs.markers import TTLog
from pytest_graphbreak.logs.reading import Reading
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.text.lines import LONGEST, characters
from tests.logs.writer import Writer, broke, dynamo, join


def dress(
    text: bytes,
    colour: bool = False,
    crlf: bool = False,
    stripped: bool = False,
    rank: str = "",
    stamped: bool = False,
) -> bytes:
    """The log as other machines hand it on."""
    lines = []
    for number, line in enumerate(text.splitlines()):
        if stripped:
            line = line.rstrip()
        if colour:
            line = b"\x1b[36m" + line + b"\x1b[0m"
        if rank:
            line = b"[%s]<stderr>:" % rank.encode() + line
        if stamped:
            line = b"2026-08-21T10:22:52.%07dZ " % number + line
        lines.append(line)
    return (b"\r\n" if crlf else b"\n").join(lines) + b"\n"


def analyse(tmp_path: Path, *parts: bytes) -> Reading:
    """What is read of a log, in a checkout that has ``broken.py``."""
    path = tmp_path / "run.log"
    path.write_bytes(b"".join(parts))
    return reading.read(str(path), Places(Path(__file__).parent))


def counted(data: bytes, longest: int = LONGEST) -> TTLog:
    """Counts of a log whose lines are read in parts of at most ``longest`` bytes."""
    return read(iter(partial(characters(io.BytesIO(data)).readline, longest), ""))


def read(lines: Iterable[str]) -> TTLog:
    seen = TTLog()
    for line in lines:
        seen.add_line(line)
    seen.finish()
    return seen


STACKS = b"""\
#loc1 = loc("/root/tt-xla/net.py":3:0)
#loc2 = loc("/root/tt-xla/venv/lib/python3.12/site-packages/torch/nn/modules/module.py":1786:0)
#loc3 = loc("/root/tt-xla/main.py":9:0)
#loc4 = loc("forward"(#loc1))
#loc5 = loc("_call_impl"(#loc2))
#loc6 = loc("<module>"(#loc3))
#loc7 = loc(callsite(#loc5 at #loc6))
#loc8 = loc(callsite(#loc4 at #loc7))
#loc9 = loc(callsite(#loc5 at #loc8))
#loc10 = loc("aten__mm"(#loc9))
#loc11 = loc("aten__add.3/aten__add"(#loc8))
#loc12 = loc("xla__device_data"(#loc6))
#loc13 = loc("p0.1")
"""
"""As torch_xla makes them with XLA_HLO_DEBUG=1: stacks, innermost frame first."""


def whole() -> bytes:
    """A log in which nothing is missing."""
    graph = join(Writer().graph(1)).replace(b'#loc1 = loc("p0.1")\n', STACKS)
    return broke("0/0", 12, 'print("hi")') + dynamo("0/0") + graph
