"""Python tracebacks as torch prints them in its logs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from sys import intern
from typing import Final, NamedTuple

from pytest_graphbreak.model.places import function_name, is_resume
from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.model.sources import Sources

_FRAME: Final = re.compile(
    r'^[ -]*File "([^"\n]{1,4096})", line (\d{1,9}), in (\S{1,500})[^\n]*'
    r'(?:\n +(?! |File "|[\^~ ]+$)([^\n]+))?',
    re.M,
)
_LONGEST: Final = 1000
"""Characters kept of a source line."""

_RUNNERS: Final = ("/_pytest/", "/pluggy/")


class Line(NamedTuple):
    """A frame as a log has it; ``code`` is None where the log does not quote it."""

    file: str
    line: int
    name: str
    code: str | None = None


def read(text: str) -> tuple[Line, ...]:
    """The frames of a traceback, outermost first."""
    return tuple(
        Line(
            intern(file), int(line), intern(name), intern(code.strip()[:_LONGEST]) if code else None
        )
        for file, line, name, code in _FRAME.findall(text)
    )


def join(above: Sequence[Line], traced: Sequence[Line]) -> tuple[Line, ...]:
    """The stack of what Dynamo traced below what called it.

    Torch from 2.10 on logs both together; then ``traced`` already begins as
    ``above`` does.
    """
    if above and traced and above[0][:2] == traced[0][:2]:
        above = ()
    return (*above, *traced)


def users(lines: Iterable[Line], sources: Sources) -> tuple[Frame, ...]:
    """The user's frames as real functions: no test runner, and the rest of one with its begin."""
    kept: list[Line] = []
    for line in lines:
        if any(part in line.file for part in _RUNNERS):
            kept.clear()
            continue
        if kept and is_resume(line.name) and _function(kept[-1]) == _function(line):
            kept.pop()
        kept.append(line)
    user = [line for line in kept if sources.is_user(line.file)]
    return tuple(sources.frame(*line) for line in user or kept[-1:])


def _function(line: Line) -> tuple[str, str]:
    return line.file, function_name(line.name)
