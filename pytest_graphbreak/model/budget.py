"""What a test is compared with: the cap in its code and its recorded baseline. Data only.

A ``Cap`` has the limits of ``max_graphs(...)``, which ``judging.cap`` reads. ``Values`` are what a
baseline file says of a test: counts by layer, the places that broke (``BaselinePlace``), and why
there are further graphs (``Cause``). The fields of ``Values`` are the keys of the file: all of
``baseline`` follows from their order, types, descriptions and rules (``KEYS``, ``RULES``).
``Recorded`` are the same values as the report shows them.

The types are those of ``forms``. For the schema of the report, ``OPTIONAL`` marks a key that may be
missing, and ``LOCAL`` one that is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final, Literal, get_type_hints

from msgspec import Meta

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
    with_versions,
)
from pytest_graphbreak.model.layers import DESCRIPTIONS, JUDGED, reason_key
from pytest_graphbreak.model.versions import COMPILERS

PLACES_LAYER: Final = "dynamo"
"""The layer of a place that names none. Places are judged and written only with their layer."""


class Cap(Data, frozen=True):
    """The maximum counts that a piece of code allows; None where it sets no limit.

    - ``every``: graphs of each observed layer that is judged without being named; 0 allows nothing
      that compiles, and applies to all layers.
    - ``layers``: graphs of single layers by name; they take precedence over ``every``.
    - ``recompiles`` of each layer, and distinct ``breaks``.
    - ``executions`` and ``reads`` of each layer, or of the layers that they name.
    - ``compiled``: graphs of each layer that may be compiled and not loaded from a cache.
    - ``by``: who set the cap, in the words of the messages: the ``marker`` of a test, a ``block``
      in it, the ``option`` of a command. A report contains only caps of markers.
    """

    every: Count | None = None
    layers: Counts = {}
    recompiles: Count | None = None
    breaks: Count | None = None
    executions: Count | Counts | None = None
    reads: Count | Counts | None = None
    compiled: Annotated[Count | None, OPTIONAL] = None
    by: Annotated[Text, LOCAL] = "marker"

    def graphs(self, layer: str) -> int | None:
        """Return the maximum number of graphs of a layer, or None if there is no limit."""
        covers_layer = layer in JUDGED or self.every == 0
        return self.layers.get(layer, self.every if covers_layer else None)

    def runs(self, layer: str) -> tuple[int | None, int | None]:
        """Return the maximum number of executions and of reads of a layer."""
        return _of_layer(self.executions, layer), _of_layer(self.reads, layer)


def _of_layer(limit: int | Mapping[str, int] | None, layer: str) -> int | None:
    return limit.get(layer) if isinstance(limit, Mapping) else limit


def writable(text: str) -> str:
    """Return the text with lone surrogates escaped (``\\udc80``), since they are not valid Unicode.

    A file name that is not UTF-8 contains them (PEP 383), but a UTF-8 file cannot.
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@lru_cache(10_000)  # a run has the same few places in all of its tests
def place_key(where: str, code: str) -> tuple[str, str]:
    """Return the identity of a place, without line number and with normalised white space.

    Of ``a.py::f`` and ``if  x:`` it is ``("a.py::f", "if x:")``.
    """
    return writable(where), writable(" ".join(code.split()))


class BaselinePlace(Data, frozen=True):
    """A place that broke or left the compiler when the baseline was recorded.

    ``where`` is ``file::qualified.name``, ``code`` the source line; ``reason`` and ``id`` are None
    where the baseline does not state them. ``layer`` is the layer that the code broke or left.
    """

    where: Text = ""
    code: Annotated[Text, OPTIONAL] = ""
    count: Annotated[Times, OPTIONAL] = 1
    reason: Annotated[Text | None, OPTIONAL] = None
    id: Annotated[Text | None, OPTIONAL] = None
    layer: Annotated[Breaking, OPTIONAL] = PLACES_LAYER

    @property
    def key(self) -> tuple[str, ...]:
        reason = reason_key(self.layer, writable(self.reason or ""))
        return (self.layer, *place_key(self.where, self.code), *reason)

    def as_written(self) -> BaselinePlace:
        """Return the same place with its texts in the form in which a file stores them."""
        layer, where, code = self.key[:3]
        reason, id = (
            writable(text) if text and text.strip() else None for text in (self.reason, self.id)
        )
        return BaselinePlace(where, code, self.count, reason, id, layer)


class Cause(Data, frozen=True):
    """Why and where a layer had graphs when the baseline was recorded; ``count`` is how many.

    For a recompile, ``guard`` is what varied, without its values (``shape of x``), and ``called``
    is the line that made the call. Entries of earlier versions have neither.
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
        """The cause and its place, without what varied there."""
        return (self.layer, self.cause, *place_key(self.where, self.code))

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.place, *place_key(self.guard, self.called))

    def as_written(self) -> Cause:
        """Return the same cause with its texts in the form in which a file stores them."""
        layer, cause, where, code, guard, called = self.key
        return Cause(layer, cause, where, code, self.count, guard, called)


Rule = Literal["graphs", "counts", "runs", "ops", "causes", "entries", "lines", "places"]
"""The type of a key in a baseline file, and how it is compared, updated and overridden."""


def key(rule: Rule, description: str) -> Meta:
    """Return metadata of a key of baselines: its rule (``baseline.rules``), and what it says."""
    return Meta(description=description, extra={"rule": rule})


class Values(Data, frozen=True):
    """Counts by layer, and places. A missing count is zero.

    Each field is a key of an entry in a baseline file; the order is that of a file. ``ops`` are
    captured operations; a layer missing from it was recorded without them. ``causes`` are the
    causes of all graphs except the plain ones (``judging.measured``); ``entries`` are at most
    ``MOST_ENTRIES`` functions that were compiled as they were called, as ``file::qualified.name``;
    ``lines`` maps the lines that ran graphs on a device or read values, as named by
    ``LineRuns.line``, to how often they did.
    """

    graphs: Annotated[Counts, key("graphs", "How many graphs, by layer.")] = {}
    recompiles: Annotated[Counts, OPTIONAL, key("counts", "How many recompiles, by layer.")] = {}
    ops: Annotated[
        Counts,
        OPTIONAL,
        key("ops", "How many operations the graphs of a layer hold together, repeated ones once."),
    ] = {}
    entries: Annotated[
        tuple[Text, ...],
        OPTIONAL,
        key("entries", "Functions that were compiled as they were called."),
    ] = ()
    executions: Annotated[
        Counts,
        OPTIONAL,
        key(
            "runs",
            "How often compiled graphs ran, by layer; in a file, each once if left out beside ops.",
        ),
    ] = {}
    reads: Annotated[
        Counts, OPTIONAL, key("runs", "How many values the host waited for, by layer.")
    ] = {}
    lines: Annotated[
        Functions,
        OPTIONAL,
        key("lines", "The lines that ran graphs on the device, or read values, and how often."),
    ] = {}
    causes: Annotated[
        tuple[Cause, ...], OPTIONAL, key("causes", "Why there are the graphs that are not plain.")
    ] = ()
    breaks: Annotated[
        tuple[BaselinePlace, ...], OPTIONAL, key("places", "The places where code breaks graphs.")
    ] = ()
    eager: Annotated[
        tuple[BaselinePlace, ...],
        OPTIONAL,
        key("places", "The places where code leaves the compiler."),
    ] = ()

    def causes_of(self, layer: str) -> tuple[Cause, ...] | None:
        """Return why a layer has the graphs that are not plain, or None if that is unknown.

        It is unknown in a file of an earlier version and in a run without reasons: there the causes
        do not add up to the graphs. Plain graphs have no written cause; of a layer that compiles
        the user's own code that is its only entry, of a layer below any number of ``fx``::

            graphs: {dynamo: 3}   2 breaks            known: the third is the entry
            graphs: {dynamo: 3}   1 break             unknown: two graphs are left
            graphs: {dynamo: 3}   1 break, 1 entry    unknown: several entries are all written
            graphs: {dynamo: 3}   1 break, 2 entries  known
            graphs: {xla: 3}      1 sync              known: the others are fx
            graphs: {xla: 3}      nothing             known only if there are ``ops`` of xla
        """
        graphs = self.graphs.get(layer, 0)
        causes = tuple(cause for cause in self.causes if cause.layer == layer)
        if not graphs:
            return ()
        if not causes and layer not in self.ops:
            return None
        plain = graphs - sum(cause.count for cause in causes)
        if DESCRIPTIONS[layer].above is None:
            names_entry = any(DESCRIPTIONS[layer].cause(cause.cause).is_plain for cause in causes)
            return causes if plain == 0 or (plain == 1 and not names_entry) else None
        return causes if plain >= 0 else None

    def knows_runs(self, layer: str) -> bool:
        """Return whether executions or reads of a layer were recorded."""
        return layer in self.executions or layer in self.reads

    @property
    def layers(self) -> frozenset[str]:
        """The layers with any count or place."""
        layers = {place.layer for place in (*self.breaks, *self.eager)}
        for counts in (self.graphs, self.recompiles):
            layers.update(layer for layer, count in counts.items() if count)
        return frozenset(layers)


def _keys() -> Mapping[str, Meta]:
    """Return what ``key`` made for each field of ``Values``, from the field's annotations."""
    metas = {
        name: [meta for meta in hint.__metadata__ if (meta.extra or {}).get("rule")]
        for name, hint in get_type_hints(Values, include_extras=True).items()
    }
    return {name: meta for name, (meta,) in metas.items()}  # each key has one


KEYS: Final = _keys()
"""The keys of what was measured of a test in a baseline file, in the order of a file."""
RULES: Final[Mapping[str, Rule]] = {name: (meta.extra or {})["rule"] for name, meta in KEYS.items()}
"""The rule of each of these keys."""


# Values as the report has them: with the profile, then with a key for the version of each compiler.


class _Profiled(Values, frozen=True):
    profile: Annotated[Text | None, OPTIONAL] = None


if TYPE_CHECKING:
    _Versioned = _Profiled
else:
    _Versioned = with_versions(_Profiled, COMPILERS, Annotated[Text | None, OPTIONAL])


class Recorded(_Versioned, frozen=True):
    """What the baseline contains for the profile of a test, as the report shows it."""

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the compilers, as far as they are known."""
        return {name: version for name in COMPILERS if (version := getattr(self, name))}
