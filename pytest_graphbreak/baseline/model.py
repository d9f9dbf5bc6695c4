"""What a baseline knows of a test, and what it expects of one profile. Pure data.

The rules of profiles and overrides (docs/reference/baseline-file.md) live in
``Entry.expected``; nothing else resolves them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_graphbreak.model.budget import PLACES_LAYER, BaselinePlace, Cause, Values, layers_of
from pytest_graphbreak.model.layers import JUDGED, LAYERS, made_by
from pytest_graphbreak.model.versions import Versions, same_minor
from pytest_graphbreak.text.paths import shown


class BaselineError(ValueError):
    """A baseline that cannot be read or written, or a node id that has none.

    ``path`` and ``line`` (1-based) say where, each None if there is no such
    place. ``also`` holds further errors that were found in the same look.
    """

    def __init__(
        self,
        message: str,
        *,
        path: Path | str | None = None,
        line: int | None = None,
        step: str = "",
        also: Iterable[BaselineError] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = None if path is None else Path(path)
        self.line = line
        self.step = step
        self.also = tuple(also)

    def __str__(self) -> str:
        place = "" if self.path is None else shown(self.path)
        if place and self.line is not None:
            place += f":{self.line}"
        own = ": ".join(part for part in (place, self.message) if part)
        if self.step:
            own += f"; {self.step}"
        return "\n".join([own, *(str(error) for error in self.also)])


@dataclass(frozen=True, slots=True)
class Override:
    """What a profile has otherwise than the plain values. None: not named, so as the plain.

    ``causes`` are those of the layers in it, and of those in ``graphs``; other layers
    have the plain ones.
    """

    graphs: Mapping[str, int] = field(default_factory=dict)
    recompiles: Mapping[str, int] = field(default_factory=dict)
    breaks: tuple[BaselinePlace, ...] | None = None
    eager: tuple[BaselinePlace, ...] | None = None
    versions: Versions = field(default_factory=dict)
    ops: Mapping[str, int] = field(default_factory=dict)
    causes: tuple[Cause, ...] = ()
    functions: Mapping[str, int] | None = None

    @property
    def causes_of(self) -> frozenset[str]:
        """The layers whose causes are its own."""
        return frozenset((*self.graphs, *(item.layer for item in self.causes)))

    @property
    def layers(self) -> frozenset[str]:
        """The layers that it names, also with an explicit zero."""
        found = {*self.graphs, *self.recompiles, *(item.layer for item in self.causes)}
        for places in (self.breaks, self.eager):
            if places is not None:
                found.update(layers_of(places) or (PLACES_LAYER,))
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class Expected:
    """What one profile is judged by.

    ``profile`` is whose values these are and ``versions`` the compilers that measured them;
    ``recorded`` tells whether the profile asked for was itself recorded.
    ``own`` are the layers that it recorded itself. ``breaks_with`` and
    ``eager_with`` measured those lists, which can be older than
    ``versions`` where an override names counts only: compare reasons with them.
    ``packages`` are the versions of what owned places when the file was written.
    ``ops_with`` says by layer which version of its compiler counted the captured
    operations, ``causes_with`` which told the causes of its graphs.
    """

    values: Values
    profile: str
    versions: Versions
    recorded: bool
    own: frozenset[str] = frozenset()
    breaks_with: Versions = field(default_factory=dict)
    eager_with: Versions = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    ops_with: Mapping[str, str | None] = field(default_factory=dict)
    causes_with: Mapping[str, str | None] = field(default_factory=dict)

    def judged(self, observed: Collection[str]) -> tuple[str, ...]:
        """The layers to judge when ``observed`` were there, in the order of ``LAYERS``.

        A recorded profile is judged on every observed layer (absent is zero),
        and on the layers that it recorded itself also where they were not
        there: that is how one is lost. Another profile's values are a guide
        only on the layers that they have, where those were observed. A layer that
        is not judged by itself is where it has values.
        """
        layers = {*observed} & self.values.layers
        if self.recorded:
            layers |= ({*observed} & JUDGED) | self.own
        return tuple(layer for layer in LAYERS if layer in layers)

    def counts_ops(self, layer: str, versions: Versions, packages: Mapping[str, str]) -> bool:
        """Whether captured operations can be compared with what was measured now.

        Another minor version of a compiler captures the same code in other nodes, and
        another version of a package is other code. ``packages`` are those of now.
        """
        return same_minor(made_by(layer, versions), self.ops_with.get(layer)) and all(
            packages.get(name, version) == version for name, version in self.packages.items()
        )

    def unseen(self, observed: Collection[str]) -> tuple[str, ...]:
        """The layers that have values here, were not observed, and are not judged."""
        layers = self.values.layers - {*observed} - {*self.judged(observed)}
        return tuple(layer for layer in LAYERS if layer in layers)


def by_layer(layers: Iterable[str], versions: Versions) -> dict[str, str | None]:
    """``made_by`` for each of some layers."""
    return {layer: made_by(layer, versions) for layer in layers}


def inherited_ops(plain: Values, named: Collection[str]) -> dict[str, int]:
    """The captured operations that an override takes over: not of layers whose graphs it names."""
    return {layer: count for layer, count in plain.ops.items() if layer not in named}


@dataclass(frozen=True, slots=True)
class Entry:
    """One test, or one case of a parametrized test, in a baseline file.

    ``profile`` and ``versions`` are the entry's own or its file's. ``values`` is
    None where there are overrides only. ``line`` (1-based) is that of its key.
    """

    file: str
    test: str
    case: str | None
    profile: str
    versions: Versions = field(default_factory=dict)
    values: Values | None = None
    overrides: Mapping[str, Override] = field(default_factory=dict)
    note: str | None = None
    ungated: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    path: Path = field(default=Path(os.devnull), compare=False)
    line: int = field(default=0, compare=False)

    @property
    def nodeid(self) -> str:
        return nodeid_of(self.file, self.test, self.case)

    @property
    def recorded(self) -> frozenset[str]:
        """The profiles that it was recorded on; none where it is a mere remark."""
        base = () if self.values is None else (self.profile,)
        return frozenset((*base, *self.overrides))

    def expected(self, profile: str) -> Expected | None:
        """What ``profile`` is judged by; None if nothing here says."""
        plain, override = self.values, self.overrides.get(profile)
        base = profile == self.profile
        if override is None:
            if plain is None:
                return None
            own = plain.layers if base else frozenset[str]()
            return Expected(
                values=plain,
                profile=self.profile,
                versions=self.versions,
                recorded=base,
                own=own,
                breaks_with=self.versions,
                eager_with=self.versions,
                ops_with=by_layer(plain.ops, self.versions),
                causes_with=by_layer(LAYERS, self.versions),
                packages=self.packages,
            )
        own = override.layers
        if base and plain is not None:
            own |= plain.layers
        plain_with = self.versions if plain is not None else override.versions
        plain = plain or Values()
        inherited = inherited_ops(plain, override.graphs)
        replaced = override.causes_of
        return Expected(
            values=Values(
                graphs={**plain.graphs, **override.graphs},
                recompiles={**plain.recompiles, **override.recompiles},
                breaks=plain.breaks if override.breaks is None else override.breaks,
                eager=plain.eager if override.eager is None else override.eager,
                ops={**inherited, **override.ops},
                causes=(
                    *(item for item in plain.causes if item.layer not in replaced),
                    *override.causes,
                ),
                functions=plain.functions if override.functions is None else override.functions,
            ),
            profile=profile,
            versions=override.versions,
            recorded=True,
            own=own,
            breaks_with=plain_with if override.breaks is None else override.versions,
            eager_with=plain_with if override.eager is None else override.versions,
            packages=self.packages,
            ops_with={
                **by_layer(inherited, plain_with),
                **by_layer(override.ops, override.versions),
            },
            causes_with={
                **by_layer(LAYERS, plain_with),
                **by_layer(replaced, override.versions),
            },
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """What was observed of one test, to be written; ``versions`` of the compilers that made it.

    ``layers`` are those that were there: only they are compared and written.
    ``packages`` are the versions of those that own its places.
    """

    nodeid: str
    profile: str
    versions: Versions
    values: Values
    layers: tuple[str, ...]
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stale:
    """A baseline entry whose test is gone."""

    file: str
    test: str
    case: str | None
    path: Path
    line: int

    @property
    def nodeid(self) -> str:
        return nodeid_of(self.file, self.test, self.case)

    @property
    def place(self) -> str:
        """``path:line``, for messages."""
        return f"{shown(self.path)}:{self.line}"


def nodeid_of(file: str, test: str, case: str | None) -> str:
    """The inverse of ``split_nodeid``."""
    return f"{file}::{test}" if case is None else f"{file}::{test}[{case}]"
