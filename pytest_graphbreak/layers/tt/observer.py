"""The tt layer: programs that the TT compiler began to lower.

tt-xla's plugin can write a log of headers, one for each stage of each graph, to
``TTXLA_LOGGER_FILE``. A window is the part of that file that was written while
it was open. Standard error, where the plugin also prints the modules
themselves, is the user's and is left alone. Headers and modules depend on the
same level (``printModule`` asks for ``g_stderr_verbosity``), so there are no
headers without modules; where that is too much, tt graphs are counted
by ``count_through_xla``.

The plugin reads its variables once, when it is loaded. ``turn_on`` sets them
before that, where tests are to run on TT; values of the user's own stay, and the
file that they name is the one that is followed. What is printed, and when, is
read from tt-xla's source (pjrt_implementation/src/utils/logging.cc,
src/api/module_builder/module_builder.cc).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.layers.base import Observer, OneWindow
from pytest_graphbreak.layers.tt.files import ENOUGH, FILE, LEVEL, LogFiles, header_file
from pytest_graphbreak.layers.tt.log import TTLines
from pytest_graphbreak.layers.tt.programs import Program, Programs
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.observer import XlaProbe
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Graph, Record

LAYER: Final = "tt"

WANTED: Final[Mapping[str, Mapping[str, str]]] = {
    "headers": {LEVEL: "DEBUG"},
    "full": {LEVEL: "DEBUG", "TTMLIR_RUNTIME_LOGGER_LEVEL": "DEBUG", "XLA_HLO_DEBUG": "1"},
    "off": {},
}
"""The variables that are set, besides the file, for each value of ``graph_budget_tt_log``.

``XLA_HLO_DEBUG`` also changes what runs: tt_torch takes another executor in its
legacy flow, and torch_xla hashes every graph again. So no gate sets it.
"""

_SHAPES: Final = 3
_OURS: Final = "graphbreak-tt-"
"""The beginning of the names of our own log directories."""


class Prepared(Struct, frozen=True):
    """The variables that ``prepare_environment`` set.

    ``before`` has the earlier values of those that were set already (to the file of the process
    that started this one). ``directory`` is the one that we made for the file, if we did.
    """

    added: Mapping[str, str] = {}
    before: Mapping[str, str] = {}
    directory: Path | None = None

    def restore(self, environ: MutableMapping[str, str] | None = None) -> None:
        """Put back the variables that still have our values, and remove our directory."""
        target = os.environ if environ is None else environ
        for name, value in self.added.items():
            if target.get(name) != value:
                continue
            if name in self.before:
                target[name] = self.before[name]
            else:
                del target[name]
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)


def prepare_environment(
    environ: MutableMapping[str, str] | None = None,
    directory: Path | None = None,
    log: str = "headers",
) -> Prepared:
    """Turn on the plugin's log, by the variables that it reads when it is loaded.

    ``log`` is a key of ``WANTED``. To be called before the TT device is used in this process. A
    file of ours goes to ``directory`` (default: a new temporary one, which ``restore`` removes) and
    is named by this process, so that the workers of pytest-xdist do not share one, though they
    inherit the variable; a forked child goes on with its parent's. If the user's own level prints
    no headers, nothing is set.
    """
    target = os.environ if environ is None else environ
    if log == "off" or target.get(LEVEL, "DEBUG") not in ENOUGH:
        return Prepared()
    variables = {name: value for name, value in WANTED[log].items() if name not in target}
    new_directory = None
    if not target.get(FILE) or _inherited_directory(target[FILE]):
        place = directory or _inherited_directory(target.get(FILE, ""))
        if place is None:
            place = new_directory = Path(tempfile.mkdtemp(prefix=_OURS))
        variables[FILE] = str(place / f"tt-{os.getpid()}.log")
    before = {name: target[name] for name in variables if name in target}
    target.update(variables)
    return Prepared(variables, before, new_directory)


def _inherited_directory(file: str) -> Path | None:
    """Return the directory of our log if the process that started this one made it; else None."""
    path = Path(file)
    if path.parent.name.startswith(_OURS) and path.name != f"tt-{os.getpid()}.log":
        return path.parent
    return None


class _Switch:
    """The log of this process, which is on while anybody needs it."""

    def __init__(self) -> None:
        self.prepared: Prepared | None = None
        self._users = 0
        self._process = 0

    def switch_on(self, log: str) -> None:
        self._users += 1
        if self.prepared is None:
            self.prepared = prepare_environment(log=log)
            self._process = os.getpid()
            atexit.unregister(self.end)
            atexit.register(self.end)

    def switch_off(self) -> None:
        self._users -= 1
        if self._users == 0:
            self.end()

    def end(self) -> None:
        """Put everything back, except in a forked child, where it is all the parent's."""
        prepared, self.prepared = self.prepared, None
        if prepared is not None and os.getpid() == self._process:
            prepared.restore()


_switch = _Switch()


def turn_on(log: str = "headers") -> Callable[[], None]:
    """Have the plugin write its log from now on; return a function that turns it off, once.

    ``log`` is a key of ``WANTED``. Calls nest, and the first one decides. What is
    left on at the end of the process is put back there.
    """
    _switch.switch_on(log)
    calls = [_switch.switch_off]

    def turn_off() -> None:
        while calls:
            calls.pop()()

    return turn_off


def is_in_use() -> bool:
    """Return whether torch_xla works for the TT device, or will; this opens nothing."""
    return native.is_loaded() and os.environ.get("PJRT_DEVICE", "").upper() == "TT"


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
    if os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") != "1" and not _is_ours(file):
        error = f"{differ}: the workers of pytest-xdist share the log {file}: unset {FILE}"
        return replace(tt, errors=(error,))
    return tt.with_notes(f"{differ}: the others are not torch_xla's")


def _is_ours(file: str | None) -> bool:
    return file is not None and Path(file).parent.name.startswith(_OURS)


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
