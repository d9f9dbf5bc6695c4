"""Reads what torch_xla writes to ``PT_XLA_DEBUG_FILE``: one report for each compilation.

Two blocks belong to a compilation: ``Compilation Analysis`` before it, with the
cause and the Python frames, and ``Computation hash`` with ``Post Compilation
Analysis`` after it. In a thread without Python frames (autograd's) only the
second is written. ``Unexpected Execution Analysis`` is no compilation: a value
was taken inside ``torch_xla.compile(full_graph=True)``, which then raises.

Source: torch_xla/csrc/debug_util.cpp of torch_xla 2.9.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pytest_graphbreak.model.stacks import Line

_RULE = "=" * 20
_FRAME = re.compile(r"(?P<name>\S+) \((?P<file>.*):(?P<line>\d+)\)")
_COMPILATION = "Compilation Analysis: "
_UNEXPECTED = "Unexpected Execution Analysis: "
_AFTERWARDS = "Computation hash: "


@dataclass(slots=True, eq=False)
class CompileReport:
    """One compilation. ``frames`` run from the innermost outwards, empty in autograd's thread.

    ``said`` is torch_xla's own guess at the cause, ``cut`` whether it left
    frames out (``PT_XLA_DEBUG_MAX_FRAME``, 8 unless told).
    """

    said: str = ""
    hash: str | None = None
    name: str | None = None
    inputs: int | None = None
    outputs: int | None = None
    frames: tuple[Line, ...] = ()
    cut: bool = False

    @property
    def lowers(self) -> bool:
        """Whether the bridge lowered an FX graph by it, or settled its inputs."""
        return bool(self.frames) and self.frames[0].name in ("extract_graph_helper", "sync")


@dataclass(slots=True)
class Reader:
    """Takes the text in pieces, broken anywhere, and gives the reports that are whole."""

    refused: list[str] = field(default_factory=list)
    """The text of unexpected executions, which torch_xla wanted the user to see."""
    _rest: str = ""
    _prefix: str = ""
    _block: list[str] = field(default_factory=list)
    _unpaired: int = 0

    def feed(self, text: str) -> list[CompileReport]:
        lines = (self._rest + text).split("\n")
        self._rest = lines.pop()
        found = []
        for line in lines:
            report = self._take(line)
            if report is not None:
                found.append(report)
        return found

    def settle(self) -> None:
        """No compilation is under way: one that has no second block has failed."""
        self._unpaired = 0

    def _take(self, line: str) -> CompileReport | None:
        if self._prefix:
            return self._inside(line)
        for prefix in (_COMPILATION, _UNEXPECTED):
            if line.startswith(prefix + _RULE):
                self._prefix, self._block = prefix, [line]
                return None
        if line.startswith(_AFTERWARDS):
            if not self._unpaired:
                return CompileReport()
            self._unpaired -= 1
        return None

    def _inside(self, line: str) -> CompileReport | None:
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
            report.said = text
        elif heading.startswith("Graph Info"):
            _graph_info(report, text)
        elif heading.startswith("Python Frame"):
            if found := _FRAME.fullmatch(text):
                frames.append(Line(found["file"], int(found["line"]), found["name"]))
            elif text.strip(".") == "":
                report.cut = True
    report.frames = tuple(frames)
    return report


def _graph_info(report: CompileReport, text: str) -> None:
    key, _, value = text.partition(": ")
    if key == "Graph Hash":
        report.hash = value.zfill(32)
    elif key == "Graph Name":
        report.name = value
    elif key == "Number of Graph Inputs" and value.isdigit():
        report.inputs = int(value)
    elif key == "Number of Graph Outputs" and value.isdigit():
        report.outputs = int(value)
