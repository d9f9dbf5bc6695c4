"""Stacks of Python frames, as sensors see them and as torch prints them in its logs.

A frame is a ``Line`` here: its file as on this machine, and the name of its code. ``users`` makes
of them what a record holds: each ``Frame``, with names that are the same on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from sys import intern
from traceback import walk_tb
from types import CodeType, FrameType, TracebackType
from typing import Final, NamedTuple

from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.model.places import Places, function_name, is_resume

# `  File "/home/u/yolo/head.py", line 11, in forward`, and the line of source below it, if there is
# one: no row of ^^^ or ~~~ that marks a part of it.
# Torch puts "- " before each line of the reasons why code was compiled again, and they may have a
# stack (`textwrap.indent` in torch/_dynamo/guards.py).
_FRAME: Final = re.compile(
    r'^[ -]*File "([^"\n]{1,4096})", line (\d{1,9}), in (\S{1,500})[^\n]*'
    r'(?:\n +(?! |File "|[\^~ ]+$)([^\n]+))?',
    re.M,
)
_LONGEST: Final = 1000
"""The maximum number of characters kept of a source line."""

RUNNERS: Final = ("_pytest/python.py", "_pytest/unittest.py")
"""The ends of the names of the files that call the function of a test."""


class Line(NamedTuple):
    """A frame of a stack: file as Python has it, 1-based line, name of the code object.

    ``code`` is the text of the line, or None if only the file has it.
    """

    file: str
    line: int
    name: str
    code: str | None = None


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those that called it, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def line_at(frame: FrameType, line: int | None = None) -> Line:
    """Return a frame with the line that it is at, or with another one."""
    code = frame.f_code
    return Line(code.co_filename, line or frame.f_lineno or 0, code.co_name)


def first_line(code: CodeType) -> Line:
    """Return a function with its first line."""
    return Line(code.co_filename, code.co_firstlineno, code.co_name)


def line_of(code: CodeType, instruction: int) -> Line:
    """Return a function with the line of one of its instructions."""
    at = (line for begin, end, line in code.co_lines() if begin <= instruction < end and line)
    return Line(code.co_filename, next(at, code.co_firstlineno), code.co_name)


def of_traceback(trace: TracebackType | None) -> tuple[Line, ...]:
    """Return the lines that an exception came by, the one that raised it last."""
    return tuple(line_at(frame, line) for frame, line in walk_tb(trace))


def read(text: str) -> tuple[Line, ...]:
    """Return the frames of a traceback, outermost first."""
    return tuple(
        Line(
            intern(file), int(line), intern(name), intern(code.strip()[:_LONGEST]) if code else None
        )
        for file, line, name, code in _FRAME.findall(text)
    )


def since_test(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the frames inside the call of a test; ``lines`` run from the outermost inwards."""
    for number in range(len(lines), 0, -1):
        if lines[number - 1].file.endswith(RUNNERS):
            return lines[number:]
    return lines


def users(lines: Iterable[Line], places: Places) -> tuple[Frame, ...]:
    """Return the user's frames, outermost first, or the innermost frame if there are none.

    If the rest of a function was being compiled, that function is one frame and not two.
    """
    distinct: list[Line] = []
    for line in lines:
        if distinct and is_resume(line.name) and function(distinct[-1]) == function(line):
            distinct.pop()
        distinct.append(line)
    user = [line for line in distinct if places.is_user(line.file)]
    frames = [places.frame(*line) for line in user or distinct[-1:]]
    # Until Python 3.11, a comprehension is a separate frame at the same line.
    return tuple(frame for i, frame in enumerate(frames) if frame not in frames[i + 1 : i + 2])


def function(line: Line) -> tuple[str, str]:
    """Return the file and the name of the function.

    Dynamo compiles the rest of a function after a break as a function of its own, whose name
    begins with ``torch_dynamo_resume_in_``: it is the same function here.
    """
    return line.file, function_name(line.name)
