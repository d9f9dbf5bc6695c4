"""The message of a commit that updates baselines, with the reason of each group of changes.

Its contents come from untrusted sources. They cannot begin a line, so that git and a patch treat
them as text. The message names neither people nor issues, since a code host acts on both.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from pytest_graphbreak.baseline.changes import Change as Entry
from pytest_graphbreak.baseline.changes import FileChange
from pytest_graphbreak.model.layer import minor
from pytest_graphbreak.report.comparison import words
from pytest_graphbreak.report.lines import position
from pytest_graphbreak.runs.comparison import CauseChange, Comparison
from pytest_graphbreak.text.output import plural
from pytest_graphbreak.text.safe import cut, printable
from pytest_graphbreak.text.terminal import wrap

MOST: Final = 20
"""The number of causes that are reported; the rest are counted."""
WIDTH: Final = 72
_UNSURE: Final = "renamed, or gone at one place and new at another"
FILES: Final = 2
"""The number of test files that are named for one cause."""

_Test = tuple[str, str]
"""A node id, and the profile that the test was measured on afterwards."""
_ACTED_ON: Final = re.compile(r"@(?=\w)|#(?=\d)|\bGH-(?=\d)", re.IGNORECASE)


def message(found: Comparison, entries: Sequence[Entry]) -> str:
    """Return why these entries of the baselines changed, as far as the two runs show."""
    left = {(entry.nodeid, entry.profile) for entry in entries}
    blocks, named = _blocks(found, left)
    lines = [subject(found, len(left)), "", *_wrapped(f"{words.headline(found)}.")]
    title = ""
    for name, block in blocks[:MOST]:
        if name != title:
            lines += ["", f"{name[0].upper()}{name[1:]}:"]
        lines += ["", *block]
        title = name
    if len(blocks) > MOST:
        lines += ["", f"And {plural(len(blocks) - MOST, 'cause')} more."]
    rest = list(_rest(found, entries, left, named))
    lines += ["", *(part for line in rest for part in _wrapped(line))] if rest else []
    return "\n".join(lines) + "\n"


def _blocks(found: Comparison, left: set[_Test]) -> tuple[list[tuple[str, list[str]]], set[_Test]]:
    """Return a block of lines for each cause that changed some of the tests, and those tests."""
    after = {(pair.nodeid, pair.profile): pair.after.profile for pair in found.pairs}
    blocks: list[tuple[str, list[str]]] = []
    named: set[_Test] = set()
    for title, change in _changes(found):
        tests = {
            (effect.nodeid, after[effect.nodeid, effect.profile]) for effect in change.effects
        } & left
        if tests:
            named |= tests
            blocks.append((title, list(_block(change, tests, found))))
    return blocks, named


def _rest(
    found: Comparison, entries: Iterable[Entry], left: set[_Test], named: set[_Test]
) -> Iterator[str]:
    """Yield the numbers of tests that changed without a cause in these two runs."""
    added, pruned = (
        {(entry.nodeid, entry.profile) for entry in entries if entry.kind == kind}
        for kind in ("added", "pruned")
    )
    moved = {(pair.nodeid, pair.after.profile) for pair in found.pairs if pair.moved}
    older = left - named - added - pruned - moved
    for tests, what in (
        (added - named, "recorded for the first time"),
        ((moved & left) - named - added, "with other operations, or for no reported cause"),
        (pruned - named, "dropped, since the test is gone"),
        (older, "as in both runs: the baseline was older"),
    ):
        if tests:
            yield f"{plural(len(tests), 'test')} {what}."


def subject(found: Comparison, tests: int) -> str:
    """Return the first line: the packages with another version, or the number of tests."""
    before = {**found.before.versions, **found.before.packages}
    after = {**found.after.versions, **found.after.packages}
    names = [name for name in after if name in before and after[name] != before[name]]
    names = [
        name for name in names if name not in ("python", "platform") and "," not in after[name]
    ]
    said = ", ".join(f"{name} {minor(after[name])}" for name in names)
    line = f"Graph baselines for {_harmless(said)}"
    return line if names and len(line) <= WIDTH else f"Graph baselines of {plural(tests, 'test')}"


def _changes(found: Comparison) -> Iterator[tuple[str, CauseChange]]:
    """Yield every change with the title of its group, in the order of the report."""
    for section in words.sections(found):
        for change in section.changes:
            yield section.title, change
    for pair in found.moved:
        yield _UNSURE, pair.before
        yield _UNSURE, pair.after


def _block(change: CauseChange, tests: Collection[_Test], found: Comparison) -> Iterator[str]:
    yield from _wrapped(f"{words.sign(change)} {cut(words.name(change))}", "  ")
    if change.where.file:
        yield f"  {_harmless(position(change.where))}"
    if change.where.code:
        yield f"      {_harmless(cut(change.where.code))}"
    if before := words.was(change):
        yield from _wrapped(f"before: {before}", "  ", "  ")
    if owner := words.owner(change, found):
        yield from _wrapped(owner, "  ", "  ")
    amount = ", ".join((plural(len(tests), "test"), *words.growth(change.graphs)))
    yield from _wrapped(f"{amount}, in {_files(tests)}", "  ", "  ")


def _files(tests: Iterable[_Test]) -> str:
    files = sorted({nodeid.partition("::")[0] for nodeid, _ in tests})
    if len(files) <= FILES:
        return " and ".join(files)
    return f"{', '.join(files[:FILES])} and {len(files) - FILES:,} more files"


def _wrapped(line: str, indent: str = "", first: str = "") -> list[str]:
    """Wrap a line of prose to ``WIDTH``; words from untrusted sources never begin a line."""
    return wrap(_harmless(line), WIDTH, first, indent)


def _harmless(text: str) -> str:
    return _ACTED_ON.sub(lambda found: f"{found[0]} ", printable(text))


# the patch


def patch(note: str, files: Iterable[FileChange], names: Iterable[str]) -> str:
    """Return input for ``git apply``: the message, then the change of each file.

    ``names`` are the paths of the files from the root of the repository.
    """
    parts = [note.rstrip("\n"), "---"]
    for file, name in zip(files, names, strict=True):
        parts += _file(file, name)
    return "\n".join(parts) + "\n"


def _file(file: FileChange, name: str) -> Iterator[str]:
    old, new = (_quoted(f"{side}/{name}") for side in "ab")
    yield f"diff --git {old} {new}"
    if file.old is None:
        yield "new file mode 100644"
    if file.new is None:
        yield "deleted file mode 100644"
    yield f"--- {old if file.old is not None else '/dev/null'}"
    yield f"+++ {new if file.new is not None else '/dev/null'}"
    before, after = ((text or "").split("\n") for text in (file.old, file.new))
    # The text after the last line end is not a line, and git needs a mark if that end is missing.
    ends = [lines.pop() for lines in (before, after)]
    if ends[0]:
        before.append(f"{ends[0]}\n\\ No newline at end of file")
    if ends[1]:
        after.append(f"{ends[1]}\n\\ No newline at end of file")
    lines = list(difflib.unified_diff(before, after, lineterm="", n=3))
    yield from lines[2:]


def _quoted(name: str) -> str:
    """Return a path as git writes it: quoted byte by byte unless it is plain (``git-diff(1)``)."""
    if name.isascii() and name.isprintable() and not set(name) & {'"', "\\"}:
        return name
    text = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:03o}"
        for byte in name.encode("utf-8", "surrogateescape")
    )
    return f'"{text}"'
