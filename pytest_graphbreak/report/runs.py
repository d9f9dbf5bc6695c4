"""The runs that a page shows, each put together of the reports of its shards.

A suite may run in parts, its shards, each of which writes a report; several runs may be on one
page: other profiles, another branch, a retry.

``CheckNotes`` is what ``graphbreak check`` tells of them besides their tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from pytest_graphbreak.model.report import RunReport, TestReport


class ProfileRun(Struct, frozen=True):
    """Reports of one run: the shards of one profile. ``label`` is its name for a reader."""

    label: str
    reports: tuple[RunReport, ...]

    @property
    def profile(self) -> str:
        return self.reports[0].profile

    @property
    def versions(self) -> dict[str, str]:
        return self.reports[0].versions

    @property
    def tests(self) -> list[TestReport]:
        return [test for report in self.reports for test in report.tests]

    @property
    def unmeasured(self) -> list[str]:
        return list(dict.fromkeys(chain(*(report.session.unmeasured for report in self.reports))))

    @property
    def stale(self) -> list[str]:
        return list(dict.fromkeys(chain(*(report.session.stale for report in self.reports))))

    @property
    def ungated(self) -> list[str]:
        """The tests that were taken out of the gate, with the reasons."""
        return [
            f"{test.nodeid}   {test.ungated or 'no reason given'}"
            for test in self.tests
            if test.ungated is not None
        ]


def test_name(test: TestReport, run: ProfileRun, among: Sequence[ProfileRun]) -> str:
    """Return the name of a test: its node id, with the run if there are several."""
    return test.nodeid if len(among) == 1 else f"{test.nodeid}   on {run.label}"


def runs_of(reports: Iterable[RunReport]) -> list[ProfileRun]:
    """Return the reports as runs, the shards of each run together.

    Reports of one profile and of the same versions that share no test are shards of one run; a
    report that repeats a test of that run is a separate run (another branch, a retry).
    """
    groups: list[tuple[set[str], list[RunReport]]] = []
    for report in reports:
        names = {test.nodeid for test in report.tests}
        for names_of_group, group in groups:  # the first run that this may be a shard of
            first = group[0]
            is_same = (first.profile, first.versions) == (report.profile, report.versions)
            if is_same and not names_of_group & names:
                names_of_group |= names
                group.append(report)
                break
        else:
            groups.append((names, [report]))
    labels = _labels([group for _, group in groups])
    return [
        ProfileRun(label, tuple(group)) for label, (_, group) in zip(labels, groups, strict=True)
    ]


def _labels(groups: Sequence[Sequence[RunReport]]) -> list[str]:
    """Return the profile of each run, with a file name if several runs share the profile."""
    shared = Counter(group[0].profile for group in groups)
    return [
        group[0].profile
        if shared[group[0].profile] == 1
        else f"{group[0].profile} ({group[0].name})"
        for group in groups
    ]


class CheckNotes(Struct, frozen=True):
    """The notes on a verdict besides its tests.

    ``no_verdict`` says why there is none, in words of this package; ``problems`` are those of
    reports, in anybody's words. ``missing`` was collected and ran nowhere. ``accept`` accepts the
    counts, if a command does in any checkout. ``by_run`` are tests that another run judged, by
    profile and node id: no command accepts them.
    """

    no_verdict: str = ""
    problems: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    accept: str = ""
    by_run: Collection[tuple[str, str]] = ()


NO_NOTES: Final = CheckNotes()
"""The notes on reports that were not checked."""
