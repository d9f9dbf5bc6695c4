"""Source rewrites of what hangs on a tensor's value, by libcst."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies.configs import SCALARS
from pytest_graphbreak.repair.trial import Trial

_BRANCHES = ("branch", "item", "compare", "unbacked", "assert", "loop")


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    family = advice.family(item)
    name = family.name if family else ""
    code = item.where.code
    here = item.where
    branching = name in _BRANCHES or "branch" in item.reason.lower()
    if branching and (code.startswith("if ") or " if " in code):
        yield SourcePatch("the branch became torch.where", (Rewrite("where", here),))
        yield SourcePatch("the branch became torch.cond", (Rewrite("cond", here),))
        yield SourcePatch(
            "the check became torch._assert_async",
            (Rewrite("check", here),),
            drops="the check raises RuntimeError, later, in place of its own exception",
        )
    if branching and code.startswith("while "):
        yield SourcePatch("the loop became torch.while_loop", (Rewrite("while_loop", here),))
    if name in ("item", "tolist", "unbacked", "branch") and not code.startswith(("if ", "while ")):
        yield SourcePatch("the value stays a tensor", (Rewrite("keep_tensor", here),))
        yield SourcePatch(
            "the value stays a tensor, and others become nodes of the graph",
            (Rewrite("keep_tensor", here), SCALARS),
        )
