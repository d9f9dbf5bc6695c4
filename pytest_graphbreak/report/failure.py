"""The failure text as pytest shows it: colours on a terminal, plain text everywhere else."""

from __future__ import annotations

from typing import Any

from pytest_graphbreak.text.terminal import fitted, is_terminal

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
    """The failure text as pytest shows it: colours on a terminal, plain text everywhere else."""

    def __init__(self, message: str, location: Location) -> None:
        self.message = message
        self.reprcrash = Crash(location, message.partition("\n")[0])

    def __str__(self) -> str:
        return self.message

    def toterminal(self, tw: Any) -> None:
        # Only where somebody looks: in a file lines stay whole, to be searched.
        width = tw.fullwidth if is_terminal(getattr(tw, "_file", None)) else 0
        for line in self.message.splitlines():
            for part in fitted(line, width):
                tw.line(part, **dict.fromkeys(_markup(line), True))


def _markup(line: str) -> tuple[str, ...]:
    if line.startswith("graph budget:"):
        return ("red", "bold")
    sign = line[2:4] if line.startswith("  ") else ""
    return {"+ ": ("red",), "- ": ("green",), "~ ": ("yellow",)}.get(sign, ())
