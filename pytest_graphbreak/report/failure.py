"""The text of a red test: its headline, why it is red, its counts, and what to do next.

``failure`` is the text of a test, asked for by ``suite.judging`` and ``artifacts.rejudge``;
``block_failure`` that of a block or a script, by ``measuring.watch`` and ``cli.run``. The findings
are those of ``judging.findings``, each shown by ``report.lines``; the numbers are from
``report.counts``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from pytest_graphbreak import advice
from pytest_graphbreak.config.packages import owner
from pytest_graphbreak.config.typed import Typed
from pytest_graphbreak.judging.finding import Finding
from pytest_graphbreak.judging.findings import findings_of_failure, look_for_lost, losses
from pytest_graphbreak.judging.judgement import Case, Judgement
from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.differences import LISTS, STRICT
from pytest_graphbreak.model.items import NOWHERE, Break, Frame, Recompile
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.versions import compilers, minor, same_minor
from pytest_graphbreak.report.checkout import CheckoutLines
from pytest_graphbreak.report.counts import changed_counts, first_line, headline
from pytest_graphbreak.report.lines import (
    MOST_PLACES,
    at,
    code,
    detail,
    lines,
    measured_with,
    position,
    to_try,
)
from pytest_graphbreak.text.numbers import noun, plural
from pytest_graphbreak.text.output import BLANK, Kind, TextLine, blocks


class Context(Struct, frozen=True):
    """What the text of a failed test says besides its case and the verdict.

    ``baseline`` is the file as it is shown (``baselines/tests/test_a.yaml``), and
    ``baseline_line`` the line of the entry; ``against`` is a report that is the budget instead.
    ``typed`` is how pytest was started, ``test`` the place of the test, ``accept`` the command that
    accepts if baselines are not written from here: in CI, and for a report of another machine;
    ``not_accepted`` says why there is none. ``source`` is the checkout that was tested, if it is
    here.
    """

    nodeid: str
    profile: str
    baseline: str | None = None
    baseline_line: int | None = None
    against: str | None = None
    accept: str | None = None
    not_accepted: str = ""
    replaces: str = ""
    """The entries that are removed when this test gets one, as ``its entry without parameters``.
    An update does this, and a record does not."""
    typed: Typed = field(default_factory=Typed)
    test: Frame = NOWHERE
    fixtures: Mapping[str, int] = {}
    """The number of its graphs that the test's fixtures made before its call, by layer."""
    source: CheckoutLines | None = None


def failure(judged: Judgement, context: Context) -> list[TextLine]:
    """Return the text of a failed test; its sections are separated by blank lines."""
    verdict, record = judged.verdict, judged.case.record
    if verdict.name == "error":
        return _blind(record)
    findings = findings_of_failure(verdict, record)
    # Numbers without consequences are left out: recompiles repeat operations, which is no gain.
    # ``STRICT`` are ``improved`` and ``changed``, which are red for numbers alone.
    ops = verdict.ops if verdict.name in STRICT else verdict.lost
    budget = "the baseline" if context.against is None else "--against"
    return [
        *blocks(
            [headline(verdict, record, budget)],
            chain(*_causes(verdict, record, findings, context)),
            changed_counts(verdict, record, context.fixtures, ops),
            footer(judged, findings, context),
        )
    ]


def block_failure(judged: Judgement, typed: Typed) -> list[TextLine]:
    """Return the text of a block or a script that exceeded its cap, without baseline and marker."""
    verdict, record = judged.verdict, judged.case.record
    if verdict.name == "error":
        return _blind(record)
    findings = findings_of_failure(verdict, record)
    return [
        *blocks(
            [headline(verdict, record)],
            chain(*_places(verdict, findings)),
            changed_counts(verdict, record),
            _explain(findings, typed),
        )
    ]


def _blind(record: Record) -> list[TextLine]:
    first, *others = record.errors
    return [
        first_line(f"could not see: {first}"),
        BLANK,
        *(TextLine(f"and {error}", indent=2) for error in others),
        TextLine("A gate that cannot see does not pass, and nothing is recorded.", indent=2),
    ]


# Why it is red: entries, each a line with a sign and the lines below it.
#
#   + GB0124  Unsupported Tensor.item() call with capture_scalar_outputs=False
#       yolo/head.py:11 in Head.forward
#       changed since the baseline (1a2b3c4d5e): yolo/loader.py:3 in load
#   - ...

Entry = list[TextLine]

_MOST_CHANGED: Final = 3
"""The number of changed lines that are shown; the rest are counted."""


def _causes(
    verdict: Verdict, record: Record, findings: Sequence[Finding], context: Context
) -> list[Entry]:
    """Return new and removed places, and what was lost if these do not explain it."""
    entries = _places(verdict, findings)
    if lost := losses(verdict, record):
        entries.append([*_loss(lost, record, context.source)])
    elif verdict.empties_a_layer and not (record.breaks or record.eager):
        entries.insert(0, [*_nothing_compiled(verdict, record, context.test)])
    if context.source is not None:
        # Without the parameters of its name, which is then that of a function.
        test = replace(context.test, function=context.test.function.partition("[")[0])
        near = [*_near(verdict, record), test]
        add_changed(entries, near, context.source)
    return entries


def _places(verdict: Verdict, findings: Sequence[Finding]) -> list[Entry]:
    """Return new and removed places; the rest of a long list is counted.

    Each advice is given only once. What is lost is no place here (``_loss``), nor is another
    function that is compiled in its stead.
    """
    if verdict.name == "lost":
        findings = [finding for finding in findings if not finding.is_entry]
    entries, advised = list[Entry](), set[str]()
    for finding in findings[:MOST_PLACES]:
        fix = tuple(words for words in finding.fix if words not in advised)
        entries.append(lines(replace(finding, fix=fix)))
        advised.update(fix)
    if len(findings) > MOST_PLACES:
        left_out = plural(len(findings) - MOST_PLACES, "more place")
        entries.append([TextLine(f"... and {left_out} (the JSON report has them all)", indent=2)])
    return entries


def _nothing_compiled(verdict: Verdict, record: Record, test: Frame) -> Iterator[TextLine]:
    """Yield what to look for in ``test``: a layer compiles nothing any more, and nothing broke."""
    if record.frames.attempted:
        number = f"{record.frames.attempted} {noun(record.frames.attempted, 'function')}"
        yield _lost_line(f"{number} looked at, and no tensor operation found to compile")
        words = "compile the function that computes, and not one that only calls or returns"
    else:
        layer = next((total.layer for total in verdict.lost if not total.after), "")
        others = any(record.graphs.values())
        yield _lost_line(f"nothing was compiled on {layer}" if others else "nothing was compiled")
        words = look_for_lost(verdict)
    yield from map(detail, record.notes)  # a cache or a setting may explain it
    yield from at(test)
    yield from to_try(words)


def _loss(
    lost: Sequence[Finding], record: Record, source: CheckoutLines | None
) -> Iterator[TextLine]:
    """Yield what is compiled no more, or less of it: the first place, and how many others."""
    first, *others = lost
    yield _lost_line(first.title)
    where = first.where if source is None else source.definition_of(first.where)
    yield from at(replace(where, code=""))
    if others:
        names = ", ".join(finding.where.function for finding in others[:3])
        yield detail(f"and {plural(len(others), 'other')}: {names}{', ...' * bool(others[3:])}")
    yield from map(detail, record.notes)  # a cache or a setting may explain it
    yield from to_try(*first.fix)


def _lost_line(text: str) -> TextLine:
    return TextLine(text, "lost", 2, "- ")


def add_changed(entries: Sequence[Entry], near: Sequence[Frame], source: CheckoutLines) -> None:
    """Add the lines that changed since the baseline to the first entry that is new, or else lost.

    They end it. But a loss has no line of its own, so a changed one is the first thing that is said
    of it. Nothing is added to an entry that shows one of them already.
    """
    first_of = {entry[0].kind: entry for entry in reversed(entries)}
    entry = first_of.get("new") or first_of.get("lost")
    if entry is None:
        return
    commit, changed = source.changed_lines(near)
    # With a blank after each, so that line 1 is not found in line 11.
    shown = "\n".join(f"{line.text} " for line in entry)
    if any(f"{change.where.file}:{change.where.line} " in shown for change in changed):
        return
    is_loss = entry[0].kind == "lost"
    below = []
    for change in changed[: 1 if is_loss else _MOST_CHANGED]:
        word = "deleted" if change.deleted else "changed"
        below.append(detail(f"{word} since the baseline ({commit}): {position(change.where)}"))
        below += code(change.where)
    if is_loss:
        entry[1:1] = below
        return
    entry += below
    if len(changed) > _MOST_CHANGED:
        entry.append(detail(f"... and {plural(len(changed) - _MOST_CHANGED, 'more line')}"))


def _near(verdict: Verdict, record: Record) -> list[Frame]:
    """Return the places of all changes, what is behind them, and the calls that lead to them."""
    frames: dict[Frame, None] = {}
    for change in verdict.changes:
        frames |= dict.fromkeys((change.where,))
        for item in change.items_of(record):
            behind: tuple[Frame, ...] = ()
            if isinstance(item, Recompile):
                behind = (item.origin, item.guard)
            elif isinstance(item, Break):
                behind = (item.disabled,)
            frames |= dict.fromkeys((item.where, *behind, *getattr(item, "stack", ())))
    return [frame for frame in frames if frame.file]


# What to do next, and the conditions of the measurement.


def footer(judged: Judgement, findings: Sequence[Finding], context: Context) -> Iterator[TextLine]:
    """Yield the next command, the baseline, and the conditions of measurement."""
    case, verdict = judged.case, judged.verdict
    yield from _explain(findings, context.typed)
    if verdict.by_marker:
        words = "@pytest.mark.max_graphs: fix the code, or raise the cap"
        yield _label("marker", words)
    if context.against is not None:  # no update of baselines changes it
        yield _label("against", f"{context.against}{_recorded_with(case)}")
    elif verdict.acceptable:
        yield from _accept(verdict, context)
    if context.baseline is not None:
        place = context.baseline
        if context.baseline_line:
            place += f":{context.baseline_line}"
        yield _label("baseline", f"{place}{_recorded_with(case)}")
    yield from measured_with(case.record)
    for name, before, after in _package_changes(case, verdict):
        yield _label("package", f"{name} {before} -> {after}")
    if verdict.foreign:
        words = f"has no values of its own, judged by those of {verdict.foreign}"
        yield _label("profile", f"{context.profile} {words}")


def _explain(findings: Sequence[Finding], typed: Typed) -> Iterator[TextLine]:
    """Yield the command that explains what failed: the first new finding that has a page."""
    new = (finding for finding in findings if finding.is_new)
    for finding in sorted(new, key=lambda finding: finding.is_entry):
        if topic := advice.topic(finding.items[0]):
            yield _label("explain", command=typed.graphbreak("explain", topic))
            return


def _package_changes(case: Case, verdict: Verdict) -> Iterator[tuple[str, str, str]]:
    """Yield packages whose version changed since recording and that contain a changed place.

    ``("transformers", "4.55", "4.56")``, or with all of both versions if the minor ones are equal.
    A place of which nobody knows whether it is new (``unsure``) is none.
    """
    files = dict.fromkeys(
        change.where.file
        for change in verdict.changes
        if change.kind in LISTS and not change.total and not change.unsure
    )
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


def _recorded_with(case: Case) -> str:
    """Return where and with what the baseline was recorded, and versions that differ now.

    `` (xla-cpu, torch 2.9; now 2.10, where counts may differ)``
    """
    seen = compilers(case.record.layers)
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
    is_new = verdict.name == "new"
    word = "record" if is_new else "accept"
    is_added = is_new and not context.replaces
    flags = ["--graph-budget-record" if is_added else "--graph-budget-update"]
    if verdict.needs_prune:
        flags.append("--graph-budget-prune")
    if context.not_accepted:
        yield _label(word, context.not_accepted)
    else:
        text = f"in place of {context.replaces}: " if context.replaces else ""
        if verdict.by_marker:  # an update writes nothing of a test that exceeds its cap
            text = "once the cap is raised: "
        command = context.accept or context.typed.test(context.nodeid, *flags)
        yield _label(word, text, command)


def _label(word: str, text: str = "", command: str = "") -> TextLine:
    kind: Kind = "command" if command else "text"
    return TextLine(text, kind, indent=2, head=f"{word:<8}  ", command=command)
