"""When nothing goes into the graph: fewer pieces around what stays out of it."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Preamble, Rewrite, SourcePatch, switch
from pytest_graphbreak.repair.trial import Trial


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    inner = [frame for frame in item.stack if frame.function not in ("", "<module>")]
    if len(inner) > 1:
        yield SourcePatch(
            "nested_graph_breaks: a break cuts the outermost function once",
            (switch("nested_graph_breaks"),),
        )
    for frame in list(reversed(inner))[:2]:
        if frame is inner[0]:
            break  # the compiled function itself: then nothing would be compiled
        yield SourcePatch(
            f"{frame.function.rsplit('.', 1)[-1]} runs uncompiled, as one piece",
            (Rewrite("leave_compiler", frame),),
            leaves=True,
        )
    if "manual_seed" in item.where.code:
        yield SourcePatch(
            "torch.manual_seed runs outside of the graph",
            (Preamble("torch.manual_seed = torch.compiler.disable(torch.manual_seed)"),),
            leaves=True,
        )
