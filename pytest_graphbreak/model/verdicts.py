"""The verdicts on a test, and what is done with each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class VerdictKind:
    """One verdict.

    It ``fails`` a gated test, or is reported (``strict``: it fails one under
    ``graph_budget_strict``). ``by_change``: a change of a number can lead to it. ``one`` and
    ``several`` are what the first line of a comment says of tests that it fails.
    """

    name: str
    fails: bool = False
    strict: bool = False
    by_change: bool = False
    one: str = ""
    several: str = ""


ALL: Final = (
    VerdictKind("error", fails=True, one="could not be measured", several="could not be measured"),
    VerdictKind(
        "over",
        fails=True,
        by_change=True,
        one="test is over its graph budget",
        several="tests are over their graph budget",
    ),
    VerdictKind(
        "lost",
        fails=True,
        by_change=True,
        one="test lost compiled code",
        several="tests lost compiled code",
    ),
    VerdictKind("new", fails=True, one="test has no baseline", several="tests have no baseline"),
    VerdictKind("improved", strict=True, by_change=True),
    VerdictKind("changed", strict=True, by_change=True),
    VerdictKind("ok"),
    VerdictKind("none"),
)
"""The most urgent first."""
VERDICTS: Final = tuple(one.name for one in ALL)
FAILING: Final = tuple(one.name for one in ALL if one.fails)
"""Verdicts that fail a gated test."""
STRICT: Final = tuple(one.name for one in ALL if one.strict)
"""Verdicts that fail a gated test under ``graph_budget_strict``."""
MEANINGS: Final = tuple(one.name for one in ALL if one.by_change)
"""The verdicts that a change of a number can lead to."""
