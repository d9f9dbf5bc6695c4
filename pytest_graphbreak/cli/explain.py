"""``graphbreak explain``: what a reason means and what to write instead. No network, no torch."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Iterator

from pytest_graphbreak.advice import Explanation, explain, suggest
from pytest_graphbreak.advice.explanation import FAMILIES, GROUPS
from pytest_graphbreak.advice.page import Example
from pytest_graphbreak.advice.registry import as_id, installed
from pytest_graphbreak.cli.messages import complain, say
from pytest_graphbreak.text.terminal import NARROWEST, is_terminal

_MADE_LATER = "(its text is made when the break happens: see the failure itself)"

WIDTH = 88
"""Columns of the text at most. Code is never wrapped."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One topic, in any number of words, so that a reason needs no quotes."""
    parser.add_argument(
        "topic",
        nargs="*",
        metavar="ID",
        help="an id (GB0124), a name (branch, split, recompile), or the text of a reason; "
        "without it, the names are listed",
    )


def run(args: argparse.Namespace) -> int:
    """Print the explanation. 0, or 2 if there is none: then what is near is named."""
    topic = " ".join(args.topic).strip()
    if not topic:
        say("\n".join(_names()))
        return 0
    found = explain(topic)
    if found is None:
        complain("\n".join(_unknown(topic)))
        return 2
    say("\n".join(render(found)))
    return 0


def render(found: Explanation) -> Iterator[str]:
    """The lines of an explanation, as plain text."""
    yield f"{found.id or found.family}: {found.title}"
    if found.id and found.family:
        yield from _wrapped(f"{found.family}: {FAMILIES[found.family].title}", "  ")
    page = found.page
    if page is not None:
        yield from _section("What it means", page.meaning)
        yield from _section("Why", page.why)
        yield from _items("What to write instead", page.instead)
        yield from _items("Switches", page.switches)
        for example in page.examples:
            yield from _example(example)
    if found.words:
        yield from _torch(found)
    if found.also:
        yield from _section("See also", ", ".join(found.also))
    if found.url:
        yield from _section("Read on", found.url)


def _section(title: str, text: str) -> Iterator[str]:
    if not text:
        return
    yield from ("", title)
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ""
        yield from _wrapped(paragraph, "  ")


def _items(title: str, items: tuple[str, ...]) -> Iterator[str]:
    if not items:
        return
    yield from ("", title)
    for item in items:
        yield from _wrapped(item, "  - ", "    ")


def _example(example: Example) -> Iterator[str]:
    yield ""
    yield from _wrapped(f"Example. {example.note}", "")
    if example.until:
        yield f"  (up to torch {example.until})"
    if example.since:
        yield f"  (torch {example.since} and later)"
    yield f"  before, which raises {example.raises}" if example.raises else "  before"
    yield from _code(example.before)
    yield "  after"
    yield from _code(example.after)


def _torch(found: Explanation) -> Iterator[str]:
    """Torch's own words. Where the id meant something else before, that is named."""
    words, *earlier = found.words
    yield from _section(f"Torch {found.torch} on {words.id}", words.explanation or _MADE_LATER)
    for hint in words.hints:
        yield from _wrapped(hint, "  - ", "    ")
    if earlier:
        reasons = "; ".join(one.reason for one in earlier)
        yield from _section(f"Earlier meanings of {words.id}", reasons)


def _code(code: str) -> Iterator[str]:
    for line in code.rstrip().splitlines():
        yield f"      {line}".rstrip()


def _wrapped(text: str, first: str, rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        _width(),
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _width() -> int:
    """Columns of the text: those of a narrower terminal, and no more than are read with ease."""
    there = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else WIDTH
    return max(NARROWEST, min(WIDTH, there))


def _names() -> Iterator[str]:
    yield "graphbreak explain NAME, or an id (GB0124), or the text of a reason"
    for title, families in GROUPS:
        yield from ("", title)
        for one in families:
            yield f"  {one.name:<22}{one.title}"


def _unknown(topic: str) -> Iterator[str]:
    known = installed()
    yield f"graphbreak: no advice on {topic!r}"
    if as_id(topic) and not known.ids:
        yield (
            f"torch {known.version} has no registry of ids (it came with 2.8)"
            if known.version
            else "ids are read from the installed torch, and there is none here"
        )
        yield "give the text of the reason instead of its id"
    elif as_id(topic):
        yield f"torch {known.version}, which is installed here, has no such id; another torch may"
        yield "give the text of the reason instead of its id"
    near = suggest(topic)
    if near:
        yield "did you mean: " + ", ".join(near)
    yield "graphbreak explain, without a name, lists all names"
