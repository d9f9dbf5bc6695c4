"""``graphbreak compare``: shows what changed between two runs, by cause first.

These are the differences that ``check --against`` judges: tests are paired by profile and node id,
the record of the earlier run is the budget of the later one (``rejudge.budget_of``), and
``judging.difference`` compares them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from pytest_graphbreak.artifacts.incoming import load_all
from pytest_graphbreak.artifacts.rejudge import budget_of
from pytest_graphbreak.artifacts.union import MEASURED, NamedTest, SeenTest, Union, union
from pytest_graphbreak.cli.messages import UNUSABLE, add_output, note, say_all, write
from pytest_graphbreak.cli.report import REPORTS
from pytest_graphbreak.judging.difference import diff
from pytest_graphbreak.judging.finding import Finding, distinct_findings
from pytest_graphbreak.judging.findings import findings_of_changes
from pytest_graphbreak.judging.measured import owner_versions
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.report.counts import moved_count
from pytest_graphbreak.report.lines import lines as finding_lines
from pytest_graphbreak.report.markdown import COMMENT, BoundedText
from pytest_graphbreak.report.root_causes import which_tests
from pytest_graphbreak.text import safe
from pytest_graphbreak.text.files import PAGE, PAGE_MARK, without_collector
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import BLANK, TextLine, label_line, plain_text

SAME, DIFFERS = 0, 1
"""The exit codes; DIFFERS only with ``--exit-code``."""
MOST: Final = 20
"""The number of causes that are shown; the rest are counted."""
NAMED: Final = 100
"""The number of tests that are named in one list."""
LONGEST: Final = 2_000
"""The number of characters of one line in a comment: a note may list all breaks of a test."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="BEFORE", help=f"the earlier run: {REPORTS}")
    parser.add_argument("after", metavar="AFTER", help="the later run")
    add_output(parser, "--markdown", PAGE, "write a comment for a pull request")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if anything changed")


@without_collector()  # the reports of both runs are kept to the end
def run(args: argparse.Namespace) -> int:
    """Compare both runs. Returns 0, with ``--exit-code`` 1 for a difference, 2 if unusable."""
    before, after = (union(load_all([run], note=note)) for run in (args.before, args.after))
    result = compare(before, after)
    if not args.markdown:
        say_all(lines(before, after, result))
    elif not write(args.markdown, comment(before, after, result)):
        return UNUSABLE
    return DIFFERS if args.exit_code and result.differs else SAME


class RunComparison(Struct):
    """Two runs beside each other. ``moved`` maps a test to the totals that changed.

    ``only_before`` and ``only_after`` are tests that one run has, ``unequal`` those that one of
    the runs did not measure. ``settings`` are the settings of torch with which tests began that
    were not the same. The last two say what could not be compared, and are no difference by
    themselves.
    """

    compared: int = 0
    causes: list[Finding] = []
    moved: dict[str, tuple[Difference, ...]] = {}
    only_before: list[str] = []
    only_after: list[str] = []
    unequal: list[str] = []
    settings: set[str] = set()

    @property
    def differs(self) -> bool:
        return bool(self.causes or self.moved or self.only_before or self.only_after)


def compare(before: Union, after: Union) -> RunComparison:
    """Return what differs in ``after``. Tests that cannot be compared are listed."""
    result = RunComparison()
    renamed = _renamed_profile(before, after)
    earlier = {
        NamedTest(renamed.get(seen.profile, seen.profile), seen.nodeid): seen
        for seen in before.seen.values()
    }
    changed: list[tuple[str, Finding]] = []
    is_alone = len(after.profiles) == 1
    for key, seen in after.seen.items():
        name = seen.nodeid if is_alone else seen.name
        was = earlier.pop(key, None)
        if was is None:
            result.only_after.append(name)
        elif was.level == seen.level == MEASURED:
            result.compared += 1
            changed += _compare_test(was, seen, name, result)
        else:
            result.unequal.append(f"{name}   {was.test.outcome}, {seen.test.outcome}")
    was_alone = len(before.profiles) == 1
    result.only_before = [was.nodeid if was_alone else was.name for was in earlier.values()]
    result.causes = distinct_findings(changed, lambda finding: finding.key)
    # What is gone, which has no items in the later record, comes last.
    result.causes.sort(key=lambda finding: (not finding.items, -len(finding.tests)))
    return result


def _renamed_profile(before: Union, after: Union) -> Mapping[str, str]:
    """Return the later name of the one earlier profile that is gone, if one is new as well."""
    gone = [profile for profile in before.profiles if profile not in after.profiles]
    new = [profile for profile in after.profiles if profile not in before.profiles]
    return {gone[0]: new[0]} if len(gone) == len(new) == 1 else {}


def _compare_test(
    before: SeenTest, after: SeenTest, name: str, result: RunComparison
) -> list[tuple[str, Finding]]:
    """Return what changed in a test, with its name; note its totals and settings."""
    expected, record = budget_of(before, after.test.record)
    packages = owner_versions(after.test.record, after.report.environment.packages)
    changes = diff(expected, record, versions=after.report.versions, packages=packages)
    if totals := tuple(change for change in changes if change.total and change.growth):
        result.moved[name] = totals
    was, now = before.test.record.settings, after.test.record.settings
    result.settings |= {key for key in {*was, *now} if was.get(key) != now.get(key)}
    return [(name, finding) for finding in findings_of_changes(changes, record)]


def lines(before: Union, after: Union, result: RunComparison) -> Iterator[TextLine]:
    """Yield the whole text: the causes first, then the tests."""
    for word, side in (("before", before), ("after", after)):
        yield label_line(word, _side(side), width=8)
        for problem in (*map(str, side.contradictions), *side.incomplete):
            yield label_line("note", f"{word}: {problem}", width=8)
    yield from (BLANK, TextLine(_headline(result)))
    if result.causes:
        yield BLANK
    for cause in result.causes[:MOST]:
        yield from finding_lines(cause.generalize() if len(cause.tests) > 1 else cause)
        yield from which_tests(cause, f"in {plural(len(cause.tests), 'test')}")
    if len(result.causes) > MOST:
        yield TextLine(f"... and {plural(len(result.causes) - MOST, 'more place')}", indent=2)
    moved = [f"{', '.join(map(moved_count, result.moved[name]))}   {name}" for name in result.moved]
    for title, names in (
        ("tests with other counts", moved),
        ("only before", result.only_before),
        ("only after", result.only_after),
        ("not compared, by their outcomes", result.unequal),
        ("measured with other settings of torch; make them equal first", sorted(result.settings)),
    ):
        yield from _name_list(title, names)


def _side(union: Union) -> str:
    environments = [seen.report for seen in union.seen.values()]
    versions = dict.fromkeys(
        f"{name} {version}" for report in environments for name, version in report.versions.items()
    )
    tests = f"{plural(len(union.seen), 'test')} on {', '.join(union.profiles) or 'no profile'}"
    return "; ".join(filter(None, (tests, ", ".join(versions))))


def _headline(result: RunComparison) -> str:
    parts = [f"{plural(result.compared, 'test')} compared"]
    graphs = [
        sum(total.growth for total in totals if total.kind == "graph")
        for totals in result.moved.values()
    ]
    grown, fewer = sum(count > 0 for count in graphs), sum(count < 0 for count in graphs)
    parts += [f"{grown} with more graphs"] if grown else []
    parts += [f"{fewer} with fewer"] if fewer else []
    return ", ".join(parts) if result.differs else f"{parts[0]}, no difference"


def _name_list(title: str, names: list[str]) -> Iterator[TextLine]:
    if not names:
        return
    yield from (BLANK, TextLine(f"{title}: {len(names):,}", "title"))
    yield from (TextLine(name, indent=2) for name in names[:NAMED])
    if len(names) > NAMED:
        yield TextLine(f"... and {len(names) - NAMED:,} more", indent=2)


def comment(before: Union, after: Union, result: RunComparison) -> str:
    """Return the same text as a comment in GitHub's markdown, as much of it as fits."""
    text = BoundedText(COMMENT)
    text.add(f"{PAGE_MARK} page -->\n### Two runs: {_headline(result)}\n\n")
    rows = [safe.cut(row, LONGEST) for row in plain_text(lines(before, after, result)).split("\n")]
    ending: list[str] = []
    while not text.add(safe.preformatted_block("\n".join([*rows, *ending])) + "\n"):
        rows = rows[: len(rows) * 3 // 4]
        ending = ["... (left out for its length)"]
    return text.text
