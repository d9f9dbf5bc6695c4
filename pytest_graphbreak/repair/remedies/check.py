"""An ``assert``, or an ``if`` that raises, becomes a check in the graph.

Before::

    if x.isnan().any():
        raise ValueError("not a number")

After::

    torch._assert_async(torch.logical_not(x.isnan().any().reshape(()).ne(0)), "not a number")

A number that was read (``n = lengths.max().item()``) is checked by ``torch._check`` instead, which
also tells the compiler what holds from there on: ``assert n > 0`` becomes ``torch._check(n > 0)``.

When not: where the exception is caught, or its type or its message matter. Both checks raise
RuntimeError; that of a tensor does when the graph runs, on a device some time later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import libcst as cst

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch, UnfitError, switch
from pytest_graphbreak.repair.rewrite.conditions import condition
from pytest_graphbreak.repair.rewrite.reasons import may_branch
from pytest_graphbreak.repair.rewrite.tree import (
    Place,
    body,
    code,
    only,
    rewriting,
    statements,
)
from pytest_graphbreak.repair.trial import Trial

_LOST: Final = "the check raises RuntimeError, later, in place of its own exception"


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    if may_branch(item) and item.where.code.startswith(("if ", "assert ")):
        of_tensor = (Rewrite(CHANGE, item.where),)
        yield SourcePatch("the check became torch._assert_async", of_tensor, _LOST)
        of_number = (Rewrite(OF_NUMBERS, item.where), switch("capture_scalar_outputs"))
        yield SourcePatch("the check became torch._check", of_number, _LOST)


def to_assert_async(place: Place) -> Sequence[cst.BaseStatement]:
    """Return the check of a tensor. Raises ``UnfitError``."""
    test, negated, message = _parts(place.node)
    holds = condition(test, place)
    holds = f"torch.logical_not({holds})" if negated else holds
    return statements(f"torch._assert_async({holds}, {_words(message)})")


def to_check(place: Place) -> Sequence[cst.BaseStatement]:
    """Return the check of a number. Raises ``UnfitError``."""
    test, negated, message = _parts(place.node)
    holds = f"not ({code(test)})" if negated else code(test)
    return statements(f"torch._check({holds}, lambda: {_words(message)})")


CHANGE: Final = rewriting(to_assert_async)
OF_NUMBERS: Final = rewriting(to_check)


def _parts(node: cst.CSTNode) -> tuple[cst.BaseExpression, bool, cst.BaseExpression | None]:
    """Return a test, whether it is true of what is wrong, and the message."""
    statement = only(node)
    if isinstance(statement, cst.Assert):
        return statement.test, False, statement.msg
    if isinstance(node, cst.If) and not node.orelse and len(body(node.body)) == 1:
        raised = only(body(node.body)[0])
        if isinstance(raised, cst.Raise) and raised.exc is not None:
            args = raised.exc.args if isinstance(raised.exc, cst.Call) else ()
            return node.test, True, args[0].value if args else None
    raise UnfitError("it is no `assert`, and no `if` that only raises")


def _words(message: cst.BaseExpression | None) -> str:
    """Return a message as a constant text: what would be computed for it becomes ``...``."""
    if isinstance(message, cst.SimpleString):
        return code(message)
    if not isinstance(message, cst.FormattedString):
        return "'a check failed'"
    texts = [
        part.value if isinstance(part, cst.FormattedStringText) else "..." for part in message.parts
    ]
    return repr("".join(texts).replace("{{", "{").replace("}}", "}"))
