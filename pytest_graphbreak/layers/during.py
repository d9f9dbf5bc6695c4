"""Labels for what a program is doing while something is compiled: ``with during("...")``.

Records pass through a view on their way to a window: it notes how much there was when a stretch
begins and when it ends. What is new in between was compiled during it. So the sensors need not add
anything. What a child process compiles meanwhile has no label.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.model.record import Break, Eager, Graph, Recompile, Record

MOST: Final = 200
"""The longest label, in characters; the rest is cut off."""

Listed = TypeVar("Listed", Graph, Recompile)
Placed = TypeVar("Placed", Break, Eager)


class Extent(Struct, frozen=True):
    """The size of a record that only grows: of each list, by layer or place."""

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


class _Span(Struct, eq=False):
    """A stretch: the record when it began and ended; ``after`` is None until then."""

    label: _Label
    before: Extent
    after: Extent | None = None


class Spans:
    """The stretches that one view has seen. ``look`` returns its record so far, without raising."""

    def __init__(self, look: Callable[[], Record]) -> None:
        self._look = look
        self._spans: list[_Span] = []

    def begin(self, label: _Label) -> None:
        self._spans.append(_Span(label, Extent.from_record(self._look())))

    def end(self, label: _Label) -> None:
        extent = Extent.from_record(self._look())
        for span in self._spans:
            if span.label is label:
                span.after = extent

    def label(self, record: Record) -> Record:
        """Return what was seen, each part labelled with what was being done."""
        spans = [*self._spans]
        if not spans:
            return record
        return replace(
            record,
            graph_list=tuple(_label_items(record.graph_list, spans)),
            recompile_list=tuple(_label_items(record.recompile_list, spans)),
            breaks=tuple(_label_places(record.breaks, spans)),
            eager=tuple(_label_places(record.eager, spans)),
        )


def _label_items(items: tuple[Listed, ...], spans: Sequence[_Span]) -> Iterator[Listed]:
    """Label items: one is in each stretch that has its number, among those of its layer."""
    seen: dict[tuple[type, str], int] = {}
    for item in items:
        key = type(item), item.layer
        number = seen[key] = seen.get(key, 0) + 1
        labels = [
            span.label.text
            for span in spans
            if span.before.listed.get(key, 0) < number
            and (span.after is None or number <= span.after.listed.get(key, 0))
        ]
        yield replace(item, during=_join(labels)) if labels else item


def _label_places(items: tuple[Placed, ...], spans: Sequence[_Span]) -> Iterator[Placed]:
    """Label places: one is in the first stretch in which it came up, and in those around it.

    A place is in a record once, with a count: there is no list to number it in.
    """
    for item in items:
        key = type(item), item.key
        grown = [
            (span.label.text, before)
            for span in spans
            if (before := span.before.placed.get(key, 0))
            < (item.count if span.after is None else span.after.placed.get(key, 0))
        ]
        first = min((before for _, before in grown), default=0)
        labels = [text for text, before in grown if before == first]
        yield replace(item, during=_join(labels)) if labels else item


def _join(labels: list[str]) -> str:
    """Join labels, the outermost first."""
    return ", ".join(dict.fromkeys(labels))


_views: list[Spans] = []
_under_way: list[_Label] = []


def _after_fork() -> None:
    """After a fork, forget what the parent was doing: it ends there, and is reported there."""
    _views.clear()
    _under_way.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


def enter(view: Spans) -> None:
    """Show stretches to ``view`` from now on, first those that are under way."""
    for label in _under_way:
        view.begin(label)
    _views.append(view)


def leave(view: Spans) -> None:
    if view in _views:
        _views.remove(view)


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
    for view in [*_views]:
        view.begin(label)
    try:
        yield
    finally:
        if label in _under_way:  # not in a process that was forked inside
            _under_way.remove(label)
        for view in [*_views]:
            view.end(label)


during.__module__ = "pytest_graphbreak"
