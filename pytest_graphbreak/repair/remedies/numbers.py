"""Numbers that code reads from small inputs, such as sizes of images: constants of the graph."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.patch import Edit, Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies.breaks import SCALARS
from pytest_graphbreak.repair.remedies.programs import ARGUMENTS, AROUND, around
from pytest_graphbreak.repair.trial import Trial

CONSTANTS: Final = (AROUND, ARGUMENTS, around("constants", "by_case"))
_CUT: Final = re.compile(r"\[[^\]]{0,80}: ?\(?\w{1,80}\[")
"""``x[..., : sizes[0]``: a piece of each image, say."""
_ASKS: Final = re.compile(r"\b(?:isnan|isinf|isfinite)\(")
READ: Final = frozenset(
    {"branch", "compare", "item", "loop", "mask", "nonzero", "tolist", "unbacked"}
)
"""Families where the value of a tensor is read."""
_NOTE: Final = (
    "compiled again for other values of small integer inputs; where the numbers change "
    "with another input, the graph raises RuntimeError"
)


def decides(item: Break) -> bool:
    """Whether the numbers decide how many pieces there are, and of which size.

    As nodes of the graph they would only move the break to what is done with the pieces.
    """
    code = item.where.code
    loops = ".tolist()" in code and ("for " in code or "split(" in code)
    return loops or "repeat_interleave(" in code or _CUT.search(code) is not None


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Sound for any input: the graph is for the values that it checks, and raises for others.

    Only for sizes and lengths, which code works out of its arguments and writes nothing
    into: Dynamo reads the values before it knows what is written in place, so those of a
    mask that was written into are not the ones that the graph has. The first of all is
    for all such places of the run: they come in families, and one alone fixes little.
    """
    others = [one for one in trial.record.breaks if reads(one)]
    family = reads(item) and len(others) > 1 and any(decides(one) for one in others)
    if family and (edits := _everywhere(others, trial)):
        nodes = [SCALARS] if any(one.id == "GB0124" for one in others) else []
        yield SourcePatch(
            "the numbers that the code reads are constants of the graph, which checks them",
            (*CONSTANTS, *nodes, *edits),
            note=_NOTE,
        )
    if decides(item):
        yield SourcePatch(
            "the numbers are constants of the graph, which checks them",
            (*CONSTANTS, Rewrite("constants", item.where)),
            note=_NOTE,
        )


def reads(item: Break) -> bool:
    """Whether it is the value of a tensor that breaks the graph."""
    reason = item.reason.lower()
    words = ("data dependent", "data-dependent", "dynamic shape")
    return any(one in reason for one in words) or advice.name(item) in READ


def other_reads(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """The same for what else is read, where it could be no node of the graph.

    Not for a question whether all is well: the graph would raise whenever it is not.
    """
    if not reads(item) or _ASKS.search(item.where.code):
        return
    edits = _everywhere([item], trial)
    if edits:
        yield SourcePatch(
            "all numbers that the function reads are constants of the graph, which checks them",
            (*CONSTANTS, *edits),
            note=_NOTE,
        )


def _everywhere(items: Sequence[Break], trial: Trial) -> list[Edit]:
    """The edits for the lines of breaks, and for what else their functions visibly read."""
    functions = {(one.where.file, one.where.function): one.where for one in items}
    wanted = [("constants", one.where) for one in items]
    wanted += [
        (kind, where) for where in functions.values() for kind in ("all_constants", "group_key")
    ]
    texts: dict[str, str] = {}
    return [Rewrite(kind, where) for kind, where in wanted if _applies(kind, where, texts, trial)]


def _applies(kind: str, where: Frame, texts: dict[str, str], trial: Trial) -> bool:
    """Whether a rewrite fits; the text of the file is then the one that it makes."""
    from pytest_graphbreak.repair.rewrite import apply

    if "<locals>" in where.function:
        return False
    text = texts.setdefault(where.file, trial.source(where))
    changed = apply(text, kind, where)
    texts[where.file] = changed or text
    return changed is not None
