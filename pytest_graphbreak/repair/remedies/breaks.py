"""Remedies for one break: rewrites of its line, Dynamo switches, and code left uncompiled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.patch import Preamble, Rewrite, SourcePatch, switch
from pytest_graphbreak.repair.pure import LEVELS
from pytest_graphbreak.repair.remedies.programs import AROUND, GIVEN, around
from pytest_graphbreak.repair.trial import Trial

SCALARS: Final = switch("capture_scalar_outputs")
SHAPES: Final = switch("capture_dynamic_output_shape_ops")

_BRANCHES: Final = ("branch", "item", "compare", "unbacked", "assert", "loop")
_SCALARS: Final = ("item", "tolist", "compare", "unbacked", "loop", "assert", "one-hot")
_SHAPES: Final = ("nonzero", "mask", "one-hot", "unbacked")
_AUTOGRAD: Final = switch("trace_autograd_ops")
_OTHERS: Final = {
    "rnn": ("LSTM, GRU and RNN go into the graph", switch("allow_rnn")),
    "sparse": ("sparse tensors go into the graph", switch("capture_sparse_compute")),
}
_COMPUTES: Final = ("branch", "item", "nonzero", "mask", "disabled")
"""Families of lines that compute something; such a line must not be dropped."""
_CHECKS: Final = "where a torch._check fails, the graph raises RuntimeError, as without the patch"
_CLOCK: Final = re.compile(r"\b(?:time|perf_counter|monotonic|process_time|now)\(")
_LATER: Final = "written when the graph has run, not in the middle of it"


_ON_THE_HOST: Final = "torch_xla runs it on the host, with a graph or more for each round"
"""torch_xla 2.9 has no kernel for it in compiled code, and PyTorch's own reads the test each time.

``torch_xla/experimental/fori_loop.py`` registers one, which refuses a loop whose test holds a
number: it becomes a parameter of the test alone.
"""


def loops(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to loop over all indices where a tensor chose them, as in a mixture of experts."""
    if ".nonzero(" in item.where.code and "dynamic shape" in item.reason.lower():
        yield SourcePatch(
            "the loop goes over all indices, and capture_dynamic_output_shape_ops",
            (Rewrite("every_index", item.where), SHAPES),
            note="what is selected for an index may be empty, and is computed all the same",
        )


def flags(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to decide flags of an op, which are worked out from sizes, while it is traced."""
    if advice.name(item) == "flag":
        yield SourcePatch(
            "the flag is decided while the graph is traced", (Rewrite("plain_flags", item.where),)
        )


def masked(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose ``torch.where`` for an assignment to the places of a mask."""
    if "nonzero" in item.reason or advice.name(item) in ("branch", *_SHAPES):
        yield SourcePatch(
            "the masked assignment became torch.where", (Rewrite("masked", item.where),)
        )


def switches(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose Dynamo switches that let more code into a graph."""
    name, reason = advice.name(item), item.reason.lower()
    if name in _SCALARS or "data dependent" in reason or "data-dependent" in reason:
        title = "capture_scalar_outputs: .item() becomes a node of the graph"
        checks = any("torch._check" in one.where.code for one in (item, *trial.record.breaks))
        yield SourcePatch(title, (SCALARS,), note=_CHECKS if checks else "")
    if name in _SHAPES or "dynamic shape" in reason:
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


def branches(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose ops for code that depends on a tensor's value: a branch, a loop, a number."""
    name, here = advice.name(item), item.where
    branching = name in _BRANCHES or "branch" in item.reason.lower()
    if branching and (here.code.startswith("if ") or " if " in here.code):
        yield SourcePatch("the branch became torch.where", (Rewrite("where", here),))
        yield SourcePatch("the branch became torch.cond", (Rewrite("cond", here),))
        yield SourcePatch(
            "the check became torch._assert_async",
            (Rewrite("check", here),),
            drops="the check raises RuntimeError, later, in place of its own exception",
        )
    is_condition = here.code.startswith(("if ", "while "))
    if branching:
        yield from _as_loop(here, trial)
    keeps = name in ("item", "tolist", "unbacked", "branch") and not is_condition
    if keeps and not _clamps_otherwise(here.code, trial):
        yield SourcePatch("the value stays a tensor", (Rewrite("keep_tensor", here),))
        yield SourcePatch(
            "the value stays a tensor, and others become nodes of the graph",
            (Rewrite("keep_tensor", here), SCALARS),
        )


def _as_loop(here: Frame, trial: Trial) -> Iterator[SourcePatch]:
    """Propose ``torch.while_loop``; torch_xla is known to gain nothing from it."""
    from pytest_graphbreak.repair.rewrite.writes import written_in_loop

    loop, title = Rewrite("while_loop", here), "the loop became torch.while_loop"
    if trial.record.graphs.get("xla"):
        yield SourcePatch(title, (loop,), unfit=_ON_THE_HOST)
        return
    drops = ""
    if written := written_in_loop(trial.source(here), here):
        loop, title = Rewrite("quiet_loop", here), f"{title} that writes nothing"
        drops = f"`{written[0]}` no longer happens in compiled code"
    if not _reads_later(loop, trial):
        yield SourcePatch(title, (loop,), drops=drops)
    yield SourcePatch(f"{title}, its numbers nodes of the graph", (loop, SCALARS), drops=drops)


def _clamps_otherwise(code: str, trial: Trial) -> bool:
    """Return whether a line clamps to a number, on a torch where a tensor gives other results.

    Up to torch 2.11 ``clamp(x, min=nan)`` leaves ``x``, and with a tensor that is NaN it is NaN;
    2.13 gives NaN for both, and 2.12 was not tried.
    """
    return ("clamp" in code or "clip" in code) and trial.torch < (2, 13)


def _reads_later(loop: Rewrite, trial: Trial) -> bool:
    """Return whether a number of the loop is read after it, so that ``.item()`` is added."""
    from pytest_graphbreak.repair.rewrite import apply
    from pytest_graphbreak.repair.rewrite.scope import UnfitError

    source = trial.source(loop.where)
    try:
        changed = apply(source, loop.kind, loop.where) or ""
    except UnfitError:
        return False
    return changed.count(".item()") > source.count(".item()")


def later(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to run a line that only writes output after the graph has run."""
    name, code = advice.name(item), item.where.code
    if inside(item, trial):
        return  # torch makes no call after the graph for a function that it inlines
    yield from _written(item.where, trial, block=True)
    if name in ("print", "warnings"):
        function = "print" if code.startswith("print(") else "warnings.warn"
        load = [Preamble("import warnings")] if function != "print" else []
        yield SourcePatch(
            f"{function} is called after the graph", (*load, _reordered(function)), moves=_LATER
        )
    for patch in _written(item.where, trial):
        yield patch
        if code.startswith("if "):
            for kind in ("where", "cond"):
                yield SourcePatch(
                    f"what the branch writes is written after the graph, the rest torch.{kind}",
                    (*patch.edits, Rewrite(kind, item.where)),
                    moves=patch.moves,
                )
    yield from noted(item.where, trial)


def _written(where: Frame, trial: Trial, *, block: bool = False) -> Iterator[SourcePatch]:
    """Propose to write a line, or all of the ``if`` around it, after the graph has run."""
    from pytest_graphbreak.repair.rewrite.later import definition

    if block and where.code.startswith("if "):
        return
    source = trial.source(where)
    if source and (found := definition(source, where, block=block)):
        function, text = found
        kind, what = ("later_block", "the `if` around the line") if block else ("later", "the line")
        writes = (Preamble(text), _reordered(function), Rewrite(kind, where))
        edits = (GIVEN, *writes) if "_is_number" in text else writes
        moves = f"{_LATER}; its clock is read then" if _CLOCK.search(text) else _LATER
        yield SourcePatch(f"{what} is written after the graph", edits, moves=moves)


def noted(where: Frame, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to note a value in a list or dictionary of an object after the graph has run."""
    from pytest_graphbreak.repair.rewrite.held import definition

    source = trial.source(where) if _is_compiled(where, trial) else ""
    if source and (found := definition(source, where)):
        function, text = found
        edits = (GIVEN, Preamble(text), _reordered(function), Rewrite("held", where))
        yield SourcePatch("the value is noted after the graph", edits, moves=_LATER)


def output(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to drop calls that only write output: print, warnings, logging, progress bars."""
    name, code = advice.name(item), item.where.code
    if name == "logging":
        yield from _logging(code)
    if name not in _COMPUTES:
        yield SourcePatch(
            "the statement runs only where the code is not compiled",
            (Rewrite("only_eager", item.where),),
            drops=f"`{code}` no longer happens in compiled code",
        )


def _reordered(function: str) -> Preamble:
    return Preamble(f"torch._dynamo.config.reorderable_logging_functions.add({function})")


def _logging(code: str) -> Iterator[SourcePatch]:
    """Propose to silence loggers in compiled code."""
    methods = [f"logging.Logger.{one}" for one in LEVELS if f".{one}(" in code]
    if not methods:
        return
    load = Preamble("import logging")
    silent = (f"torch._dynamo.config.ignore_logger_methods.add({one})" for one in methods)
    yield SourcePatch(
        "loggers are silent in compiled code",
        (load, *map(Preamble, silent)),
        drops=f"`{code}` no longer writes its line in compiled code",
    )


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
            (Rewrite("leave_compiler", frame),),
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
    called = [number for number, frame in enumerate(inner) if _is_compiled(frame, trial)]
    return inner[: (called[0] if called else 0) : -1]


def _is_compiled(frame: Frame, trial: Trial) -> bool:
    """Return whether a place is in a function that is compiled itself, and not for a caller."""
    made = (one.where.function for one in trial.record.graph_list if one.cause == "entry")
    return frame.function in {*trial.roots, *made}


def cpu_tensors(item: Break) -> Iterator[SourcePatch]:
    """Propose to move CPU tensors to the device of the xla graph that was cut at them."""
    if "CPU tensor" not in item.reason and "torch." not in item.reason:
        return
    if "torch.tensor(" in item.where.code:
        yield SourcePatch("a number is a number, no tensor", (Rewrite("number", item.where),))
    yield SourcePatch(
        "CPU tensors that the code holds are moved to the device", (AROUND, around("on_device"))
    )
