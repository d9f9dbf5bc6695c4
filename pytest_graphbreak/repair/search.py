"""Tries patches one by one, and keeps those that are proven.

First all settings of torch together, then each break with its remedies, the cheapest first, then
the recompiles. A device below Dynamo is better off without the settings, since a value that becomes
a node splits its graph: there they come last. A patch is kept if the program has fewer graphs with
it, or as many with a break less, and does what the original does (``original``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import structs
from msgspec.structs import replace

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Record
from pytest_graphbreak.repair import remedies
from pytest_graphbreak.repair.build import BuildError, Diff, build, difference
from pytest_graphbreak.repair.comparison import Comparison
from pytest_graphbreak.repair.gain import (
    better,
    cleaner,
    eager,
    graphs,
    has_recompiles,
    no_gain,
    no_worse,
    places,
)
from pytest_graphbreak.repair.naming import Names
from pytest_graphbreak.repair.original import Original
from pytest_graphbreak.repair.outcome import Problem, RejectedPatch, SearchResult
from pytest_graphbreak.repair.patch import SourcePatch
from pytest_graphbreak.repair.source import read
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial

_UNWRITABLE: Final = "unwritable"
"""Why a patch is not tried that fits nothing: it is not reported."""

Ran = tuple[Trial, Comparison] | str
"""A run that does what the original does, or why it does not."""


class _NoRunLeftError(Exception):
    """Raised where the program would run more often than it may."""


class Search:
    """The search for one target, of at most ``most`` runs, without code generation of inductor.

    ``outcome`` is valid at any time, also after an interrupt.
    """

    def __init__(
        self,
        target: Target,
        bench: Bench,
        *,
        most: int,
        keep_side_effects: bool = False,
        header: str = "",
        progress: Callable[[float, float, str], None] = lambda *_: None,
    ) -> None:
        self._target = target
        self._bench = bench
        self._most = most
        self._started = bench.runs
        self._keep_side_effects = keep_side_effects
        self._header = header
        self._progress = progress
        self._file = read(target.path)
        self._names = Names(target.path, self._file.text)
        self._ran: dict[bytes, Ran] = {}
        self._certain: tuple[list[SourcePatch], Trial] | None = None
        """The patches, and their run, before the first that is kept without a gain."""
        self.original = Original(bench, target, codegen=False)
        self._names.add(self.original.first.sites)
        self.outcome = SearchResult(self.original.first, self.original.first)

    def run(self) -> SearchResult:
        """Work until no remedy helps, the number of runs is used up, or it is interrupted."""
        out = self.outcome
        if out.first.error is not None or not out.first.record.active:
            return out
        try:
            self._improve()
        except KeyboardInterrupt as stop:
            out.stopped, out.interrupt = "interrupted", stop
        except _NoRunLeftError:
            out.stopped = f"the number of runs (--runs {self._most}) is used up"
        self._close()
        return out

    def _improve(self) -> None:
        out = self.outcome
        device = out.first.record.headline != "dynamo"
        if not device:
            self._settings()
        self._breaks()
        if has_recompiles(out.last.record):
            problem = self._problem(None)
            self._solve(problem, remedies.for_recompiles(self._source_run(out.last)))
        if device:
            self._settings()

    def diff(self) -> Diff:
        """Return the diff of the kept patches for the maintainers of the files."""
        names = self._names
        return difference(names.source, names.own, self.outcome.patches, names.sites)

    def _settings(self) -> None:
        """Try all settings in one run; then take each back without which it is as good."""
        out = self.outcome
        offered = remedies.for_settings(self._source_run(out.last))
        patches = [patch for patch in offered if not self._refusal(patch)]
        if not patches:
            return
        before = out.last.record
        ran = self._run([*out.patches, *patches], "all settings together")
        if isinstance(ran, str) or not better(before, ran[0].record):
            return
        without: dict[SourcePatch, Record] = {}
        for patch in list(patches):
            fewer = [setting for setting in patches if setting is not patch]
            less = self._run([*out.patches, *fewer], f"without {patch.title}") if fewer else ""
            if not isinstance(less, str) and _as_good(ran[0].record, less[0].record):
                patches, ran = fewer, less
            else:
                without[patch] = before if isinstance(less, str) else less[0].record
        self._credit(without, *ran)

    def _credit(
        self, without: Mapping[SourcePatch, Record], trial: Trial, proof: Comparison
    ) -> None:
        """Keep settings, each for the breaks that are there without it."""
        out, count = self.outcome, graphs(trial.record)
        items: list[Break | None] = [*map(self._source_break, places(out.last.record))]
        items += [None] if has_recompiles(out.last.record) else []
        gone = [item for item in items if self._gone(item, trial.record)]
        # Where none is gone the graphs got fewer: of the recompiles, if there are any.
        problems = [self._problem(item) for item in gone or items[-1:]]
        for problem in problems:
            problem.after = count
        for patch, record in without.items():
            needs = [x for x in problems if not self._gone(x.item, record)] or problems[:1]
            for problem in needs:
                problem.patches.append(patch)
        out.patches += without
        self._accept(trial, proof)

    def _breaks(self) -> None:
        """Work on each break, also on those that a patch uncovers, but not on a patch's own."""
        out = self.outcome
        seen: set[tuple[str, ...]] = set()
        while True:
            items = places(out.last.record)
            item = next((x for x in items if self._names.key(x) not in seen), None)
            if item is None:
                return
            seen.add(self._names.key(item))
            if self._is_patched(item):
                continue
            source_item = self._source_break(item)
            offered = remedies.for_break(source_item, self._source_run(out.last))
            self._solve(self._problem(source_item), offered)

    def _problem(self, item: Break | None) -> Problem:
        """Return the problem of a break, or of the recompiles: settings may have begun it."""
        problems = self.outcome.problems
        keys = [problem.item and self._names.key(problem.item) for problem in problems]
        key = item and self._names.key(item)
        if key not in keys:
            problems.append(Problem(item, self.outcome.after))
            return problems[-1]
        return problems[keys.index(key)]

    def _solve(self, problem: Problem, patches: Iterable[SourcePatch]) -> None:
        """Try remedies in turn, until one holds."""
        out = self.outcome
        doubtful: tuple[RejectedPatch, Trial, Comparison] | None = None
        for patch in patches:
            why = self._refusal(patch)
            ran = why or self._run([*out.patches, patch], patch.title)
            if isinstance(ran, str):
                if ran != _UNWRITABLE:
                    problem.tried.append(RejectedPatch(patch, ran))
                continue
            before, after = out.last.record, ran[0].record
            gone, gain = self._gone(problem.item, after), self._gains(patch, before, after)
            on_trial = gone and no_worse(before, after) and not patch.leaves
            # Code that left the compiler is compiled when its last break is gone: heavier patches
            # are not tried first.
            if gain or (on_trial and eager(before) and not patch.drops):
                self._keep(problem, patch, *ran, certain=gain)
                if gone:
                    return
            elif on_trial and doubtful is None:
                doubtful = (RejectedPatch(patch, no_gain(before, after)), *ran)
            else:
                remaining = "the break is" if problem.item is not None else "recompiles are"
                words = no_gain(before, after) if gone else f"{remaining} still there"
                problem.tried.append(RejectedPatch(patch, words))
        if doubtful is None:
            return
        attempt, trial, proof = doubtful
        if problem.patches:
            problem.tried.append(attempt)
        else:
            self._keep(problem, attempt.patch, trial, proof, certain=False)

    def _gains(self, patch: SourcePatch, before: Record, after: Record) -> bool:
        clean = not patch.drops and cleaner(before, after, may_leave=patch.leaves)
        return clean or better(before, after, may_leave=patch.leaves)

    def _gone(self, item: Break | None, record: Record) -> bool:
        """Return whether a run no longer has a break, or recompiles (None)."""
        if item is None:
            return not has_recompiles(record)
        return self._names.key(item) not in map(self._names.key, places(record))

    def _is_patched(self, item: Break) -> bool:
        """Return whether a break is at a line that a patch wrote, or at what it disabled."""
        frame = self._names.file_frame(item.where)
        if frame != item.where and frame.code and not self._names.has(frame):
            return True
        old = {self._names.key(old_item) for old_item in places(self.outcome.first.record)}
        disabled = advice.name(item) == "disabled" and self._names.key(item) not in old
        return disabled and any(patch.leaves for patch in self.outcome.patches)

    def _source_break(self, item: Break) -> Break:
        """Return a break with its places in the user's own file."""
        stack = tuple(self._names.source_frame(frame) for frame in item.stack)
        return structs.replace(item, where=self._names.source_frame(item.where), stack=stack)

    def _source_run(self, trial: Trial) -> Trial:
        """Return a run whose guards have their places in the user's own file."""
        record = self._names.source_record(trial.record)
        return replace(trial, record=record, sites=self._names.sites)

    def _refusal(self, patch: SourcePatch) -> str:
        """Return why a patch is not tried at all, or ""."""
        if any(set(patch.edits) <= set(earlier.edits) for earlier in self.outcome.patches):
            return _UNWRITABLE
        if patch.drops and self._keep_side_effects:
            return f"--keep-side-effects: {patch.drops}"
        return patch.unfit

    def _keep(
        self,
        problem: Problem,
        patch: SourcePatch,
        trial: Trial,
        proof: Comparison,
        *,
        certain: bool,
    ) -> None:
        out = self.outcome
        if not certain and self._certain is None:
            self._certain = (list(out.patches), out.last)
        out.patches.append(patch)
        problem.patches.append(patch)
        problem.after = graphs(trial.record)
        self._accept(trial, proof)

    def _accept(self, trial: Trial, proof: Comparison) -> None:
        self._names.add(trial.sites)
        self.outcome.last, self.outcome.comparison = trial, proof

    def _run(self, patches: Sequence[SourcePatch], title: str) -> Ran:
        """Run the program with patches, and compare it. The same text is run once."""
        try:
            source = self._built(patches)
        except (BuildError, UnicodeEncodeError) as error:
            return f"it cannot be written: {error}" if str(error) else _UNWRITABLE
        if source not in self._ran:
            runs = self._bench.runs - self._started
            if runs >= self._most:
                raise _NoRunLeftError
            self._progress(runs, self._most, title)
            with self._bench.beside(self._target, source) as copy:
                self._names.copies.add(copy.path.name)
                trial = self.original.patched(copy)
            compared = self.original.comparison(trial)
            self._ran[source] = compared.words or (trial, compared)
        return self._ran[source]

    def _built(self, patches: Sequence[SourcePatch], header: str = "") -> bytes:
        """Return the patched program. Raises ``BuildError`` or ``UnicodeEncodeError``."""
        names, test = self._names, self._target.test
        text = build(names.source, names.own, patches, names.sites, header, test)
        return self._file.encode(text)

    def _settle(self) -> None:
        """Remove the patches on trial, and those kept after them, if there is no gain."""
        out = self.outcome
        if self._certain is None:
            return
        before, after = self._certain[1].record, out.last.record
        leave = any(patch.leaves for patch in out.patches)
        if better(before, after, may_leave=leave) or cleaner(before, after, may_leave=leave):
            return
        certain, out.last = self._certain
        for problem in out.problems:
            for patch in [on_trial for on_trial in problem.patches if on_trial not in certain]:
                problem.patches.remove(patch)
                problem.tried.append(RejectedPatch(patch, no_gain(before, after)))
        out.patches = certain

    def _blame(self, function: str) -> None:
        """Leave the problem open whose patch wrote a line of a function that breaks."""
        patched = [problem for problem in self.outcome.problems if problem.patches]
        near = [x for x in patched if x.item and x.item.where.function == function]
        for problem in (near or patched)[-1:]:
            problem.fixed = False

    def _close(self) -> None:
        """Write the source with all kept patches, and record which problems are fixed."""
        self._settle()
        out = self.outcome
        for problem in out.problems:
            problem.fixed = bool(out.patches) and self._gone(problem.item, out.last.record)
        for item in filter(self._is_patched, places(out.last.record)):
            self._blame(self._names.file_frame(item.where).function)
        if out.patches:
            out.source = self._built(out.patches, self._header)
        out.last = self._source_run(out.last)


def _as_good(before: Record, after: Record) -> bool:
    """Return whether a run without a setting is as good as one with it."""
    counts = (graphs, eager, has_recompiles, lambda record: len(places(record)))
    return all(count(after) <= count(before) for count in counts)
