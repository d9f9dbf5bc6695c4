"""The changes of baselines and what is left out, as lines, before ``accept`` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pytest_graphbreak.artifacts.union import Union
from pytest_graphbreak.baseline import Change, Changes, Values
from pytest_graphbreak.baseline.changes import Kind
from pytest_graphbreak.cli.messages import MOST
from pytest_graphbreak.judging.finding import GONE, NEW
from pytest_graphbreak.judging.findings import finding_of_place
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

MOST_NAMED: Final = 20
"""The number of tests that are named for one reason; the rest are counted."""
IN_FULL: Final = 500
"""The number of changes that are shown with their places; further ones get one line each."""

CHANGED: Final[dict[Kind, str]] = {
    "added": "new",
    "changed": "changed",
    "unchanged": "as recorded",
    "pruned": "gone",
    "ungated": "ungated",
}
"""The kinds of changes, as the summary counts them."""
LEFT_OUT: Final = {
    "failed": "failed by themselves and left out",
    "xfailed": "xfailed and left out",
    "contradicted": "that reports contradict and are left out",
    "not seen": "that could not be seen and are left out",
    "not run": "skipped or crashed",
}
"""The tests that are left out by why, as the summary counts them."""
LeftOut = dict[str, list[str]]
"""The names of these tests; of contradictions, what the reports say."""


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
    """Yield the kind and the key of each place that is shown, and the place."""
    yield from ((("break", *place.key), place) for place in values.breaks)
    yield from ((("eager", *place.key), place) for place in values.eager)
    yield from (
        (("graph", *cause.key), cause) for cause in values.causes if _explains_itself(cause)
    )


def _explains_itself(cause: Cause) -> bool:
    """Return whether a cause is shown: breaks and recompiles explain the others."""
    kind = DESCRIPTIONS[cause.layer].cause(cause.cause)
    return not (kind.is_plain or kind.explained_by)


def left_out_lines(
    together: Union, changes: Changes, left_out: LeftOut, *, pruning: bool
) -> Iterator[TextLine]:
    """Yield what is left out, how many tests there are of each kind, and what is not known."""
    for contradiction in left_out["contradicted"]:
        yield from text_lines(f"contradiction: {contradiction}")
    if left_out["contradicted"]:
        yield TextLine("left out: leave one of these reports out, or make the count stable")
    yield from list_lines("not seen", left_out["not seen"], MOST)
    for word in ("failed", "xfailed"):
        yield from list_lines(word, left_out[word], MOST_NAMED)
    yield from list_lines(
        "ungated", [change.nodeid for change in changes.of_kind("ungated")], MOST_NAMED
    )
    counts = {words: len(changes.of_kind(kind)) for kind, words in CHANGED.items()}
    counts |= {LEFT_OUT[why]: len(names) for why, names in left_out.items()}
    parts = [f"{count:,} {words}" for words, count in counts.items() if count]
    yield TextLine(f"{', '.join(together.profiles)}: {', '.join(parts) or 'no tests'}")
    for reason in together.incomplete:
        yield label_line("note", f"incomplete: {reason}")
    if pruning and together.partial_files:
        files = plural(len(together.partial_files), "file")
        yield label_line("note", f"{files} collected in part only: nothing of theirs is dropped")
