"""One difference from what was recorded or allowed. Pure data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pytest_graphbreak.model.forms import OPTIONAL, BadValue, Count, Data, LayerName, Text, says
from pytest_graphbreak.model.record import (
    NOWHERE,
    Break,
    Eager,
    Graph,
    LineRuns,
    Recompile,
    Record,
    Where,
)

# The verdicts on a test, and what is done with each of them.


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


Item = Break | Eager | Recompile | Graph | LineRuns
"""What happened at a place."""

LISTS: Final = {
    "graph": "graph_list",
    "break": "breaks",
    "recompile": "recompile_list",
    "eager": "eager",
    "execution": "execution_list",
    "read": "read_list",
}
"""The list of a record that holds the items of a kind. A kind without one has no items."""

KINDS: Final = (*LISTS, "ops", "function", "work")


if TYPE_CHECKING:
    from typing import TypeAlias

    Kind: TypeAlias = str
    Meaning: TypeAlias = str
else:
    Kind, Meaning = Literal[KINDS], Literal[MEANINGS]


class Difference(Data, frozen=True, rename={"parent": "with"}):
    """One difference between what was known before and what was observed.

    ``total``: the number of a whole layer, or for breaks and eager of all layers; else it is of
    one place. ``cause`` is why a graph exists. ``before`` is None where nobody knows what was
    there. ``by`` says whose number ``before`` is: ``baseline``, or that of ``Cap.by``.
    ``verdict`` is what the total by itself leads to. ``parent`` is the number of the change that
    made this one, in the same list, ``items`` the numbers of what it is about in the list of the
    record that ``LISTS`` names. ``was`` is the id, the reason or the name before, where only
    that differs.
    ``unsure``: of several functions that are compiled, which one is new is not known.
    """

    kind: Annotated[Kind, says("What changed.")]
    layer: Annotated[LayerName | None, says("null for breaks and eager in total.")] = None
    total: Annotated[bool, says("Whether it is a number of the whole test, and not one place.")] = (
        False
    )
    cause: Annotated[Text, says("Of a graph at one place, why it exists."), OPTIONAL] = ""
    where: Where = NOWHERE
    reason: Annotated[Text, OPTIONAL] = ""
    id: Annotated[Text | None, says("The GB id, where torch gives one."), OPTIONAL] = None
    was: Annotated[
        Text,
        says(
            "Before, where only that changed: the id or the reason of a break, the name of a "
            "function."
        ),
        OPTIONAL,
    ] = ""
    before: Annotated[Count | None, says("How many; null where it is not known.")] = None
    after: Annotated[Count, says("How many now.")] = 0
    by: Annotated[
        Text,
        says("Whose number before is: marker, option, block; of the baseline if it is missing."),
        OPTIONAL,
    ] = "baseline"
    verdict: Annotated[
        Meaning | None,
        says("The verdict that this number by itself leads to; null for a place."),
    ] = None
    parent: Annotated[
        Count | None,
        says("The change that it happened with, by its number in this list."),
    ] = None
    items: Annotated[
        tuple[Count, ...],
        says(
            "What it is about, by number in the list of the test: graph_list, breaks, "
            "recompile_list, eager, execution_list or read_list."
        ),
    ] = ()
    unsure: Annotated[
        bool,
        says("Whether it is one of several functions of which any may be new."),
        OPTIONAL,
    ] = False

    @property
    def growth(self) -> int:
        """How many more; fewer are below 0."""
        return self.after - (self.before or 0)

    @property
    def is_new(self) -> bool:
        """Whether nothing like it was known at this place."""
        return not self.total and not self.before and self.after > 0

    @property
    def is_gone(self) -> bool:
        """Whether a place has less than it had."""
        return not self.total and bool(self.before) and self.growth < 0

    def found(self, record: Record) -> tuple[Item, ...]:
        """What happened, as the record has it."""
        if self.kind not in LISTS:
            return ()
        known: Sequence[Item] = getattr(record, LISTS[self.kind])
        return tuple(known[number] for number in self.items)


def check_differences(changes: Sequence[Difference], record: Record) -> None:
    """Raise ``BadValue`` where a number names no change and no item of the record."""
    for number, change in enumerate(changes):
        known = len(getattr(record, LISTS[change.kind])) if change.kind in LISTS else 0
        if any(item >= known for item in change.items):
            raise BadValue("names an item that is not in the test", f"changes[{number}].items")
        if change.parent is not None and change.parent >= number:
            raise BadValue("names no change before this one", f"changes[{number}].with")
