"""Judges all reports together: which tests fail, what is stale, what keeps from a verdict.

All reports together are a ``Union``, in which each test is that of the report that saw most of it
(``artifacts.union``); a ``Judge`` judges one test (``artifacts.rejudge``). ``check`` asks it for
each, and looks at what no single test shows: entries whose test is gone (``stale_entries``, which
``accept --prune`` removes), tests and shards that are missing. ``cli.check`` shows the result.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import filterfalse
from pathlib import Path

from msgspec import Struct

from pytest_graphbreak.artifacts.incoming import ReportError
from pytest_graphbreak.artifacts.rejudge import Judge, Judged
from pytest_graphbreak.artifacts.union import NamedTest, SeenTest, Union
from pytest_graphbreak.baseline import BaselineError, Baselines, Entry, split_nodeid
from pytest_graphbreak.config.checkout import Checkout
from pytest_graphbreak.report.standing import weight
from pytest_graphbreak.text.numbers import plural


class CheckedUnion(Struct):
    """The tests of all reports, judged. ``unusable`` says why reports cannot be judged.

    ``unmeasured`` are tests that ran or were to run and that no report measured: a failure.
    ``missing`` are tests that were collected but did not run, and ``lost_shards`` those that would
    have run them; with ``allow_missing`` they are only listed. ``stale`` entries are a failure if
    the checkout is ``strict``. ``unreported`` are tests of the baselines that no report has, which
    is a failure if the reports are to be ``complete``.
    """

    judged: list[Judged] = []
    unmeasured: list[str] = []
    stale: list[Entry] = []
    unusable: list[str] = []
    missing: list[str] = []
    lost_shards: list[str] = []
    unreported: list[str] = []
    strict: bool = False
    allow_missing: bool = False
    complete: bool = False

    @property
    def failures(self) -> list[Judged]:
        failing = [judged for judged in self.judged if judged.fails]
        return sorted(failing, key=lambda judged: weight(judged.test))

    @property
    def no_verdict(self) -> str:
        """The reason why there is no verdict, or "" if there is one."""
        if self.unusable:
            return "the reports cannot be judged"
        if self.allow_missing:
            return ""
        if self.lost_shards:
            return f"{plural(len(self.lost_shards), 'shard')} missing"
        if self.missing:
            return (
                f"{plural(len(self.missing), 'test')} collected, and run in none of these reports"
            )
        if not self.unmeasured and all(judged.test.ungated is not None for judged in self.judged):
            return "nothing was judged"
        return ""

    @property
    def gaps(self) -> list[str]:
        """What fails although no test of the reports does."""
        counts = {
            f"{plural(len(self.unmeasured), 'test')} not measured": self.unmeasured,
            f"{plural(len(self.stale), 'baseline')} stale": self.strict and self.stale,
            self.in_no_report: self.complete and self.unreported,
        }
        return [words for words, items in counts.items() if items]

    @property
    def in_no_report(self) -> str:
        """How many tests of the baselines no report has, in words."""
        verb = "is" if len(self.unreported) == 1 else "are"
        return f"{plural(len(self.unreported), 'test')} of the baselines {verb} in no report"


def check(
    together: Union, judge: Judge, *, allow_missing: bool = False, complete: bool = False
) -> CheckedUnion:
    """Judge all measured tests but those that reports contradict."""
    strict = judge.checkout.strict
    result = CheckedUnion(strict=strict, allow_missing=allow_missing, complete=complete)
    result.unmeasured = [key.name for key in together.unmeasured]
    result.lost_shards = [
        f"group {group} of {of} on {profile}"
        for profile, tests in together.by_profile.items()
        for group, of in tests.lost_groups
    ]
    contradicted: set[NamedTest] = set()
    for name, side in (("", together), ("--against: ", judge.against)):
        if side is not None:
            result.unusable += [f"{name}contradiction: {item}" for item in side.contradictions]
            result.unusable += [f"{name}incomplete: {problem}" for problem in side.incomplete]
            contradicted |= {item.key for item in side.contradictions}
    try:
        refuse_without_baselines(judge.checkout, filterfalse(judge.earlier, together.seen.values()))
        judge.baselines.check()
        result.stale = stale_entries(judge.checkout, judge.baselines, together)
    except (ReportError, BaselineError) as error:
        result.unusable.append(str(error))
        return result
    result.unreported = _unreported(judge.baselines, together, result.stale)
    left_out = together.left_out(partial(_is_recorded, judge.baselines))
    result.missing = [key.name for key in left_out]
    for seen in (seen for key, seen in together.seen.items() if key not in contradicted):
        try:
            if (judged := judge.judge(seen)) is not None:
                result.judged.append(judged)
        except BaselineError as error:  # an impossible node id
            result.unusable.append(f"{seen.report.name}: {error}")
    return result


def refuse_without_baselines(checkout: Checkout, tests: Iterable[SeenTest]) -> None:
    """Raise ``ReportError`` if tests had baselines in their run, and the checkout has none."""
    if checkout.directory.exists():
        return
    for seen in tests:
        if seen.test.baseline is not None:
            raise ReportError(
                f"{checkout.directory} is not there, and {seen.nodeid} was compared with a "
                f"baseline ({seen.report.name}): run this in the checkout that has the baselines, "
                "or name their directory with --graph-budget-dir"
            )


def _unreported(baselines: Baselines, together: Union, stale: Sequence[Entry]) -> list[str]:
    """Return the tests of the baselines that no report has, and that are not known to be gone."""
    reported = {nodeid for _, nodeid in (*together.seen, *together.unmeasured)}
    reported.update(entry.nodeid for entry in stale)
    return [entry.nodeid for entry in baselines.entries() if entry.nodeid not in reported]


def _is_recorded(baselines: Baselines, key: NamedTest) -> bool:
    """Return whether a test was measured on a profile when its baseline was written."""
    with suppress(BaselineError):
        entry = baselines.entry(key.nodeid)
        return entry is not None and key.profile in entry.recorded_profiles
    return False


def stale_entries(checkout: Checkout, baselines: Baselines, together: Union) -> list[Entry]:
    """Return the entries whose test is gone, as far as the reports together show."""
    entries: dict[str, Entry] = {}
    for profile in together.by_profile:
        for entry in _stale_on(profile, checkout, baselines, together):
            entries.setdefault(entry.nodeid, entry)
    return list(entries.values())


def _stale_on(
    profile: str, checkout: Checkout, baselines: Baselines, together: Union
) -> Iterator[Entry]:
    """Yield entries that are gone by the reports of one profile and that no other report has."""
    # Files of which all tests were collected, ``a.py``, and functions, ``a.py::test_b``.
    root, complete = checkout.root, together.by_profile[profile].complete
    files = {file for scope in complete if _is_below(file := scope.partition("::")[0])}
    whole_files = files & complete
    # If a collected file exists in a directory, this is the right checkout for it.
    directories = {Path(file).parent for file in whole_files if os.path.isfile(root / file)}
    collected = together.collected_tests
    # Reports of another commit may have a file that this checkout lacks: its tests are not gone.
    reported = {nodeid.partition("::")[0] for nodeid in collected}
    gone = {
        file
        for file in baselines.files()
        if Path(file).parent in directories
        and file not in reported
        and not os.path.exists(root / file)
    }
    for entry in baselines.stale(collected, files, gone, profile=profile):
        # Of a file of which only functions are complete (``pytest a.py::test_b``), nothing else is
        # known to be gone.
        if complete & {entry.file, f"{entry.file}::{entry.test}"} or entry.file in gone:
            yield entry


def _is_below(file: str) -> bool:
    """Return whether a report may name this test file, which must be a path below the root."""
    with suppress(BaselineError):
        return bool(split_nodeid(f"{file}::test"))
    return False
