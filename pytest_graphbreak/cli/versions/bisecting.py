"""Finds the commit or the release that moved a test: the search, whatever is searched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from pytest_graphbreak.cli.versions.moved import Likeness
from pytest_graphbreak.cli.versions.running import SuiteRun
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import RunReport, TestReport
from pytest_graphbreak.runs.union import MEASURED, level

GOOD, BAD, SKIP = "good", "bad", "skip"
MOST_NAMED: Final = 5
"""Tests that are named where one was to be."""


class BisectError(RuntimeError):
    """The search cannot go on. ``words`` are what was printed by what failed."""

    def __init__(self, message: str, words: list[str] | None = None) -> None:
        super().__init__(message)
        self.words = words or []


class Row(Protocol):
    """What is searched: commits, or releases. Each has a name by which it is asked for."""

    good: str
    bad: str

    def start(self) -> None:
        """Both ends were measured, and the test moved between them."""
        ...

    @property
    def next(self) -> str | None:
        """What to try; None where there is nothing left to try."""
        ...

    @property
    def steps(self) -> int:
        """About how many steps there are after the next."""
        ...

    @property
    def answers(self) -> list[str]:
        """The first that is bad; several where those between could not be tried."""
        ...

    def say(self, word: str, name: str) -> None:
        """Whether it is ``good`` or ``bad``, or to be skipped."""
        ...

    def before(self, name: str) -> str:
        """What comes before an answer."""
        ...

    def measure(self, name: str) -> SuiteRun:
        """Run the test there."""
        ...

    def status(self) -> str:
        """How far that is."""
        ...


@dataclass(frozen=True, slots=True)
class MeasuredEnd:
    """What was measured at one commit or release."""

    name: str
    report: RunReport
    test: TestReport
    path: Path

    @property
    def record(self) -> Record:
        return self.test.record


@dataclass(slots=True)
class BisectResult:
    """What a search found: ``answers`` has one, or all that it may be.

    ``before`` and ``after`` are on either side of it. ``what`` differs between them (``Likeness``),
    ``skipped`` could not be tried, and why. ``end`` is the bad end, which may have moved further.
    """

    what: str
    before: MeasuredEnd
    after: MeasuredEnd
    end: MeasuredEnd
    answers: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


OnStep = Callable[[str, str, MeasuredEnd | None, str], None]
"""Is told each step: good, bad or skip; its name; what was measured; why it was skipped."""


def search(
    row: Row, begin: Callable[[str, int], None], on_step: OnStep, differs: Callable[[str], None]
) -> BisectResult:
    """Search. ``begin`` is told what is tried next, and about how many steps are left after it.

    ``differs`` is told what is another one at both ends (``Likeness.what``).

    Raises ``BisectError`` where an end cannot be measured, and where nothing moved.
    """
    begin(row.good, 0)
    good = _end(row, row.good, "--good")
    on_step(GOOD, row.good, good, "")
    begin(row.bad, 0)
    bad = _end(row, row.bad, "--bad")
    moved = Likeness(good.record, bad.record)
    if not moved.what:
        on_step(GOOD, row.bad, bad, "")
        raise BisectError("the test is the same at --good and at --bad: there is nothing to find")
    on_step(BAD, row.bad, bad, "")
    differs(moved.what)
    known = {row.good: good, row.bad: bad}
    found = BisectResult(moved.what, good, bad, bad)
    row.start()
    while (name := row.next) is not None:
        begin(name, row.steps)
        side, why = _side(row, name)
        if side is None:
            found.skipped[name] = why
            on_step(SKIP, name, None, why)
            row.say(SKIP, name)
            continue
        known[name] = side
        word = BAD if moved(side.record) else GOOD
        on_step(word, name, side, "")
        row.say(word, name)
    found.answers = row.answers
    if not found.answers:
        raise BisectError("git bisect came to no answer")
    # What could not be tried comes first, the one that is known to be bad comes last.
    found.answers.sort(key=lambda name: name in known)
    found.after = known.get(found.answers[-1]) or bad
    before = [row.before(name) for name in found.answers]
    if len(found.answers) == 1 and before[0] not in known:
        name = before[0]  # git knew it by another: it is in the history of a good one
        begin(name, 0)
        side, _ = _side(row, name)
        known[name] = side or good
    found.before = next(
        (known[n] for n in before if n in known and not moved(known[n].record)), good
    )
    return found


def _end(row: Row, name: str, option: str) -> MeasuredEnd:
    run = row.measure(name)
    side, why = _read(run, name)
    if side is None:
        raise BisectError(f"{option} {name}: {why}", run.ended.last(20))
    return side


def _side(row: Row, name: str) -> tuple[MeasuredEnd | None, str]:
    return _read(row.measure(name), name)


def _read(run: SuiteRun, name: str) -> tuple[MeasuredEnd | None, str]:
    """What a run measured; None and why where it measured nothing.

    Raises ``BisectError`` where it measured something else than was meant.
    """
    if run.foreign:
        module, file = next(iter(run.foreign.items()))
        raise BisectError(
            f"{name}: the test imports {module} from {file}, and so from your checkout and not "
            "from the commit: each step would measure the same code. Uninstall it, or give the "
            "directory that it is to be imported from, from the root of the repository: "
            "--path DIR"
        )
    if run.report is None:
        return None, run.why
    tests = run.report.tests
    if len(tests) > 1:
        named = ", ".join(test.nodeid for test in tests[:MOST_NAMED])
        raise BisectError(f"{len(tests)} tests have this id; give one of them: {named}")
    test = tests[0]
    if level(test) == MEASURED:
        return MeasuredEnd(name, run.report, test, run.path), ""
    if test.record.errors:
        return None, test.record.errors[0]
    return None, f"the test {_how(test)}"


def _how(test: TestReport) -> str:
    return {"failed": "fails by itself", "skipped": "is skipped", "crashed": "crashes"}.get(
        test.outcome, f"is {test.outcome}"
    )
