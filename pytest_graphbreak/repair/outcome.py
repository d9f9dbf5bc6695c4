"""What a search did for each problem of a program, and what it ended with."""

from __future__ import annotations

from msgspec import Struct, field

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.comparison import Comparison
from pytest_graphbreak.repair.gain import graphs
from pytest_graphbreak.repair.patch import SourcePatch
from pytest_graphbreak.repair.trial import Trial


class RejectedPatch(Struct, frozen=True):
    """A patch that was tried for a problem, and why it was not kept."""

    patch: SourcePatch
    why: str


class Problem(Struct):
    """A break, or the recompiles of the run (``item`` is None), and what was tried for it.

    ``before`` and ``after`` are numbers of graphs.
    """

    item: Break | None
    before: int
    after: int = 0
    tried: list[RejectedPatch] = []
    patches: list[SourcePatch] = []
    fixed: bool = False


class SearchResult(Struct):
    """The result of a search. ``last`` is the run of all kept patches together."""

    first: Trial
    last: Trial
    comparison: Comparison = field(default_factory=Comparison)
    """Of ``last`` with the original."""
    patches: list[SourcePatch] = []
    problems: list[Problem] = []

    @property
    def before(self) -> int:
        return graphs(self.first.record)

    @property
    def after(self) -> int:
        return graphs(self.last.record)
