"""One log as an item of ``tests`` in the JSON report."""

from __future__ import annotations

from typing import Final

from pytest_graphbreak.layers.tt.programs import Program
from pytest_graphbreak.logs.completeness import Completeness
from pytest_graphbreak.logs.reading import Reading
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.json import entry_json
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.report import RunEnvironment, TestReport
from pytest_graphbreak.report.log import words

_GUESS: Final = ("graphs", "completed", "stages", "sure", "least", "most", "why")


def entry(reading: Reading, completeness: Completeness) -> Plain:
    """The record of a log, with ``gaps`` (what it lacks), ``run`` (commands) and ``log``."""
    return {
        **entry_json(TestReport(reading.path, "passed", record=reading.record)),
        "gaps": list(completeness.gaps),
        "run": list(completeness.commands),
        "log": _log(reading),
    }


def counted(nodeid: str, reading: Reading) -> Plain:
    """Return the number of graphs as that of a test; why they exist, a dump does not say."""
    record = record_of("tt", graphs=reading.record.graphs.get("tt", 0))
    return entry_json(TestReport(nodeid, "passed", record=record))


def environment(readings: list[Reading]) -> RunEnvironment:
    """Where logs come from is not known: the profile says that they are logs."""
    device = "tt" if any("tt" in reading.record.layers for reading in readings) else None
    return RunEnvironment(profile="log", device=device)


def _log(reading: Reading) -> Plain:
    """What only a log has: stages, failures, how sure the counts are, origins."""
    programs = reading.programs
    return {
        "bytes": reading.size,
        "sure": words.sure(reading),
        "attempted": reading.graphs,
        "completed": reading.completed,
        "failed": programs.failed.total(),
        "unfinished": programs.unfinished.total(),
        "resharding": programs.resharding,
        "headers": reading.headers,
        "ends": reading.ends,
        "processes": reading.processes,
        "debug_build": reading.signs.debug,
        "stages": [
            {"stages": list(stages), "graphs": count}
            for stages, count in programs.shapes.most_common()
        ],
        "failures": [_failure(program) for program in programs.list if program.ended == "failed"],
        "sources": [_source(program) for program in programs.list if program.places],
        "guesses": {
            rank: {name: getattr(guess, name) for name in _GUESS}
            for rank, guess in reading.guesses.items()
        },
        "origins": [
            {"origin": origin, "cause": cause, "graphs": count}
            for (origin, cause), count in reading.origins.most_common()
        ],
    }


def _source(program: Program) -> Plain:
    """The lines that most of a graph comes from; ``ops`` is the number of kinds of ops of each."""
    return {
        "graph": program.number,
        "name": program.name,
        "module": program.module,
        "lines": [{**frame.to_dict(), "ops": ops} for frame, ops in program.places],
    }


def _failure(program: Program) -> Plain:
    return {
        "graph": program.number,
        "name": program.name,
        "after": program.last,
        "stages": list(program.stages),
        "error": program.error,
        "offset": program.offset,
        "rank": program.rank or None,
        "thread": program.thread or None,
    }
