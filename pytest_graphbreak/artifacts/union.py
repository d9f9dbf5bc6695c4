"""Merges many reports into one run: shards, profiles, retries and reruns.

The commands on reports begin with it: ``union(load_all(paths))``. A test counts once on each
profile. If several reports contain it, the one that saw the most is used; two that both measured it
must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from pytest_graphbreak.judging.measured import place_of
from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import RunReport, TestReport

UNMEASURED, FAILED, BLIND, MEASURED = range(4)
"""How much a report saw of a test: nothing, up to its own failure, with errors, all of it."""


class NamedTest(NamedTuple):
    """A test on a profile: what counts once."""

    profile: str
    nodeid: str

    @property
    def name(self) -> str:
        """The name in lists of tests of several profiles."""
        return f"{self.nodeid}   on {self.profile}"


class SeenTest(Struct, frozen=True):
    """One test on one profile, from the ``report`` that saw most of it."""

    test: TestReport
    report: RunReport

    @property
    def nodeid(self) -> str:
        return self.test.nodeid

    @property
    def profile(self) -> str:
        return self.report.profile

    @property
    def key(self) -> NamedTest:
        return NamedTest(self.profile, self.nodeid)

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def level(self) -> int:
        """How much was seen of the test: a crash nothing, an own failure only what came before it.

        A test that is marked xfail and was failed by the gate ran completely; one that raised by
        itself, as expected, did not. One that a block failed has no count of its own.
        """
        test = self.test
        is_own_xfail = test.outcome == "xfailed" and test.verdict == "none"
        if test.outcome == "crashed":
            return UNMEASURED
        if test.block or test.failed_by == "test" or is_own_xfail:
            return FAILED
        if test.outcome == "skipped":
            return UNMEASURED
        return BLIND if test.record.errors else MEASURED


class Contradiction(Struct, frozen=True):
    """Two reports, by name, that both measured a test, and differ."""

    key: NamedTest
    first: str
    second: str
    difference: str

    def __str__(self) -> str:
        where = f"{self.key.nodeid} on {self.key.profile}"
        return f"{where}: {self.difference}\n  {self.first}\n  {self.second}"


class ProfileTests(Struct):
    """What all runs on one profile collected.

    - ``tests``: node ids, also of tests that a run left to other shards, or was to run and did not.
    - ``complete``: files, and node ids of functions, all tests of which some run collected.
    - ``groups``: of runs that were one shard of several, ``(group, number of groups)``.
    """

    tests: set[str] = set()
    complete: set[str] = set()
    groups: set[tuple[int, int]] = set()

    @property
    def lost_groups(self) -> list[tuple[int, int]]:
        """The groups without a report where others have one."""
        return [
            (group, of)
            for of in sorted({of for _, of in self.groups})
            for group in range(1, of + 1)
            if (group, of) not in self.groups
        ]


class Union(Struct):
    """The combined contents of all reports.

    ``unmeasured`` are tests that no report measured although one says that they ran or were to run;
    ``incomplete`` says which reports are of a run that did not finish.
    """

    seen: dict[NamedTest, SeenTest] = {}
    contradictions: list[Contradiction] = []
    unmeasured: list[NamedTest] = []
    incomplete: list[str] = []
    by_profile: dict[str, ProfileTests] = {}

    @property
    def profiles(self) -> list[str]:
        """The profiles of the tests, in order."""
        return list(dict.fromkeys(profile for profile, _ in self.seen))

    @property
    def files(self) -> list[str]:
        """The test files from which anything ran, in order."""
        return list(dict.fromkeys(nodeid.partition("::")[0] for _, nodeid in self.seen))

    @property
    def partial_files(self) -> list[str]:
        """The files that no run reports as collected completely, nor a function in them."""
        scopes = (scope for tests in self.by_profile.values() for scope in tests.complete)
        complete = {scope.partition("::")[0] for scope in scopes}
        return [file for file in self.files if file not in complete]

    @property
    def collected_tests(self) -> set[str]:
        """All tests that any run collected, on any profile."""
        return set[str]().union(*(tests.tests for tests in self.by_profile.values()))

    def left_out(self, recorded: Callable[[NamedTest], bool]) -> Iterator[NamedTest]:
        """Yield tests that were collected but are in no report: no shard ran them.

        If every group of a profile is present, the tests that they left out were not meant to run
        (``-m``). It is enough if another profile ran a test, unless it is ``recorded`` on this one:
        then it ran here before.
        """
        ran = {nodeid for _, nodeid in self.seen}
        accounted = self.seen.keys() | set(self.unmeasured)
        for profile, tests in self.by_profile.items():
            if tests.groups and not tests.lost_groups:
                continue
            for key in (NamedTest(profile, nodeid) for nodeid in sorted(tests.tests)):
                if key in accounted:
                    continue
                if key.nodeid in ran and not recorded(key):  # another profile ran it
                    continue
                yield key


def union(reports: Iterable[RunReport], *, runs: bool = False) -> Union:
    """Merge reports. Never raises: contradictions and gaps are in the result.

    ``runs`` compares executions and reads as well, for suites in which these are judged.
    """
    merged = Union()
    by_profile: dict[str, list[RunReport]] = {}
    for report in reports:
        by_profile.setdefault(report.profile, []).append(report)
    ordered = [report for of_profile in by_profile.values() for report in of_profile]
    for report in ordered:
        merged.incomplete += _incomplete(report)
        for test in report.tests:
            _add(merged, SeenTest(test, report), runs=runs)
        session = report.session
        collected = merged.by_profile.setdefault(report.profile, ProfileTests())
        collected.tests.update(test.nodeid for test in report.tests)
        collected.tests.update(session.unmeasured, session.deselected_tests)
        collected.complete.update(session.complete_files, session.collected_whole)
        if session.shard is not None:
            collected.groups.add((session.shard.group, session.shard.of))
    merged.unmeasured = list(dict.fromkeys(_unmeasured(merged, ordered)))
    return merged


def _add(merged: Union, new: SeenTest, *, runs: bool) -> None:
    """Add a test that a further report has, or compare it with what is known of it."""
    old = merged.seen.get(new.key)
    if old is None or new.level > old.level:
        merged.seen[new.key] = new
    elif new.level == old.level == MEASURED:
        difference = differ(old.test.record, new.test.record, runs=runs)
        if difference:
            names = old.report.name, new.report.name
            merged.contradictions.append(Contradiction(new.key, *names, difference))
        elif len(new.test.record.layers) > len(old.test.record.layers):
            # torch_xla was imported in only one of the jobs, which therefore saw more.
            merged.seen[new.key] = new


def differ(first: Record, second: Record, *, runs: bool = False) -> str:
    """Return how two records of one test differ, on the layers that both observed, or "".

    Executions and reads are compared if ``runs`` is true and both counted them; a count that a
    process has not told (None) equals any.
    """
    counts: list[tuple[str, Mapping[str, int | None], Mapping[str, int | None]]] = [
        ("graphs", first.graphs, second.graphs),
        ("recompiles", first.recompiles, second.recompiles),
    ]
    if runs and first.executions and second.executions:  # reads are counted with executions
        counts.append(("executions", first.executions, second.executions))
        counts.append(("reads", first.reads, second.reads))
    for layer in LAYERS:
        if layer in first.layers and layer in second.layers:
            for what, before, after in counts:
                was, now = before.get(layer, 0), after.get(layer, 0)
                if was != now and was is not None and now is not None:
                    return f"{was} or {now} {layer} {what}"
    for word, items, other_items in (
        ("breaks", first.breaks, second.breaks),
        ("code outside the compiler", first.eager, second.eager),
    ):
        places, others = (
            {": ".join(place_of(item.where)) for item in side} for side in (items, other_items)
        )
        if places != others:
            return f"{word} at {_only_in(places, others)} or at {_only_in(others, places)}"
    return ""


def _only_in(places: set[str], others: set[str]) -> str:
    """Return the places that are not among the others, in words."""
    return ", ".join(sorted(places - others)) or "no other place"


INTERRUPTED: Final = {2: "was interrupted", 3: "ended in an internal error", 4: "did not start"}
"""The exit codes of pytest with which a run may lack tests, and what happened to it."""


def _incomplete(report: RunReport) -> Iterator[str]:
    """Yield why a report lacks tests that its run was to measure."""
    session = report.session
    if report.environment.profile is None:
        yield f"{report.name}: it names no profile, so it is of no test run"
    if session.exit in INTERRUPTED:
        yield f"{report.name}: its run {INTERRUPTED[session.exit]} (exit {session.exit})"
        return
    if session.collected is None:
        return
    accounted = {test.nodeid for test in report.tests} | set(session.unmeasured)
    missing = session.collected - session.deselected - len(accounted)
    if missing > 0:
        yield (
            f"{report.name}: {missing} of the tests that its run collected are not in it; "
            "it stopped early (-x, --maxfail)"
        )


def _unmeasured(merged: Union, reports: Iterable[RunReport]) -> Iterator[NamedTest]:
    """Yield the tests that runs report as not measured and no other measured, and the crashed."""
    for report in reports:
        for nodeid in report.session.unmeasured:
            key = NamedTest(report.profile, nodeid)
            seen = merged.seen.get(key)
            if seen is None or seen.level == UNMEASURED:
                yield key
    for key, seen in merged.seen.items():
        if seen.test.outcome == "crashed":
            yield key
