"""Reads dumps of MLIR modules as the log that the TT compiler prints beside them.

With ``export_path`` (``--dump-irs`` in tt-xla's suite) the compiler writes each stage of each graph
to ``irs/STAGE[_MODEL_gN]_MILLISECONDS.mlir``: tt-xla, ``ModuleBuilder::printModule``
(pjrt_implementation/src/api/module_builder/module_builder.cc, August 2026). The modules are the
same as in the log, so the code that reads a log can read a dump; only the headers are added here.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_graphbreak.layers.tt import programs
from pytest_graphbreak.text.lines import LONGEST, characters

_FILE: Final = re.compile(r"(.+)_(\d{10,16})\.mlir")
_STAGES: Final = sorted(programs.ORDER, key=len, reverse=True)
_WHERE: Final = "     module_builder.cc:1    "


@dataclass(slots=True)
class _DumpedGraph:
    """The files of one graph by stage, in the order in which they were written."""

    files: dict[str, Path] = field(default_factory=dict)


def models(directory: Path) -> list[Path]:
    """Return the directories below (or including) this one that hold the dump of one model.

    Such a directory is the parent of ``irs``, or one that holds the files themselves. Raises
    ``FileNotFoundError`` if there is none.
    """
    holders = sorted({path.parent for path in directory.rglob("*.mlir") if _parse(path)})
    if not holders:
        raise _no_module(directory)
    return [holder.parent if holder.name == "irs" else holder for holder in holders]


def _no_module(directory: Path) -> FileNotFoundError:
    words = "has no modules named STAGE_MILLISECONDS.mlir"
    return FileNotFoundError(errno.ENOENT, words, str(directory))


class Dump:
    """A dump of one model that can be read like an opened log (``text.lines.Source``).

    Raises ``FileNotFoundError`` if the directory holds no module.
    """

    fault: str | None = None

    def __init__(self, directory: Path) -> None:
        holder = directory / "irs" if (directory / "irs").is_dir() else directory
        self._graphs = _graphs(holder)
        if not self._graphs:
            raise _no_module(directory)
        self.size = sum(_first(graph).stat().st_size for graph in self._graphs)
        self.taken = 0

    def __iter__(self) -> Iterator[str]:
        """Yield the log of the modules: the text of each graph's first stage, with headers."""
        # If only one stage was kept, a graph without a later stage has not failed.
        is_single = len({stage for graph in self._graphs for stage in graph.files}) == 1
        end = programs.END + "\n"
        for number, graph in enumerate(self._graphs):
            yield _line(number, f"1| MLIR Module {programs.FIRST}:")
            with _first(graph).open("rb") as opened:
                file = characters(opened)
                while line := file.readline(LONGEST):
                    self.taken += len(line)
                    yield line
            yield "\n"
            yield end
            later = [stage for stage in graph.files if stage != programs.FIRST]
            for stage in [programs.COMPLETE] if is_single else later:
                yield _line(number, f"1| MLIR Module {stage}:")
                yield end
            if not is_single and programs.LOWERED.isdisjoint(later):
                yield _line(number, "ERR| no module of a later stage was written")

    def __enter__(self) -> Dump:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def _graphs(holder: Path) -> list[_DumpedGraph]:
    """Return the graphs of a directory, in the order in which they were begun.

    A graph has one file for each stage. A named graph (``resnet_g0``) keeps its name for all
    stages; a graph without a name begins with a stage that the previous one already has.
    """
    graphs: list[_DumpedGraph] = []
    current: dict[str, _DumpedGraph] = {}
    parsed_files = [(parsed, path) for path in holder.glob("*.mlir") if (parsed := _parse(path))]
    for (_, _, graph, stage), path in sorted(parsed_files):
        dumped = current.get(graph)
        if dumped is None or stage in dumped.files:
            dumped = current[graph] = _DumpedGraph()
            graphs.append(dumped)
        dumped.files[stage] = path
    return graphs


def _parse(path: Path) -> tuple[int, int, str, str] | None:
    """Return time, stage number, graph and stage from the name of a file, or None for others."""
    if match := _FILE.fullmatch(path.name):
        for stage in _STAGES:
            if f"{match[1]}_".startswith(f"{stage}_"):
                return int(match[2]), programs.ORDER[stage], match[1][len(stage) + 1 :], stage
    return None


def _first(graph: _DumpedGraph) -> Path:
    """Return the file of the first stage that was kept; its text names the lines of source."""
    return next(iter(graph.files.values()))


def _line(graph: int, message: str) -> str:
    """Return a line of the log. Each graph has its own time, so no two lines are equal."""
    return f"2026-01-01 00:00:00.000 ({graph:8d}.0s) [            dump] {_WHERE} {message}\n"
