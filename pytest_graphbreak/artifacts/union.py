"""Merges many reports into one run: shards, profiles, retries and reruns.

A test counts once on each profile. If several reports contain it, the one that saw the most is
used; two that both measured it must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from pytest_graphbreak.artifacts.incoming import by_profile
from pytest_graphbreak.judging.measured import place_of
from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import RunReport, TestReport

UNMEASURED, FAILED, BLIND, MEASURED = range(4)
"""How much a report saw of a test: nothing, up to its own failure, with errors, all of it."""

INTERRUPTED: Final = {2: "was interrupted", 3: "ended in an internal error", 4: "did not start"}
"""The exit codes of pytest with which a run may lack tests, and what happened to it."""


class SeenTest(Struct, frozen=True):
    """One test on one profile, from the report that saw most of it."""

    nodeid: str
    profile: str
    test: TestReport
    report: RunReport

    @property
    def name(self) -> str:
        """The name in lists of tests of several profiles."""
        return f"{self.nodeid}   on {self.profile}"

    @property
    def level(self) -> int:
        return level(self.test)


class Contradiction(Struct, frozen=True):
    """Two reports that both measured one test on one profile, and differ."""

    nodeid: str
    profile: str
    first: str
    second: str
    difference: str

    def __str__(self) -> str:
        return (
            f"{self.nodeid} on {self.profile}: {self.difference}\n  {self.first}\n  {self.second}"
        )


class Union(Struct):
    """The combined contents of all reports.

    - ``seen`` maps (profile, node id) to a test; ``profiles`` are theirs.
    - ``unmeasured``: tests that no report measured although one says that they ran or were to run.
    - ``incomplete``: reports whose run did not finish.
    - ``whole``, by profile: the files and the functions that some run collected completely.
    - ``collected``, by profile: all tests that any run collected, including those that it left to
      other shards.
    - ``shards``, by profile: the groups that runs took, each with the number of groups.
    """

    seen: dict[tuple[str, str], SeenTest] = {}
    profiles: list[str] = []
    contradictions: list[Contradiction] = []
    unmeasured: list[tuple[str, str]] = []
    incomplete: list[str] = []
    whole: dict[str, set[str]] = {}
    collected: dict[str, set[str]] = {}
    shards: dict[str, set[tuple[int, int]]] = {}

    @property
    def files(self) -> list[str]:
        """The test files from which anything ran, in order."""
        return list(dict.fromkeys(nodeid.partition("::")[0] for _, nodeid in self.seen))

    @property
    def partial_files(self) -> list[str]:
        """The files that no run reports as collected completely, nor a function in them."""
        complete = {scope.partition("::")[0] for scopes in self.whole.values() for scope in scopes}
        return [file for file in self.files if file not in complete]

    @property
    def collected_tests(self) -> set[str]:
        """All tests that any run collected, on any profile."""
        return set().union(*self.collected.values())

    @property
    def lost_shards(self) -> list[tuple[str, int, int]]:
        """The (profile, group, number of groups) without a report, if other groups have one."""
        return [
            (profile, group, of)
            for profile, shards in self.shards.items()
            for of in sorted({of for _, of in shards})
            for group in range(1, of + 1)
            if (group, of) not in shards
        ]

    def left_out(self, recorded: Callable[[str, str], bool]) -> list[tuple[str, str]]:
        """Return tests that were collected but are in no report, by profile: no shard ran them.

        If every group of a profile is present, the tests that they left out were not meant to run
        (``-m``). It is enough if another profile ran a test, unless ``recorded(nodeid, profile)``:
        then it ran on this one before.
        """
        anywhere = {nodeid for _, nodeid in self.seen}
        accounted = self.seen.keys() | set(self.unmeasured)
        lost = {profile for profile, _, _ in self.lost_shards}
        return [
            (profile, nodeid)
            for profile, nodeids in self.collected.items()
            if profile in lost or profile not in self.shards
            for nodeid in sorted(nodeids)
            if (profile, nodeid) not in accounted
            and (nodeid not in anywhere or recorded(nodeid, profile))
        ]


def level(test: TestReport) -> int:
    """Return how much was seen of a test.

    A test that is marked xfail and was failed by the gate ran completely; one that raised by
    itself, as expected, did not. One that a block failed has no count of its own.
    """
    outcome = test.outcome
    ended = test.block or test.failed_by == "test"
    failed_as_expected = outcome == "xfailed" and test.verdict == "none"
    if ended or failed_as_expected:
        return UNMEASURED if outcome == "crashed" else FAILED
    if outcome in ("skipped", "crashed"):
        return UNMEASURED
    return BLIND if test.record.errors else MEASURED


def union(reports: Iterable[RunReport], *, runs: bool = False) -> Union:
    """Merge reports. Never raises: contradictions and gaps are in the result.

    ``runs`` compares executions and reads as well, for suites in which these are judged.
    """
    merged = Union()
    shards = by_profile(reports)
    for report in (report for group in shards.values() for report in group):
        merged.incomplete += _incomplete(report)
        for test in report.tests:
            _add(merged, SeenTest(test.nodeid, report.profile, test, report), runs=runs)
        complete = merged.whole.setdefault(report.profile, set())
        complete.update(report.session.complete_files, report.session.collected_whole)
        collected = merged.collected.setdefault(report.profile, set())
        collected.update(test.nodeid for test in report.tests)
        collected.update(report.session.unmeasured, report.session.deselected_tests)
        shard = report.session.shard
        if shard is not None:
            merged.shards.setdefault(report.profile, set()).add((shard.group, shard.of))
    merged.profiles = list(dict.fromkeys(profile for profile, _ in merged.seen))
    merged.unmeasured = list(dict.fromkeys(_unmeasured_tests(merged, shards)))
    return merged


def _add(merged: Union, new: SeenTest, *, runs: bool) -> None:
    key = (new.profile, new.nodeid)
    old = merged.seen.get(key)
    if old is None or new.level > old.level:
        merged.seen[key] = new
    elif new.level == old.level == MEASURED:
        difference = differ(old.test.record, new.test.record, runs=runs)
        if difference:
            merged.contradictions.append(
                Contradiction(new.nodeid, new.profile, old.report.name, new.report.name, difference)
            )
        elif len(new.test.record.layers) > len(old.test.record.layers):
            # torch_xla was imported in only one of the jobs, which therefore saw more.
            merged.seen[key] = new


def differ(first: Record, second: Record, *, runs: bool = False) -> str:
    """Return how two records of one test differ, on the layers that both observed, or "".

    Executions and reads are compared if ``runs`` is true and both counted them; a count that a
    process has not told (None) equals any.
    """
    counts: list[tuple[str, Mapping[str, int | None], Mapping[str, int | None]]] = [
        ("graphs", first.graphs, second.graphs),
        ("recompiles", first.recompiles, second.recompiles),
    ]
    if runs and first.executions and second.executions:
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


def _unmeasured_tests(
    merged: Union, shards: Mapping[str, list[RunReport]]
) -> Iterator[tuple[str, str]]:
    for profile, reports in shards.items():
        for report in reports:
            for nodeid in report.session.unmeasured:
                seen = merged.seen.get((profile, nodeid))
                if seen is None or seen.level == UNMEASURED:
                    yield profile, nodeid
    for (profile, nodeid), seen in merged.seen.items():
        if seen.test.outcome == "crashed":
            yield profile, nodeid
