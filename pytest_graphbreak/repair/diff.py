"""The kept patches as unified diffs of the files that they change, each with its reason.

A fixed script changes functions of other modules in memory. Whoever maintains
such a module wants the change of the file itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.build import Site, origin, rewritten, text_of
from pytest_graphbreak.repair.patch import Preamble, SourcePatch
from pytest_graphbreak.repair.source import lines

_OURS: Final = ("op", "scalar_op", "constants", "all_constants")
"""Rewrites with a function that is the fixed script's own."""
_LONGEST: Final = 88


@dataclass(frozen=True, slots=True)
class Diff:
    """``text`` is for ``patch -p1`` where the packages are; ``left_out`` are titles of patches.

    Those change settings of the program, or need a helper of it, so no file of a
    library can hold them.
    """

    text: str
    left_out: tuple[str, ...]


def difference(
    source: str,
    own: str,
    kept: Sequence[tuple[SourcePatch, Break | None]],
    sites: Mapping[str, Site],
) -> Diff:
    """The diff of all files that the patches rewrite: the user's own, too.

    ``own`` is the stable name of the user's file. Raises ``BuildError`` for a
    patch that does not fit, which a patch that was tried does.
    """
    was: dict[str, str] = {}
    now: dict[str, str] = {}
    left_out: list[str] = []
    for patch, item in kept:
        if any(isinstance(edit, Preamble) or edit.kind in _OURS for edit in patch.edits):
            left_out.append(patch.title)
        for edit in patch.edits:
            if isinstance(edit, Preamble) or edit.kind in _OURS:
                continue
            site = origin(edit.where, own, sites)
            name = own if site is None else edit.where.file
            if name not in was:
                was[name] = now[name] = source if site is None else text_of(site.path)
            changed = rewritten(now[name], edit)
            now[name] = _explained(now[name], changed, item) if item is not None else changed
    return Diff("".join(_unified(name, was[name], now[name]) for name in was), tuple(left_out))


def _explained(before: str, after: str, item: Break) -> str:
    """With the reason in one comment above the first line that changed."""
    old, new = lines(before), lines(after)
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    first = next((block[3] for block in blocks if block[0] != "equal"), len(new))
    if first >= len(new):
        return after
    indent = new[first][: len(new[first]) - len(new[first].lstrip())]
    words = f"{indent}# {item.id or 'A graph break'} under torch.compile: {item.reason}"
    if len(words) > _LONGEST:
        words = words[: _LONGEST - 3].rsplit(" ", 1)[0] + "..."
    new.insert(first, words + "\n")
    return "".join(new)


def _unified(name: str, before: str, after: str) -> str:
    found = difflib.unified_diff(lines(before), lines(after), f"a/{name}", f"b/{name}")
    end = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else line + end for line in found)
