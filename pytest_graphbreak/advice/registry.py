"""Torch's own words on each id, from the registry in its wheel.

The registry came with torch 2.8. An id can change its meaning from one release to the next, so it
is read from the installed torch, and the version is reported with it. Torch is located, not
imported, which would take seconds.

Where there is no torch, and for ids that it does not have, ``ids.json`` has the reason of each id
of the newest torch that was at hand. In an environment with a newer one, it is written again by

    python -m tests.advice.ids
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/"
"""Torch's pages on the ids (``torch/_dynamo/exc.py`` builds the same links)."""

_FILE = Path("_dynamo", "graph_break_registry.json")
"""The registry in torch's folder."""
TABLE: Final = "ids.json"
"""The table in this package."""
_UNFILLED = re.compile(r"[A-Za-z_]\w*(\([\w.]*\))?")
"""``explanation`` or ``str(e)`` in the registry: torch makes the text when the break happens."""

_LITERAL = re.compile(r'f?"([^"]*)"')
"""The literals in ``"Failed to compare, " + f"because {other} is no constant."``."""

_ID = re.compile(r"^GB[-_ ]?(\d{1,4})$", re.IGNORECASE)
"""``GB0059``, and as it may be typed: ``gb59``, ``GB-59``."""


class Words(Struct, frozen=True):
    """One wording of an id: the reason (``gb_type``), torch's explanation, its hints.

    Parts in braces (``{fn}``) are filled in when the break happens; an explanation that is made
    only then is empty.
    """

    id: str
    reason: str
    explanation: str
    hints: tuple[str, ...] = ()


class Registry(Struct, frozen=True):
    """The ids of one torch. ``version`` is None if no torch is installed.

    ``ids`` maps an id to its wordings, the newest first, and is empty if torch has no registry.
    """

    version: str | None
    ids: Mapping[str, tuple[Words, ...]]

    def by_reason(self, reason: str) -> str | None:
        """Return the id with this reason as its current wording, ignoring case and white space."""
        normalised = " ".join(reason.split()).lower()
        for id, words in self.ids.items():
            if " ".join(words[0].reason.split()).lower() == normalised:
                return id
        return None


def as_id(text: str) -> str | None:
    """Return ``GB0059`` for ``gb59``; None if the text is no id."""
    match = _ID.match(text.strip())
    return f"GB{int(match[1]):04d}" if match else None


def link(id: str) -> str:
    """Return the URL of torch's page on an id."""
    return f"{SITE}{id.lower()}.html"


@functools.cache
def installed_registry() -> Registry:
    """Return the registry of the installed torch, empty if there is no registry or no torch."""
    try:
        spec = importlib.util.find_spec("torch")
    except ValueError:  # something replaced torch in sys.modules
        spec = None
    if spec is None or not spec.submodule_search_locations:
        return Registry(None, {})
    folder = Path(next(iter(spec.submodule_search_locations)))
    return Registry(_version(folder), read(folder / _FILE))


@functools.cache
def shipped_registry() -> Registry:
    """Return the ids that come with this package, each with its reason alone."""
    text = (resources.files(__package__) / TABLE).read_text(encoding="utf-8")
    table = json.loads(text)
    return Registry(table["torch"], {id: (Words(id, table["ids"][id], ""),) for id in table["ids"]})


def registry_of(id: str) -> Registry | None:
    """Return where an id is known: the installed torch, else the table, else None."""
    return next(
        (registry for registry in (installed_registry(), shipped_registry()) if id in registry.ids),
        None,
    )


def all_ids() -> dict[str, tuple[Words, ...]]:
    """Return the wordings of all ids; of an id that both have, the installed torch's alone."""
    return {**shipped_registry().ids, **installed_registry().ids}


def id_of_reason(reason: str) -> str | None:
    """Return the id with this reason, in the installed torch, else in the table."""
    return installed_registry().by_reason(reason) or shipped_registry().by_reason(reason)


def read(file: Path) -> dict[str, tuple[Words, ...]]:
    """Return the ids of a registry file, empty if it is missing or has an unknown format."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        ids = {id: _wordings(id, entries) for id, entries in sorted(data.items())}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    return {id: words for id, words in ids.items() if words}


def _wordings(id: str, entries: Iterable[Mapping[str, Any]]) -> tuple[Words, ...]:
    """Return one wording for each reason: of several, the newest that has an explanation."""
    wordings: dict[str, Words] = {}
    for entry in entries:
        reason = (entry.get("Gb_type") or "").strip()
        if not reason or reason == "_gb_type":  # once the name of a variable
            continue
        hints = tuple(filter(None, map(str.strip, entry.get("Hints") or ())))
        words = Words(id, reason, _fill_in(entry.get("Explanation") or ""), hints)
        before = wordings.setdefault(reason, words)
        if not before.explanation and words.explanation:
            wordings[reason] = replace(words, hints=before.hints or hints)
    return tuple(wordings.values())


def _fill_in(text: str) -> str:
    """Return the text of an explanation in the registry, which may hold torch's source for it.

    ``Dynamo cannot trace {fn}.`` stays as it is; of an expression (``"a" + f"b"``) its literals
    stay, and of a variable or a call (``explanation``, ``str(e)``) nothing.
    """
    line = text.strip()
    if line.startswith(('"', 'f"')):
        return "".join(_LITERAL.findall(line)).strip()
    return "" if _UNFILLED.fullmatch(line) else line


def _version(folder: Path) -> str | None:
    """Return the version of the torch in this folder, None if its file does not say it."""
    with suppress(OSError):
        text = (folder / "version.py").read_text(encoding="utf-8")
        if match := re.search(r"^__version__ = ['\"]([^'\"]+)", text, re.MULTILINE):
            return match[1]
    return None
