"""The tt layer: programs that the TT compiler began to lower.

tt-xla's plugin can write a log of headers, one for each stage of each graph (``variables`` turns it
on). A window is the part of that file that was written while it was open (``logfile``); ``log``
reads its lines, ``programs`` puts the stages together into graphs. torch_xla hands its graphs to
the TT compiler, so each tt graph has its cause and its place from the xla layer (``reconcile``).

The plugin also prints the text of the modules, to standard error, which is the user's and is left
alone. One level turns on both (``printModule`` asks for ``g_stderr_verbosity``). Who does not want
that text turns the log off; then tt graphs are counted through xla (``count_through_xla``).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak.layers.protocol import Observer, WindowBase
from pytest_graphbreak.layers.tt.log import TTLines
from pytest_graphbreak.layers.tt.logfile import LogFiles
from pytest_graphbreak.layers.tt.programs import Program, Programs
from pytest_graphbreak.layers.tt.variables import FILE, LEVEL, header_file, is_ours, turn_on
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.observer import XlaProbe
from pytest_graphbreak.model.items import Graph
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record

LAYER: Final = "tt"

_SHAPES: Final = 3
"""The most lists of stages that a note names."""


class TTObserver(Observer):
    """Watches the tt layer through the plugin's log. Safe where there is no TT.

    ``measuring.measure`` calls ``join`` with what each process saw, and ``complete`` with the
    record of all of them.
    """

    layer = LAYER
    shared = True

    def open(self, places: Places) -> TTWindow:
        return TTWindow()

    def isolate(self, key: str) -> None:
        """Do nothing: nothing is kept between windows; the plugin's caches are below torch_xla."""

    def join(self, record: Record, others: Mapping[str, Record]) -> Record:
        """Return the record with the causes and places of the xla graphs, which are the same."""
        return reconcile(record, others["xla"]) if "xla" in others else record

    def complete(self, record: Record) -> Record:
        """Return the record, counted through xla if the plugin's log is not on."""
        return count_through_xla(record)


class TTWindow(WindowBase):
    """One stretch of time on the tt layer: what was added to the plugin's log in it."""

    def __init__(self) -> None:
        self._files = LogFiles()

    def exclude(self) -> contextlib.AbstractContextManager[None]:
        return self._files.exclude()

    def _look(self) -> Record | None:
        errors: list[str] = []
        notes: list[str] = []
        seen = TTLines()
        grown = self._files.read(seen, errors)
        if not grown and not errors and not (self._files.is_following and is_in_use()):
            return None
        programs = seen.programs
        if programs.attempted:
            notes.append(_stages(programs))
        if stopped := programs.failed + programs.unfinished:
            stages = ", ".join(f"{count} after {stage}" for stage, count in stopped.items())
            notes.append(f"tt: {stopped.total()} graphs failed to compile ({stages})")
        return record_of(
            LAYER,
            graphs=programs.attempted,
            graph_list=map(_graph, programs.list),
            errors=errors,
            notes=tuple(notes),
        )


def _graph(program: Program) -> Graph:
    """Return a program's graph; a log of headers has no names, and reasons only for failures."""
    why = ""
    if not program.complete:
        why = f"stopped after {program.last}" + (f": {program.error}" if program.error else "")
    name = program.name or f"graph {program.number}"
    cause = "reshard" if program.reshard else "other"
    return Graph(LAYER, name, cause, reason=why, seconds=program.seconds)


def _stages(programs: Programs) -> str:
    """Return how far graphs came, and their most frequent lists of stages."""
    listed = "; ".join(
        f"{count} x {' '.join(stages)}" for stages, count in programs.shapes.most_common(_SHAPES)
    )
    return f"tt: {programs.completed} of {programs.attempted} graphs completed; stages: {listed}"


# tt graphs and the xla graphs that they are.


def is_in_use() -> bool:
    """Return whether torch_xla works for the TT device, or will; this opens nothing."""
    return native.is_loaded() and os.environ.get("PJRT_DEVICE", "").upper() == "TT"


def reconcile(tt: Record, xla: Record) -> Record:
    """Return the tt graphs with the causes and places of the xla graphs that they are.

    torch_xla passes each of its graphs to the TT compiler, in order. If the numbers agree, each tt
    graph is explained by its xla graph. If they do not, nothing is claimed, and the test says so:
    by an error if the log has nothing of what torch_xla compiled, or has what others compiled (then
    the layer was not seen), else by a note, since both layers are judged by themselves.
    """
    begun, compiled = tt.graphs.get(LAYER, 0), xla.graphs.get("xla", 0)
    if is_in_use() and begun != compiled and not (tt.errors or xla.errors):
        return _note_disagreement(tt, begun, compiled)
    if begun != compiled or len(tt.graph_list) != len(xla.graph_list):
        return tt  # there were errors, TT is not torch_xla's device, or only some are listed
    explained = tuple(
        replace(
            graph,
            cause=above.cause,
            ops=above.ops,
            inputs=above.inputs,
            outputs=above.outputs,
            hash=above.hash,
            sources=(above.name,),
            where=above.where,
            reason=graph.reason or above.reason,
            module=above.module,
            stack=above.stack,
        )
        for graph, above in zip(tt.graph_list, xla.graph_list, strict=True)
    )
    return replace(tt, graph_list=explained)


def count_through_xla(record: Record) -> Record:
    """Return the record with tt graphs if torch_xla works for TT and the log has no headers.

    torch_xla passes each graph that it compiles to the TT compiler, so its count is taken, with its
    causes and places; a note says so. What another framework compiles there (jax) is not in it.
    """
    if LAYER in record.layers or "xla" not in record.layers:
        return record
    if not is_in_use() or header_file(os.environ) is not None:
        return record
    counts = dict(record.graphs)
    listed = [graph for graph in record.graph_list if graph.layer == "xla"]
    if counts.get("xla"):
        counts[LAYER] = counts["xla"]
        record = record.with_notes("tt: counted through xla, since the TT plugin's log is not on")
    return replace(
        record,
        layers=(*record.layers, LAYER),
        graphs=counts,
        graph_list=(
            *record.graph_list,
            *(replace(graph, layer=LAYER, sources=(graph.name,)) for graph in listed),
        ),
    )


def _note_disagreement(tt: Record, begun: int, compiled: int) -> Record:
    """Return the record with an error or a note on two numbers that differ (see ``reconcile``).

    ::

        error   the log has nothing: the plugin does not write it
        note    the log has fewer: the others came from a cache of the plugin, or failed early
        error   the log has more, and xdist's workers share a file of the user's
        note    the log has more: another framework compiled them
    """
    file = os.environ.get(FILE)
    if not begun:
        error = (
            f"tt: torch_xla compiled {compiled} graphs and the log has none of them: the plugin "
            f"does not write {file} ({LEVEL}=DEBUG and {FILE} must be set before it is loaded)"
        )
        return replace(tt, errors=(error,))
    differ = f"tt: {begun} graphs here, {compiled} compiled by torch_xla"
    if begun < compiled:
        note = f"{differ}: the others came from a cache of the plugin, or failed before it began"
        return tt.with_notes(note)
    if os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") != "1" and not is_ours(file):
        error = f"{differ}: the workers of pytest-xdist share the log {file}: unset {FILE}"
        return replace(tt, errors=(error,))
    return tt.with_notes(f"{differ}: the others are not torch_xla's")


# The function that ``doctor`` tries the tt layer with.


class TTProbe(XlaProbe):
    """The function of xla on the TT device, with the plugin's log on until the process ends."""

    backend = "tt"

    def prepare(self) -> Callable[[], object]:
        os.environ["PJRT_DEVICE"] = "TT"
        turn_on()
        return super().prepare()
