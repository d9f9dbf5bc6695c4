"""Opens the observers around a piece of code and returns its ``Record``.

This is the one place that knows which layers there are. It knows no pytest:
the plugin, ``observe()`` and the command line all measure through it.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from pytest_graphbreak.layers.base import Observer, Window
from pytest_graphbreak.layers.children.observer import FAMILY, Following
from pytest_graphbreak.layers.children.records import together
from pytest_graphbreak.layers.children.spool import About
from pytest_graphbreak.layers.tt.observer import reconcile, through_xla
from pytest_graphbreak.layers.xla.observer import XlaObserver
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Observation, Record, combine

_HOMES: Final = (("dynamo", "DynamoObserver"), ("xla", "XlaObserver"), ("tt", "TTObserver"))


@cache
def observers() -> tuple[Observer, ...]:
    """The observers of this process, one for each layer; torch is not imported by this."""
    found = []
    for layer, name in _HOMES:
        try:
            module = importlib.import_module(f"pytest_graphbreak.layers.{layer}.observer")
        except ModuleNotFoundError:
            continue
        found.append(getattr(module, name)())
    return tuple(found)


@cache
def places(root: Path) -> Places:
    """One ``Places`` for each root directory, so that files are parsed once a process."""
    return Places(root)


def isolate(key: str) -> None:
    """Forget what earlier code compiled. ``key`` names what comes next, such as a node id."""
    for observer in observers():
        observer.isolate(key)


def explain(reasons: bool) -> None:
    """Whether the xla graphs of windows that open from now on are explained, or only counted."""
    for observer in observers():
        if isinstance(observer, XlaObserver):
            observer.reasons = reasons


def pass_over(root: Path, infra: Sequence[str]) -> None:
    """Name no places in the test infrastructure of the suite at ``root``: see ``Places``."""
    places(root).pass_over(infra)


def begin_child(about: str) -> None:
    """In a process that a test started: tell the test what is compiled here."""
    told = About.load(about)
    named = places(Path(told.root))
    named.pass_over(told.infra)
    FAMILY.spawned(told, named, observers)


class Measurement:
    """A window over all layers. Close it with ``close``; leaving the context closes it too."""

    def __init__(self, root: Path) -> None:
        named = places(root)
        self._children = Following(named, observers)
        self._windows: list[Window] = []
        self._record: Record | None = None
        for observer in observers():
            self._windows.append(observer.open(named))

    def peek(self) -> Record:
        """What was seen so far; after ``close`` what was seen in all."""
        if self._record is not None:
            return self._record
        own = _record([window.peek() for window in self._windows])
        return through_xla(together((own, *self._children.peek())))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is done inside is not this window's, and compiles nothing that it would find."""
        with ExitStack() as left:
            left.enter_context(self._children.aside())
            for window in self._windows:
                left.enter_context(window.aside())
            yield

    def close(self) -> Record:
        """Stop watching; closing again returns the same record."""
        if self._record is None:
            # Last opened, first closed: the way that nested patches come off clean.
            seen = [window.close() for window in reversed(self._windows)]
            self._record = through_xla(together((_record(seen), *self._children.close())))
        return self._record

    def __enter__(self) -> Measurement:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def _record(seen: list[Observation | None]) -> Record:
    layers = {item.layer: item for item in seen if item is not None}
    if "tt" in layers and "xla" in layers:
        layers["tt"] = reconcile(layers["tt"], layers["xla"])
    record = combine(layers.values())
    if not record.layers and not _has_torch():
        return Record(errors=("torch is not installed in this Python, so nothing can be counted",))
    return record


@cache
def _has_torch() -> bool:
    """Looked for once a process: a search through ``sys.path`` at each test is felt."""
    return importlib.util.find_spec("torch") is not None
