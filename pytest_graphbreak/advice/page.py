"""The long form of a family: one Markdown file of ``pages``, read when somebody asks.

A page has a lead paragraph (what it means) and then sections, all but the
first optional::

    ## Why
    ## Instead          (a list)
    ## Switch           (config switches, a list)
    ## Example          (prose, an ``inputs:`` line, two python blocks)

The two blocks of an example are the code before and after. Both define ``f``;
``inputs`` is a Python expression, a tuple of argument tuples for its calls.
Other words of an example's header are in ``Example``. Tests run them all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources

_SECTION = re.compile(r"^## +(\S.*)$", re.MULTILINE)
_BLOCK = re.compile(r"^```python\n((?:(?!```).*\n)*)```[ \t]*$", re.MULTILINE)
_KEY = re.compile(r"^(inputs|needs|raises|since|until):[ \t]*(.+)$", re.MULTILINE)
SECTIONS = ("Why", "Instead", "Switch", "Example")


class PageError(ValueError):
    """A page of ours that is not written as this module says."""


@dataclass(frozen=True, slots=True)
class Example:
    """Code before and after. ``f`` is what is compiled, unless it compiles itself.

    ``note`` says what the example shows; ``inputs`` is the expression of the
    calls; ``needs`` is ``xla`` where the example needs a device, ``jax`` where
    it is one of JAX, or empty;
    ``raises`` is the exception that the code before raises, or empty; ``since``
    and ``until`` are the first and the last torch (``2.13``) for which the code
    before does what the note says, or empty for all.
    """

    note: str
    before: str
    after: str
    inputs: str
    needs: str = ""
    raises: str = ""
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page, taken apart. Paragraphs are single lines; code keeps its lines."""

    meaning: str
    why: str = ""
    instead: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()


def names() -> tuple[str, ...]:
    """The names of all pages, sorted."""
    files = (resources.files(__package__) / "pages").iterdir()
    return tuple(sorted(file.name[:-3] for file in files if file.name.endswith(".md")))


def load(name: str) -> Page:
    """The page of a family. Raises ``KeyError`` if it has none, ``PageError`` if it is bad."""
    file = resources.files(__package__) / "pages" / f"{name}.md"
    if not file.is_file():
        raise KeyError(name)
    return parse(file.read_text(encoding="utf-8"), name)


def parse(text: str, name: str = "page") -> Page:
    """Take the text of a page apart. Raises ``PageError`` with the page's name."""
    parts = _SECTION.split(text)
    page: dict[str, str] = {}
    examples: list[Example] = []
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        title = heading.rstrip()
        if title == "Example":
            examples.append(_example(body, name))
        elif title in SECTIONS and title not in page:
            page[title] = body
        else:
            raise PageError(f"{name}: section {title!r} is unknown or there twice")
    meaning = _paragraphs(parts[0])
    if not meaning:
        raise PageError(f"{name}: there is no text before the first section")
    return Page(
        meaning=meaning,
        why=_paragraphs(page.get("Why", "")),
        instead=_items(page.get("Instead", ""), name),
        switches=_items(page.get("Switch", ""), name),
        examples=tuple(examples),
    )


def _paragraphs(text: str) -> str:
    """Paragraphs joined to single lines, an empty line between them."""
    blocks = (" ".join(block.split()) for block in re.split(r"\n[ \t]*\n", text.strip()))
    return "\n\n".join(block for block in blocks if block)


def _items(text: str, name: str) -> tuple[str, ...]:
    """The items of a Markdown list, each on one line."""
    if not text.strip():
        return ()
    items = re.split(r"^- ", "\n" + text.strip(), flags=re.MULTILINE)
    if items[0].strip():
        raise PageError(f"{name}: a list is expected, this stands before it: {items[0].strip()!r}")
    return tuple(" ".join(item.split()) for item in items[1:])


def _example(body: str, name: str) -> Example:
    blocks = _BLOCK.findall(body)
    if len(blocks) != 2:
        raise PageError(f"{name}: an example has two python blocks, this one {len(blocks)}")
    head = body.split("```", 1)[0]
    keys = {key: value.strip() for key, value in _KEY.findall(head)}
    if "inputs" not in keys:
        raise PageError(f"{name}: an example needs an inputs: line")
    note = _paragraphs(_KEY.sub("", head))
    return Example(note=note, before=blocks[0], after=blocks[1], **keys)
