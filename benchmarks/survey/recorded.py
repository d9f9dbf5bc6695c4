"""The repair that ``repairs.jsonl`` has for a class, made again without the search for it.

Of the patches that are proposed for each break, those with the recorded titles are taken: as often
as they were kept, and for breaks that only show when others are gone in a further round. A run of
the patched script says whether they still do what was recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pytest_graphbreak.repair import remedies
from pytest_graphbreak.repair.build import BuildError, build
from pytest_graphbreak.repair.gain import places
from pytest_graphbreak.repair.naming import Names
from pytest_graphbreak.repair.patch import SourcePatch
from pytest_graphbreak.repair.source import read
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial

ROUNDS: Final = 3
"""How often patches are chosen for the breaks that are left."""


@dataclass(slots=True)
class Recorded:
    """The patches with recorded titles for one script, and its runs without and with them."""

    target: Target
    desk: Bench
    left: list[str]
    """The titles for which no patch was proposed yet."""
    kept: list[SourcePatch] = field(default_factory=list)
    source: bytes | None = None

    def run(self) -> tuple[Trial, Trial]:
        """Return the run of the script as it is, and the last one of what was written."""
        file = read(self.target.path)
        names = Names(self.target.path, file.text)
        first = last = self.desk.measure(self.target, compare=False, outputs=False)
        for _ in range(ROUNDS):
            names.add(last.sites)
            chosen = list(self._chosen(last, names)) if last.error is None else []
            if not chosen:
                break
            self.source = file.encoded(self._text(names, self.kept))
            with self.desk.beside(self.target, self.source) as copy:
                names.copies.add(copy.path.name)
                last = self.desk.measure(copy, compare=False, outputs=False)
        return first, last

    def _chosen(self, trial: Trial, names: Names) -> Iterator[SourcePatch]:
        """Add to ``kept`` the first patch for each break that has one of the titles left."""
        for item in places(trial.record):
            for patch in remedies.for_break(item, trial):
                there = any(set(patch.key) <= set(one.key) for one in self.kept)
                if patch.title in self.left and not there and self._fits(names, patch):
                    self.left.remove(patch.title)
                    self.kept.append(patch)
                    yield patch
                    break

    def _fits(self, names: Names, patch: SourcePatch) -> bool:
        try:
            self._text(names, [*self.kept, patch])
        except BuildError:
            return False
        return True

    def _text(self, names: Names, patches: Sequence[SourcePatch]) -> str:
        return build(names.source, names.own, patches, names.sites)
