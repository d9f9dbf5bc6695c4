"""Tries patches one by one and together, and keeps those that are proven.

A patch is kept only if the program has fewer graphs with it (or code that had left the compiler
came back), and the results are those of the original. A patch that fixes its break without fewer
graphs may be half of a fix: it stays on trial, and is removed at the end if there are as few graphs
and breaks without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from msgspec import structs

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Record
from pytest_graphbreak.repair import remedies
from pytest_graphbreak.repair.attempts import UNWRITABLE, Attempts
from pytest_graphbreak.repair.build import BuildError, Diff
from pytest_graphbreak.repair.gain import (
    Problem,
    SearchResult,
    Tried,
    assumes,
    better,
    cleaner,
    compiles_again,
    graphs,
    item_of,
    no_gain,
    no_worse,
    origin_of,
    places,
    reads,
    recompiled,
    taken_out,
)
from pytest_graphbreak.repair.patch import SourcePatch
from pytest_graphbreak.repair.source import called
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial

Say = Callable[[str], None]


class Search:
    """The search for one target. ``outcome`` is valid at any time, also after an interrupt."""

    def __init__(
        self,
        target: Target,
        bench: Bench,
        *,
        most: int,
        keep_side_effects: bool,
        assume: bool = False,
        codegen: bool = False,
        header: str,
        say: Say,
        progress: Callable[[float, float, str], None],
    ) -> None:
        self._most = most
        self._keep_side_effects = keep_side_effects
        self._assume = assume
        self._header = header
        self._say = say
        self._progress = progress
        self._share = 0.0
        self._waiting = 0
        self._uncertain: list[SourcePatch] = []
        self._certain: tuple[list[SourcePatch], Trial] | None = None  # before these patches
        self._attempts = Attempts(target, bench, most=most, codegen=codegen, show=self._show)
        self._names = self._attempts.names
        self.outcome = SearchResult(self._attempts.first, self._attempts.first)

    def run(self) -> SearchResult:
        """Work until no remedy helps, or the number of runs is used up."""
        out = self.outcome
        if out.first.error is not None or not out.first.record.active:
            return out
        seen: set[tuple[str, ...]] = set()
        self._together(seen)
        while (problem := self._next(seen)) is not None:
            out.problems.append(problem)
            self._waiting = len({self._names.key(one) for one in places(out.last.record)} - seen)
            self._fix(problem)
            if out.stopped:
                break
        self._share = 1.0
        if not out.stopped:
            self._weed()
            self._other_sizes()
        self._close()
        return out

    def _show(self, title: str) -> None:
        self._progress(self._share, 1.0, title)

    def _together(self, seen: set[tuple[str, ...]]) -> None:
        """Try the first simple patch for each break in one run, then the next for the breaks left.

        They may help each other or not; patches that fail together are tried one by one later.
        """
        out = self.outcome
        known = dict.fromkeys(self._names.key(one) for one in places(out.first.record))
        for number in range(_ROUNDS):
            problems = [self._problem(one) for one in places(out.last.record)]
            chosen: list[tuple[Problem, SourcePatch]] = []
            for problem in problems:
                fresh = [one for one in self._cheapest(problem) if self._refused(one) is None]
                if fresh[number:] and self._names.key(item_of(problem)) in known:
                    chosen.append((problem, fresh[number]))
            patches = list(dict.fromkeys(patch for _, patch in chosen))
            if len(chosen) < 2 or not patches or self._attempts.left < 2:
                return
            trial, _ = self._attempts.run([*out.kept, *patches])
            if trial is None:
                return
            left = {self._names.key(one) for one in places(trial.record)}
            gone = [one for one in chosen if self._names.key(item_of(one[0])) not in left]
            useful = list(dict.fromkeys(patch for _, patch in gone))
            if len(useful) < len(patches):
                trial, _ = self._attempts.run([*out.kept, *useful]) if useful else (None, None)
            before = out.last.record
            if trial is None or self._compiles_again(trial):
                continue
            if not any(one(before, trial.record) for one in (better, cleaner)):
                continue
            for problem, patch in gone:
                seen.add(self._names.key(item_of(problem)))
                out.problems.append(problem)
                if patch in out.kept:
                    problem.fixed = True
                else:
                    self._keep(problem, patch, trial)

    def _cheapest(self, problem: Problem) -> Iterator[SourcePatch]:
        """Yield the first patches that only change settings or a line, and lose nothing."""
        for patch in self._patches(problem):
            if reads(patch):
                continue
            try:
                self._attempts.built([patch])
            except (BuildError, UnicodeEncodeError):
                continue
            if not _is_simple(patch):
                return
            yield patch

    def _next(self, seen: set[tuple[str, ...]]) -> Problem | None:
        """Return the next break that was not worked on, then the recompiles, then None."""
        for item in places(self.outcome.last.record):
            key = self._names.key(item)
            if key not in seen:
                seen.add(key)
                return self._problem(item)
        if recompiled(self.outcome.last.record) and ("recompiles",) not in seen:
            seen.add(("recompiles",))
            return Problem(None, graphs(self.outcome.last.record))
        return None

    def _problem(self, item: Break) -> Problem:
        """Return a problem for a break, with its places in the user's own file."""
        stack = tuple(self._names.placed(frame) for frame in item.stack)
        placed = structs.replace(item, where=self._names.placed(item.where), stack=stack)
        before = graphs(self.outcome.last.record)
        return Problem(placed, before, origin=self._origin(item))

    def _origin(self, item: Break) -> Problem | None:
        """Return the problem whose patch wrote a line, or disabled what it calls, if one did."""
        patched = [one for one in self.outcome.problems if one.kept and one.item is not None]
        known = {self._names.key(one) for one in places(self.outcome.first.record)}
        if advice.name(item) == "disabled" and self._names.key(item) not in known:
            left = [one for one in patched if any(patch.leaves for patch in one.kept)]
            names = {name.rpartition(".")[2] for name in called(item.where.code)}
            near = [one for one in left if taken_out(one) & names]
            return origin_of(near or left)
        named = self._names.named(item.where)
        if named == item.where or not named.code:
            return None
        if self._names.has(named):
            return None
        near = [one for one in patched if item_of(one).where.function == named.function]
        return origin_of(near or patched)

    def _patches(self, problem: Problem) -> Iterator[SourcePatch]:
        last = replace(self.outcome.last, sites=self._names.sites)
        if problem.item is None:
            record = self._names.guarded(last.record)
            return remedies.for_recompiles(replace(last, record=record))
        return remedies.for_break(problem.item, last)

    def _fix(self, problem: Problem) -> None:
        """Try the remedies for one problem in turn, until one holds."""
        out = self.outcome
        patches = list(self._patches(problem))
        for number, patch in enumerate(patches):
            # The share of the known problems, and of the patches for this one.
            done = len(out.problems) - 1 + number / len(patches)
            self._share = done / (len(out.problems) + self._waiting)
            why = self._refused(patch)
            if why is None:
                if self._attempts.left < 1:
                    out.stopped = f"the number of runs (--runs {self._most}) is used up"
                    problem.note = out.stopped
                    break
                why = self._try(problem, patch)
            if why == "":
                if problem.fixed:
                    return
            elif why != UNWRITABLE:
                problem.tried.append(Tried(patch, why))
            if self._uncovers(problem):
                break
        if problem.doubtful is not None and not problem.kept:
            patch, trial = problem.doubtful
            self._certain = self._certain or (list(out.kept), out.last)
            self._uncertain.append(patch)
            problem.tried = [one for one in problem.tried if one.patch is not patch]
            self._keep(problem, patch, trial, word="on trial")

    def _try(self, problem: Problem, patch: SourcePatch) -> str:
        """Run with a patch and keep it if that is a gain; return why it is not kept, or ""."""
        last = self.outcome.last
        trial, why = self._attempts.run([*self.outcome.kept, patch])
        if trial is None:
            return why or ""
        assumed = "" if self._assume else assumes(problem, patch, trial, last)
        if why := assumed or self._compiles_again(trial):
            return why
        gone = self._gone(problem, trial.record)
        before, after, leave = last.record, trial.record, patch.leaves
        whole = not patch.drops and cleaner(before, after, may_leave=leave)
        if (gone and whole) or better(before, after, may_leave=leave):
            self._keep(problem, patch, trial)
            problem.fixed = gone
            return ""
        if gone and no_worse(before, after) and not leave and problem.doubtful is None:
            problem.doubtful = (patch, trial)
        there = "the break is" if problem.item is not None else "recompiles are"
        return no_gain(before, after) if gone else f"{there} still there"

    def _uncovers(self, problem: Problem) -> bool:
        """Return whether a simple patch on trial shows the next break of code left to eager.

        Such code is compiled when its last break is gone, so heavier patches are not tried first.
        """
        if problem.doubtful is None or problem.item is None or not self.outcome.last.record.eager:
            return False
        patch, trial = problem.doubtful
        known = {self._names.key(one) for one in places(self.outcome.last.record)}
        function = problem.item.where.function
        return _is_simple(patch) and any(
            one.where.function == function and self._names.key(one) not in known
            for one in places(trial.record)
        )

    def _compiles_again(self, trial: Trial) -> str:
        """Return that patches compile again for more other inputs than the program, or ""."""
        if self._assume or not trial.again:
            return ""
        plain = self._attempts.plain()
        return compiles_again(trial, plain, self._attempts.text) if plain is not None else ""

    def _other_sizes(self) -> None:
        """Make other sizes dynamic where the program with its patches is compiled for each.

        Where a line computes with a size as a number, no graph can hold for two. Nor can it where a
        device below Dynamo compiles each size, whatever Dynamo does.
        """
        out = self.outcome
        if not out.kept or not out.last.again:
            return
        out.plain = self._attempts.plain()
        if out.last.record.headline != "dynamo":
            return

    def _gone(self, problem: Problem, record: Record) -> bool:
        """Return whether a run no longer has a problem."""
        if problem.others:
            return not self.outcome.last.again
        if problem.item is None:
            return not recompiled(record)
        return self._names.key(problem.item) not in map(self._names.key, places(record))

    def _refused(self, patch: SourcePatch) -> str | None:
        """Return why a patch is not tried at all, or None if it is."""
        if any(set(patch.edits) <= set(kept.edits) for kept in self.outcome.kept):
            return "it is there already"
        if patch.drops and self._keep_side_effects:
            return f"--keep-side-effects: {patch.drops}"
        return patch.unfit or None

    def _keep(
        self, problem: Problem, patch: SourcePatch, trial: Trial, *, word: str = "kept"
    ) -> None:
        out = self.outcome
        self._names.add(trial.sites)
        problem.kept.append(patch)
        problem.after = graphs(trial.record)
        out.kept.append(patch)
        out.last = trial
        self._say(f"{word}: {patch.title} ({problem.before} -> {problem.after})")

    def _weed(self) -> None:
        """Remove the patches on trial that bring no gain."""
        out = self.outcome
        leave = any(patch.leaves for patch in out.kept)
        for patch in list(self._uncertain):
            if self._attempts.left < 1:
                return
            rest = [one for one in out.kept if one is not patch]
            if not rest:
                if cleaner(out.first.record, out.last.record, may_leave=leave):
                    continue
                out.kept, out.last = [], out.first
            else:
                trial, _ = self._attempts.run(rest)
                if trial is None or better(trial.record, out.last.record):
                    continue
                if cleaner(trial.record, out.last.record, may_leave=leave):
                    continue
                out.kept, out.last = rest, trial
            for problem in out.problems:
                if patch in problem.kept:
                    problem.kept.remove(patch)
                    problem.tried.append(Tried(patch, "the graphs are as few without it"))

    def _settle(self) -> None:
        """Remove the patches on trial, and those kept after them, if there is no gain."""
        out = self.outcome
        if self._certain is None:
            return
        before, after = self._certain[1].record, out.last.record
        leave = any(patch.leaves for patch in out.kept)
        if better(before, after) or cleaner(before, after, may_leave=leave):
            return
        gone = [patch for patch in out.kept if patch not in self._certain[0]]
        out.kept, out.last = self._certain
        for problem in out.problems:
            for patch in [one for one in problem.kept if one in gone]:
                problem.kept.remove(patch)
                problem.tried.append(Tried(patch, no_gain(before, after)))

    def _close(self) -> None:
        """Write the source with all kept patches, and record which problems are fixed."""
        self._settle()
        out = self.outcome
        for problem in out.problems:
            tried = bool(out.kept) or problem.item is None
            problem.fixed = tried and self._gone(problem, out.last.record)
        for problem in list(out.problems):
            if problem.origin is not None and not problem.kept and not problem.fixed:
                # The remaining reason is that of the program's own line.
                problem.origin.fixed = False
                problem.origin.tried += problem.tried
                out.problems.remove(problem)
        out.reference, out.prints = self._attempts.reference, self._attempts.prints
        out.first = self._attempts.original
        if out.kept:
            out.source = self._attempts.built(out.kept, self._header)
        else:
            out.last = out.first

    @property
    def codegen(self) -> bool:
        """Whether inductor, if the program uses it, generates code in the runs."""
        return self._attempts.codegen

    def prove(self, fixed: Target) -> str:
        """Run the written file as it is, and return why it does not hold, or ""."""
        out = self.outcome
        trial = self._attempts.prove(fixed, out.kept, out.last)
        if isinstance(trial, str):
            return trial
        out.last, out.reference = trial, self._attempts.reference
        return ""

    def diff(self) -> Diff:
        """Return the diff of the kept patches for the maintainers of the files."""
        why = {
            id(patch): problem.item for problem in self.outcome.problems for patch in problem.kept
        }
        kept = [(patch, why.get(id(patch))) for patch in self.outcome.kept]
        return self._attempts.diff(kept)

    def finish(self) -> None:
        """Keep what is finished after an interrupt."""
        self.outcome.stopped = self.outcome.stopped or "interrupted"
        self._close()


_ROUNDS: Final = 2
"""How often several patches are tried in one run before each is tried alone."""


def _is_simple(patch: SourcePatch) -> bool:
    """Return whether a patch only changes settings or a line, and loses nothing."""
    return not (patch.drops or patch.leaves or patch.assumes)
