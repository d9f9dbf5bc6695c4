"""Remedies for one break: rewrites of its line, Dynamo switches, and code left uncompiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.patch import Preamble, SourcePatch, switch
from pytest_graphbreak.repair.remedies.by_kind import by_kind
from pytest_graphbreak.repair.remedies.programs import AROUND, around
from pytest_graphbreak.repair.trial import Trial

SCALARS: Final = switch("capture_scalar_outputs")
SHAPES: Final = switch("capture_dynamic_output_shape_ops")

_BRANCHES: Final = ("branch", "item", "compare", "unbacked", "assert", "loop")
_SCALARS: Final = ("item", "tolist", "compare", "unbacked", "loop", "assert", "one-hot")
_SHAPES: Final = ("nonzero", "mask", "one-hot", "unbacked")
_SHAPED: Final = "dynamic shape"
_READ: Final = "tensor.item"
_CALLER: Final = "encountered graph break when attempting to trace"
"""How the reason begins that a caller has where torch 2.13 does not repeat that of the callee."""
_AUTOGRAD: Final = switch("trace_autograd_ops")
_OTHERS: Final = {
    "rnn": ("LSTM, GRU and RNN go into the graph", switch("allow_rnn")),
    "sparse": ("sparse tensors go into the graph", switch("capture_sparse_compute")),
}
_CHOOSES: Final = ("subscr", "data dependent operator", "data-dependent expression")
"""What reasons say where an index is a tensor; torch 2.9 says the last."""
_CHECKS: Final = "where a torch._check fails, the graph raises RuntimeError, as without the patch"
OTHER_ERROR: Final = "raises RuntimeError, later, in place of its own exception"


def flags(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to decide flags of an op, which are worked out from sizes, while it is traced."""
    if advice.name(item) == "flag":
        yield SourcePatch(
            "the flag is decided while the graph is traced", (by_kind("plain_flags", item.where),)
        )


def masked(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose ``torch.where`` for an assignment to the places of a mask."""
    if "nonzero" in item.reason or advice.name(item) in ("branch", *_SHAPES):
        yield SourcePatch(
            "the masked assignment became torch.where", (by_kind("masked", item.where),)
        )


def indices(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose an index of one element where a tensor without dimensions is an index."""
    reason = item.reason.lower()
    if "[" in item.where.code and any(words in reason for words in _CHOOSES):
        index = by_kind("index", item.where)
        yield SourcePatch("the index is a tensor of one element", (index,))
        yield SourcePatch(
            "the index is a tensor of one element, and others become nodes of the graph",
            (index, SCALARS),
        )


def switches(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose Dynamo switches that let more code into a graph."""
    name, reason = advice.name(item), item.reason.lower()
    if _reads(item):
        yield _captured(item, trial)
    if name in _SHAPES or _SHAPED in reason:
        yield SourcePatch(
            "capture_dynamic_output_shape_ops: sizes that depend on values stay in the graph",
            (SHAPES,),
        )
        yield SourcePatch(
            "capture_dynamic_output_shape_ops and capture_scalar_outputs", (SHAPES, SCALARS)
        )
    if any("trace_autograd_ops" in text for text in (item.explanation, *item.hints)):
        title = "trace_autograd_ops: backward() and torch.autograd.grad become nodes of the graph"
        yield SourcePatch(title, (_AUTOGRAD,))
    if name in _OTHERS:
        title, line = _OTHERS[name]
        yield SourcePatch(title, (line,))


def _captured(item: Break, trial: Trial) -> SourcePatch:
    title = "capture_scalar_outputs: .item() becomes a node of the graph"
    checks = any("torch._check" in one.where.code for one in (item, *trial.record.breaks))
    return SourcePatch(title, (SCALARS,), note=_CHECKS if checks else "")


def by_values(item: Break) -> bool:
    """Return whether a number or a size that comes from the values of a tensor breaks a graph."""
    return _reads(item) or advice.name(item) in _SHAPES or _SHAPED in item.reason.lower()


def _reads(item: Break) -> bool:
    reason = item.reason.lower()
    return advice.name(item) in _SCALARS or "data dependent" in reason or "data-dependent" in reason


def branching(item: Break) -> bool:
    """Return whether a tensor's value may decide what runs where a graph breaks."""
    reason = item.reason.lower()
    named = advice.name(item) in _BRANCHES or "branch" in reason
    return named or reason.startswith(_CALLER)


def branches(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose ops for a branch that depends on a tensor's value."""
    here = item.where
    is_if = here.code.startswith("if ") or " if " in here.code
    if branching(item) and is_if:
        yield SourcePatch("the branch became torch.where", (by_kind("where", here),))
        yield SourcePatch("the branch became torch.cond", (by_kind("cond", here),))
    if branching(item) and (is_if or here.code.startswith("assert ")):
        yield SourcePatch(
            "the check became torch._assert_async",
            (by_kind("check", here),),
            drops=f"the check {OTHER_ERROR}",
        )
    if advice.name(item) == "branch" and _READ in item.reason.lower():
        yield _captured(item, trial)


def kept(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose that a number that is read stays a tensor."""
    name, here = advice.name(item), item.where
    is_condition = here.code.startswith(("if ", "while "))
    keeps = name in ("item", "tolist", "unbacked", "branch") and not is_condition
    if keeps and not _clamps_otherwise(here.code, trial):
        yield SourcePatch("the value stays a tensor", (by_kind("keep_tensor", here),))
        yield SourcePatch(
            "the value stays a tensor, and others become nodes of the graph",
            (by_kind("keep_tensor", here), SCALARS),
        )


def _clamps_otherwise(code: str, trial: Trial) -> bool:
    """Return whether a line clamps to a number, on a torch where a tensor gives other results.

    Up to torch 2.11 ``clamp(x, min=nan)`` leaves ``x``, and with a tensor that is NaN it is NaN;
    2.13 gives NaN for both, and 2.12 was not tried.
    """
    return ("clamp" in code or "clip" in code) and trial.torch < (2, 13)


def uncompiled(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose fewer graphs around code that stays out of the graph."""
    frames = inside(item, trial)
    if frames:
        yield SourcePatch(
            "nested_graph_breaks: a break cuts the outermost function once",
            (switch("nested_graph_breaks"),),
        )
    for frame in frames[:2]:
        yield SourcePatch(
            f"{frame.function.rsplit('.', 1)[-1]} runs uncompiled, as one piece",
            (by_kind("leave_compiler", frame),),
            leaves=True,
            note=f"{frame.function} is not compiled any more",
        )
    if "manual_seed" in item.where.code:
        yield SourcePatch(
            "torch.manual_seed runs outside of the graph",
            (Preamble("torch.manual_seed = torch.compiler.disable(torch.manual_seed)"),),
            leaves=True,
        )


def inside(item: Break, trial: Trial) -> list[Frame]:
    """Return the functions between the compiled one and a break, innermost first.

    The compiled function itself is not included: if it ran uncompiled, or as one node, nothing
    would be compiled. Neither are the functions that call it.
    """
    inner = [frame for frame in item.stack if frame.function not in ("", "<module>")]
    called = [number for number, frame in enumerate(inner) if is_compiled(frame, trial)]
    return inner[: (called[0] if called else 0) : -1]


def is_compiled(frame: Frame, trial: Trial) -> bool:
    """Return whether a place is in a function that is compiled itself, and not for a caller."""
    made = (one.where.function for one in trial.record.graph_list if one.cause == "entry")
    return frame.function in {*trial.roots, *made}


def cpu_tensors(item: Break) -> Iterator[SourcePatch]:
    """Propose to move CPU tensors to the device of the xla graph that was cut at them."""
    if "CPU tensor" not in item.reason and "torch." not in item.reason:
        return
    if "torch.tensor(" in item.where.code:
        yield SourcePatch("a number is a number, no tensor", (by_kind("number", item.where),))
    yield SourcePatch(
        "CPU tensors that the code holds are moved to the device", (AROUND, around("on_device"))
    )
