"""The long answer of ``graphbreak explain``: a page, torch's own words, further reading.

First the pages, a file of ``pages/`` for each family; then what is found for what a user has typed.
``explain`` tries in this order::

    GB0124                    an id: torch's own words (``registry``), and the family that fits
    item, .item()             the name of a family, in any spelling
    Unsupported Tensor.item   a reason of torch: its id
    n == 3                    a text in which the sign of a family is found

If it knows nothing, ``suggest`` names what is near. A family is a group of reasons with one page
(``reasons``).
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from importlib import resources
from typing import Final

from msgspec import Struct

from pytest_graphbreak.advice import registry
from pytest_graphbreak.advice.reasons import Family, families, first, guard_text
from pytest_graphbreak.advice.registry import Words

# A page is Markdown. Its parts: "## Why", "- an item", a block of code, "inputs: torch.ones(3)".
_SECTION = re.compile(r"^## +(\S.*)$", re.MULTILINE)
_ITEM = re.compile(r"^- ", re.MULTILINE)
_BLOCK = re.compile(r"^```python\n((?:(?!```).*\n)*)```[ \t]*$", re.MULTILINE)
_KEY = re.compile(r"^(inputs|needs|raises|since|until):[ \t]*(.+)$", re.MULTILINE)
"""A line above the code of an example: a field of ``Example``."""


class Example(Struct, frozen=True):
    """Code before and after. ``f`` is what is compiled, unless it compiles itself.

    The tests run both (``tests/advice/test_examples.py``).
    """

    note: str
    """What the example shows."""
    before: str
    after: str
    inputs: str
    """The expression of the calls: ``torch.ones(3)``."""
    needs: str = ""
    """``xla`` if the example needs a device, ``jax`` if it is one of JAX, else empty."""
    raises: str = ""
    """The exception that the code before raises, if it does."""
    since: str = ""
    """The first torch for which the code before does what the note says, ``2.13``; empty: all."""
    until: str = ""
    """The last one."""


class Page(Struct, frozen=True):
    """A parsed page. Paragraphs are single lines; code keeps its lines.

    ``meaning`` is what stands above its first section; ``instead`` and ``switches`` are the items
    of the sections ``Instead`` and ``Switch``.
    """

    meaning: str
    why: str = ""
    instead: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()


def load_page(name: str) -> Page:
    """Return the page of a family."""
    file = resources.files(__package__) / "pages" / f"{name}.md"
    return parse_page(file.read_text(encoding="utf-8"))


def parse_page(text: str) -> Page:
    """Parse the text of a page: what it means, then sections, of which only examples repeat."""
    meaning, *parts = _SECTION.split(text)
    sections = [*zip(map(str.strip, parts[::2]), parts[1::2], strict=True)]
    page = dict(sections)
    return Page(
        meaning=_paragraphs(meaning),
        why=_paragraphs(page.get("Why", "")),
        instead=_list_items(page.get("Instead", "")),
        switches=_list_items(page.get("Switch", "")),
        examples=tuple(_example(body) for heading, body in sections if heading == "Example"),
    )


def _paragraphs(text: str) -> str:
    """Return paragraphs joined to single lines, with an empty line between them."""
    blocks = (" ".join(block.split()) for block in re.split(r"\n[ \t]*\n", text.strip()))
    return "\n\n".join(filter(None, blocks))


def _list_items(text: str) -> tuple[str, ...]:
    """Return the items of a Markdown list, each on one line."""
    return tuple(" ".join(item.split()) for item in _ITEM.split(text)[1:])


def _example(body: str) -> Example:
    """Return an example: its lines above the code, and exactly two blocks of code."""
    before, after = _BLOCK.findall(body)
    head = body.split("```", 1)[0]
    keys = {key: value.strip() for key, value in _KEY.findall(head)}
    return Example(note=_paragraphs(_KEY.sub("", head)), before=before, after=after, **keys)


MOST: Final = 5
"""The most names that are suggested."""
_NUMBERED = re.compile(r"gb[-_ ]?\d", re.IGNORECASE)
"""Text that begins like an id: ``gb59``, ``GB_0059``."""

_OF_JAX = re.compile(
    r" before, .{0,200} now\b|arguments put together differently|the static argument "
    r"|something static in "
    r"|new function object|is a method of another|program may have been forgotten"
    r"|calls Python on the host|TRACING CACHE MISS|never seen function|and before [a-z0-9]{1,20}\["
)
"""Words that are only used for programs of JAX: ``float32[3] before, float32[4] now``."""


@cache
def groups() -> dict[str, tuple[Family, ...]]:
    """Return all families, grouped for readers. ``limit`` is under breaks and recompiles."""
    all_families = families()
    return {
        "graph breaks": all_families.breaks,
        "recompiles": all_families.recompiles,
        "device graphs": all_families.device,
        "below Dynamo": all_families.below,
        "programs of JAX": (*all_families.retraces, *all_families.programs, *all_families.stopped),
        "words of the reports": all_families.topics,
    }


@cache
def by_name() -> dict[str, Family]:
    """Return all families by their names."""
    return {family.name: family for group in groups().values() for family in group}


class Explanation(Struct, frozen=True):
    """What is known of a reason: a family, an id of torch, or both."""

    title: str
    family: str
    """The name of the family and of its page; empty if there are only torch's words."""
    short: str | None = None
    page: Page | None = None
    id: str | None = None
    torch: str | None = None
    """The version of torch that has the id."""
    words: tuple[Words, ...] = ()
    """What torch says of the id, the newest first."""
    also: tuple[str, ...] = ()
    """Other families that share this reason and may fit better."""

    @property
    def url(self) -> str | None:
        """The URL of torch's own page on the id, or None."""
        return registry.link(self.id) if self.id else None


def explain(id_or_text: str) -> Explanation | None:
    """Return the meaning of an id, a family's name or the text of a reason, or None if unknown.

    Ids are those of the installed torch, else of the table of this package. A text may be a reason
    of any torch from 2.6 on, a failed guard, or torch's ``gb_type``.
    """
    text = " ".join(id_or_text.split())
    id = registry.as_id(text)
    if id is not None:
        return _explain_id(id)
    name = _name(text)
    family = by_name().get(name) or by_name().get(name.removesuffix("s"))  # as typed, or its plural
    if family is not None:
        return _explain_family(family)
    id = registry.id_of_reason(text)
    if id is not None:
        return _explain_id(id)
    family = _find_family(text) if text else None
    return _explain_family(family) if family is not None else None


def _find_family(text: str) -> Family | None:
    """Return the family of a reason whose layer is not known."""
    all_families = families()
    of_jax = (
        first((*all_families.retraces, *all_families.stopped), text)
        if _OF_JAX.search(text)
        else None
    )
    return (
        of_jax
        # Which part of a break the text is, is not known.
        or first(all_families.breaks, reason=text, detail=text, code=text)
        or first(all_families.recompiles, guard_text(text))
    )


def suggest(id_or_text: str) -> tuple[str, ...]:
    """Return names and ids near a text unknown to ``explain``, the nearest first.

    Nearest is what is spelled alike; then families with one of its words in their title or advice,
    then names and reasons with all of its words. A word of three letters is in too many.
    """
    ids = registry.all_ids()
    if _NUMBERED.match(id_or_text.strip()):
        # Ids with near digits mean something else; a digit too many or too few is a typing error.
        typed = id_or_text.strip().lower()
        return tuple(id for id in ids if id.lower() in typed or typed in id.lower())[:MOST]
    # What may have been meant, by how it may be typed.
    targets = {name: name for name in by_name()}
    targets |= {id.lower(): id for id in ids}
    targets |= {words[0].reason.lower(): id for id, words in ids.items()}
    text = " ".join(id_or_text.lower().split())
    near = [targets[key] for key in difflib.get_close_matches(text, targets, n=MOST, cutoff=0.6)]
    words = [word for word in re.findall(r"\w+", text) if len(word) > 3]
    near += [
        name
        for name, family in by_name().items()
        if any(word in f"{family.title} {family.short}".lower() for word in words)
    ]
    near += [targets[key] for key in targets if words and all(word in key for word in words)]
    return tuple(dict.fromkeys(near))[:MOST]


def _name(text: str) -> str:
    """Return a family's name from any spelling: ``.item()``, ``Grad_Mode``, ``torch.cond``."""
    name = text.lower().strip(" .()`'\"").removeprefix("torch.")
    return re.sub(r"[ _]+", "-", name)


def _explain_family(family: Family) -> Explanation:
    return Explanation(
        title=family.title, family=family.name, short=family.short, page=load_page(family.name)
    )


def _explain_id(id: str) -> Explanation | None:
    source = registry.registry_of(id)
    if source is None:
        return None
    words = source.ids[id]
    reason, detail = words[0].reason, "\n".join((words[0].explanation, *words[0].hints))
    family = first(families().breaks, reason, detail)
    return Explanation(
        title=reason,
        family=family.name if family else "",
        short=family.short if family else None,
        page=load_page(family.name) if family else None,
        id=id,
        torch=source.version,
        words=words,
        also=tuple(
            similar.name
            for similar in families().breaks
            if similar is not family and _may_be(similar, reason)
        ),
    )


def _may_be(family: Family, reason: str) -> bool:
    """Return whether a reason fits a family, and what decides, its detail or code, is not known."""
    undecided = (sign.reason for sign in family.signs if sign.detail or sign.code)
    return any(part and re.search(part, reason, re.IGNORECASE) for part in undecided)
