"""The long answer to ``graphbreak explain``: our page, torch's own words, where to read on."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache

from pytest_graphbreak.advice import page, registry
from pytest_graphbreak.advice.family import Family, families
from pytest_graphbreak.advice.match import first, guard
from pytest_graphbreak.advice.registry import Words

_NUMBERED = re.compile(r"gb[-_ ]?\d", re.IGNORECASE)
"""What begins as an id does."""

_OF_JAX = re.compile(
    r" before, .{0,200} now\b|arguments put together differently|the static argument "
    r"|function made anew|is a method of another|program had been forgotten"
    r"|TRACING CACHE MISS|never seen function|and before [a-z0-9]{1,20}\[",
)
"""Words that are said of programs of JAX only."""


@cache
def groups() -> dict[str, tuple[Family, ...]]:
    """Return all families, as a reader meets them. ``limit`` is under breaks and recompiles."""
    found = families()
    return {
        "graph breaks": found.breaks,
        "recompiles": found.recompiles,
        "device graphs": found.device,
        "programs of JAX": (*found.retraces, *found.programs, *found.stopped),
        "words of the reports": found.topics,
    }


@cache
def by_name() -> dict[str, Family]:
    """Return all families by their names."""
    return {one.name: one for group in groups().values() for one in group}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known of a reason.

    ``family`` is the name of our page, empty where torch's words are all there
    is; ``id`` an id of the installed torch, whose version is ``torch``, or
    None. ``words`` are torch's own, the newest first. ``also`` names families
    that share this reason and may fit better.
    """

    title: str
    family: str
    short: str | None = None
    page: page.Page | None = None
    id: str | None = None
    torch: str | None = None
    words: tuple[Words, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def url(self) -> str | None:
        """Torch's own page on the id."""
        return registry.link(self.id) if self.id else None


def explain(id_or_text: str) -> Explanation | None:
    """What an id, a family's name or the text of a reason means; None if nobody knows.

    Ids are those of the installed torch. A text may be a reason of any torch
    from 2.6 on, a failed guard, or torch's ``gb_type``.
    """
    text = " ".join(id_or_text.split())
    known = registry.installed()
    id = registry.as_id(text)
    if id is not None:
        return _of_id(id) if id in known.ids else None
    name = _name(text)
    family = by_name().get(name) or by_name().get(name.removesuffix("s"))
    if family is not None:
        return _of_family(family)
    id = known.by_reason(text)
    if id is not None:
        return _of_id(id)
    family = _by_text(text) if text else None
    return _of_family(family) if family is not None else None


def _by_text(text: str) -> Family | None:
    """Return the family of a reason whose layer is not known."""
    known = families()
    of_jax = first(known.retraces, text) if _OF_JAX.search(text) else None
    return of_jax or first(known.breaks, text, text, text) or first(known.recompiles, guard(text))


def suggest(id_or_text: str, limit: int = 5) -> tuple[str, ...]:
    """Names, ids and reasons near a text that ``explain`` does not know, the nearest first."""
    known = registry.installed().ids
    if _NUMBERED.match(id_or_text.strip()):
        # Ids with near digits mean something else; a digit too many or too few is a slip.
        typed = id_or_text.strip().lower()
        return tuple(id for id in known if id.lower() in typed or typed in id.lower())[:limit]
    targets = {name: name for name in by_name()}
    targets |= {id.lower(): id for id in known}
    targets |= {words[0].reason.lower(): id for id, words in known.items()}
    text = " ".join(id_or_text.lower().split())
    near = [targets[key] for key in difflib.get_close_matches(text, targets, n=limit, cutoff=0.6)]
    words = [word for word in re.findall(r"\w+", text) if len(word) > 3]
    near += [
        name
        for name, one in by_name().items()
        if any(word in f"{one.title} {one.short}".lower() for word in words)
    ]
    near += [targets[key] for key in targets if words and all(word in key for word in words)]
    return tuple(dict.fromkeys(near))[:limit]


def _name(text: str) -> str:
    """A family's name, however it is written: ``.item()``, ``Grad_Mode``, ``torch.cond``."""
    name = text.lower().strip(" .()`'\"").removeprefix("torch.")
    return re.sub(r"[ _]+", "-", name)


def _of_family(family: Family) -> Explanation:
    return Explanation(
        title=family.title, family=family.name, short=family.short, page=page.load(family.name)
    )


def _of_id(id: str) -> Explanation:
    known = registry.installed()
    words = known.ids[id]
    reason, detail = words[0].reason, "\n".join((words[0].explanation, *words[0].hints))
    family = first(families().breaks, reason, detail)
    return Explanation(
        title=reason,
        family=family.name if family else "",
        short=family.short if family else None,
        page=page.load(family.name) if family else None,
        id=id,
        torch=known.version,
        words=words,
        also=tuple(
            one.name
            for one in families().breaks
            if one is not family and any(sign.could_be(reason) for sign in one.signs)
        ),
    )
