"""What a layer says of itself: plain data, that reading, judging and reporting derive from.

Each folder of ``layers`` describes its layer once, as a ``Layer`` named ``LAYER`` in its
``__init__``; ``model.layers`` lists them. What runs code (an observer, a probe) is named here
and loaded where it is needed, so that a description imports neither torch nor an observer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, Literal

# Versions of compilers and of packages, as they are compared: by major and minor.

Versions = Mapping[str, str]
"""The versions of compilers by name, ``{"torch": "2.9"}``; one that is not known is left out."""

UNKNOWN: Final[Versions] = MappingProxyType({})


def minor(version: str | None) -> str | None:
    """``2.9`` of ``2.9.1+cpu``; None of None."""
    return ".".join(version.split("+")[0].split(".")[:2]) if version else None


def minors(versions: Mapping[str, str | None], names: Iterable[str]) -> dict[str, str]:
    """The minor versions of those of these names of which a version is known."""
    return {name: short for name in names if (short := minor(versions.get(name)))}


def same_minor(one: str | None, other: str | None) -> bool:
    """Whether two versions share major and minor; unknown is never the same."""
    return bool(one and other) and minor(one) == minor(other)


@dataclass(frozen=True, slots=True)
class GraphCause:
    """Why a graph can exist, and what that means to a reader.

    ``kind``: ``plain`` is the one graph that was asked for (an ``entry``, an ``fx``); ``expected``
    is there, too, in a model that compiles well (a ``backward``); ``repeat`` is the same code
    compiled once more; all else is a ``defect``, or what a defect led to. ``explained_by`` is the
    kind of item of the record that explains it, so that the graph itself needs no text.
    ``falls_with`` says which break makes such a graph, where one does: by ``call`` the one below
    the function that holds the graph, by ``sources`` the one that made its sources graphs of their
    own.
    ``plural`` is that of the name, where it is not in ``s``, and ``words`` are what a red test says
    after the number of such graphs, where the name alone does not say what they are.
    """

    name: str
    kind: Literal["plain", "expected", "repeat", "defect"] = "defect"
    explained_by: Literal["", "break", "recompile"] = ""
    falls_with: Literal["", "call", "sources"] = ""
    plural: str = ""
    words: str = ""

    @property
    def is_plain(self) -> bool:
        return self.kind == "plain"

    @property
    def is_expected(self) -> bool:
        """Whether a model that compiles well has it."""
        return self.kind in ("plain", "expected")

    def of(self, count: int) -> str:
        """``1 entry``, ``2 entries``, ``3 fx``, ``2 after a break``, ``1 called function``."""
        words = self.words or self.name
        return f"{count:,} {words if count == 1 else self.plural or f'{words}s'}"


@dataclass(frozen=True, slots=True)
class Style:
    """How the line of a layer is drawn in a plot: CSS of its colour, and of its line alone."""

    stroke: str = "var(--text)"
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A place where graphs are counted.

    - ``name`` is used in reports, baselines and markers; it is a Python identifier.
    - ``causes``: every graph has exactly one of them; they are reported in this order.
    - ``observer``: the class that counts, and ``probe`` the one that tries it for ``doctor``,
      both as ``package.module:Name``.
    - ``needs``: the modules without which it is never there; a process imports the first of
      them before it compiles anything. ``versions``: the packages whose version every report
      states.
    - ``above``: the layer whose graphs it lowers, None where it takes the user's own code.
    - ``breaks``: whether code can leave it: graph breaks, and functions that run eagerly.
    - ``judged``: whether it is compared with a budget that does not name it. One that is not is
      counted and reported; a baseline or a marker that names it judges it all the same.
    - ``backend``: where the layer is a device's, the backend of ``torch.compile`` that reaches
      it; its profiles are then called by the layer and the model of the device (``xla-cpu``).
    - ``sets``: settings of torch, by name, to what its library sets them when it is imported.
    - ``look_for``: what there may be where less reaches it than before, or nothing.
    - ``remedy``: what ``doctor`` says to do where the layer cannot be seen.
    """

    name: str
    causes: tuple[GraphCause, ...]
    observer: str
    needs: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    above: str | None = None
    breaks: bool = False
    judged: bool = True
    backend: str | None = None
    sets: tuple[tuple[str, object], ...] = ()
    probe: str | None = None
    look_for: str = "what called it before"
    remedy: str = ""
    style: Style = Style()

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"the name of a layer is a keyword of max_graphs(...): {self.name!r}")

    @property
    def compiler(self) -> str:
        """The package that makes its graphs: with another minor version they may be others."""
        return self.needs[0] if self.needs else self.name

    def cause(self, name: str) -> GraphCause:
        """One of its causes; a cause that it does not know (of a later version) says nothing."""
        return next((cause for cause in self.causes if cause.name == name), GraphCause(name))


def load(path: str) -> Any:
    """What ``package.module:Name`` names. Raises ``ImportError`` and ``AttributeError``."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
