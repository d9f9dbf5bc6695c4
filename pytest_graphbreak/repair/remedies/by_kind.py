"""The rewriters that are named by a kind, as changes of a patch."""

from __future__ import annotations

from functools import cache
from typing import Final

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.patch import Change, Rewrite

DECORATORS: Final = {
    "leave_compiler": "torch.compiler.disable",
    "nonstrict": "torch._dynamo.nonstrict_trace",
    "op": "_graphbreak_op",
    "scalar_op": "_graphbreak_scalar_op",
}
_HELPED: Final = (
    *("later", "later_block", "note", "note_block", "held", "held_note", "drawn"),
    *("constants", "masks", "all_constants"),
)


@cache
def change(kind: str) -> Change:
    def changed(source: str, where: Frame) -> str | None:
        from pytest_graphbreak.repair.rewrite import apply

        return apply(source, kind, where)

    return changed


def by_kind(kind: str, where: Frame) -> Rewrite:
    return Rewrite(change(kind), where, kind in _HELPED, DECORATORS.get(kind, ""))
