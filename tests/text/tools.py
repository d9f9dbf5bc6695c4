"""What a browser, a runner of GitHub Actions and a terminal are for a text."""

from __future__ import annotations

import html.parser
import io


class Parsed(html.parser.HTMLParser):
    """Tags and text of a piece of HTML."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.text = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


def obeyed(line: str) -> bool:
    """Whether a runner of GitHub Actions takes a line for a command (its ActionCommand.cs)."""
    return line.lstrip().startswith("::") or "##[" in line


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True
