"""The failure text as pytest shows it: colours on a terminal, plain text everywhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pytest_graphbreak.text.terminal import columns, wrapped

Location = tuple[str, int | None, str]
"""pytest's ``TestReport.location``: file, 0-based line, name."""


class Crash:
    """Where and what, in the one line that pytest's short summary shows."""

    def __init__(self, location: Location, message: str) -> None:
        self.path = location[0]
        self.lineno = (location[1] or 0) + 1
        self.message = message

    def __str__(self) -> str:
        return f"{self.path}:{self.lineno}: {self.message}"


class FailureText:
    """The failure text as pytest shows it: colours on a terminal, plain text everywhere else.

    With ``line`` (``--tb=line``) pytest's own line of ``reprcrash`` is all that is shown.
    """

    def __init__(self, message: str, location: Location, *, line: bool = False) -> None:
        self.message = message
        self.line = line
        self.reprcrash = Crash(location, message.partition("\n")[0])

    def __str__(self) -> str:
        return self.message

    def toterminal(self, tw: Any) -> None:
        # Only where somebody looks: in a file lines stay whole, to be searched.
        if self.line:
            return
        width = columns(getattr(tw, "_file", None))
        for line in self.message.splitlines():
            for part in wrapped(line, width):
                tw.line(part, **dict.fromkeys(_markup(line), True))


_ERROR = "E   "
"""What pytest writes before the lines of an exception."""


class BlockText:
    """Prints the failure of a block, which is an exception of the test's: no line too wide.

    Put in place of the ``toterminal`` of what pytest has made of that exception, which stays
    as it is for all others.
    """

    def __init__(self, longrepr: Any) -> None:
        self._print = longrepr.toterminal
        traceback = getattr(longrepr, "reprtraceback", None)
        self._entries = [
            entry
            for entry in getattr(traceback, "reprentries", ())
            if any("BudgetExceeded: graph budget:" in line for line in entry.lines)
        ]

    def __call__(self, tw: Any) -> None:
        whole = [[*entry.lines] for entry in self._entries]
        width = columns(getattr(tw, "_file", None))
        for entry in self._entries:
            entry.lines[:] = _narrow(entry.lines, width)
        try:
            self._print(tw)
        finally:
            for entry, lines in zip(self._entries, whole, strict=True):
                entry.lines[:] = lines


def _narrow(lines: Iterable[str], width: int) -> Iterator[str]:
    for line in lines:
        if line.startswith(_ERROR):
            parts = wrapped(line.removeprefix(_ERROR), width - len(_ERROR))
            yield from (_ERROR + part for part in parts or [""])
        else:
            yield line


def _markup(line: str) -> tuple[str, ...]:
    if line.startswith("graph budget:"):
        return ("red", "bold")
    sign = line[2:4] if line.startswith("  ") else ""
    return {"+ ": ("red",), "- ": ("green",), "~ ": ("yellow",)}.get(sign, ())
