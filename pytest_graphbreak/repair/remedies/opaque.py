"""Calls that Dynamo cannot follow, as one node of the graph: nonstrict_trace, a custom op."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair import pure, syntax
from pytest_graphbreak.repair.patch import Preamble, Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies.calls import PURE
from pytest_graphbreak.repair.remedies.programs import program
from pytest_graphbreak.repair.source import read
from pytest_graphbreak.repair.trial import Trial

_FOLLOWED: Final = frozenset(
    {
        "builtin",
        "c-call",
        "class",
        "context",
        "deepcopy",
        "generator",
        "import",
        "loop-break",
        "numpy",
        "pointer",
        "python-object",
        "script",
        "sort",
    }
)
"""Families where Dynamo could not follow a call; an opaque node hides what it could not."""
_READ: Final = frozenset({"branch", "compare", "item", "loop", "mask", "nonzero", "tolist"})
"""Families where values are read: only what runs each time, with the values, can stay."""

OP: Final = Preamble(program("operator"))


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    family = advice.family(item)
    name = family.name if family else ""
    if family is not None and name not in _FOLLOWED | _READ:
        return
    traces = name not in _READ and _version(trial) >= (2, 7)
    if name not in _READ:
        yield from _called(item, trial)
    inner = [frame for frame in item.stack if frame.function not in ("", "<module>")]
    # The first is the compiled function itself: as one node it would not be compiled.
    for frame in list(reversed(inner[1:]))[:2]:
        yield from _around(frame, trial, traces)


def _around(frame: Frame, trial: Trial, traces: bool) -> Iterator[SourcePatch]:
    """The function of a frame as one node."""
    short = frame.function.rsplit(".", 1)[-1]
    source = _source(frame, trial)
    function = pure.find(source, frame.function) if source else None
    if function is None:
        return
    if traces:
        certain = pure.is_pure(function, pure.imports(source))
        yield SourcePatch(
            f"nonstrict_trace: {short} is one node of Dynamo's graph",
            (Rewrite("nonstrict", frame),),
            drops=""
            if certain
            else f"what {short} does or reads besides its arguments happens once, "
            "when it is compiled",
        )
    if pure.parameters(function)[:1] not in (["self"], ["cls"]):
        for kind, words in (("op", "like its first argument"), ("scalar_op", "a scalar")):
            yield SourcePatch(
                f"a custom op: {short}, uncompiled inside of the graph, gives {words}",
                (OP, Rewrite(kind, frame)),
                note=f"{short} runs as it is, inside of the graph; its gradients are not known",
            )


def _called(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """A function of another module that the line calls, as one node."""
    source = _source(item.where, trial)
    known = pure.imports(source) if source else {}
    for called in dict.fromkeys(syntax.called(item.where.code)):
        first, _, rest = called.partition(".")
        full = ".".join(part for part in (known.get(first, ""), rest) if part)
        module = full.rpartition(".")[0]
        theirs = known.get(first) and module and module.partition(".")[0] != "torch"
        if not theirs or full in PURE:
            continue
        load = Preamble(f"import {module}")
        for maker, words in (
            ("_graphbreak_op", "like its first argument"),
            ("_graphbreak_scalar_op", "a scalar"),
        ):
            yield SourcePatch(
                f"a custom op: {full}, uncompiled inside of the graph, gives {words}",
                (load, OP, Preamble(f"{full} = {maker}({full})")),
                note=f"{full} runs as it is, inside of the graph; its gradients are not known",
            )


def _source(frame: Frame, trial: Trial) -> str:
    """The text of the file that a frame is in, empty where it is not known."""
    site = trial.sites.get(frame.file)
    try:
        text = read(site.path).text if site is not None else ""
        compile(text, frame.file, "exec", dont_inherit=True)
    except (OSError, ValueError, SyntaxError):
        return ""
    return text


def _version(trial: Trial) -> tuple[int, ...]:
    """Major and minor version of the torch that ran."""
    found = re.match(r"(\d+)\.(\d+)", str(trial.answer.get("torch", "")))
    return tuple(map(int, found.groups())) if found else (0, 0)
