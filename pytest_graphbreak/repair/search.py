"""Tries patches one by one, and keeps those that are proven: the work of ``graphbreak fix``.

Each break is worked on with its remedies in turn, then those that a patch uncovers, then the
recompiles. One rule says what is kept (``Search._why_not``); at the end, what is as good without a
patch goes without it.

Each of the ``remedies`` proposes a ``SourcePatch``, a change of one file. ``ProgramFiles`` applies
patches to the program's files, and finds places of a patched run in the files of the user. The
``Bench`` runs the patched program in a process of its own, a ``Trial``. ``Original`` compares that
with the program as it is, and ``gain`` says what is better or worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from pytest_graphbreak.model.items import Break
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair import remedies
from pytest_graphbreak.repair.comparison import Comparison, Original
from pytest_graphbreak.repair.gain import fixable, graph_count, has_recompiles, no_gain, worse
from pytest_graphbreak.repair.patches import ProgramFiles, SourcePatch, UnfitError, break_key
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial


class Problem(Struct):
    """A break, or the recompiles of the run (``item`` is None), and what was tried for it."""

    item: Break | None
    tried: list[tuple[str, str]] = []
    """The titles of patches, and why each was not kept."""
    patches: dict[SourcePatch, int] = {}
    """Those kept, in order, and the number of graphs with each and all before it."""
    fixed: bool = False


class SearchResult(Struct):
    """The result of a search, or what is known of it so far."""

    first: Trial
    """The run of the program as it is."""
    last: Trial
    """The run with all kept patches together."""
    comparison: Comparison = field(default_factory=Comparison)
    """How ``last`` differs from the original."""
    patches: list[SourcePatch] = []
    """Those kept, of all problems, in the order in which they are applied."""
    problems: list[Problem] = []

    @property
    def before(self) -> int:
        """The number of graphs of the program as it is."""
        return graph_count(self.first.record)

    @property
    def after(self) -> int:
        """The number of graphs with all kept patches."""
        return graph_count(self.last.record)


class _Ran(Struct, frozen=True):
    """A run with patches, and how it compares with the original."""

    trial: Trial
    comparison: Comparison = field(default_factory=Comparison)
    why: str = ""
    """Why it does not do what the original does, or why the patches cannot be written; else ""."""


class Search:
    """The search for one target, without code generation of inductor.

    The original runs when this is made; ``run`` does the rest, and ``outcome`` is what is known at
    each time.
    """

    def __init__(
        self,
        target: Target,
        bench: Bench,
        progress: Callable[[float, float, str], None] = lambda *_: None,
    ) -> None:
        self._target = target
        self._bench = bench
        self._progress = progress
        self._ran: dict[tuple[tuple[str, str], ...], _Ran] = {}
        """Each run with patches, by the names and the texts of the files that these change."""
        self.files = ProgramFiles(target)
        self.original = Original(bench, target, codegen=False)
        self.files.add(self.original.first.sites)
        self.outcome = SearchResult(self.original.first, self.original.first)

    def run(self) -> SearchResult:
        """Work until no remedy helps."""
        out = self.outcome
        if out.first.error is not None or not out.first.record.active:
            return out
        self._breaks()
        if has_recompiles(out.last.record):
            self._solve(None, remedies.for_recompiles(self._source_run()))
        self._take_back()
        self._close()
        return out

    def _breaks(self) -> None:
        """Work on each break once, also on those that a patch uncovers."""
        seen: set[tuple[str, ...]] = set()
        while True:
            items = fixable(self.outcome.last.record)
            item = next((x for x in items if break_key(x) not in seen), None)
            if item is None:
                return
            seen.add(break_key(item))
            item = self.files.locate_break(item)
            self._solve(item, remedies.for_break(item, self._source_run()))

    def _solve(self, item: Break | None, patches: Iterable[SourcePatch]) -> None:
        """Try remedies for a break, or for the recompiles, until it is gone."""
        out = self.outcome
        problem = Problem(item)
        out.problems.append(problem)
        for patch in patches:
            ran = self._run([*out.patches, patch], patch.title)
            if ran is None:
                continue
            if why := ran.why or self._why_not(item, ran.trial):
                problem.tried.append((patch.title, why))
                continue
            out.patches.append(patch)
            out.last, out.comparison = ran.trial, ran.comparison
            problem.patches[patch] = out.after
            self.files.add(out.last.sites)
            if self._is_gone(item, out.last.record):
                return

    def _why_not(self, item: Break | None, trial: Trial) -> str:
        """Return why a patch is not kept, or an empty text: the one rule.

        It does what the original does (``_run``), nothing is worse with it, no line that it wrote
        breaks, and its break is gone or the run is better in another way. Where the break is gone
        and all else is as before, another break may be uncovered, whose patch is the gain.
        """
        last = self.outcome.last
        if why := worse(last, trial):
            return why
        if any(not self.files.has_line(broken.where) for broken in fixable(trial.record)):
            return "the new line breaks, too"
        if self._is_gone(item, trial.record) or not no_gain(last, trial):
            return ""
        return "recompiles are still there" if item is None else "the break is still there"

    def _take_back(self) -> None:
        """Go without each patch without which the run is as good, the last one first."""
        out = self.outcome
        for problem in reversed(out.problems):
            for patch in reversed(problem.patches.copy()):
                fewer = [x for x in out.patches if x is not patch]
                without = self._run(fewer, f"without {patch.title}")
                if without is None or without.why:
                    continue
                if why := no_gain(without.trial, out.last):
                    out.patches.remove(patch)
                    del problem.patches[patch]
                    problem.tried.append((patch.title, why))
                    out.last, out.comparison = without.trial, without.comparison
        kept = [problem.patches for problem in out.problems if problem.patches]
        if kept:  # the last one may make fewer graphs without those taken back
            kept[-1][next(reversed(kept[-1]))] = out.after

    def _is_gone(self, item: Break | None, record: Record) -> bool:
        """Return whether a run no longer has a break, or recompiles (None)."""
        if item is None:
            return not has_recompiles(record)
        return break_key(item) not in map(break_key, fixable(record))

    def _run(self, patches: Sequence[SourcePatch], title: str) -> _Ran | None:
        """Run the program with patches, and compare it. The same text is run once.

        None if a patch fits no place of the program.
        """
        if not patches:
            return _Ran(self.original.first)  # all were taken back
        try:
            texts = self.files.apply(patches)
            if texts is None:
                return None
            contents = self.files.encode(texts)
        except (UnfitError, UnicodeEncodeError) as error:
            return _Ran(self.original.first, why=f"it cannot be written: {error}")
        key = tuple(sorted(texts.items()))
        if key not in self._ran:
            done = len(self.outcome.problems)
            self._progress(done, done + len(fixable(self.outcome.last.record)) + 1, title)
            replaced = self._bench.replacing(contents)
            trial = self.original.patched(self._target, replaced=replaced)
            compared = self.original.comparison(trial)
            self._ran[key] = _Ran(trial, compared, compared.words)
        return self._ran[key]

    def _close(self) -> None:
        """Record which problems are fixed, without those that came and went with patches.

        A patch of another problem may have fixed one, so each is looked up in the last run.
        """
        out = self.outcome
        was = {break_key(item) for item in fixable(out.first.record)}
        problems, out.problems = out.problems, []
        for problem in problems:
            problem.fixed = self._is_gone(problem.item, out.last.record)
            was_there = problem.item is not None and break_key(problem.item) in was
            if problem.patches or was_there or not problem.fixed:
                out.problems.append(problem)
        out.last = self._source_run()

    def _source_run(self) -> Trial:
        """Return the last run, whose recompiles have their places in the unpatched files."""
        last = self.outcome.last
        record = self.files.locate_recompiles(last.record)
        return replace(last, record=record, sites=self.files.sites)
