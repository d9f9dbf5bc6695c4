"""Runs a program with patches, and says why one does not do what the original does.

The original is run as it is. If inductor compiles it, it is run a second time without inductor's
code generation, and so are all attempts (``codegen``): they take a part of the time. What is
written at the end is compared with the original as it is, with inductor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pytest_graphbreak.model.record import Break, Record
from pytest_graphbreak.repair.build import BuildError, Diff, build, difference
from pytest_graphbreak.repair.child import OTHERS
from pytest_graphbreak.repair.gain import graphs, no_gain, places, recompiled
from pytest_graphbreak.repair.naming import Names
from pytest_graphbreak.repair.patch import UNCOMPILED, SourcePatch
from pytest_graphbreak.repair.source import read
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial, printed

UNWRITABLE: Final = "unwritable"
"""Why a patch is not tried that fits nothing: it is not reported."""


class Attempts:
    """The runs of one target, with patches and without; at most ``most`` of them.

    ``codegen`` is whether inductor generates code in them. ``reference`` is how the program differs
    without a patch, for other inputs, from what it does uncompiled; ``prints`` is how its lines
    differ with patches, where they are those of the uncompiled program.
    """

    def __init__(
        self, target: Target, bench: Bench, *, most: int, codegen: bool, show: Callable[[str], None]
    ) -> None:
        self._target = target
        self._bench = bench
        self._most = bench.runs + most
        self._show = show
        self._file = read(target.path)
        self.names = Names(target.path, self._file.text)
        self.reference = ""
        self.prints = ""
        self._certified = False
        self._eager: Trial | None = None
        self._made: dict[tuple[bytes, bool, bool], tuple[Trial | None, str | None]] = {}
        self.original = self.first = bench.measure(target, compare=False)
        self.codegen = True
        if not codegen and self.original.error is None and self.original.inductor:
            self._skip_codegen()
        self.names.add(self.first.sites)

    def _skip_codegen(self) -> None:
        """Go on without code generation if it changes nothing of what is counted."""
        self._show("the same without inductor's code generation")
        first = self._bench.measure(self._target, compare=False, codegen=False)
        if first.error is None and _counted(first.record) == _counted(self.original.record):
            self.first, self.codegen = first, False

    @property
    def text(self) -> str:
        """The text of the user's file."""
        return self._file.text

    @property
    def left(self) -> int:
        """The number of runs that may still be made."""
        return self._most - self._bench.runs

    def built(self, patches: Sequence[SourcePatch], header: str = "") -> bytes:
        """Return the patched program. Raises ``BuildError`` or ``UnicodeEncodeError``."""
        names, test = self.names, self._target.test
        text = build(names.source, names.own, patches, names.sites, header, test)
        return self._file.encoded(text)

    def run(self, patches: Sequence[SourcePatch]) -> tuple[Trial | None, str | None]:
        """Run the program with patches; return None and the reason if it fails or differs.

        The same text is run once.
        """
        try:
            source = self.built(patches)
        except (BuildError, UnicodeEncodeError) as error:
            return None, f"it cannot be written: {error}" if str(error) else UNWRITABLE
        own_errors = any(patch.drops for patch in patches)
        drops = any(patch.drops for patch in patches)
        key = (source, own_errors, drops)
        if key not in self._made:
            self._show(patches[-1].title if patches else "without patches")
            self._made[key] = self._run(*key)
        return self._made[key]

    def _run(self, source: bytes, own_errors: bool, drops: bool) -> tuple[Trial | None, str | None]:
        trial = self._measure(source, own_errors=own_errors)
        if trial.error is None and self._renewed(trial):
            self._made.clear()
            trial = self._measure(source, own_errors=own_errors)
        if trial.error is not None:
            return None, f"it fails{trial.at}: {trial.error[:160]}"
        if trial.mismatch is not None:
            return None, f"other results: {trial.mismatch}"
        words = printed(self.first, trial, drops)
        if words is not None and printed(self._uncompiled(), trial, drops) is None:
            self.prints = words
            words = None
        return (trial, None) if words is None else (None, words)

    def plain(self) -> Trial | None:
        """Return a run without patches, compiled for other inputs as well; None if it fails."""
        made = (self.built([]), False, False) in self._made
        return self.run([])[0] if made or self.left > 0 else None

    def prove(self, fixed: Target, patches: Sequence[SourcePatch], last: Trial) -> Trial | str:
        """Run the written file as it is, in a new Python; return why it does not hold, or its run.

        If the user has fullgraph=True, and it can hold, it is run with it. ``last`` is the run
        of its patches.
        """
        whole = not last.record.breaks and self.original.fullgraph
        own_errors = any(patch.drops for patch in patches)
        options = {"allow_breaks": not whole, "alone": True, "own_errors": own_errors}
        if self.codegen:
            trial = self._bench.measure(fixed, **options)
            return trial.differs or trial
        trial = self._bench.measure(fixed, resized=False, **options)
        if (trial.mismatch or "").startswith(OTHERS) and self._differs(codegen=True):
            trial = self._bench.measure(fixed, resized=False, **options)
        if trial.differs:
            return trial.differs
        if graphs(trial.record) > graphs(last.record):
            return no_gain(last.record, trial.record)
        return replace(trial, again=last.again, resized=last.varied - trial.varied)

    def diff(self, kept: Sequence[tuple[SourcePatch, Break | None]]) -> Diff:
        """Return the diff of patches, each with its break, for the maintainers of the files."""
        names = self.names
        return difference(names.source, names.own, kept, names.sites)

    def _uncompiled(self) -> Trial:
        """Return a run without the compiler; it is made once."""
        if self._eager is None:
            self._eager = self._measure(self.built([UNCOMPILED]))
        return self._eager

    def _renewed(self, trial: Trial) -> bool:
        """Return whether there is another reference now, since the program differs unpatched, too.

        That is found out once, for the first run that differs for other inputs: an optimizer that
        is compiled rounds in another way, and each step adds to it.
        """
        if self._certified or not (trial.mismatch or "").startswith(OTHERS):
            return False
        self._certified = True
        return self._differs(codegen=self.codegen)

    def _differs(self, *, codegen: bool) -> bool:
        """Return whether the program differs unpatched for other inputs, now the reference."""
        options = {"codegen": codegen, "resized": codegen is self.codegen, "renew": True}
        own = self._measure(self.built([]), **options).mismatch or ""
        differs = own.startswith(OTHERS)
        self.reference = own.removeprefix(OTHERS) if differs else ""
        return differs

    def _measure(self, source: bytes, **options: bool) -> Trial:
        with self._bench.beside(self._target, source) as copy:
            self.names.copies.add(copy.path.name)
            return self._bench.measure(copy, **{"codegen": self.codegen, **options})


def _counted(record: Record) -> object:
    """Return what a search looks at: graphs, the places of breaks, and whether code recompiles."""
    lines = [(one.where.file, one.where.line, one.count) for one in places(record)]
    return record.graphs, lines, recompiled(record), len(record.eager)
