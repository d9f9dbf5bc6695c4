"""Opens the observers around a piece of code and returns its ``Record``.

It knows no layer by name, and no pytest: the plugin, ``observe()`` and the
command line all measure through it. With it are why a budget cannot be judged here, and the backend
that takes the place of another meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_graphbreak.layers import during
from pytest_graphbreak.layers.base import Window, load_errors, observers
from pytest_graphbreak.layers.children.observer import FAMILY, Following
from pytest_graphbreak.layers.hooks import Hook, LatePatch, do_nothing
from pytest_graphbreak.layers.imports import is_installed
from pytest_graphbreak.model.budget import Cap
from pytest_graphbreak.model.layers import DESCRIPTIONS, LAYERS, compilers
from pytest_graphbreak.model.merging import merge
from pytest_graphbreak.model.places import places
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.text.numbers import noun

# Budgets that name graphs which cannot be made here: a gate that cannot see must not pass.


def baseline_impossible(graphs: Mapping[str, int], observed: Collection[str]) -> str:
    """Return why the graphs that a baseline has cannot be made here; empty if they can.

    A layer that lowers another's (``xla``) is reported as unseen where its library is not
    installed: the layer above it still counts. Without the compiler itself nothing does.
    """
    for layer, count in graphs.items():
        compiler = DESCRIPTIONS[layer].compiler
        if count and layer not in observed and not is_installed(compiler):
            return (
                f"the baseline has {count} {layer} {noun(count, 'graph')}, and {compiler} is not "
                "installed in this Python"
            )
    return ""


def cap_impossible(cap: Cap, observed: Collection[str]) -> str:
    """Return why none of the layers that a cap names can be observed; empty if one can."""
    missing = compilers(cap.layers)
    if cap.every is not None or not missing or any(layer in observed for layer in cap.layers):
        return ""
    if any(map(is_installed, missing)):
        return ""
    names = ", ".join(f"{layer}={count}" for layer, count in cap.layers.items())
    are = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'}"
    return f"the {cap.by} names {names}, and {are} not installed in this Python"


def isolate(key: str) -> None:
    """Forget what earlier code compiled. ``key`` names what comes next, such as a node id."""
    for observer in observers():
        observer.isolate(key)


@contextmanager
def keep_history() -> Iterator[None]:
    """Let windows that open inside know what was compiled before them. Nothing is counted."""
    with ExitStack() as stack:
        for observer in observers():
            stack.enter_context(observer.keep_history())
        yield


@contextmanager
def hold_sensors() -> Iterator[None]:
    """Leave sensors in between the windows that open inside."""
    with ExitStack() as holds:
        for observer in observers():
            holds.enter_context(observer.hold())
        yield


def follow(root: Path) -> AbstractContextManager[None]:
    """Let windows that open inside follow processes that were started inside before them."""
    return FAMILY.follow_between_windows(places(root))


def set_detail(*, reasons: bool, runs: bool) -> None:
    """Set what windows that open from now on observe besides the graphs that are made.

    ``reasons``: whether graphs are explained, or only counted. ``runs``: whether runs of graphs
    and values that are read are counted.
    """
    for observer in observers():
        observer.reasons, observer.runs = reasons, runs


def pass_over(root: Path, infra: Sequence[str]) -> None:
    """Name no places in the test infrastructure of the suite at ``root``: see ``Places``."""
    places(root).pass_over(infra)


class Measurement:
    """A window over all layers. Close it with ``close``; leaving the context closes it too."""

    def __init__(self, root: Path) -> None:
        user_places = places(root)
        self._spans = during.Spans(self._record_here)
        self._children = Following(user_places)
        self._windows: dict[str, Window] = {}
        self._record: Record | None = None
        for observer in observers():
            self._windows[observer.layer] = observer.open(user_places)
        during.enter(self._spans)

    def peek(self) -> Record:
        """Return what was seen so far; after ``close`` what was seen in all."""
        if self._record is not None:
            return self._record
        record_here = self._spans.label(self._record_here())
        return _complete_record(record_here, self._children.peek())

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Compilations that a process was killed in, or has not finished."""
        return self._children.unfinished

    def _record_here(self) -> Record:
        """Return what this process did so far."""
        return _record({layer: window.peek() for layer, window in self._windows.items()})

    @contextmanager
    def exclude(self) -> Iterator[None]:
        """Exclude from this window what is done inside, and forget what that compiles."""
        with ExitStack() as stack:
            stack.enter_context(self._children.exclude())
            for window in self._windows.values():
                stack.enter_context(window.exclude())
            yield

    def close(self) -> Record:
        """Stop watching; closing again returns the same record."""
        if self._record is None:
            # Last opened, first closed: so nested patches are removed in order.
            during.leave(self._spans)
            seen = {layer: self._windows[layer].close() for layer in reversed(self._windows)}
            record_here = self._spans.label(_record(seen))
            self._record = _complete_record(record_here, self._children.close())
        return self._record

    def __enter__(self) -> Measurement:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def _record(seen: Mapping[str, Record | None]) -> Record:
    """Return what this process did: each layer, with what others know of its graphs."""
    layers = {layer: record for layer in LAYERS if (record := seen.get(layer)) is not None}
    for observer in observers():
        if observer.layer in layers:
            layers[observer.layer] = observer.join(layers[observer.layer], layers)
    record = merge(list(layers.values()))
    if faults := load_errors():
        return replace(record, errors=(*faults, *record.errors))
    if not record.layers and (why := _why_nothing_is_observed()):
        return Record(errors=(f"{why}, so nothing can be counted",))
    return record


def _complete_record(record_here: Record, children: Sequence[Record]) -> Record:
    """Return the record of the window: this process's, and those of its children."""
    record = merge((record_here, *children)) if children else record_here
    for observer in observers():
        record = observer.complete(record)
    return record


def _why_nothing_is_observed() -> str:
    """Return why no layer can be observed; empty if one can."""
    if any(all(map(is_installed, layer.needs)) for layer in DESCRIPTIONS.values()):
        return ""
    names = dict.fromkeys(layer.needs[0] for layer in DESCRIPTIONS.values())
    if len(names) == 1:
        return f"{next(iter(names))} is not installed in this Python"
    return f"none of {', '.join(names)} is installed in this Python"


# Counting without the expensive compiler: ``graph_budget_backend``.
#
# ``torch.compile`` is replaced meanwhile: if no backend is asked for, or one that is to be
# replaced, another one compiles. What Dynamo captures does not depend on it.

_INDUCTORS_OWN = ("mode", "options")
"""The arguments of ``torch.compile`` for its default backend."""


class Backend(LatePatch):
    """Puts the backend ``name`` in place of none, and of those in ``instead_of``."""

    def __init__(self, name: str, instead_of: tuple[str, ...] = ()) -> None:
        super().__init__("torch", "compile", self._compile, do_nothing)
        self.name = name
        self._instead_of = instead_of

    def _compile(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        return original(*args, **self._with_backend(kwargs))

    def _with_backend(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        asked = kwargs.get("backend")
        if asked is not None and not (isinstance(asked, str) and asked in self._instead_of):
            return kwargs
        # These are options of the replaced backend, which another one does not know.
        options = {key: value for key, value in kwargs.items() if key not in _INDUCTORS_OWN}
        return {**options, "backend": self.name}
