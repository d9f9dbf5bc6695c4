"""Reports what a log leaves unknown, and the commands that would show it.

A ``Reading`` is what was read of one log (``reading``). ``assess`` makes of it the gaps, each one
sentence that says what cannot be known from this log, in the order of the layers: the device first,
then Dynamo. A log with gaps is still counted as far as possible.

The output of the TT plugin, and the variables for it, are taken from tt-xla's source
(pjrt_implementation/src/utils/logging.cc, module_builder.cc); how to enter its environment, from
its docs.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from pytest_graphbreak.layers.tt.variables import WANTED
from pytest_graphbreak.layers.xla import debug_file
from pytest_graphbreak.logs.markers import SURE
from pytest_graphbreak.logs.reading import Reading
from pytest_graphbreak.logs.writing import TORCH_LOGS
from pytest_graphbreak.text.numbers import plural


class Completeness(Struct, frozen=True):
    """The gaps of a log (``gaps``), and the commands to run to fill them (``commands``)."""

    gaps: tuple[str, ...]
    commands: tuple[str, ...]


def assess(reading: Reading) -> Completeness:
    """Return what a log leaves unknown."""
    gaps = tuple(_gaps(reading))
    return Completeness(gaps, tuple(_commands(reading)) if gaps else ())


def _gaps(reading: Reading) -> Iterator[str]:
    if reading.fault:
        yield reading.fault
    elif not reading.size:
        yield "the log is empty"
    if not reading.size:
        return
    yield from _tt_gaps(reading)
    yield from _dynamo_gaps(reading)


def _tt_gaps(reading: Reading) -> Iterator[str]:
    tt = reading.tt
    if not tt.is_there:
        yield (
            "nothing of the TT compiler is in this log, so device graphs are not counted: "
            "TTXLA_LOGGER_LEVEL=DEBUG was not set, or it did not run on TT"
        )
        return
    if not tt.headers and not tt.ends:
        yield (
            "the TT plugin printed, but no module: TTXLA_LOGGER_LEVEL was not DEBUG, "
            "or the compiler came from a cache"
        )
    yield from _guess_notes(reading)
    yield from _cut(reading)
    yield from _writer_notes(reading)
    if tt.headers and not tt.ends:
        yield (
            "this is a TTXLA_LOGGER_FILE, or standard output alone: the text of the modules, with "
            "names and source lines, goes to standard error only"
        )
    elif not tt.names_files:
        yield (
            "no source file is named in the modules, so graphs cannot be linked to code: "
            "XLA_HLO_DEBUG=1 was not set"
        )


def _guess_notes(reading: Reading) -> Iterator[str]:
    """Yield a sentence for each number of graphs that was inferred."""
    for rank, guess in reading.guesses.items():
        who = f" (rank {rank})" if rank else ""
        bounds = "" if guess.least == guess.most else f", between {guess.least} and {guess.most}"
        sure = "" if guess.sure == SURE else f" ({guess.sure})"
        yield (
            f"there are END markers and no headers{who}: {guess.graphs} graphs were "
            f"worked out{sure}{bounds}, since {guess.why}"
        )


def _cut(reading: Reading) -> Iterator[str]:
    """Yield sentences about graphs of which the log has only a part."""
    programs = reading.tt.programs
    if cut := programs.unfinished.total():
        what = "a graph" if cut == 1 else f"{cut} graphs"
        yield f"the log ends in the middle of {what}: whether it was lowered is not known"
    if programs.headless:
        yield (
            f"the log begins in the middle of a graph: {programs.headless} stages are before "
            "its vhlo module and are not counted as a graph"
        )
    if programs.overlapped:
        yield (
            "stages of two graphs overlap in one thread id, so several processes wrote here: the "
            "counts hold, which graph failed is a guess (mpirun --tag-output separates them)"
        )


def _writer_notes(reading: Reading) -> Iterator[str]:
    """Yield what remains unknown because of several writers of one log, or copies in it."""
    tt = reading.tt
    if copies := tt.unsure_copies:
        yield (
            f"{plural(copies, 'header line')} occur twice, byte for byte, and nothing tells copies "
            "from other graphs: if standard error and TTXLA_LOGGER_FILE are both in this file, "
            "there are fewer graphs"
        )
    ranks = {program.rank for program in tt.programs.list}
    if reading.processes > 1 and len(ranks) == 1:
        yield (
            f"{reading.processes} processes wrote here and no line of a device graph says whose it "
            "is: the counts hold, causes and places of device graphs are a guess (mpirun "
            "--tag-output separates them)"
        )
    if tt.damaged:
        yield (
            f"another writer cut {plural(tt.damaged, 'header')} in two: as many graphs may be "
            "missing (give each process a file of its own)"
        )
    if tt.bare:
        yield "headers have lost their preamble, so threads and errors are unknown"


def _dynamo_gaps(reading: Reading) -> Iterator[str]:
    seen = reading.logged
    if not seen:
        yield (
            "Dynamo did not log here, so graph breaks, recompiles and what each device graph comes "
            'from are not known: TORCH_LOGS="+dynamo" was not set'
        )
        return
    if "tracing" not in seen:
        yield 'Dynamo\'s graphs are not counted: TORCH_LOGS had no "+dynamo"'
    elif "compiling" not in seen:
        yield 'graph breaks are not logged: TORCH_LOGS had "dynamo" without the plus sign'
    if "recompiles" not in seen and reading.record.recompiles.get("dynamo"):
        yield 'which guards failed is not known: TORCH_LOGS had no "recompiles"'


def _commands(reading: Reading) -> Iterator[str]:
    """Yield all commands that lead to a log without gaps."""
    variables = {"TORCH_LOGS": TORCH_LOGS, **debug_file.VARIABLES}
    if reading.tt.is_there or not reading.record.layers:
        yield "source venv/activate    # in the tt-xla checkout; not venv/bin/activate"
        variables = {**WANTED["full"], **variables}
    settings = " ".join(f"{name}={_quote(value)}" for name, value in variables.items())
    yield f"{settings} {_program(reading.script)} > run.log 2>&1"
    yield "graphbreak analyze run.log"


def _program(script: str) -> str:
    """Return the command that was run.

    Without ``-s`` pytest captures the output of passing tests.
    """
    if Path(script).name in ("pytest", "py.test") or script.endswith("pytest/__main__.py"):
        return "python -m pytest -sv YOUR_TESTS"
    return f"python {shlex.quote(script)}" if script else "python YOUR_SCRIPT.py"


def _quote(value: str) -> str:
    """Return the value of a variable as a shell reads it: ``"+dynamo"``, or ``1`` as it is."""
    return f'"{value}"' if not value.isalnum() else value
