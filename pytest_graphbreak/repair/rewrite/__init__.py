"""Source rewrites of one line with libcst; everything else in the file stays as it is.

A rewriter gets the statement (or the ``def``) that holds the line, and returns its replacement, or
None if it does not know the form. It does not guess whether the result computes the same: a run
proves it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.remedies.by_kind import DECORATORS
from pytest_graphbreak.repair.rewrite import (
    branches,
    chosen,
    constants,
    drawn,
    held,
    indices,
    joined,
    later,
    lists,
    loops,
    masked,
    parts,
    statements,
    table,
)
from pytest_graphbreak.repair.rewrite.line import Rewriter, rewrite
from pytest_graphbreak.repair.rewrite.scope import Surroundings, replace
from pytest_graphbreak.repair.rewrite.scope import statements as found

REWRITERS: dict[str, Rewriter] = {
    "all_constants": constants.all_to_constants,
    "keep_tensor": statements.keep_tensor,
    "number": statements.tensor_to_number,
    "only_eager": statements.only_eager,
    "drop_graph_break": statements.drop_graph_break,
    "plain_flags": statements.plain_flags,
    "enable": statements.enable,
    "group_key": statements.group_key,
    "later_messages": statements.later_messages,
    "transposed": statements.transposed,
    "every_index": indices.every_index,
    **{kind: statements.decorate(name) for kind, name in DECORATORS.items()},
}

LOOPS: Final = {
    "while_loop": loops.to_while_loop,
    "quiet_while_loop": loops.to_quiet_loop,
    "trained_loop": loops.to_trained_loop,
    "quiet_trained_loop": loops.to_quiet_trained_loop,
}
BLOCKS: Final[dict[str, tuple[Callable[[ast.stmt, Surroundings], list[str]], tuple[type, ...]]]] = {
    "where": (branches.to_where, (ast.If, ast.Assign, ast.Return)),
    "cond": (branches.to_cond, (ast.If, ast.Assign)),
    "check": (branches.to_check, (ast.If, ast.Assert)),
    "masked": (masked.to_masked, (ast.Assign, ast.If)),
    "index": (chosen.to_index, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return)),
    "later": (later.to_later, (*later.STATEMENTS, ast.If)),
    "later_block": (later.to_later_block, (ast.If,)),
    "note": (later.to_note, (*later.STATEMENTS, ast.If)),
    "note_block": (later.to_note_block, (ast.If,)),
    "held": (held.to_held, held.KINDS),
    "held_note": (held.to_held_note, held.KINDS),
    "joined": (joined.to_joined, (ast.Assign,)),
    "all_rows": (table.to_all_rows, (ast.For,)),
    **{kind: (make, (ast.While, ast.For)) for kind, make in LOOPS.items()},
}
"""Rewriters that look at the function around a statement, and the statements that they take."""

_AROUND: Final = (*LOOPS, "later_block", "note_block")
"""Those of them whose statement may be around the line, and need not begin with it."""

WHOLE = (
    *("enable", "group_key", "later_messages", "transposed", "every_index", "all_constants"),
    "drawn",
    *DECORATORS,
)
"""Rewriters of a whole function: the place names the function, and its line is ignored."""


@lru_cache(maxsize=1024)
def apply(source: str, kind: str, where: Frame) -> str | None:
    """Return the source with the line rewritten, or None if the rewriter does not apply.

    All lines of the function that read like ``where.code`` are changed alike: in the record they
    are one place. Raises ``UnfitError``, with the reason, if the form is known but cannot be
    rewritten.
    """
    if kind in BLOCKS:
        make, kinds = BLOCKS[kind]
        try:
            fits = found(source, where, kinds, around=kind in _AROUND)
        except SyntaxError:
            return None
        made = [(one, place, make(one, place)) for one, place in fits]
        if kind in LOOPS:
            made += lists.uses(fits)
        elif kind == "joined":
            made += joined.rest(fits)
        return replace(source, made) if made else None
    try:
        if kind == "one_part":
            return parts.to_one_part(source, where)
        rewriter = _rewriter(source, kind)
    except SyntaxError:
        return None
    return rewrite(source, rewriter, where, whole=kind in WHOLE)


def _rewriter(source: str, kind: str) -> Rewriter:
    """Return the rewriter of a kind; some need the whole file. Raises ``SyntaxError``."""
    if kind == "drawn":
        return partial(drawn.to_drawn, known=drawn.sources(source))
    if kind in ("constants", "masks"):
        counters = constants.counters(source)
        return partial(constants.to_constants, counters=counters, masks=kind == "masks")
    return REWRITERS[kind]
