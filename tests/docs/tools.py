"""The blocks of code of a page, and the files that they are."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


BLOCK = re.compile(
    r"(?:^ *<!-- *(?P<word>file|run|insert): *(?P<what>.*?) *-->\n)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    word: str | None
    what: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    source = page.read_text()
    for found in BLOCK.finditer(source):
        yield Block(
            page,
            source[: found.start()].count("\n") + 1,
            found["language"],
            textwrap.dedent(found["text"]),
            found["word"],
            found["what"] or "",
        )


def write_files(page: Path, here: Path) -> None:
    """The files of a page; of one that it changes, what it is in the end."""
    for block in blocks(page):
        if block.word == "file":
            _write(block, here)


def insert(block: Block, here: Path) -> None:
    """Put the text of a block above the line that it names."""
    name, _, line = block.what.rpartition(":")
    lines = (here / name).read_text().splitlines(keepends=True)
    below = lines[int(line) - 1]
    indent = below[: len(below) - len(below.lstrip())]
    lines.insert(int(line) - 1, textwrap.indent(block.text, indent))
    (here / name).write_text("".join(lines))


def _write(block: Block, here: Path) -> None:
    path = here / block.what
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text)
