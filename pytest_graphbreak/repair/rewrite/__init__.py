"""Source rewrites at one line, by libcst: everything else in the file stays as it is.

A rewriter gets the statement (or the ``def``) that holds the line, and returns
what stands there instead, or None where the form is not one that it knows. It
is never guessed whether the result computes the same: a run proves it.
"""

from __future__ import annotations

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.patch import DECORATORS
from pytest_graphbreak.repair.rewrite import conditions, constants, statements
from pytest_graphbreak.repair.rewrite.line import Rewriter, rewrite

REWRITERS: dict[str, Rewriter] = {
    "where": conditions.branch_to_where,
    "cond": conditions.branch_to_cond,
    "while_loop": conditions.loop_to_while_loop,
    "check": conditions.raise_to_check,
    "constants": constants.to_constants,
    "all_constants": constants.all_to_constants,
    "keep_tensor": statements.keep_tensor,
    "number": statements.tensor_to_number,
    "only_eager": statements.only_eager,
    "drop_graph_break": statements.drop_graph_break,
    "enable": statements.enable,
    "group_key": statements.group_key,
    "every_index": constants.every_index,
    **{kind: statements.decorate(name) for kind, name in DECORATORS.items()},
}

WHOLE = ("enable", "group_key", "every_index", "all_constants", *DECORATORS)
"""Rewriters of a whole function: the place names it, its line does not matter."""


def apply(source: str, kind: str, where: Frame) -> str | None:
    """The source with the line rewritten, or None where the rewriter does not apply.

    All lines of the function that read like ``where.code`` are changed alike:
    for the record they are one place.
    """
    return rewrite(source, REWRITERS[kind], where, whole=kind in WHOLE)
