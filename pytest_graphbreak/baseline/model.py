"""What a baseline knows of a test, and what it expects of one profile. Data only.

What follows for a profile from an entry is worked out in ``rules``.

Entries are dataclasses and no Structs, which compare all of their fields: where an entry stands in
its file is no part of what it says.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.model.budget import PLACES_LAYER, Values
from pytest_graphbreak.model.layers import JUDGED, LAYERS
from pytest_graphbreak.model.versions import Versions, made_by, same_minor
from pytest_graphbreak.text.errors import UserError
from pytest_graphbreak.text.files import display_path


class BaselineError(UserError):
    """A baseline that cannot be read or written, or a node id that cannot have one.

    ``path`` and ``line`` (1-based) are the place of the error, each None if there is no such place.
    ``step`` is what to do next. ``also`` holds further errors that were found at the same time.
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
        place = "" if self.path is None else display_path(self.path)
        if place and self.line is not None:
            place += f":{self.line}"
        line = ": ".join(part for part in (place, self.message) if part)
        if self.step:
            line += f"; {self.step}"
        return "\n".join([line, *(str(error) for error in self.also)])


@dataclass(frozen=True, slots=True)
class Override:
    """The values of a profile that differ from the plain values.

    ``named`` are the keys that it replaces as a whole (``rules.WHOLE``), even by an empty value.
    The layers in ``causes`` and in ``graphs`` have their own causes; other layers have the plain
    ones.
    """

    values: Values = field(default_factory=Values)
    versions: Versions = field(default_factory=dict)
    named: frozenset[str] = frozenset()

    @property
    def causes_of(self) -> frozenset[str]:
        """The layers whose causes are its own."""
        return frozenset((*self.values.graphs, *(cause.layer for cause in self.values.causes)))

    @property
    def layers(self) -> frozenset[str]:
        """The layers that it names, including those with an explicit zero."""
        layers = {*self.causes_of, *self.values.recompiles}
        for key in self.named & {"breaks", "eager"}:
            layers |= {place.layer for place in getattr(self.values, key)} or {PLACES_LAYER}
        return frozenset(layers)


NO_OVERRIDE: Final = Override()
"""The values of a profile are the plain ones."""


class Expected(Struct, frozen=True, dict=True):  # the dict is where cached properties are kept
    """What one profile is judged by (``rules.expectation``).

    - ``values`` hold for ``profile``: the requested one, or that of the plain values, which are a
      guide to a profile that was never ``recorded``. The compilers ``versions`` measured them.
    - ``own`` are the layers that the requested profile recorded itself.
    - ``packages``: the versions of packages that owned places when the file was written.
    - What is not of its ``override`` is of the plain values, and the compilers ``plain_with``
      measured it.

    Reasons, operations and causes are compared only with what the same compiler measured. Of this
    entry, in a file of torch 2.9, ``tt-n150`` is judged by ``breaks`` of ``versions`` (2.11), and
    by causes of ``plain_with`` (2.9)::

        test_a:
          graphs: {dynamo: 2}
          overrides:
            tt-n150: {torch: "2.11", breaks: []}
    """

    values: Values
    profile: str
    versions: Versions
    recorded: bool
    own: frozenset[str] = frozenset()
    packages: Mapping[str, str] = {}
    plain_with: Versions = {}
    override: Override = NO_OVERRIDE

    @cached_property
    def layers(self) -> frozenset[str]:
        """The layers with any count or place."""
        return self.values.layers

    def places_with(self, key: str) -> Versions:
        """Return the compilers that measured the places of a key: ``breaks``, ``eager``."""
        return self.override.versions if key in self.override.named else self.plain_with

    def ops_with(self, layer: str) -> str | None:
        """Return the version of the compiler that counted the captured operations of a layer."""
        if layer not in self.values.ops:
            return None
        return self._made_by(layer, self.override.values.ops)

    def causes_with(self, layer: str) -> str | None:
        """Return the version of the compiler that found the causes of the graphs of a layer."""
        return self._made_by(layer, self.override.causes_of)

    def _made_by(self, layer: str, overridden: Container[str]) -> str | None:
        return made_by(layer, self.override.versions if layer in overridden else self.plain_with)

    def judged_layers(self, observed: Collection[str]) -> tuple[str, ...]:
        """Return the layers to judge when ``observed`` were present, in the order of ``LAYERS``.

        A recorded profile is judged on every observed layer (absent is zero), and on the layers
        that it recorded itself even if they were not observed, which detects a lost layer. The
        values of another profile are a guide only, on the layers that they have and that were
        observed. A layer that is only judged when named is judged if it has values.
        """
        layers = self.layers.intersection(observed)
        if self.recorded:
            layers |= JUDGED.intersection(observed) | self.own
        return tuple(layer for layer in LAYERS if layer in layers)

    def counts_ops(self, layer: str, versions: Versions, packages: Mapping[str, str]) -> bool:
        """Return whether captured operations can be compared with those measured now.

        Another minor version of a compiler captures the same code in different nodes, and another
        version of a package contains different code. ``packages`` are the current versions of those
        that own places of the record: one that is missing there has no part in it, whatever the
        file says for its other tests.
        """
        return same_minor(made_by(layer, versions), self.ops_with(layer)) and all(
            packages.get(name, version) == version for name, version in self.packages.items()
        )

    def unseen_layers(self, observed: Collection[str]) -> tuple[str, ...]:
        """Return the layers that have values here, were not observed, and are not judged."""
        layers = self.layers.difference(observed)
        if not layers:
            return ()
        layers = layers.difference(self.judged_layers(observed))
        return tuple(layer for layer in LAYERS if layer in layers)


@dataclass(frozen=True, slots=True)
class Entry:
    """One test, or one case of a parametrized test, in a baseline file.

    ``profile`` and ``versions`` are those of the entry or else of its file. ``values`` is None if
    there are only overrides. ``line`` (1-based) is that of its key.
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
    packages: Mapping[str, str] = field(default_factory=dict, compare=False)
    path: Path = field(default=Path(os.devnull), compare=False)
    line: int = field(default=0, compare=False)

    @property
    def nodeid(self) -> str:
        return nodeid_of(self.file, self.test, self.case)

    @property
    def place(self) -> str:
        """The entry's ``path:line``, for messages."""
        return f"{display_path(self.path)}:{self.line}"

    @property
    def is_remark(self) -> bool:
        """Whether it contains only remarks that people wrote."""
        has_remark = self.note is not None or self.ungated is not None
        return has_remark and self.values in (None, Values()) and not self.overrides

    @property
    def recorded_profiles(self) -> frozenset[str]:
        """The profiles that it was recorded on; empty for a mere remark."""
        base = () if self.values is None else (self.profile,)
        return frozenset((*base, *self.overrides))


@dataclass(slots=True)
class Entries:
    """What a baseline file contains for a test: its entry, or one for each case, and its line.

    The entry of a test without cases has the key None. The remarks apply to all cases.
    """

    note: str | None
    ungated: str | None
    line: int = field(compare=False)
    entries: dict[str | None, Entry] = field(default_factory=dict)

    def find(self, case: str | None) -> Entry | None:
        """Return the entry of the test or of a case, with the remarks on its test, or None."""
        entry = self.entries.get(case)
        if entry is None or case is None or (self.note is None and self.ungated is None):
            return entry
        note, ungated = entry.note or self.note, entry.ungated or self.ungated
        return replace(entry, note=note, ungated=ungated)

    def conflicting_cases(self, case: str | None) -> list[str | None]:
        """Return the entries that are removed when one is written for ``case``.

        pytest has one function of a name: either it has parameters, or it has none.
        """
        return [name for name in self.entries if (name is None) != (case is None)]

    def would_lose(self, case: str | None) -> bool:
        """Return whether an entry for ``case`` would remove one that is more than a remark."""
        return any(
            name is not None or not self.entries[None].is_remark
            for name in self.conflicting_cases(case)
        )


@dataclass(frozen=True, slots=True)
class Document:
    """A baseline file, and the test file that it belongs to."""

    path: Path
    file: str
    profile: str
    versions: Versions
    packages: Mapping[str, str] = field(default_factory=dict)
    tests: dict[str, Entries] = field(default_factory=dict)

    def entry(self, test: str, case: str | None) -> Entry | None:
        """Return the entry of a test or a case; a case may have only the remarks of its test."""
        entries = self.tests.get(test)
        if entries is None:
            return None
        entry = entries.find(case)
        if entry is None and entries.ungated is not None:
            remarks = {"note": entries.note, "ungated": entries.ungated}
            return self.new_entry(test, case, **remarks, line=entries.line)
        return entry

    def new_entry(self, test: str, case: str | None, **fields: Any) -> Entry:
        """Return an entry with what the file states for all of its entries, and ``fields``."""
        stated = {"profile": self.profile, "versions": self.versions, "packages": self.packages}
        return Entry(self.file, test, case, path=self.path, **{**stated, **fields})

    def entries(self) -> Iterator[Entry]:
        """Yield every test and case that has an entry of its own, in the order of the file."""
        for test in self.tests.values():
            for case in test.entries:
                entry = test.find(case)
                assert entry is not None, "what the file has is there"
                yield entry


@dataclass(frozen=True, slots=True)
class Measured:
    """What was observed of one test, to be written; ``versions`` are those of the compilers.

    ``layers`` are the observed layers: only they are compared and written. ``packages`` are the
    versions of the packages that own its places.
    """

    nodeid: str
    profile: str
    versions: Versions
    values: Values
    layers: tuple[str, ...]
    packages: Mapping[str, str] = field(default_factory=dict)


def nodeid_of(file: str, test: str, case: str | None) -> str:
    """Return the node id of a test, as the inverse of ``store.split_nodeid``."""
    return f"{file}::{test}" if case is None else f"{file}::{test}[{case}]"
