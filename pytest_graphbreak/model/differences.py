"""The verdicts on a test, and a single difference from what was recorded or allowed. Data only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Struct

from pytest_graphbreak.model.forms import OPTIONAL, BadValue, Count, Data, LayerName, Text, says
from pytest_graphbreak.model.items import NOWHERE, Item, Where
from pytest_graphbreak.model.record import Record

# The verdicts on a test, and how each of them is treated.


class VerdictKind(Struct, frozen=True):
    """A verdict on a test.

    A verdict that ``fails`` makes a gated test fail; others are only reported (those with
    ``strict`` make a test fail under ``graph_budget_strict``). ``by_change`` says whether a changed
    number can lead to it, ``accepted`` whether an update of the baseline can end it.

    The page of a report (``report.html``) asks for three more. A test that ``loses`` compiled code
    is ranked by how much it lost, another by how much it grew. Of a test that ``shrinks`` the page
    first names what is gone, of another what is new. A ``blind`` test has no counts.
    """

    name: str
    fails: bool = False
    strict: bool = False
    by_change: bool = False
    accepted: bool = False
    blind: bool = False
    loses: bool = False
    shrinks: bool = False


VERDICT_KINDS: Final = (
    VerdictKind("error", fails=True, blind=True),
    VerdictKind("over", fails=True, by_change=True, accepted=True),
    VerdictKind("lost", fails=True, by_change=True, accepted=True, loses=True),
    VerdictKind("new", fails=True, accepted=True),
    VerdictKind("improved", strict=True, by_change=True, accepted=True, shrinks=True),
    VerdictKind("changed", strict=True, by_change=True, accepted=True),
    VerdictKind("ok"),
    VerdictKind("none"),
)
"""All verdicts, the most urgent first."""
# Their names, and those with one property.
VERDICTS: Final = tuple(verdict.name for verdict in VERDICT_KINDS)
BY_VERDICT: Final = {verdict.name: verdict for verdict in VERDICT_KINDS}
FAILING: Final = tuple(verdict.name for verdict in VERDICT_KINDS if verdict.fails)
"""Verdicts that fail a gated test."""
STRICT: Final = tuple(verdict.name for verdict in VERDICT_KINDS if verdict.strict)
"""Verdicts that fail a gated test under ``graph_budget_strict``."""
BY_CHANGE: Final = tuple(verdict.name for verdict in VERDICT_KINDS if verdict.by_change)
"""The verdicts that a changed number can lead to."""


LISTS: Final = {
    "graph": "graph_list",
    "break": "breaks",
    "recompile": "recompile_list",
    "eager": "eager",
    "execution": "execution_list",
    "read": "read_list",
    "compiled": "graph_list",
}
"""The list of a record that holds the items of a kind. A kind without a list has no items."""

KINDS: Final = (*LISTS, "ops")
"""The kinds of differences; captured operations are only a total."""

if TYPE_CHECKING:  # mypy knows no ``Literal`` of a variable
    from typing import TypeAlias

    Kind: TypeAlias = str
    VerdictByChange: TypeAlias = str
else:
    Kind, VerdictByChange = Literal[KINDS], Literal[BY_CHANGE]


class Difference(Data, frozen=True, rename={"parent": "with"}):
    """One difference between what was known before and what was observed.

    ``total`` is true for the number of a whole layer (for breaks and eager, of all layers), false
    for the number of one place. ``by`` says where ``before`` comes from: ``baseline``, or the
    source of a cap (``Cap.by``). ``parent`` is the index of the change in the same list that caused
    this one; ``items`` are indices into the list of the record that ``LISTS`` names.
    """

    kind: Annotated[Kind, says("What changed.")]
    layer: Annotated[LayerName | None, says("null for breaks and eager in total.")] = None
    total: Annotated[bool, says("Whether it is a number of the whole test, and not one place.")] = (
        False
    )
    cause: Annotated[Text, OPTIONAL, says("Of a graph at one place, why it exists.")] = ""
    where: Where = NOWHERE
    reason: Annotated[Text, OPTIONAL] = ""
    id: Annotated[Text | None, OPTIONAL, says("The GB id, where torch gives one.")] = None
    was: Annotated[
        Text, OPTIONAL, says("Before, where only that changed: the id or the reason of a break.")
    ] = ""
    before: Annotated[Count | None, says("How many; null where it is not known.")] = None
    after: Annotated[Count, says("How many now.")] = 0
    by: Annotated[
        Text,
        OPTIONAL,
        says("Whose number before is: marker, option, block; of the baseline if it is missing."),
    ] = "baseline"
    verdict: Annotated[
        VerdictByChange | None,
        says("The verdict that this number by itself leads to; null for a place."),
    ] = None
    parent: Annotated[
        Count | None, says("The change that it happened with, by its number in this list.")
    ] = None
    items: Annotated[
        tuple[Count, ...],
        says(
            "What it is about, by number in the list of the test: graph_list, breaks, "
            "recompile_list, eager, execution_list or read_list."
        ),
    ] = ()
    unsure: Annotated[
        bool, OPTIONAL, says("Whether it is one of several functions of which any may be new.")
    ] = False

    @property
    def growth(self) -> int:
        """The increase of the number; negative for a decrease."""
        return self.after - (self.before or 0)

    @property
    def is_new(self) -> bool:
        """Whether nothing like it was known at this place before."""
        return not self.total and not self.before and self.after > 0

    @property
    def is_less(self) -> bool:
        """Whether the number of a place decreased, to 0 or to less than before."""
        return not self.total and bool(self.before) and self.growth < 0

    def items_of(self, record: Record) -> tuple[Item, ...]:
        """Return the items of the record that this difference is about."""
        if self.kind not in LISTS:
            return ()
        items: Sequence[Item] = getattr(record, LISTS[self.kind])
        return tuple(items[number] for number in self.items)


def check_differences(changes: Sequence[Difference], record: Record) -> None:
    """Raise ``BadValue`` if an index refers to no change or to no item of the record."""
    for number, change in enumerate(changes):
        length = len(getattr(record, LISTS[change.kind])) if change.kind in LISTS else 0
        if any(item >= length for item in change.items):
            raise BadValue("names an item that is not in the test", f"changes[{number}].items")
        if change.parent is not None and change.parent >= number:
            raise BadValue("names no change before this one", f"changes[{number}].with")
