"""The end of a failure: the next command, the baseline, and the conditions of measurement.

``Context`` has the data that it needs in addition to the record and its verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from pytest_graphbreak import advice
from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.config.packages import owner
from pytest_graphbreak.config.typed import Typed
from pytest_graphbreak.judging.findings import findings_of_failure
from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.budget import Cap
from pytest_graphbreak.model.differences import LISTS
from pytest_graphbreak.model.layer import Versions, minor, same_minor
from pytest_graphbreak.model.layers import DESCRIPTIONS, compilers
from pytest_graphbreak.model.record import NOWHERE, Frame, Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.text.output import Kind, TextLine, plural


class ChangedLine(NamedTuple):
    """A line that changed since the baseline; ``deleted`` if it is not there any more."""

    where: Frame
    deleted: bool = False


class SourceLines:
    """Lines of a checkout; this base class is for no checkout."""

    def definition_of(self, function: Frame) -> Frame:
        """Return the same function, with the line where it begins if that is known."""
        return function

    def changed_lines(self, near: Sequence[Frame]) -> tuple[str, Sequence[ChangedLine]]:
        """Return the commit of the baseline, and the lines of the test that changed since then.

        Lines in functions of the frames ``near`` come first.
        """
        return "", ()


NO_LINES: Final = SourceLines()


class Case(Struct, frozen=True):
    """A record, and everything that it is judged by.

    ``expected`` is the baseline for its profile, ``cap`` the cap in the code, ``ungated`` why it is
    not judged at all. ``excused`` are verdicts that do not fail it, whatever the rules say.
    ``versions`` of compilers and ``packages`` are those that made it.
    """

    record: Record
    expected: Expected | None = None
    cap: Cap | None = None
    ungated: str | None = None
    excused: Collection[str] = ()
    versions: Versions = {}
    packages: Mapping[str, str] = {}


class Context(Struct, frozen=True):
    """The data that the text needs in addition to the record and its verdict.

    ``case`` is what was judged. ``baseline`` is the file as it is shown
    (``baselines/tests/test_a.yaml``), and ``baseline_line`` the line of the entry. ``typed`` is how
    pytest was started, ``test`` the place of the test, ``accept`` the command that accepts if
    baselines are not written from here: in CI, and for a report of another machine;
    ``not_accepted`` says why there is none.
    """

    nodeid: str
    profile: str
    case: Case = Case(Record())
    baseline: str | None = None
    baseline_line: int | None = None
    accept: str | None = None
    not_accepted: str = ""
    typed: Typed = field(default_factory=Typed)
    test: Frame = NOWHERE
    fixtures: Mapping[str, int] = {}
    """The number of its graphs that the test's fixtures made before its call, by layer."""
    shown: SourceLines = NO_LINES


def footer(verdict: Verdict, record: Record, context: Context) -> Iterator[TextLine]:
    """Yield the next command, the baseline, and the conditions of measurement."""
    yield from explain(verdict, record, context.typed)
    if verdict.by_marker:
        words = "@pytest.mark.max_graphs on the test: fix the code, or raise the cap"
        yield _label("marker", words)
    if verdict.acceptable:
        yield from _accept(verdict, context)
    if context.baseline is not None:
        place = context.baseline
        if context.baseline_line:
            place += f":{context.baseline_line}"
        yield _label("baseline", f"{place}{_recorded_with(record, context)}")
    yield from measured_with(record)
    for name, before, after in _package_changes(verdict, context):
        yield _label("package", f"{name} {before} -> {after}")
    if verdict.foreign:
        words = f"never recorded, judged by the values of {verdict.foreign}"
        yield _label("profile", f"{context.profile} was {words}")


def explain(verdict: Verdict, record: Record, typed: Typed) -> Iterator[TextLine]:
    """Yield the command that explains what failed, if there is a page on it."""
    if topic := _topic(verdict, record):
        yield _label("explain", command=typed.graphbreak("explain", topic))


def _topic(verdict: Verdict, record: Record) -> str | None:
    """Return the best topic for ``graphbreak explain``: the first change reported as new."""
    new = [finding for finding in findings_of_failure(verdict, record) if finding.is_new]
    for finding in sorted(new, key=lambda finding: finding.is_entry):
        if topic := advice.topic(finding.items[0]):
            return topic
    return None


def _package_changes(verdict: Verdict, context: Context) -> Iterator[tuple[str, str, str]]:
    """Yield packages whose version changed since recording and that contain a changed place."""
    files = dict.fromkeys(
        change.where.file
        for change in verdict.changes
        if change.kind in LISTS and not change.total and not change.unsure
    )
    case = context.case
    recorded = case.expected.packages if case.expected else {}
    for name in dict.fromkeys(map(owner, files)):
        before, after = recorded.get(name), case.packages.get(name)
        if before and after and before != after:
            short = not same_minor(before, after)
            yield (
                name,
                str(minor(before)) if short else before,
                str(minor(after)) if short else after,
            )


def _recorded_with(record: Record, context: Context) -> str:
    """Return where and with what the baseline was recorded, and versions that differ now."""
    case, seen = context.case, compilers(record.layers)
    recorded_with = case.expected.versions if case.expected else {}
    recorded = {
        name: version for name, version in recorded_with.items() if name in seen or not seen
    }
    if case.expected is None or not recorded:
        return ""
    differing = [
        minor(version) if len(recorded) == 1 else f"{name} {minor(version)}"
        for name, before in recorded.items()
        if (version := case.versions.get(name)) and not same_minor(version, before)
    ]
    others = f"; now {' and '.join(map(str, differing))}, where counts may differ"
    versions = [f"{name} {version}" for name, version in recorded.items()]
    words = ", ".join(filter(None, (case.expected.profile, *versions)))
    return f" ({words}{others if differing else ''})"


def _accept(verdict: Verdict, context: Context) -> Iterator[TextLine]:
    word = "record" if verdict.name == "new" else "accept"
    flags = ["--graph-budget-record" if verdict.name == "new" else "--graph-budget-update"]
    if verdict.needs_prune:
        flags.append("--graph-budget-prune")
    if context.not_accepted:
        yield _label(word, context.not_accepted)
    else:
        yield _label(word, command=context.accept or context.typed.test(context.nodeid, *flags))


def _label(word: str, text: str = "", command: str = "") -> TextLine:
    kind: Kind = "command" if command else "text"
    return TextLine(text, kind, indent=2, head=f"{word:<8}  ", command=command)


# The settings of torch during a measurement, as far as they change its graphs.

DYNAMO: Final = "torch._dynamo.config."
INDUCTOR: Final = "torch._inductor.config."
"""Settings that change how graphs are compiled further, but not which graphs there are."""


def measured_with(record: Record) -> Iterator[TextLine]:
    """Yield a line for each setting: `` settings measured with capture_scalar_outputs = True``.

    Settings that the library of a layer sets on import are left out, since nobody chose them.
    """
    usual = {item for layer in record.layers for item in DESCRIPTIONS[layer].sets}
    head = "settings  "
    for name, value in record.settings.items():
        if not name.startswith(INDUCTOR) and (name, value) not in usual:
            words = "and" if head.isspace() else "measured with"
            yield TextLine(f"{words} {setting_words(name, value)}", indent=2, head=head)
            head = " " * len(head)


def leaked_settings(tests: Iterable[TestReport]) -> list[str]:
    """Return the settings that calls of tests left, with the first test and how many others.

    Tests that left the same are on one line.
    """
    groups: dict[str, list[str]] = {}
    for test in tests:
        words = ", ".join(setting_words(name, value) for name, value in test.leaks.items())
        if words:
            groups.setdefault(words, []).append(test.nodeid)
    lines = []
    for words, (first, *others) in groups.items():
        also = f" and {plural(len(others), 'other')}" if others else ""
        lines.append(f"{first}{also}   left {words}")
    return lines


def setting_words(name: str, value: Any) -> str:
    """Return a setting with its value: ``capture_scalar_outputs = True``."""
    return f"{name.removeprefix(DYNAMO)} = {value}"
