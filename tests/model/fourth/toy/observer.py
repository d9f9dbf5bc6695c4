"""Counts what the toy compiler tells of itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_graphbreak.layers.imports import is_whole
from pytest_graphbreak.layers.protocol import Observer, Window
from pytest_graphbreak.model.items import Break, Graph, Recompile
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record


def _events() -> list[Any]:
    return sys.modules["toycompiler"].events if is_whole("toycompiler") else []


class ToyObserver(Observer):
    layer = "toy"
    device = "card"

    def open(self, places: Places) -> Window:
        return ToyWindow(self, places)

    def isolate(self, key: str) -> None:
        if module := sys.modules.get("toycompiler"):
            module.forget()


class ToyWindow:
    def __init__(self, observer: ToyObserver, places: Places) -> None:
        self._observer = observer
        self._places = places
        self._events = _events()[:0]
        self._first = len(_events())
        self._last: Record | None = None

    def peek(self) -> Record | None:
        return self._last or self._observe()

    def close(self) -> Record | None:
        self._last = self.peek()
        return self._last

    @contextmanager
    def exclude(self) -> Iterator[None]:
        self._events += _events()[self._first :]
        try:
            yield
        finally:
            self._first = len(_events())

    def _observe(self) -> Record | None:
        if "toycompiler" not in sys.modules:
            return None
        layer, device = self._observer.layer, self._observer.device
        graphs, breaks, again = [], [], []
        for kind, name, reason, frame in [*self._events, *_events()[self._first :]]:
            where = self._places.frame(*frame)
            on, _, cause = kind.partition(" ")
            if on == device:
                graphs.append(Graph(layer, name, cause, ops=3, where=where, reason=reason))
                if cause == "again":
                    again.append(Recompile(layer, name, reason, where))
            elif kind == "break" and device == "card":
                breaks.append(Break(layer, reason, where, "T1", stack=(where,)))
        return record_of(
            layer,
            graphs=len(graphs),
            recompiles=len(again),
            breaks=tuple(breaks),
            recompile_list=tuple(again),
            graph_list=tuple(graphs),
        )
