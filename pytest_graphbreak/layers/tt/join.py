"""Puts tt graphs and the xla graphs that they are together.

torch_xla passes each of its graphs to the TT compiler, in order. So causes and places of a tt graph
are those of its xla graph, and where the plugin's log is off, xla graphs are counted in its place.
"""

from __future__ import annotations

import os

from msgspec.structs import replace

from pytest_graphbreak.layers.tt.files import FILE, LEVEL, header_file
from pytest_graphbreak.layers.tt.switch import is_ours
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.model.record import Record

LAYER = "tt"


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
        return tt
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
