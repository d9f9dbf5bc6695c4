"""Descriptions of layers: plain data that reading, judging and reporting are based on.

``model.layers`` describes each layer once. Code to run (an observer, a probe) is only named there
and loaded by ``layers``, so that a description imports neither torch nor an observer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct

# Versions of compilers and packages are compared by major and minor version.

Versions = Mapping[str, str]
"""Versions of compilers by name, such as ``{"torch": "2.9"}``; unknown ones are left out."""

UNKNOWN_VERSIONS: Final[Versions] = MappingProxyType({})
"""No version is known: reasons and operations are compared with nothing."""


def minor(version: str | None) -> str | None:
    """Return major and minor of a version (``2.9`` for ``2.9.1+cpu``), or None for None."""
    return ".".join(version.split("+")[0].split(".")[:2]) if version else None


def minors(versions: Mapping[str, str | None], names: Iterable[str]) -> dict[str, str]:
    """Return the minor versions of ``names``, without those whose version is unknown."""
    return {name: short for name in names if (short := minor(versions.get(name)))}


def same_minor(version: str | None, another: str | None) -> bool:
    """Return whether two versions share major and minor; an unknown version equals no other."""
    return bool(version and another) and minor(version) == minor(another)


class GraphCause(Struct, frozen=True):
    """A reason for a graph to exist, and what it means to a reader.

    ``kind`` is ``plain`` for the one graph that was asked for (an ``entry``, an ``fx``),
    ``expected`` for one that also exists in a model that compiles well (a ``backward``), ``repeat``
    for the same code compiled again, and ``defect`` for all others, including the consequences of a
    defect. ``explained_by`` is the kind of item of the record that explains it, so that the graph
    itself needs no text. ``falls_with`` says which break causes such a graph, if one does: with
    ``call``, the break below the function that holds the graph; with ``sources``, the break that
    split its sources into separate graphs. ``plural`` is the plural of the name if it does not end
    in ``s``, and ``words`` is what a failed test shows after the number of such graphs, if the name
    alone is not clear.
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
        """Whether a graph of this cause also exists in a model that compiles well."""
        return self.kind in ("plain", "expected")

    def count_words(self, count: int) -> str:
        """Return a count in words: ``1 entry``, ``3 fx``, ``2 after a break``."""
        words = self.words or self.name
        return f"{count:,} {words if count == 1 else self.plural or f'{words}s'}"


class Layer(Struct, frozen=True, kw_only=True):
    """A place where graphs are counted.

    - ``name`` is used in reports, baselines and markers; it is a Python identifier.
    - ``causes``: every graph has exactly one of them; they are reported in this order.
    - ``observer``: the class that counts, and ``probe`` the class that tries it out for ``doctor``,
      both as ``package.module:Name``.
    - ``needs``: the modules that the layer requires; a process imports the first of them before
      it compiles anything. ``versions``: the packages whose versions every report states.
    - ``above``: the layer whose graphs it lowers, or None if it compiles the user's own code.
    - ``breaks``: whether code can leave it: graph breaks, and functions that run eagerly.
    - ``judged``: whether it is compared with a budget that does not name it. Other layers are
      counted and reported, and judged only if a baseline or a marker names them.
    - ``fewer_is_lost``: whether fewer operations of a graph are lost code; they are not where
      better compilation makes fewer of them (kernels that are fused).
    - ``backend``: for a layer of a device, the backend of ``torch.compile`` that uses it; its
      profiles are then named after the layer and the model of the device (``xla-cpu``).
    - ``sets``: settings of torch by name, with the values that its library sets when imported.
    - ``look_for``: what to look for if fewer graphs reach the layer than before, or empty.
    - ``remedy``: what ``doctor`` advises if the layer cannot be observed.
    """

    name: str
    causes: tuple[GraphCause, ...]
    observer: str
    needs: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    above: str | None = None
    breaks: bool = False
    judged: bool = True
    fewer_is_lost: bool = True
    backend: str | None = None
    sets: tuple[tuple[str, object], ...] = ()
    probe: str | None = None
    look_for: str = "what called it before"
    remedy: str = ""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"the name of a layer is a keyword of max_graphs(...): {self.name!r}")

    @property
    def compiler(self) -> str:
        """The package that makes its graphs; they may change with its minor version."""
        return self.needs[0] if self.needs else self.name

    def cause(self, name: str) -> GraphCause:
        """Return the cause of this name, or a bare one for an unknown name (of a later version)."""
        for cause in self.causes:
            if cause.name == name:
                return cause
        return GraphCause(name)
