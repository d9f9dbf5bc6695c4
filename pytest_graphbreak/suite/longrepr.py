"""A failure as pytest shows it (``TestReport.longrepr``), and our lines by pytest's writer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_graphbreak.report.lines import DEPTH
from pytest_graphbreak.text.output import TextLine, plain_text
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
