"""A page of advice as lines of text: all of it for ``explain``, its example for ``fix``.

An ``Explanation`` (``advice.explain``) is what is known of one reason: our page, which is about a
family of reasons such as ``branch``, and torch's own words on an id such as ``GB0124``. Either may
be missing: a new id of torch has no page of ours, and ``split`` of torch_xla has no id.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak import advice
from pytest_graphbreak.advice import Explanation
from pytest_graphbreak.advice.explanation import Example, Page, by_name
from pytest_graphbreak.advice.registry import installed_registry
from pytest_graphbreak.config.typed import this_command
from pytest_graphbreak.judging.finding import Finding
from pytest_graphbreak.text.output import BLANK, TextLine
from pytest_graphbreak.text.terminal import is_terminal
from pytest_graphbreak.text.wrapping import NARROWEST, wrap

_MADE_LATER: Final = "(its text is made when the break happens: see the failure itself)"
"""In place of torch's text, where its registry has none."""

WIDTH: Final = 88
"""The largest width of the text in columns, and the width in a file. Code is never wrapped."""


def lines(explanation: Explanation) -> Iterator[TextLine]:
    """Yield all that is known of a reason: our page, then torch's own words, then what to read."""
    yield from _wrap(f"{explanation.id or explanation.family}: {explanation.title}", "", "  ")
    if explanation.id and explanation.family:
        yield from _wrap(f"{explanation.family}: {by_name()[explanation.family].title}", "  ")
    page = explanation.page or Page("")
    yield from _section("What it means", page.meaning)
    yield from _section("Why", page.why)
    yield from items("What to write instead", page.instead)
    yield from items("Switches", page.switches)
    for example in page.examples:
        yield from _example(example)
    if explanation.words:
        yield from _torch(explanation)
    yield from _section("See also", ", ".join(explanation.also))
    yield from _section("Read on", explanation.url or "")


def _section(title: str, text: str) -> Iterator[TextLine]:
    if not text:
        return
    yield from (BLANK, TextLine(title, "title"))
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield BLANK
        yield from _wrap(paragraph, "  ")


def items(title: str, texts: tuple[str, ...]) -> Iterator[TextLine]:
    """Yield a section that is a list; nothing if the page has none of this title."""
    if not texts:
        return
    yield from (BLANK, TextLine(title, "title"))
    for item in texts:
        yield from _wrap(item, "  - ", "    ")


def _example(example: Example) -> Iterator[TextLine]:
    yield BLANK
    for line in _wrap(f"Example. {example.note}", ""):
        yield replace(line, kind="title")
    if example.until:
        yield TextLine(f"(up to torch {example.until})", indent=2)
    if example.since:
        yield TextLine(f"(torch {example.since} and later)", indent=2)
    raises = f", which raises {example.raises}" if example.raises else ""
    yield from _wrap(f"before{raises}", "  ", "    ")
    yield from _code(example.before)
    yield TextLine("after", indent=2)
    yield from _code(example.after)


class ExamplesOnce:
    """Shows, for the findings of one program, the code before and after of each page once.

    ``fix`` makes one, and asks it ``of`` each break that it could not fix.
    """

    def __init__(self) -> None:
        self._pages = set[str]()

    def of(self, finding: Finding) -> Iterator[TextLine]:
        """Yield an example of a finding's page, if one was not shown yet, and where more is.

        It is the first example that holds everywhere: with any torch, and without a device.
        """
        explanation = explanation_of(finding)
        page = explanation.page if explanation is not None else None
        if explanation is None or page is None or not page.examples:
            return
        if explanation.family not in self._pages:
            self._pages.add(explanation.family)
            portable = (x for x in page.examples if not (x.needs or x.raises or x.since or x.until))
            yield from _example(next(portable, page.examples[0]))
        command = this_command().graphbreak("explain", explanation.family)
        yield TextLine("more: ", command=command)


def _torch(explanation: Explanation) -> Iterator[TextLine]:
    """Yield torch's own text, and the earlier meanings of the id if there were any.

    The text is that of the installed torch; that of another, which we ship, is not shown.
    """
    words, *earlier = explanation.words  # the newest first
    if explanation.torch == installed_registry().version:
        title = f"Torch {explanation.torch} on {words.id}"
        yield from _section(title, words.explanation or _MADE_LATER)
    for hint in words.hints:
        yield from _wrap(hint, "  - ", "    ")
    if earlier:
        reasons = "; ".join(meaning.reason for meaning in earlier)
        yield from _section(f"Earlier meanings of {words.id}", reasons)


def _code(code: str) -> Iterator[TextLine]:
    for line in code.rstrip().splitlines():
        yield TextLine(line, "source", 6, whole=True)


def _wrap(text: str, first: str, next_rows: str | None = None) -> list[TextLine]:
    rows = wrap(text, _width(), first, first if next_rows is None else next_rows)
    return [TextLine(row, whole=True) for row in rows]


def _width() -> int:
    """Return the width of the text: that of the terminal, but not more than is easy to read."""
    there = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else WIDTH
    return max(NARROWEST, min(WIDTH, there))


def explanation_of(finding: Finding) -> Explanation | None:
    """Return the explanation of a finding by its family, or None where we have no words for it."""
    family = advice.family(finding.items[0]) if finding.items else None
    return None if family is None else advice.explain(family.name)
