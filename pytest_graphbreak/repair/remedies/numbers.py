"""Turns numbers that code reads from small inputs, such as image sizes, into graph constants."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.patch import Edit, SourcePatch
from pytest_graphbreak.repair.remedies.breaks import SCALARS
from pytest_graphbreak.repair.remedies.by_kind import by_kind
from pytest_graphbreak.repair.remedies.programs import ARGUMENTS, AROUND, around
from pytest_graphbreak.repair.trial import Trial

BY_CASE: Final = around("constants", "by_case")
CONSTANTS: Final = (AROUND, ARGUMENTS, BY_CASE)
_CUT: Final = re.compile(r"\[[^\]]{0,80}: ?\(?\w{1,80}\[")
"""Matches ``x[..., : sizes[0]``, for example a part of each image."""
_ASKS: Final = re.compile(r"\b(?:isnan|isinf|isfinite)\(")
_DRAWS: Final = re.compile(r"\brandom\.\w{1,40}\(|\b_graphbreak_drawn\(")
READ: Final = frozenset(
    {"branch", "compare", "item", "loop", "mask", "nonzero", "tolist", "unbacked"}
)
"""Families where the value of a tensor is read."""
_NOTE: Final = (
    "compiled again for other values of small integer inputs; where the numbers change "
    "with another input, the graph raises RuntimeError"
)


def decides(item: Break) -> bool:
    """Return whether the numbers decide how many pieces there are, and of which size.

    As nodes of the graph they would only move the break to the code that uses the pieces.
    """
    code = item.where.code
    loops = ".tolist()" in code and ("for " in code or "split(" in code)
    return loops or "repeat_interleave(" in code or _CUT.search(code) is not None


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to make the numbers constants of the graph, which is sound for any input.

    The graph checks the values that it was made for and raises for others.

    This is only for sizes and lengths, which code computes from its arguments and does not write
    into: Dynamo reads the values before it knows what is written in place, so the values of a mask
    that was written into are not those that the graph has. The first patch is for all such places
    of the run at once: they come in families, and fixing one alone helps little.
    """
    others = [one for one in trial.record.breaks if reads(one)]
    family = reads(item) and len(others) > 1 and any(decides(one) for one in others)
    if family and (edits := _everywhere(others, trial)):
        nodes = [SCALARS] if any(one.id == "GB0124" for one in others) else []
        yield SourcePatch(
            "the numbers that the code reads are constants of the graph, which checks them",
            (*CONSTANTS, *nodes, *edits),
            note=_NOTE,
            assumes=True,
        )
    if decides(item):
        yield SourcePatch(
            "the numbers are constants of the graph, which checks them",
            (*CONSTANTS, by_kind(_kind(item), item.where)),
            note=_NOTE,
            assumes=True,
        )


def _kind(item: Break) -> str:
    """Return the rewriter for a break; a name is taken for a mask where a size is read."""
    return "masks" if "dynamic shape" in item.reason.lower() else "constants"


def reads(item: Break) -> bool:
    """Return whether the graph breaks because the value of a tensor is read."""
    reason = item.reason.lower()
    words = ("data dependent", "data-dependent", "dynamic shape")
    return any(one in reason for one in words) or advice.name(item) in READ


def other_reads(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose constants for other values that are read, where they could not be graph nodes.

    This is not done for a check that all is well: the graph would raise whenever it is not. Nor is
    it for a random number, which is another in each call.
    """
    if not reads(item) or _ASKS.search(item.where.code) or _DRAWS.search(item.where.code):
        return
    edits = _everywhere([item], trial)
    if edits:
        yield SourcePatch(
            "all numbers that the function reads are constants of the graph, which checks them",
            (*CONSTANTS, *edits),
            note=_NOTE,
            assumes=True,
        )


def _everywhere(items: Sequence[Break], trial: Trial) -> list[Edit]:
    """Return the edits for the lines of breaks and for other visible reads in their functions."""
    functions = {(one.where.file, one.where.function): one.where for one in items}
    wanted = [(_kind(one), one.where) for one in items]
    wanted += [
        (kind, where) for where in functions.values() for kind in ("all_constants", "group_key")
    ]
    texts: dict[str, str] = {}
    return [by_kind(kind, where) for kind, where in wanted if _applies(kind, where, texts, trial)]


def _applies(kind: str, where: Frame, texts: dict[str, str], trial: Trial) -> bool:
    """Return whether a rewrite fits. If it does, ``texts`` then holds the rewritten file."""
    from pytest_graphbreak.repair.rewrite import apply

    if "<locals>" in where.function:
        return False
    text = texts.setdefault(where.file, trial.source(where))
    changed = apply(text, kind, where)
    texts[where.file] = changed or text
    return changed is not None
