"""Counts graphs in a log that has END markers and no headers.

One marker follows each stage, and how many stages a graph has depends on the version and on how far
the graph came. So the number is worked out from what comes between the markers: the dialect of each
module (a graph begins with ``vhlo.`` and ends with ``ttnn.``), its name, the compiler's errors. If
there is none of these, only the number of markers is left, and ``sure`` says so.

``TTLog`` gets the lines of a log, and hands those between two markers to the ``Markers`` of their
rank. At the end ``reading`` asks for a ``Guess`` of each. The evidence parts the markers into runs,
of one graph or of several; if there is a vhlo module, each begins a graph (``_whole_graphs``), else
the runs are divided by a number of stages that fits (``_periods``).
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, NamedTuple

from msgspec import Struct

from pytest_graphbreak.layers.tt.headers import module_name
from pytest_graphbreak.layers.tt.log import TTLines
from pytest_graphbreak.text import prefixes

USUAL: Final = range(5, 10)
"""The stages that a whole graph has had in any version; used if the log does not say."""

SURE: Final = "sure"
LIKELY: Final = "likely"
GUESS: Final = "guess"
"""How sure a number of graphs is."""

_UNKNOWN, _VHLO, _SHLO, _TTIR, _TTNN = range(5)
"""The dialects of modules, in the order of a graph's stages."""
_DIALECTS: Final = (
    (_TTNN, re.compile(r"ttnn\.")),  # "ttnn.add"(...)
    # "ttir.add"(...); but stablehlo modules have ttir.name as an attribute
    (_TTIR, re.compile(r"ttir\.(?!name\b)", re.A)),
    (_VHLO, re.compile(r"vhlo\.")),  # "vhlo.add_v1"(...)
    (_SHLO, re.compile(r"stablehlo\.")),  # stablehlo.add
)
"""What shows the dialect of a module, the surest first.

A module of a later stage may still have words of an earlier one. So what a line has shown stays, if
another line has only what stands further down this list.
"""


class Guess(Struct, frozen=True):
    """The number of graphs that the markers stand for, at ``least`` and at ``most``."""

    graphs: int
    completed: int
    """How many of them were lowered to the end."""
    stages: int
    """The stages of a whole graph; 0 if none can be determined."""
    sure: str
    """``SURE``, ``LIKELY`` or ``GUESS``."""
    least: int
    most: int
    why: str
    """The evidence in words."""


class Markers:
    """The markers of one process, in order. The memory does not grow with their number.

    It counts runs (``_Runs``) of markers that nothing parts, by two rules at once, since only the
    end of the log shows which holds. The modules ``shlo ttir shlo ttir ttnn vhlo ttnn`` are one
    graph by the first rule (``vhlo ttnn``; what is before it began before the log), and three by
    the second (``shlo ttir``, ``shlo ttir ttnn`` and ``vhlo ttnn``).
    """

    def __init__(self) -> None:
        self._module = _Module()
        self._by_dialect = _Runs()
        """A graph begins where a module is vhlo: what holds once there is one."""
        self._by_evidence = _Runs()
        """A graph begins wherever anything says so: what holds else."""
        self._failed = False
        self._has_vhlo = False

    def look(self, line: str) -> None:
        """Take a line before the next marker, or a part of one."""
        self._module.look(line)

    def mark(self) -> None:
        """Take a marker: the lines since the last one were of one module."""
        module, self._module = self._module, _Module()
        begins = self._failed or module.dialect == _VHLO
        self._by_dialect.add(module, begins)
        self._by_evidence.add(module, begins or _goes_back(self._by_evidence.last, module))
        self._failed = False
        self._has_vhlo = self._has_vhlo or module.dialect == _VHLO

    def error(self) -> None:
        """Take an error of the compiler: the graph of the last marker ends with it."""
        self._failed = True
        self._by_dialect.fail()
        self._by_evidence.fail()

    def guess(self) -> Guess | None:
        """Return what the markers so far mean; None if there was none."""
        if self._has_vhlo:
            return _whole_graphs(self._by_dialect)
        last = self._by_evidence.open
        return None if last is None else _periods(self._by_evidence.kinds, last)


class TTLog(TTLines):
    """The lines of a TT compiler's log, also of a log that has END markers and no headers.

    ``TTLines`` reads headers and calls the methods ``on_headless_...`` while there was none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.markers: dict[str, Markers] = {}

    def guesses(self) -> dict[str, Guess]:
        """Return what markers mean, by rank; empty if there was a header, which is better."""
        if self.headers:
            return {}
        guesses = {rank: markers.guess() for rank, markers in self.markers.items()}
        return {rank: guess for rank, guess in guesses.items() if guess is not None}

    def on_headless_end(self, rank: str) -> None:
        self._of_rank(rank).mark()

    def on_headless_error(self, rank: str) -> None:
        self._of_rank(rank).error()

    def on_headless_text(self, text: str) -> None:
        if _is_evidence(text):
            self._of_rank(prefixes.rank(text[: prefixes.BEFORE])).look(text)

    def _of_rank(self, rank: str) -> Markers:
        return self.markers.setdefault(rank, Markers())


def _is_evidence(line: str) -> bool:
    """Return whether a line may say something about its module, by the cheapest test."""
    return "hlo." in line or "ttir." in line or "ttnn." in line or "module @" in line


class _Module:
    """What the text of a module says about it."""

    __slots__ = ("dialect", "name")

    def __init__(self) -> None:
        self.name = ""
        self.dialect = _UNKNOWN

    def look(self, text: str) -> None:
        """Take a line of the module, or a part of one."""
        self.name = self.name or module_name(text)
        for dialect, pattern in _DIALECTS:
            if dialect == self.dialect:
                break
            if pattern.search(text):
                self.dialect = dialect
                break


class _MarkerRun(NamedTuple):
    """Markers in a row that no evidence separates: of one graph, or of several."""

    length: int
    begun: bool
    """Whether the first is of a vhlo module."""
    lowered: bool
    """Whether one is of a ttnn module."""
    failed: bool
    """Whether an error follows the last."""


class _Runs:
    """The number of runs of each kind. ``open`` is the last run, which may go on."""

    def __init__(self) -> None:
        self.last: _Module | None = None
        self.open: _MarkerRun | None = None
        self._closed: Counter[_MarkerRun] = Counter()

    def add(self, module: _Module, begins: bool) -> None:
        """Add a marker, which begins a run or continues the last one."""
        if self.open is None or begins:
            if self.open is not None:
                self._closed[self.open] += 1
            self.open = _MarkerRun(
                length=0, begun=module.dialect == _VHLO, lowered=False, failed=False
            )
        self.open = self.open._replace(
            length=self.open.length + 1,
            lowered=self.open.lowered or module.dialect == _TTNN,
        )
        self.last = module

    def fail(self) -> None:
        if self.open is not None:
            self.open = self.open._replace(failed=True)

    @property
    def kinds(self) -> Counter[_MarkerRun]:
        return self._closed + Counter([self.open] if self.open else ())


def _goes_back(last: _Module | None, module: _Module) -> bool:
    """Return whether a module cannot be a later stage of the last one's graph."""
    if last is None:
        return False
    if last.name and module.name and last.name != module.name:
        return True
    return bool(last.dialect and module.dialect and module.dialect < last.dialect)


def _whole_graphs(runs: _Runs) -> Guess:
    """Count vhlo modules, which begin graphs. What comes before the first began before the log.

    Runs of which the first module is not vhlo are therefore no graphs of this log.
    """
    begun = {run: number for run, number in runs.kinds.items() if run.begun}
    lengths: Counter[int] = Counter()
    for run, number in begun.items():
        if run.lowered:
            lengths[run.length] += number
    graphs = sum(begun.values())
    stages = lengths.most_common(1)[0][0] if lengths else 0
    listed = ", ".join(f"{number} with {length}" for length, number in sorted(lengths.items()))
    why = "each graph begins with a vhlo module"
    if listed:
        why += f"; stages of the graphs that were lowered: {listed}"
    return Guess(
        graphs=graphs,
        completed=lengths.total(),
        stages=stages,
        sure=SURE,
        least=graphs,
        most=graphs,
        why=why,
    )


def _periods(kinds: Counter[_MarkerRun], last: _MarkerRun) -> Guess:
    """Guess by the number of stages that divides all runs best. ``last`` is the last run."""
    candidates, misfits = _candidates(kinds, last)
    counts = [_count(kinds, stages) for stages in candidates]
    stages = candidates[0]
    least, most = min(counts), max(counts)
    sure, why = _confidence(kinds, candidates, misfits, agreed=least == most)
    completed = sum(run.length // stages * number for run, number in kinds.items())
    return Guess(
        graphs=counts[0],
        completed=completed,
        stages=stages,
        sure=sure,
        least=least,
        most=most,
        why=why,
    )


def _candidates(kinds: Counter[_MarkerRun], last: _MarkerRun) -> tuple[list[int], int]:
    """Return the possible numbers of stages, the best first, and the runs that do not fit that.

    Whole graphs fill a run; a graph that failed stops before its last stage. The best number makes
    few graphs and few runs that do not fit; a misfit weighs more than a graph, except for the last,
    which the end of the log may have cut. Other numbers are possible only if no more runs do not
    fit them. In one run of 14 markers 7 stages make 2 graphs; 5 stages would make 3, and not fit.
    """
    misfits = {
        stages: sum(number for run, number in kinds.items() if not _fits(run, stages))
        for stages in USUAL
    }
    # A misfit weighs 2, but 1 if it is the last run, and a graph weighs 1.
    weights = {
        stages: 2 * misfits[stages] - (not _fits(last, stages)) + _count(kinds, stages)
        for stages in USUAL
    }
    best = min(USUAL, key=lambda stages: (weights[stages], misfits[stages], -stages))
    others = [stages for stages in USUAL if stages != best and misfits[stages] <= misfits[best]]
    if sum(number for run, number in kinds.items() if run.length == best and not run.failed) > 1:
        others = []  # as many markers with one name, again and again: that is a graph
    return [best, *others], misfits[best]


def _fits(run: _MarkerRun, stages: int) -> bool:
    """Return whether whole graphs fill a run, or one that failed ends it before its last stage."""
    return run.failed != (run.length % stages == 0)


def _count(kinds: Counter[_MarkerRun], stages: int) -> int:
    """Return the number of graphs in all runs, each rounded up: its last one may not be whole."""
    return sum(-(-run.length // stages) * number for run, number in kinds.items())


def _confidence(
    kinds: Counter[_MarkerRun], candidates: list[int], misfits: int, *, agreed: bool
) -> tuple[str, str]:
    """Return how sure a guess is, and why; ``agreed``: all candidates make as many graphs."""
    markers = sum(run.length * number for run, number in kinds.items())
    stages, parts = candidates[0], kinds.total()
    if len(candidates) > 1:
        numbers = " or ".join(str(stages) for stages in sorted(candidates))
        end = "the number of graphs is the same" if agreed else "nothing shows which"
        return LIKELY if agreed else GUESS, f"{markers} markers fit {numbers} stages a graph: {end}"
    if parts == 1:
        return LIKELY, f"of 5 to 9 stages a graph only {stages} fits {markers} markers"
    evidence = "names, dialects and errors of the modules part the markers"
    if misfits == 0:
        return SURE, f"{evidence} into graphs of {stages} stages"
    return LIKELY, f"{evidence}; {stages} stages fit all but {misfits} of {parts} parts"
