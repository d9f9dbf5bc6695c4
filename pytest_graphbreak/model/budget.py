"""What a test is compared with: the cap in its code and its recorded baseline. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Final

from pytest_graphbreak.model.forms import (
    LOCAL,
    OPTIONAL,
    AnyCause,
    Breaking,
    Count,
    Counts,
    Data,
    Functions,
    LayerName,
    Text,
    Times,
    says,
    versioned,
)
from pytest_graphbreak.model.layers import BREAKING, COMPILERS, DESCRIPTIONS, JUDGED

PLACES_LAYER: Final = BREAKING[0]
"""The layer of a place that names none. Places are judged and written with their layer only."""


class Cap(Data, frozen=True):
    """The most that a piece of code may make; None where nothing is said.

    ``every`` holds for each layer that was observed and is judged without being
    named, ``layers`` for one by name and wins over ``every``. ``recompiles`` holds
    for each layer, too, ``breaks`` for the number of distinct graph breaks. ``executions`` and
    ``reads`` hold for each layer, or for those that they name.
    ``by`` is whose cap it is, as texts say it: the ``marker`` of a test, a ``block``
    in it, the ``option`` of a command. A report names a marker only.
    """

    every: Count | None = None
    layers: Counts = {}
    recompiles: Count | None = None
    breaks: Count | None = None
    executions: Count | Counts | None = None
    reads: Count | Counts | None = None
    by: Annotated[Text, LOCAL] = "marker"

    def graphs(self, layer: str) -> int | None:
        """The most graphs of one layer."""
        return self.layers.get(layer, self.every if layer in JUDGED else None)

    def runs(self, layer: str) -> tuple[int | None, int | None]:
        """The most executions and the most reads of one layer."""
        return _of_layer(self.executions, layer), _of_layer(self.reads, layer)


def _of_layer(limit: int | Mapping[str, int] | None, layer: str) -> int | None:
    return limit.get(layer) if isinstance(limit, Mapping) else limit


def writable(text: str) -> str:
    """The text with lone surrogates written out (``\\udc80``): they are no Unicode text.

    A file name that is not UTF-8 has them (PEP 383), and no UTF-8 file can.
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def place_key(where: str, code: str) -> tuple[str, str]:
    """The identity of a place: no line number, white space in the code normalised."""
    return writable(where), writable(" ".join(code.split()))


class BaselinePlace(Data, frozen=True):
    """A place that broke, or left the compiler, when the baseline was recorded.

    ``where`` is ``file::qualified.name``, ``code`` the source line; ``reason``
    and ``id`` are None where the baseline does not state them. ``layer`` is what
    the code broke, or left.
    """

    where: Text = ""
    code: Annotated[Text, OPTIONAL] = ""
    count: Annotated[Times, OPTIONAL] = 1
    reason: Annotated[Text | None, OPTIONAL] = None
    id: Annotated[Text | None, OPTIONAL] = None
    layer: Annotated[Breaking, OPTIONAL] = PLACES_LAYER

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.layer, *place_key(self.where, self.code))


def layers_of(places: Iterable[BaselinePlace]) -> frozenset[str]:
    return frozenset(item.layer for item in places)


class Cause(Data, frozen=True):
    """Why a layer had graphs when the baseline was recorded, and where: ``count`` of them.

    Of what was compiled again, ``guard`` is what varied, without its values (``shape of x``), and
    ``called`` the line that called it; an entry of an earlier version has neither.
    """

    layer: LayerName
    cause: AnyCause = ""
    where: Annotated[Text, OPTIONAL] = ""
    code: Annotated[Text, OPTIONAL] = ""
    count: Annotated[Times, OPTIONAL] = 1
    guard: Annotated[Text, OPTIONAL] = ""
    called: Annotated[Text, OPTIONAL] = ""

    @property
    def place(self) -> tuple[str, ...]:
        """Cause and place, whatever varied there."""
        return (self.layer, self.cause, *place_key(self.where, self.code))

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.place, *place_key(self.guard, self.called))

    def as_written(self) -> Cause:
        """The same cause in the form in which a file holds its texts."""
        layer, cause, where, code, guard, called = self.key
        return Cause(layer, cause, where, code, self.count, guard, called)


class Values(Data, frozen=True):
    """Counts by layer, and places. What is absent is zero.

    ``ops`` are captured operations; a layer that is absent there was not recorded.
    ``causes`` are those of all graphs but the plain ones (``judging.causes``);
    ``functions`` are those that held most operations, with how many, by
    ``file::qualified.name``; ``lines`` those that ran graphs on a device, or read values, by
    ``LineRuns.line``.
    """

    graphs: Counts = {}
    recompiles: Annotated[Counts, OPTIONAL] = {}
    breaks: Annotated[tuple[BaselinePlace, ...], OPTIONAL] = ()
    eager: Annotated[tuple[BaselinePlace, ...], OPTIONAL] = ()
    executions: Annotated[
        Counts, says("How often compiled graphs ran when it was recorded, by layer."), OPTIONAL
    ] = {}
    reads: Annotated[
        Counts, says("How many values were read when it was recorded, by layer."), OPTIONAL
    ] = {}
    work: Annotated[
        Counts, says("Captured operations that ran when it was recorded, by layer."), OPTIONAL
    ] = {}
    ops: Annotated[Counts, says("Captured operations that were recorded, by layer."), OPTIONAL] = {}
    causes: Annotated[tuple[Cause, ...], OPTIONAL] = ()
    functions: Annotated[
        Functions, says("How many operations functions held when it was recorded."), OPTIONAL
    ] = {}
    lines: Annotated[
        Functions, says("Which lines of a device's layer ran graphs or read, how often."), OPTIONAL
    ] = {}

    def causes_of(self, layer: str) -> tuple[Cause, ...] | None:
        """Why a layer has the graphs that are not plain; None where it is not known.

        A file of an earlier version does not know it, and neither does a run without reasons.
        """
        graphs = self.graphs.get(layer, 0)
        found = tuple(item for item in self.causes if item.layer == layer)
        if not graphs:
            return ()
        if not found and layer not in self.ops:
            return None
        plain = graphs - sum(item.count for item in found)
        if DESCRIPTIONS[layer].above is None:  # there one graph at most is plain: the only entry
            single = not any(DESCRIPTIONS[layer].cause(item.cause).is_plain for item in found)
            return found if plain == 0 or (plain == 1 and single) else None
        return found if plain >= 0 else None

    def knows_runs(self, layer: str) -> bool:
        """Whether runs and reads of a layer were recorded."""
        return layer in self.executions or layer in self.reads

    @property
    def layers(self) -> frozenset[str]:
        """The layers that have anything."""
        found = {layer for layer, count in self.graphs.items() if count}
        found |= {layer for layer, count in self.recompiles.items() if count}
        return frozenset((*found, *layers_of(self.breaks), *layers_of(self.eager)))


class _Profiled(Values, frozen=True):
    profile: Annotated[Text | None, OPTIONAL] = None


if TYPE_CHECKING:
    _Versioned = _Profiled
else:
    _Versioned = versioned(_Profiled, COMPILERS, Annotated[Text | None, OPTIONAL])


class Recorded(_Versioned, frozen=True):
    """What the baseline said for the profile of a test, as its report has it."""

    @property
    def versions(self) -> dict[str, str]:
        """Those of the compilers that are known."""
        return {name: at for name in COMPILERS if (at := getattr(self, name))}
