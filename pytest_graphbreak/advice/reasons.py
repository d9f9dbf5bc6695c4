"""Families of reasons, as ``families.yaml`` has them: what a reason means, and what fixes it.

``first`` finds the family of a reason, ``fix_line`` the line of the family after ``fix:``. Which
reason an item of a record has, and whether the line holds for it, is for ``advice`` itself.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import resources
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

Data = TypeVar("Data")

SHORT_LIMIT: Final = 110
"""Maximum number of characters of the line after ``fix:``."""
_MOST_REASONS: Final = 10_000
"""The number of reasons that are looked up once: a run has the same few in all of its tests."""


class Sign(Struct, frozen=True):
    """The pattern of a family's reasons. Every part that is given must be found.

    ``reason`` is searched in the reason (torch's ``gb_type``, or the free text of an older torch),
    ``detail`` in torch's own explanation and hints, ``code`` in the source line. All are regular
    expressions. Case is ignored: ``graphbreak explain`` searches them in what a user types, too.
    """

    reason: str = ""
    detail: str = ""
    code: str = ""

    def matches(self, reason: str, detail: str = "", code: str = "") -> bool:
        """Return whether all parts of the sign are in the three texts."""
        pairs = ((self.reason, reason), (self.detail, detail), (self.code, code))
        return all(not part or re.search(part, text, re.IGNORECASE) for part, text in pairs)


PLAIN: Final = "plain"
"""The form of what plain calls of the user's own functions lead to.

A form is how the line that breaks is reached; ``layers.dynamo.reached`` has them all.
``self.net(x)`` is plain, a line of an installed package is ``library``, one that is called by
``torch.cond`` is ``operator``. ``tests/advice/table.py`` has programs of many forms.
"""


class FixLine(Struct, frozen=True):
    """A line after ``fix:`` for some reasons of a family. Like ``Sign`` it has patterns of them.

    Case matters here: they are searched in what was measured, and never in what a user types.

    ``short: x.sum() > 0 is a tensor`` with ``holds: [plain, library]`` is shown where a line of the
    user breaks and where one of an installed package does: in both forms a test has followed it. In
    others, such as in what ``torch.cond`` calls, nobody knows whether it helps.
    """

    short: str
    """With ``{tensor}`` and ``{dim}`` for the tensor and the dimension of a failed guard."""
    holds: tuple[str, ...]
    """Forms: ``plain``, or what ``Break.through`` may be; ``device`` on a device below Dynamo."""
    reason: str = ""
    detail: str = ""
    code: str = ""

    def matches(self, reason: str, detail: str = "", code: str = "") -> bool:
        """Return whether all parts of the line are in the three texts."""
        pairs = ((self.reason, reason), (self.detail, detail), (self.code, code))
        return all(not part or re.search(part, text) for part, text in pairs)


class Family(Struct, frozen=True, eq=False):  # hashed by identity, for the caches below
    """Reasons with one meaning and one remedy.

    ``name`` is what a user types after ``graphbreak explain``; ``short`` is one line of at most
    ``SHORT_LIMIT`` characters that sums its page up. The first of ``lines`` that fits is what a
    report may print after ``fix:``.
    """

    name: str
    title: str
    short: str
    signs: tuple[Sign, ...] = ()
    lines: tuple[FixLine, ...] = ()

    def matches(self, reason: str, detail: str = "", code: str = "") -> bool:
        """Return whether a reason belongs to this family."""
        return any(sign.matches(reason, detail, code) for sign in self.signs)


class Families(Struct, frozen=True):
    """The families of ``families.yaml``, by what they apply to.

    ``device`` are graphs and recompiles of a device, ``below`` what inductor, CUDA graphs and
    Triton do. Of JAX are ``retraces`` (its recompiles), ``programs`` (its graphs) and ``stopped``
    (its breaks and what runs eagerly). ``topics`` are causes and words that reports use.
    """

    breaks: tuple[Family, ...]
    recompiles: tuple[Family, ...]
    device: tuple[Family, ...]
    below: tuple[Family, ...]
    retraces: tuple[Family, ...]
    programs: tuple[Family, ...]
    stopped: tuple[Family, ...]
    topics: tuple[Family, ...]


@cache
def families() -> Families:
    """Return all families; they are read when first requested."""
    return load_yaml("families.yaml", Families)


def load_yaml(name: str, kind: type[Data]) -> Data:
    """Return the contents of a YAML file of this package, converted to ``kind``."""
    import yaml

    text = (resources.files(__package__) / name).read_text("utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return msgspec.convert(yaml.load(text, loader), kind)


_INDEX: Final = re.compile(r"tensor '(?P<tensor>\w+)' size mismatch at index (?P<dim>\d{1,3})\b")
"""``tensor 'x' size mismatch at index 0. expected 4, actual 5``: the tensor and its dimension."""


@lru_cache(_MOST_REASONS)
def fix_line(family: Family, reason: str, detail: str = "", code: str = "") -> FixLine | None:
    """Return the line for a reason of a family, or None; a name too long for it becomes ``x``."""
    fitting = (line for line in family.lines if line.matches(reason, detail, code))
    line = next(fitting, None)
    match = _INDEX.match(reason)
    if line is None or match is None:
        return line
    filled = line.short.replace("{dim}", match["dim"])
    texts = (filled.replace("{tensor}", name) for name in (match["tensor"], "x"))
    return replace(line, short=next(text for text in texts if len(text) <= SHORT_LIMIT))


@lru_cache(_MOST_REASONS)
def first(
    among: tuple[Family, ...], reason: str, detail: str = "", code: str = ""
) -> Family | None:
    """Return the first family that a reason belongs to, or None."""
    code = code.strip()
    return next((entry for entry in among if entry.matches(reason, detail, code)), None)


def guard_text(reason: str) -> str:
    """Return only the failed guard: source code and hints follow `` #`` or a line end.

    It is a text; the place of the guard is ``Recompile.guard``.
    """
    return re.split(r"\s#|\n", reason.strip(), maxsplit=1)[0].rstrip()
