"""The items of a record: what happened at a place in the source, once for each place.

A break, code that ran eagerly, a recompile, a graph, and the runs or reads of a line. Observers and
the readers of logs make them, ``merging`` puts those of one place together. The types describe the
JSON report, as those of ``record`` do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from pytest_graphbreak.model.forms import (
    OPTIONAL,
    AnyCause,
    Count,
    Data,
    Functions,
    LayerName,
    Seconds,
    Text,
    Times,
    definition,
    says,
)
from pytest_graphbreak.model.layers import DESCRIPTIONS, GraphCause, reason_key


class Frame(Data, frozen=True):
    """A place in source code; ``file`` is a stable name (see ``places``)."""

    file: Annotated[
        Text,
        says(
            "Named from its package or from the root of the repository, never absolute; empty if "
            "unknown."
        ),
    ] = ""
    function: Annotated[Text, says("The qualified name.")] = ""
    line: Annotated[Count, says("1-based; 0 if unknown.")] = 0
    code: Annotated[Text, says("The source line, stripped; empty if unknown.")] = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity: file and function, then the code; no line number, which edits move."""
        return (self.file, self.function, " ".join(self.code.split()))

    @property
    def function_key(self) -> tuple[str, str]:
        """The identity of its function, whatever the line."""
        return (self.file, self.function)

    @property
    def name(self) -> str:
        """The name of its function, ``file::qualified.name``; of its file if it has none."""
        return f"{self.file}::{self.function}" if self.function else self.file


NOWHERE: Final = Frame()
Where = Annotated[Frame, definition("where")]
"""A place; ``NOWHERE`` is ``{}`` in a report."""

Process = Annotated[
    Text | None, says("The child process that it happened in; null for the test's own.")
]
During = Annotated[
    Text | None, says("What the test said that it was doing: a request, a step, a phase.")
]


class _Attributed(Data, frozen=True, kw_only=True):
    """Something a compiler spent time on, with the time and the model that it was for."""

    seconds: Annotated[
        Seconds | None,
        OPTIONAL,
        says(
            "Time of its compilation, of a break that of the graphs that follow it; left out "
            "where it is not known."
        ),
    ] = None
    owner: Annotated[
        Text | None,
        OPTIONAL,
        says("The class of the outermost nn.Module that was running; left out without one."),
    ] = None


class _AtPlace(_Attributed, frozen=True):
    """Something that happened at a place, for a reason; a record has each ``key`` once."""

    layer: LayerName
    reason: Text = ""
    where: Where = NOWHERE

    @property
    def key(self) -> tuple[str, ...]:
        return (self.layer, *self.where.key, *reason_key(self.layer, self.reason))


class BreakReason(Data, frozen=True):
    """Another reason for which the line of a break breaks as well."""

    reason: Text = ""
    id: Text | None = None
    explanation: Text = ""
    hints: tuple[Text, ...] = ()


class Break(_AtPlace, frozen=True):
    """A graph break: Dynamo gave up in the middle of a frame; ``where`` ends its ``stack``."""

    id: Annotated[Text | None, says("The GB id, where torch gives one.")] = None
    explanation: Text = ""
    hints: tuple[Text, ...] = ()
    count: Annotated[Times, says("How often this place broke.")] = 1
    stack: Annotated[tuple[Frame, ...], says("From the outermost user frame to where.")] = ()
    process: Process = None
    during: During = None
    disabled: Annotated[
        Where,
        says("The definition of the disabled function that is called: its decorator, or its def."),
    ] = NOWHERE
    raised: Annotated[
        Where, OPTIONAL, says("The line of torch that gave up; left out where it is not known.")
    ] = NOWHERE
    through: Annotated[Text, OPTIONAL, says("What leads there, if not plain calls alone.")] = ""
    also: Annotated[
        tuple[BreakReason, ...], says("Further reasons for which the same line broke.")
    ] = ()

    @property
    def reasons(self) -> tuple[BreakReason, ...]:
        """All reasons of the line, in the order in which they came."""
        return (BreakReason(self.reason, self.id, self.explanation, self.hints), *self.also)


class Eager(_AtPlace, frozen=True):
    """Code that left the compiler: a frame skipped, a limit hit, a suppressed error."""

    count: Times = 1
    process: Process = None
    during: During = None
    caller: Annotated[
        Where, OPTIONAL, says("The function that calls it, if that broke; left out if not.")
    ] = NOWHERE


class Recompile(_Attributed, frozen=True):
    """A recompile of a frame. ``graph`` is the name of the new graph (``0/1``)."""

    layer: LayerName
    graph: Annotated[Text, says("The name of the new graph.")] = ""
    reason: Annotated[Text, says("The guard that failed.")] = ""
    where: Where = NOWHERE
    stack: Annotated[
        tuple[Frame, ...], says("The call that did it, from the outermost user frame inwards.")
    ] = ()
    guard: Annotated[Where, says("The line that the guard comes from, where it is known.")] = (
        NOWHERE
    )
    origin: Annotated[
        Where,
        says(
            "The line that sets the attribute or global that the guard names, if only one line can."
        ),
    ] = NOWHERE
    process: Process = None
    during: During = None


GraphName = tuple[str, str]
"""Layer and name of a graph."""

CACHED: Final = ("compiled", "loaded", "found")
"""Where the code of a graph came from: a compiler, a cache on disk, the memory of the process."""

if TYPE_CHECKING:  # mypy knows no ``Literal`` of a variable
    Cached = str
else:
    Cached = Literal[CACHED]


class Graph(_Attributed, frozen=True, rename={"sources": "from"}):
    """A graph of a layer, with its one cause.

    ``reason`` is in a user's words (``aten::histc runs on the CPU``).
    """

    layer: LayerName
    name: Text = ""
    cause: AnyCause = "other"
    ops: Count | None = None
    inputs: Count | None = None
    outputs: Count | None = None
    hash: Text | None = None
    sources: Annotated[
        tuple[Text, ...], says("Names of the graphs above that became this one.")
    ] = ()
    process: Process = None
    where: Where = NOWHERE
    reason: Annotated[Text, says("The evidence for the cause.")] = ""
    module: Annotated[Text | None, says("Path of the nn.Module.")] = None
    stack: Annotated[
        tuple[Where, ...],
        says(
            "Of a device graph, from the outermost user frame to where; of one of inductor, the "
            "line that keeps it from a CUDA graph."
        ),
    ] = ()
    functions: Annotated[
        Functions,
        says(
            "Of a dynamo graph, how many of its operations functions hold, with those that they "
            "call, by file::qualified.name."
        ),
    ] = {}
    cached: Annotated[
        Cached | None,
        says(
            "Where its code came from: a compiler, a cache on disk, the memory of the process; "
            "null where the layer does not know."
        ),
    ] = None
    during: During = None

    @property
    def meaning(self) -> GraphCause:
        """What its cause means on its layer."""
        return DESCRIPTIONS[self.layer].cause(self.cause)

    @property
    def is_repeat(self) -> bool:
        """Whether it is the same code compiled again."""
        return self.meaning.kind == "repeat"

    @property
    def is_entry(self) -> bool:
        """Whether it is a function that was compiled when it was called."""
        return DESCRIPTIONS[self.layer].above is None and self.meaning.is_plain

    @property
    def is_lowered(self) -> bool:
        """Whether it is one graph of the layer above, lowered as a whole."""
        has_above = DESCRIPTIONS[self.layer].above is not None
        return has_above and bool(self.sources) and self.meaning.is_plain


class LineRuns(Data, frozen=True):
    """Runs of compiled graphs, or reads of values, caused by one line.

    ``cause`` says what caused them: ``call`` of a compiled function, ``sync``, ``access`` (a value
    was read that was not computed yet), ``item`` (a read), ``other``.
    """

    layer: LayerName
    cause: Annotated[Text, says("What asked: call, sync, access, item, other.")] = "other"
    graph: Annotated[Text, says("The name of the graph that ran, where it is known.")] = ""
    count: Annotated[Times, says("How often.")] = 1
    where: Where = NOWHERE
    process: Process = None

    @property
    def key(self) -> tuple[str, ...]:
        return (self.layer, self.cause, self.graph, *self.where.key)

    @property
    def line(self) -> str:
        """The name of the line in a baseline: ``file::function cause: code``."""
        file, function, code = self.where.key
        return f"{file}::{function} {self.cause}: {code}"

    @property
    def reason(self) -> str:
        """An empty text, since the cause is the reason."""
        return ""

    @property
    def stack(self) -> tuple[Frame, ...]:
        """The line alone, since the calls that led there are not kept."""
        return (self.where,)


Item = Break | Eager | Recompile | Graph | LineRuns
