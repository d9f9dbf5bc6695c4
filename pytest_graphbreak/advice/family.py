"""Families of reasons, and where all of them are loaded from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TypeVar

import msgspec

Data = TypeVar("Data")

SHORT_LIMIT = 110
"""Maximum number of characters of the line after ``fix:``."""


@dataclass(frozen=True, slots=True)
class Sign:
    """The pattern of a family's reasons. Every part that is given must be found.

    ``reason`` is searched in the reason (torch's ``gb_type``, or the free text of an older torch),
    ``detail`` in torch's own explanation and hints, ``code`` in the source line. All are regular
    expressions; case is ignored.
    """

    reason: str = ""
    detail: str = ""
    code: str = ""

    def __post_init__(self) -> None:
        if not (self.reason or self.detail or self.code):
            raise ValueError("a sign with no part would be found in everything")

    def matches(self, reason: str, detail: str = "", code: str = "") -> bool:
        """Return whether all parts of the sign are in the three texts."""
        pairs = ((self.reason, reason), (self.detail, detail), (self.code, code))
        return all(not part or re.search(part, text, re.IGNORECASE) for part, text in pairs)

    def could_be(self, reason: str) -> bool:
        """Return whether the reason fits, and only detail or code can decide."""
        open_parts = self.detail or self.code
        return bool(self.reason and open_parts and re.search(self.reason, reason, re.IGNORECASE))


@dataclass(frozen=True, slots=True)
class SpecificLine:
    """What to write instead for those reasons of a family in which all given parts are found.

    The parts are those of a sign, but their case matters. In ``short``, ``{tensor}`` and ``{dim}``
    are the tensor and the dimension that a failed guard is about.
    """

    short: str
    reason: str = ""
    detail: str = ""
    code: str = ""

    def matches(self, reason: str, detail: str = "", code: str = "") -> bool:
        """Return whether all parts of the line are in the three texts."""
        pairs = ((self.reason, reason), (self.detail, detail), (self.code, code))
        return all(not part or re.search(part, text) for part, text in pairs)


@dataclass(frozen=True, slots=True)
class Family:
    """Reasons with one meaning and one remedy.

    ``name`` is what a user types after ``graphbreak explain``; ``short`` is one line of at most
    ``SHORT_LIMIT`` characters: what to write instead. ``lines`` are those for some reasons; the
    first that fits takes the place of ``short``.
    """

    name: str
    title: str
    short: str
    signs: tuple[Sign, ...] = ()
    lines: tuple[SpecificLine, ...] = ()

    def matches(self, reason: str, detail: str = "", code: str = "") -> bool:
        """Return whether a reason belongs to this family."""
        return any(sign.matches(reason, detail, code) for sign in self.signs)


@dataclass(frozen=True, slots=True)
class Families:
    """The families of ``families.yaml``, by what they apply to."""

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
