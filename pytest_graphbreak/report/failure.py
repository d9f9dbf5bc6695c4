"""The failure text as pytest shows it: coloured on a terminal, plain text elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pytest_graphbreak.report.lines import DEPTH
from pytest_graphbreak.text.output import TextLine, indent_lines, plain_text
from pytest_graphbreak.text.terminal import columns, spans, wrap_line

Location = tuple[str, int | None, str]
"""pytest's ``TestReport.location``: file, 0-based line, name."""


class Crash:
    """The place and message that pytest's short summary shows on one line."""

    def __init__(self, location: Location, message: str) -> None:
        self.path = location[0]
        self.lineno = (location[1] or 0) + 1
        self.message = message

    def __str__(self) -> str:
        return f"{self.path}:{self.lineno}: {self.message}"


class FailureText:
    """The failure text as pytest shows it: coloured on a terminal, plain text elsewhere.

    With ``line`` (``--tb=line``), only pytest's own line of ``reprcrash`` is shown.
    """

    def __init__(
        self, lines: Sequence[TextLine], location: Location, *, line: bool = False
    ) -> None:
        self.lines = lines
        self.line = line
        self.message = plain_text(lines)
        self.reprcrash = Crash(location, self.message.partition("\n")[0])

    def __str__(self) -> str:
        return self.message

    def toterminal(self, tw: Any) -> None:
        if not self.line:
            write(self.lines, tw)

    def shorten(self, first: str) -> None:
        """Show only three lines, and point to ``first``, a test whose failure shows the rest."""
        self.lines = list(pointing_to(self.lines, first))


def pointing_to(lines: Sequence[TextLine], first: str) -> Iterator[TextLine]:
    """Yield the headline of a failure, its first cause, and the test that shows the rest."""
    yield lines[0]
    causes = [at for at, line in enumerate(lines) if line.kind in ("new", "lost")]
    for at in causes[:1]:
        place = next((line.text for line in lines[at:] if line.kind == "place"), "")
        yield replace(lines[at], text=place or lines[at].text)
    others = f"and {len(causes) - 1} more, " if len(causes) > 1 else ""
    yield TextLine(f"{others}as in {first}", indent=DEPTH)


def write(lines: Iterable[TextLine], tw: Any) -> None:
    """Write lines with pytest's writer, in its colours; in a file they are not wrapped."""
    width = columns(getattr(tw, "_file", None))
    for line in lines:
        for row in wrap_line(line.harmless(), width):
            for text, markup in spans(row, line.kind):
                tw.write(text, **dict.fromkeys(markup, True))
            tw.line()


_ERROR = "E   "
"""The text that pytest writes before the lines of an exception."""


class BlockText:
    """Prints the failure of a block, which is an exception of the test, without wide lines.

    It replaces the ``toterminal`` of pytest's representation of that exception, which otherwise
    stays the same. ``lines`` are the lines of the exception.
    """

    def __init__(self, longrepr: Any, lines: Sequence[TextLine]) -> None:
        self._print = longrepr.toterminal
        self._lines = lines
        traceback = getattr(longrepr, "reprtraceback", None)
        self._entries = getattr(traceback, "reprentries", ())

    def __call__(self, tw: Any) -> None:
        untouched = [entry.lines for entry in self._entries]
        width = columns(getattr(tw, "_file", None)) - len(_ERROR)
        for entry in self._entries:
            entry.lines = self._narrow(entry.lines, width)
        try:
            self._print(tw)
        finally:
            for entry, lines in zip(self._entries, untouched, strict=True):
                entry.lines = lines

    def _narrow(self, shown: Sequence[str], width: int) -> Sequence[str]:
        """Return the lines of an entry, with those of ``lines`` wrapped to a width."""
        first, *following = plain_text(self._lines).split("\n")
        for at, line in enumerate(shown):
            deeper = len(line) - len(line[1:].lstrip()) - len(_ERROR)
            end = at + 1 + len(following)
            expected = [f"{_ERROR}{' ' * deeper}{line}".rstrip() for line in following]
            if line.endswith(first) and [line.rstrip() for line in shown[at + 1 : end]] == expected:
                head = line[1:].lstrip().removesuffix(first) + self._lines[0].head
                ours = indent_lines((replace(self._lines[0], head=head), *self._lines[1:]), deeper)
                rows = (row for line in ours for row in wrap_line(line.harmless(), width))
                return [*shown[:at], *(f"{_ERROR}{row}".rstrip() for row in rows), *shown[end:]]
        return shown
