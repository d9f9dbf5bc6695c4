"""Labels for what a program is doing while something is compiled: ``with during("...")``.

``Labels`` of a measurement note how much there was when a labelled stretch begins and when it ends.
What is new in between was compiled during it, so the sensors need not add anything. What a child
process compiles meanwhile has no label.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.model.items import Break, Eager, Graph, Recompile
from pytest_graphbreak.model.record import Record

MOST: Final = 200
"""The longest label, in characters; the rest is cut off."""

Listed = TypeVar("Listed", Graph, Recompile)
Placed = TypeVar("Placed", Break, Eager)


class Extent(Struct, frozen=True):
    """The size of a record that only grows: of each list, by layer or place.

    ``listed`` has how many items of a layer there are: ``(Graph, "dynamo"): 3``. ``placed`` has how
    often something happened at a place, which is in a record once: ``(Break, key): 2``.
    """

    listed: Mapping[tuple[type, str], int]
    placed: Mapping[tuple[type, tuple[str, ...]], int]

    @classmethod
    def from_record(cls, record: Record) -> Extent:
        listed: Counter[tuple[type, str]] = Counter()
        listed.update((Graph, item.layer) for item in record.graph_list)
        listed.update((Recompile, item.layer) for item in record.recompile_list)
        placed: dict[tuple[type, tuple[str, ...]], int] = {}
        placed.update({(Break, item.key): item.count for item in record.breaks})
        placed.update({(Eager, item.key): item.count for item in record.eager})
        return cls(listed, placed)


class _Label(Struct, eq=False, frozen=True):
    """The text of one ``with during(...)``; two with the same text are not equal."""

    text: str


class _Stretch(Struct, eq=False):
    """A labelled stretch: the size of the record when it began and ended, None until then."""

    label: _Label
    before: Extent
    after: Extent | None = None


class Labels:
    """The labelled stretches that one measurement has seen.

    ``peek`` returns its record so far, without raising.
    """

    def __init__(self, peek: Callable[[], Record]) -> None:
        self._peek = peek
        self._stretches: list[_Stretch] = []

    def attach(self) -> None:
        """Note stretches from now on, first those that are under way."""
        for label in _under_way:
            self.begin(label)
        _attached.append(self)

    def detach(self) -> None:
        if self in _attached:
            _attached.remove(self)

    def begin(self, label: _Label) -> None:
        self._stretches.append(_Stretch(label, Extent.from_record(self._peek())))

    def end(self, label: _Label) -> None:
        extent = Extent.from_record(self._peek())
        for stretch in self._stretches:
            if stretch.label is label:
                stretch.after = extent

    def put_on(self, record: Record) -> Record:
        """Return what was seen, each part labelled with what was being done."""
        stretches = [*self._stretches]
        if not stretches:
            return record
        return replace(
            record,
            graph_list=tuple(_label_items(record.graph_list, stretches)),
            recompile_list=tuple(_label_items(record.recompile_list, stretches)),
            breaks=tuple(_label_places(record.breaks, stretches)),
            eager=tuple(_label_places(record.eager, stretches)),
        )


def _label_items(items: tuple[Listed, ...], stretches: Sequence[_Stretch]) -> Iterator[Listed]:
    """Label items: one is in each stretch that has its number, among those of its layer.

    A stretch that began after 2 graphs and ended after 5 has the third, fourth and fifth.
    """
    seen: dict[tuple[type, str], int] = {}
    for item in items:
        key = type(item), item.layer
        number = seen[key] = seen.get(key, 0) + 1
        labels = [
            stretch.label.text
            for stretch in stretches
            if stretch.before.listed.get(key, 0) < number
            and (stretch.after is None or number <= stretch.after.listed.get(key, 0))
        ]
        yield replace(item, during=_join(labels)) if labels else item


def _label_places(items: tuple[Placed, ...], stretches: Sequence[_Stretch]) -> Iterator[Placed]:
    """Label places: one is in the first stretch in which it came up, and in those around it.

    A place is in a record once, with a count: there is no list to number it in. Where the count
    went from 0 to 2 in one stretch and from 2 to 3 in the next, the place is of the first.
    """
    for item in items:
        key = type(item), item.key
        grown = [
            (stretch.label.text, before)
            for stretch in stretches
            if (before := stretch.before.placed.get(key, 0))
            < (item.count if stretch.after is None else stretch.after.placed.get(key, 0))
        ]
        first = min((before for _, before in grown), default=0)
        labels = [text for text, before in grown if before == first]
        yield replace(item, during=_join(labels)) if labels else item


def _join(labels: list[str]) -> str:
    """Join labels, each once, the outermost first: that is the order in which they began."""
    return ", ".join(dict.fromkeys(labels))


_attached: list[Labels] = []
"""Those of the measurements that are open."""
_under_way: list[_Label] = []
"""The labels whose ``with`` has begun and not ended, of all threads."""


def _after_fork() -> None:
    """After a fork, forget what the parent was doing: it ends there, and is reported there."""
    _attached.clear()
    _under_way.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def during(what: str) -> Iterator[None]:
    """Say what the program is doing: a request, a step, a phase of a test.

    What this process compiles inside is reported with it: in a failure, in the JSON report
    (``during``), in ``seen.record``. It may nest; threads that say different things at the same
    time are both named.
    Use it around calls, and not in a function that is compiled. Where nothing is measured it does
    nothing.

    >>> with during("request 17"):  # doctest: +SKIP
    ...     engine.generate(prompt)
    """
    label = _Label(str(what)[:MOST])
    _under_way.append(label)
    for labels in [*_attached]:
        labels.begin(label)
    try:
        yield
    finally:
        if label in _under_way:  # not in a process that was forked inside
            _under_way.remove(label)
        for labels in [*_attached]:
            labels.end(label)


during.__module__ = "pytest_graphbreak"  # people import it from there
