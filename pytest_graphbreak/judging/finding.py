"""A finding: what changed or happened at one place, once for all reports.

``judging.findings`` makes findings of the changes of a judged test, or of a record without a
judgement. Reports choose from them and format them: as lines, as Markdown, as data of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.judging import guards
from pytest_graphbreak.model.items import NOWHERE, Break, Frame, Item, LineRuns, Recompile
from pytest_graphbreak.model.layers import DESCRIPTIONS, reason_key
from pytest_graphbreak.model.merging import total_seconds

NEW: Final = "+"
GONE: Final = "-"
REWORDED: Final = "~"
MAY_BE_NEW: Final = "*"
"""One of several functions of which any may be new."""
SEEN: Final = " "
"""What was observed where nothing says what was there before."""

MOST_NAMES: Final = 2
"""The number of recompiled graphs that are named one by one; of more, the first and the last."""


class NamedPlace(NamedTuple):
    """A line of source that a finding shows, after some words: ``set in``, or none."""

    words: str
    where: Frame


class Finding(Struct, frozen=True):
    """What changed or happened at one place, in the words of every report.

    - ``kind``: break, eager, recompile, execution, read, compiled, or the cause of a graph. A
      failure that no place explains is ``unreached`` (a function is no longer compiled),
      ``less`` (less of it is) or ``other``.
    - ``name``: the words before the reason, if it is not the ``id``: ``recompile 0/1``, ``split``.
    - ``stack``: from the outermost call to ``where``, which is its last frame.
    - ``fix``: what to write instead, one line for each reason.
    - ``count``: how often it happened in one test.
    - ``tests``: the names of the tests that have it, the most urgent first, and ``growth`` the
      graphs above the limit that they make together.
    - ``notes``: further reasons and facts. ``aside`` and ``circumstances`` are those of one test:
      the graphs above, the process, what the test said that it was doing.
    - ``places``: the lines of source to show, of which ``where`` is one, or its definition.
    - ``below``: its consequences, which disappear with it.
    - ``items``: the items of the record that it was made of; none if something is gone.
    """

    sign: str
    kind: str
    layer: str | None = None
    reason: str = ""
    id: str = ""
    where: Frame = NOWHERE
    stack: tuple[Frame, ...] = ()
    fix: tuple[str, ...] = ()
    count: int = 1
    tests: tuple[str, ...] = ()
    growth: int = 0
    name: str = ""
    notes: tuple[str, ...] = ()
    aside: str = ""
    circumstances: str = ""
    places: tuple[NamedPlace, ...] = ()
    below: tuple[Finding, ...] = ()
    items: tuple[Item, ...] = ()

    @property
    def code(self) -> str:
        return self.where.code

    @property
    def is_new(self) -> bool:
        return self.sign in (NEW, MAY_BE_NEW)

    @property
    def is_entry(self) -> bool:
        """Whether it is a function that was compiled when it was called."""
        layer = DESCRIPTIONS[self.layer] if self.layer else None
        return layer is not None and layer.above is None and layer.cause(self.kind).is_plain

    @property
    def words(self) -> str:
        """What it is, without its id: ``split   aten::histc runs on the CPU``."""
        return "   ".join(filter(None, (self.name, self.reason, self.aside)))

    @property
    def title(self) -> str:
        """What it is on one line: ``GB0124  Unsupported Tensor.item() call``."""
        return f"{self.id}  {self.words}" if self.id else self.words

    @property
    def seconds(self) -> float | None:
        """The compile time of its graphs, or None if it is not known."""
        return total_seconds(item for item in self.items if not isinstance(item, LineRuns))

    @property
    def owner(self) -> str:
        """The model that it belongs to; empty if there are several, or none."""
        owners = {getattr(item, "owner", None) or "" for item in self.items}
        return owners.pop() if len(owners) == 1 else ""

    @property
    def raising_line(self) -> Frame:
        """The line of torch that gave up; ``NOWHERE`` if it is not known."""
        return next((item.raised for item in self.items if isinstance(item, Break)), NOWHERE)

    @property
    def recompiled_graphs(self) -> tuple[str, ...]:
        """The names of the graphs that its recompiles made."""
        return tuple(item.graph for item in self.items if isinstance(item, Recompile))

    @property
    def names_of_recompiled(self) -> str:
        """The same in words: ``0/1``, ``0/1, 0/2``, ``0/1 to 0/9``."""
        graphs = self.recompiled_graphs
        return f"{graphs[0]} to {graphs[-1]}" if len(graphs) > MOST_NAMES else ", ".join(graphs)

    @property
    def new_condition(self) -> str:
        """Of a recompile: why callees are recompiled, too: ``x has shape [3, 4] now``."""
        return guards.new_condition(self.items[-1].reason)

    @property
    def calls(self) -> tuple[Frame, ...]:
        """The calls that lead to it, without the last ones that are among its places."""
        shown = {(place.where.file, place.where.line) for place in self.places}
        stack = self.stack
        while stack and (not stack[-1].file or (stack[-1].file, stack[-1].line) in shown):
            stack = stack[:-1]
        return stack

    def is_of(self, kind: type[Item]) -> bool:
        """Return whether it was made of items of this kind: breaks, recompiles, graphs."""
        return isinstance(next(iter(self.items), None), kind)

    def consequences(self, kind: type[Item]) -> tuple[Finding, ...]:
        """Return the consequences that were made of items of this kind."""
        return tuple(finding for finding in self.below if finding.is_of(kind))

    def generalize(self) -> Finding:
        """Return it as a finding of many tests, with a count of 1: without what is of one test.

        Of the calls, only the last one stays, and only if no place shows it.
        """
        shown = any(place.where.key == self.where.key for place in self.places)
        calls = () if shown else self.stack[-1:]
        return replace(self, aside="", circumstances="", stack=calls, below=(), count=1)

    def generalize_if_shared(self) -> Finding:
        """Return it in general if it is a finding of several tests, counted over all of them."""
        return self if len(self.tests) < 2 else replace(self.generalize(), count=self.count)

    @property
    def place_key(self) -> Hashable:
        """The identity of its place, whatever happened there; without a place, the reason.

        A function that is compiled no more is known by its name: a baseline has the source line of
        some entries and not of others (``entries``, ``causes``).
        """
        where = self.where
        if not where.file:
            return (self.kind, self.reason)
        is_lost = not self.is_new and (self.is_entry or self.kind == "unreached")
        return (where.file, where.function) if is_lost else where.key

    @property
    def key(self) -> Hashable:
        """The identity of what happened at its place.

        On a layer such as inductor, one line can run eagerly for several reasons (``reason_key``).
        """
        reason = reason_key(self.layer, self.reason) if self.kind == "eager" else ()
        return (self.sign, self.kind, self.layer, self.place_key, *reason)


def distinct_findings(
    findings: Iterable[tuple[str, Finding]], key: Callable[[Finding], Hashable]
) -> list[Finding]:
    """Return the findings of tests, each once, with the names of all tests that have it."""
    groups: dict[Hashable, list[tuple[str, Finding]]] = {}
    for name, finding in findings:
        groups.setdefault(key(finding), []).append((name, finding))
    return [
        replace(
            group[0][1],
            tests=tuple(dict.fromkeys(name for name, _ in group)),
            growth=sum(finding.growth for _, finding in group),
            count=sum(finding.count for _, finding in group),
        )
        for group in groups.values()
    ]
