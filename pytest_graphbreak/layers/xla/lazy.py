"""Explains the graphs of lazy tensors, which no FX graph is behind: by a sync, or a value read.

``explain`` asks for the cause and the reason of each by its report, and at the end of a window for
those that one line compiled again (``find_repeats``).

Such a graph has no guard: it is compiled again where a shape, a type or a constant differs. The
numbers of its inputs and outputs are all that is compared, with the nearest earlier graph of the
line: torch_xla (2.9) reports no shapes. The text of a graph could only be had before each sync, at
0.7 ms for seven operations, since it is gone once the graph is compiled. The locals of the caller
have shapes, but to read them (``f_locals``, before Python 3.13) keeps its tensors alive, which
changes the graph that is compiled next.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak.layers.xla.fx import runs_on_cpu
from pytest_graphbreak.layers.xla.reports import CompileReport
from pytest_graphbreak.model.items import NOWHERE, Graph
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.stacks import Line

CAUSES: Final = ("sync", "access")
"""The causes of lazy graphs that a line of the user's asks for."""

READERS: Final = [
    (re.compile(pattern), text)
    for pattern, text in (
        (r"\.(item|tolist|cpu|numpy)\(", r".\1()"),  # loss.item()
        (r"\b(print|float|int|bool|complex|str|repr)\(", r"\1()"),  # float(loss)
        (r"\.to\(", ".to()"),  # loss.to("cpu")
        (r"^(if|elif|while|assert)\b", r"`\1`"),  # if loss > 1:
        (r"\b(and|or|not|in)\b", r"`\1`"),  # done = loss > 1 or late
    )
]
"""Patterns of code that reads a value, and how a reason names it; the first that is there."""
_PRINTING: Final = ("__repr__", "__str__", "__format__", "_str")
"""The functions of torch by which a tensor becomes text, where a line of the user's calls them."""
_STEP: Final = re.compile(r"^with (?!.*\bcompile\().*\bstep\(")
"""``with torch_xla.step():``"""

_STATED: Final = (
    ("clear the pending graph", "pending", "work was still pending before torch_xla.compile()"),
    ("torch_xla.compile", "sync", "torch_xla.compile()"),
    ("parallel loader", "sync", "the end of a step of the device loader"),
    ("profiler", "sync", "the end of a profiler step"),
    ("user torch_xla.sync", "sync", "explicit sync"),
)
"""A part of what torch_xla states as the cause (torch_xla/csrc/debug_util.cpp), and the cause and
reason that it means.

Frames are asked first: torch_xla also calls some things a value read that are none.
"""

CauseAndReason = tuple[str, str]
"""A cause of the xla layer, and its reason: ``"access", "value read by .item()"``."""


def is_sync(report: CompileReport) -> bool:
    """Return whether ``torch_xla.sync()`` compiled, or what torch_xla builds on it."""
    innermost = report.frames[0]
    return innermost.name in ("sync", "mark_step") and innermost.file.endswith("/torch_xla.py")


def explain_sync(report: CompileReport, callers: Sequence[Line], places: Places) -> CauseAndReason:
    """Explain what a sync compiled, by the function of torch_xla that called it."""
    # torch_xla.compile computes what is pending first (torch_xla/torch_xla.py of 2.9).
    if report.has_call_of("_clear_pending_ops_before_compile"):
        return "pending", f"work was still pending before {_step_or_compile(callers, places)}"
    if report.has_call_of("_compile"):
        of = f" of `{report.name}`" if report.name else ""
        return "sync", f"{_step_or_compile(callers, places)}{of}"
    return "sync", "explicit sync"


def _step_or_compile(callers: Sequence[Line], places: Places) -> str:
    """Return what was called by the user's line: ``torch_xla.step()`` is ``compile()`` inside."""
    users = (places.frame(*line) for line in callers if places.is_user(line.file))
    is_step = _STEP.search(next(users, NOWHERE).code)
    return "torch_xla.step()" if is_step else "torch_xla.compile()"


def explain_unsynced(
    report: CompileReport, fallbacks: Collection[str], places: Places
) -> CauseAndReason:
    """Explain what no sync compiled; ``fallbacks`` are the ops that ran on the CPU meanwhile."""
    for words, cause, reason in _STATED:
        if words in report.stated_cause:
            return cause, reason
    if report.stated_cause and "access tensor value" not in report.stated_cause:
        return "other", report.stated_cause
    return "access", _how_read(report.frames, fallbacks, places)


def _how_read(frames: Sequence[Line], fallbacks: Collection[str], places: Places) -> str:
    """Return how a value was read, from the source text around: the first of these that is there.

    ::

        aten::qr runs on the CPU             a line calls an op that ran there
        value read by .item()                a line that somebody wrote reads a value (``READERS``)
        value printed or formatted           the user's line made text of a tensor
        value read in allclose()             the user's line called a function that did
        value read                           nothing is known

    The frames are those from the read up to the user's line, ``depth`` of them below that line.
    """
    depth = next(
        (number for number, frame in enumerate(frames) if places.is_user(frame.file)), len(frames)
    )
    texts = [places.frame(*frame).code for frame in frames[: depth + 1]]
    for op in fallbacks:
        if any(_mentions(text, op) for text in texts):
            return runs_on_cpu([op])
    # ``is_written``: also test infrastructure of the project, which is below the user's line.
    for frame, code in zip(frames, texts, strict=False):
        for pattern, text in READERS if places.is_written(frame.file) else ():
            if match := pattern.search(code):
                return f"value read by {match.expand(text)}"
    if depth > 0:
        called = frames[depth - 1].name
        return "value printed or formatted" if called in _PRINTING else f"value read in {called}()"
    if fallbacks:
        return runs_on_cpu(fallbacks)
    return "value read"


def _mentions(text: str, op: str) -> bool:
    """Return whether a line calls an op: ``torch.linalg.qr(x)`` calls ``aten::linalg_qr``."""
    name = op.split("::")[-1].split(".")[0].strip("_")
    return name in text or all(part in text for part in name.split("_"))


# Of the graphs of a window: those that one line compiled again.


def find_repeats(graphs: Sequence[Graph]) -> tuple[list[Graph], set[int]]:
    """Return the graphs of a window, and the positions of those that one lazy line compiled again.

    Their cause is now ``recompile``.
    """
    explained = [*graphs]
    repeats: set[int] = set()
    for number, after in enumerate(graphs):
        earlier = (before for before in reversed(graphs[:number]) if _is_same_code(before, after))
        if (before := next(earlier, None)) is not None:
            repeats.add(number)
            reason = f"{_difference(before, after)}, and {after.reason} compiles its graph again"
            explained[number] = replace(after, cause="recompile", reason=reason)
    return [_with_same_lines(graph, graphs) for graph in explained], repeats


def _with_same_lines(graph: Graph, graphs: Sequence[Graph]) -> Graph:
    """Return a graph that names all lines with its text: a baseline cannot tell them apart."""
    lines = {
        other.where.line
        for other in graphs
        if other.cause == graph.cause in CAUSES and other.where.key == graph.where.key
    }
    if len(lines) < 2:
        return graph
    *first, last = (f"{graph.where.file}:{line}" for line in sorted(lines))
    return replace(graph, reason=f"{graph.reason}, at {', '.join(first)} and {last}")


def _is_same_code(before: Graph, after: Graph) -> bool:
    """Return whether two lazy graphs of one line are the same code.

    They are if their stacks are equal. They are, too, if they have as many inputs and outputs, and
    the stacks differ only in the line of the outermost function (a test that calls ``step(x)`` in
    two lines).
    """
    if after.cause not in CAUSES or after.where == NOWHERE:
        return False
    if (before.cause, before.where) != (after.cause, after.where):
        return False
    code = after.where.code
    if after.cause == "access" and sum(len(pattern.findall(code)) for pattern, _ in READERS) > 1:
        return False  # a line that reads several values
    if before.stack == after.stack:
        return True
    outermost = {(lazy.stack[0].file, lazy.stack[0].function) for lazy in (before, after)}
    same_numbers = (before.inputs, before.outputs) == (after.inputs, after.outputs)
    return len(outermost) == 1 and before.stack[1:] == after.stack[1:] and same_numbers


def _difference(before: Graph, after: Graph) -> str:
    numbers = [
        f"{now} {what}, {was} before"
        for what in ("inputs", "outputs")
        if (now := getattr(after, what)) != (was := getattr(before, what))
    ]
    return " and ".join(numbers) or "as many inputs and outputs as before"
