"""Calls that only say something: print, warnings, logging, progress."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Preamble, Rewrite, SourcePatch
from pytest_graphbreak.repair.trial import Trial

_LATER = "written when the graph has run, not in the middle of it"


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    family = advice.family(item)
    name = family.name if family else ""
    code = item.where.code
    if name == "print" or code.startswith("print("):
        yield _reordered("print")
    if name == "warnings" or "warnings.warn(" in code:
        yield SourcePatch(
            "warnings.warn is called after the graph",
            (
                Preamble("import warnings"),
                Preamble("torch._dynamo.config.reorderable_logging_functions.add(warnings.warn)"),
            ),
            moves=_LATER,
        )
    if name == "logging":
        yield from _logging(code)
    if name in ("branch", "item", "nonzero", "mask", "disabled"):
        return  # such a line computes something; it is not to be left out
    yield SourcePatch(
        "the statement runs only where the code is not compiled",
        (Rewrite("only_eager", item.where),),
        drops=f"`{code}` no longer happens in compiled code",
    )


def _reordered(function: str) -> SourcePatch:
    return SourcePatch(
        f"{function} is called after the graph",
        (Preamble(f"torch._dynamo.config.reorderable_logging_functions.add({function})"),),
        moves=_LATER,
    )


def _logging(code: str) -> Iterator[SourcePatch]:
    """Loggers: reordered where this torch can, else left out."""
    levels = ("debug", "info", "warning", "error", "exception", "critical", "log")
    names = [level for level in levels if f".{level}(" in code]
    if not names:
        return
    owner = code.split(f".{names[0]}(")[0].strip()
    if owner.isidentifier():
        # The name exists when the call is made; the switch has to wait for it no longer
        # than the first compile, so it goes by the logger class where the name is not there.
        yield SourcePatch(
            "the log line is written after the graph",
            (
                Preamble("import logging"),
                *(
                    Preamble(
                        "torch._dynamo.config.reorderable_logging_functions.add("
                        f"logging.Logger.{name})"
                    )
                    for name in names
                ),
            ),
            moves=_LATER,
        )
    yield SourcePatch(
        "loggers are silent in compiled code",
        (
            Preamble("import logging"),
            *(
                Preamble(f"torch._dynamo.config.ignore_logger_methods.add(logging.Logger.{name})")
                for name in names
            ),
        ),
        drops=f"`{code}` no longer writes its line in compiled code",
    )
