"""The tt layer: programs that the TT compiler began to lower.

tt-xla's plugin can write a log of headers, one for each stage of each graph, to
``TTXLA_LOGGER_FILE``. A window is the part of that file that was written while
it was open. Standard error, where the plugin also prints the modules
themselves, is the user's and is left alone. Headers and modules depend on the
same level (``printModule`` asks for ``g_stderr_verbosity``), so there are no
headers without modules; where that is too much, tt graphs are counted
through xla (``join``).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Final

from pytest_graphbreak.layers.base import Observer, OneWindow
from pytest_graphbreak.layers.tt.files import LogFiles
from pytest_graphbreak.layers.tt.join import LAYER, count_through_xla, is_in_use, reconcile
from pytest_graphbreak.layers.tt.log import TTLines
from pytest_graphbreak.layers.tt.programs import Program, Programs
from pytest_graphbreak.layers.tt.switch import turn_on
from pytest_graphbreak.layers.xla.observer import XlaProbe
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Graph, Record

_SHAPES: Final = 3


class TTObserver(Observer):
    """Watches the tt layer through the plugin's log. Safe where there is no TT."""

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


class TTWindow(OneWindow):
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
        if not grown and not errors and not (self._files and is_in_use()):
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


# The function that ``doctor`` tries the tt layer with.


class TTProbe(XlaProbe):
    """The function of xla on the TT device, with the plugin's log on until the process ends."""

    backend = "tt"

    def prepare(self) -> Callable[[], object]:
        os.environ["PJRT_DEVICE"] = "TT"
        turn_on()
        return super().prepare()
