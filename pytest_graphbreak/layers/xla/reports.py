"""Reads what torch_xla writes to ``PT_XLA_DEBUG_FILE``: one report for each compilation.

The text comes from the file while a window is open (``debug_file``), or from a log
(``logs.torch_lines``).

Two blocks belong to a compilation: ``Compilation Analysis`` before it, with the
cause and the Python frames, and ``Computation hash`` with ``Post Compilation
Analysis`` after it. In a thread without Python frames (autograd's) only the
second is written. ``Unexpected Execution Analysis`` is no compilation: a value
was taken inside ``torch_xla.compile(full_graph=True)``, which then raises.

Source: torch_xla/csrc/debug_util.cpp of torch_xla 2.9.
"""

from __future__ import annotations

import re

from msgspec import Struct

from pytest_graphbreak.model.stacks import Line

_RULE = "=" * 20
_FRAME = re.compile(r"(?P<name>\S+) \((?P<file>.*):(?P<line>\d{1,9})\)")
"""A Python frame: ``forward (/home/me/model.py:12)``."""
_COUNT = re.compile(r"[0-9]{1,9}")
_COMPILATION = "Compilation Analysis: "
_UNEXPECTED = "Unexpected Execution Analysis: "
_AFTERWARDS = "Computation hash: "


class CompileReport(Struct, eq=False):
    """A compilation. ``frames`` run from the innermost outwards, empty in autograd's thread.

    ``stated_cause`` is torch_xla's own guess at the cause.
    """

    stated_cause: str = ""
    hash: str | None = None
    name: str | None = None
    inputs: int | None = None
    outputs: int | None = None
    frames: tuple[Line, ...] = ()

    @property
    def lowers(self) -> bool:
        """Whether the bridge lowered an FX graph by it, or a part of one.

        Not so the inputs that it settles first, by ``torch_xla.sync``: see ``is_of_bridge``.
        """
        stated = self.stated_cause
        if "compiling a FX graph" in stated or "executing a compiled" in stated:
            return True
        return any(frame.name == "extract_graph_helper" for frame in self.frames[:1])

    def has_call_of(self, function: str) -> bool:
        """Return whether a function of torch_xla with this name is on the stack."""
        return any(frame.name == function and "torch_xla" in frame.file for frame in self.frames)

    @property
    def is_in_backward(self) -> bool:
        """Whether what was lowered is the backward pass of a compiled function."""
        return any(
            "backward" in frame.name and "/torch/_functorch/" in frame.file for frame in self.frames
        )

    @property
    def is_of_bridge(self) -> bool:
        """Whether the bridge lowered an FX graph by it, or settled its inputs."""
        return bool(self.frames) and self.frames[0].name in ("extract_graph_helper", "sync")


class Reader(Struct):
    """Takes the text in pieces, broken anywhere, and returns the reports that are complete."""

    refused: list[str] = []
    """The text of unexpected executions, which torch_xla wanted the user to see."""
    _partial_line: str = ""
    _prefix: str = ""
    _block: list[str] = []
    _unpaired: int = 0
    """Compilations whose first block was read, and whose second is still to come."""

    def feed(self, text: str) -> list[CompileReport]:
        lines = (self._partial_line + text).split("\n")
        self._partial_line = lines.pop()
        reports = []
        for line in lines:
            report = self._take(line)
            if report is not None:
                reports.append(report)
        return reports

    def forget_unpaired(self) -> None:
        """Note that no compilation is under way: one that has no second block has failed."""
        self._unpaired = 0

    def _take(self, line: str) -> CompileReport | None:
        if self._prefix:
            return self._read_block(line)
        for prefix in (_COMPILATION, _UNEXPECTED):
            if line.startswith(prefix + _RULE):
                self._prefix, self._block = prefix, [line]
                return None
        if line.startswith(_AFTERWARDS):
            if not self._unpaired:  # autograd's thread: there was no first block
                return CompileReport()
            self._unpaired -= 1
        return None

    def _read_block(self, line: str) -> CompileReport | None:
        self._block.append(line)
        if not line.startswith(self._prefix + _RULE):
            return None
        prefix, self._prefix = self._prefix, ""
        if prefix == _UNEXPECTED:
            self.refused.append("\n".join(["", *self._block, ""]))
            return None
        self._unpaired += 1
        return _report([text.removeprefix(prefix) for text in self._block])


def _report(lines: list[str]) -> CompileReport:
    report = CompileReport()
    heading = ""
    frames: list[Line] = []
    for line in lines:
        text = line.strip()
        if not line.startswith("  "):
            heading = text
        elif heading.startswith("Compilation Cause"):
            report.stated_cause = text
        elif heading.startswith("Graph Info"):
            _graph_info(report, text)
        elif heading.startswith("Python Frame") and (match := _FRAME.fullmatch(text)):
            frames.append(Line(match["file"], int(match["line"]), match["name"]))
    report.frames = tuple(frames)
    return report


def _graph_info(report: CompileReport, text: str) -> None:
    key, _, value = text.partition(": ")
    if key == "Graph Hash":
        report.hash = value.zfill(32)
    elif key == "Graph Name":
        report.name = value
    elif key == "Number of Graph Inputs" and _COUNT.fullmatch(value):
        report.inputs = int(value)
    elif key == "Number of Graph Outputs" and _COUNT.fullmatch(value):
        report.outputs = int(value)
