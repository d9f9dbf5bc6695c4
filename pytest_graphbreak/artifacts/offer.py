"""What reports would change of a checkout's baselines, before anything is written: an offer.

``graphbreak accept`` refuses reports that do not fit (``refuse_unfit``), makes the offer
(``make_offer``), prints its lines, lets the user take a part of it, and writes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.artifacts.check import refuse_without_baselines
from pytest_graphbreak.artifacts.incoming import ReportError
from pytest_graphbreak.artifacts.union import BLIND, FAILED, MEASURED, NamedTest, SeenTest, Union
from pytest_graphbreak.baseline import (
    BaselineError,
    Baselines,
    Change,
    Changes,
    Entry,
    Measured,
    Values,
    preview,
    refuse_file,
    split_nodeid,
    update,
)
from pytest_graphbreak.baseline.changes import Kind
from pytest_graphbreak.config.checkout import Checkout
from pytest_graphbreak.judging.finding import GONE, NEW
from pytest_graphbreak.judging.findings import finding_of_place
from pytest_graphbreak.judging.measured import measurement
from pytest_graphbreak.model.budget import BaselinePlace, Cause
from pytest_graphbreak.model.layers import DESCRIPTIONS, LAYERS
from pytest_graphbreak.report.lines import lines
from pytest_graphbreak.text.files import display_path
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import (
    BLANK,
    TextLine,
    indent_lines,
    label_line,
    list_lines,
    text_lines,
)

MOST_BLIND: Final = 200
"""The number of tests that could not be seen and are named; the rest are counted."""
MOST_NAMED: Final = 20
"""The number of tests that are named for any other reason."""
IN_FULL: Final = 500
"""The number of changes that are shown with their places; further ones get one line each."""

CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters, and the line separators of Unicode."""

CHANGED: Final[dict[Kind, str]] = {
    "added": "new",
    "changed": "changed",
    "unchanged": "as recorded",
    "pruned": "gone",
    "ungated": "ungated",
}
"""The kinds of changes, as the summary counts them. ``kept`` is missing: only
``--graph-budget-record`` keeps entries, and an offer is made as an update."""


def refuse_unfit(together: Union, checkout: Checkout, base_profile: str | None) -> None:
    """Raise ``ReportError`` for reports of other baselines, profiles or tests than there can be.

    Raises ``BaselineError`` if a file is in the place of the baselines.
    """
    if base_profile is not None and base_profile not in together.profiles:
        profiles = ", ".join(together.profiles)
        raise ReportError(f"--base-profile: no report is of {base_profile}; they are of {profiles}")
    for seen in together.seen.values():
        _refuse_test(seen)
    refuse_file(checkout.directory)
    refuse_without_baselines(checkout, together.seen.values())


def _refuse_test(seen: SeenTest) -> None:
    """Raise ``ReportError`` for a test that can have no entry."""
    if seen.report.environment.profile is None:
        raise ReportError(f"{seen.report.name}: it names no profile, so it is of no test run")
    try:
        split_nodeid(seen.nodeid)
    except BaselineError as error:
        raise ReportError(f"{seen.report.name}: {error}") from None
    if CONTROL.search(seen.nodeid):
        raise ReportError(
            f"{seen.report.name}: {seen.nodeid!r} has control characters, which pytest "
            "never leaves in a node id"
        )


class LeftOut(Struct):
    """The tests that are not offered, by the reason: one text for each, with the test's name.

    A test in ``contradicted`` may have several texts, one for each pair of reports that differ.
    """

    failed: list[str] = []
    xfailed: list[str] = []
    contradicted: list[str] = []
    blind: list[str] = []
    not_run: list[str] = []
    ungated: list[str] = []

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each, as the summary counts them."""
        return {
            "failed by themselves and left out": len(self.failed),
            "xfailed and left out": len(self.xfailed),
            "that reports contradict and are left out": len(self.contradicted),
            "that could not be seen and are left out": len(self.blind),
            "skipped or crashed": len(self.not_run),
        }


class Offer(Struct, frozen=True):
    """What can be written to the baselines in ``directory``, and the ``changes`` that it makes.

    ``measured`` are tests of the reports on their profiles. ``gone`` are entries to drop, each with
    its values of all profiles. In a new file, the counts of ``base_profile`` become the plain
    values of each entry, and those of other profiles its overrides, where they differ.
    """

    together: Union
    directory: Path
    base_profile: str | None
    measured: list[Measured]
    gone: list[Entry]
    left_out: LeftOut
    changes: Changes

    @property
    def changed_entries(self) -> list[Change]:
        return self.changes.of_kind("added", "changed", "pruned")

    @property
    def words(self) -> str:
        files = plural(len(self.changes.files), "file")
        return f"{plural(len(self.changed_entries), 'change')} in {files}"

    @property
    def ungated(self) -> list[str]:
        """The tests that are not gated, by their entry or, without an entry, by their marker."""
        by_entry = [change.nodeid for change in self.changes.of_kind("ungated")]
        return by_entry + self.left_out.ungated

    @property
    def why_nothing(self) -> str:
        """The reason why no file changes."""
        left_out = self.left_out
        apart = (left_out.failed, left_out.xfailed, left_out.contradicted, left_out.blind)
        if any(apart) or self.ungated:
            return "what differs is left out"
        return "the baselines say this already"

    def part(self, accepted: Collection[NamedTest]) -> Offer:
        """Return the offer with the accepted changes alone."""
        names = {nodeid for _, nodeid in accepted}  # an entry is gone on all profiles at once
        measured = [x for x in self.measured if NamedTest(x.profile, x.nodeid) in accepted]
        gone = [entry for entry in self.gone if entry.nodeid in names]
        changes = preview(self.directory, measured, prune=gone, base_profile=self.base_profile)
        return replace(self, measured=measured, gone=gone, changes=changes)

    def write(self) -> None:
        """Write it. Raises ``BaselineError`` if files cannot be written."""
        update(
            self.directory,
            self.measured,
            prune=self.gone,
            base_profile=self.base_profile,
            previewed=self.changes,  # what is planned already is not planned again
        )


def make_offer(
    together: Union,
    baselines: Baselines,
    is_wanted: Callable[[str], bool],
    *,
    base_profile: str | None,
    gone: list[Entry],
) -> Offer:
    """Return what the wanted tests change, by node id, and ``gone`` entries, which are dropped.

    Raises ``BaselineError``.
    """
    directory = baselines.directory
    measured, left_out = _gather(together, baselines, is_wanted, base_profile)
    changes = preview(directory, measured, prune=gone, base_profile=base_profile)
    return Offer(together, directory, base_profile, measured, gone, left_out, changes)


def _gather(
    together: Union,
    baselines: Baselines,
    is_wanted: Callable[[str], bool],
    base_profile: str | None,
) -> tuple[list[Measured], LeftOut]:
    """Return what every measured test gave, and the tests that are left out.

    Tests of the base profile come first, and so do their entries in a new file.
    """
    measured: list[Measured] = []
    left_out = LeftOut()
    contradictions: dict[NamedTest, list[str]] = {}
    for item in together.contradictions:
        contradictions.setdefault(item.key, []).append(str(item))
    for seen in sorted(together.seen.values(), key=lambda seen: seen.profile != base_profile):
        if not is_wanted(seen.nodeid):
            continue
        record = seen.test.record
        if words := contradictions.get(seen.key):
            left_out.contradicted += words
        elif seen.level == BLIND:
            left_out.blind.append(f"{seen.nodeid}   {record.errors[0]}   on {seen.profile}")
        elif seen.level == FAILED:
            is_xfail = seen.test.outcome == "xfailed"
            (left_out.xfailed if is_xfail else left_out.failed).append(seen.name)
        elif seen.level != MEASURED:
            left_out.not_run.append(seen.name)
        elif seen.test.ungated is not None and baselines.entry(seen.nodeid) is None:
            left_out.ungated.append(seen.nodeid)
        # A test that compiles nothing has no entry, unless it has one already.
        elif record.has_judged_layer or baselines.entry(seen.nodeid) is not None:
            environment = seen.report.environment
            measured.append(measurement(seen.nodeid, seen.profile, environment, record))
    return measured, left_out


# The lines of an offer.


def change_lines(changes: Sequence[Change], root: Path) -> Iterator[TextLine]:
    """Yield the changes below the names of their files, relative to ``root``."""
    path = None
    for number, change in enumerate(sorted(changes, key=lambda change: str(change.path))):
        if change.path != path:
            path = change.path
            yield from (BLANK, TextLine(display_path(path, root)))
        yield _change(change)
        if number < IN_FULL and change.kind != "pruned":
            yield from _places(change.old or Values(), change.new or Values())
    if changes:
        yield BLANK


def _change(change: Change) -> TextLine:
    name = change.nodeid.partition("::")[2]
    if change.kind == "pruned":
        return TextLine(f"- {name}   its test is gone", indent=2)
    old, new = change.old or Values(), change.new or Values()
    lost = [layer for layer in LAYERS if old.graphs.get(layer, 0) and not new.graphs.get(layer, 0)]
    words = change.words
    if lost:
        words += f"   LOST: no {' and no '.join(lost)} graph any more"
    sign = "+" if change.kind == "added" else "~"
    return TextLine(f"{sign} {name}   {change.profile}   {words}", indent=2)


def _places(old: Values, new: Values) -> Iterator[TextLine]:
    """Yield the places that were added and removed, as a failure shows them."""
    before, after = (dict(_explained_places(values)) for values in (old, new))
    for sign, places, others in ((NEW, after, before), (GONE, before, after)):
        for key, place in places.items():
            if key not in others:
                yield from indent_lines(lines(finding_of_place(sign, key[0], place)), 4)


def _explained_places(values: Values) -> Iterator[tuple[tuple[str, ...], BaselinePlace | Cause]]:
    """Yield each place that is shown, with what it is known by.

    That is its kind and then its own key: ``("break", "dynamo", "a.py::f", "print(x)")``.
    """
    yield from ((("break", *place.key), place) for place in values.breaks)
    yield from ((("eager", *place.key), place) for place in values.eager)
    yield from (
        (("graph", *cause.key), cause) for cause in values.causes if _explains_itself(cause)
    )


def _explains_itself(cause: Cause) -> bool:
    """Return whether a cause is shown: breaks and recompiles explain the others."""
    kind = DESCRIPTIONS[cause.layer].cause(cause.cause)
    return not (kind.is_plain or kind.explained_by)


def summary_lines(offer: Offer, *, pruning: bool) -> Iterator[TextLine]:
    """Yield what is left out, how many tests there are of each kind, and what is not known."""
    left_out, together = offer.left_out, offer.together
    for contradiction in left_out.contradicted:
        yield from text_lines(f"contradiction: {contradiction}")
    if left_out.contradicted:
        yield TextLine("left out: leave one of these reports out, or make the count stable")
    yield from list_lines("not seen", left_out.blind, MOST_BLIND)
    yield from list_lines("failed", left_out.failed, MOST_NAMED)
    yield from list_lines("xfailed", left_out.xfailed, MOST_NAMED)
    yield from list_lines("ungated", offer.ungated, MOST_NAMED)
    counts = {words: len(offer.changes.of_kind(kind)) for kind, words in CHANGED.items()}
    counts |= {CHANGED["ungated"]: len(offer.ungated), **left_out.counts}
    parts = [f"{count:,} {words}" for words, count in counts.items() if count]
    yield TextLine(f"{', '.join(together.profiles)}: {', '.join(parts) or 'no tests'}")
    for reason in together.incomplete:
        yield label_line("note", f"incomplete: {reason}")
    if pruning and together.partial_files:
        files = plural(len(together.partial_files), "file")
        yield label_line("note", f"{files} collected in part only: nothing of theirs is dropped")
