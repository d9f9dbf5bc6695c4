"""Checks whether ``torch.export`` accepts what a target compiles, for ``graphbreak export``.

It runs in a process of its own, which a ``trial.Bench`` starts, and where ``child`` calls ``work``.
The target runs without its compiler, while ``Capture`` notes what it compiles, and the inputs of
the first call. Then each is exported: strictly, by Dynamo, and not strictly, by running it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from pytest_graphbreak.layers.dynamo import messages
from pytest_graphbreak.layers.dynamo.events import UNKNOWN
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.items import NOWHERE, Break
from pytest_graphbreak.model.places import Places, places
from pytest_graphbreak.repair.calls import CompiledCall, copy_of, mode
from pytest_graphbreak.repair.capture import Capture
from pytest_graphbreak.repair.child import Go, user_frames


def work(_: Plain, go: Go) -> Plain:
    """Run the target, then export each callable that it compiles, with its first inputs.

    The order says no more than what the target is, which ``go`` runs.
    """
    capture = Capture()
    answer = capture.run_uncompiled(go, nullcontext())
    if "error" in answer:
        return answer
    namer, exports = places(Path.cwd()), []
    for entry in (entry for entry in capture.entries if entry.called):
        strict, free = (_failure(entry, namer, strict=strict) for strict in (True, False))
        exports.append({"name": entry.name, "strict": strict, "not strict": free})
    return {"exports": exports}


def _failure(entry: CompiledCall, namer: Places, *, strict: bool) -> Plain | None:
    """Return why an export fails, as a ``Break`` in plain data, or None if it does not.

    What was exported is called, too: ``torch.export`` also takes programs that it cannot run.
    """
    args, kwargs = copy_of((entry.args, entry.kwargs))
    original = entry.original
    module = original if isinstance(original, torch.nn.Module) else _Function(original)
    try:
        with mode(entry), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = torch.export.export(module, args, kwargs, strict=strict)
            args, kwargs = copy_of((entry.args, entry.kwargs))  # the export may have changed them
            exported.module()(*args, **kwargs)
    except Exception as error:
        return _reason(error, namer).to_dict()
    finally:
        torch._dynamo.reset()
    return None


class _Function(torch.nn.Module):  # type: ignore[misc]
    """A function wrapped in the module that ``torch.export`` requires."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def _reason(error: Exception, namer: Places) -> Break:
    """Return the reason, in Dynamo's words if it has any, and the user's line that is to blame."""
    why = messages.reason(str(error))
    stack = user_frames(error, namer)
    text = why.text if why.id else f"{type(error).__name__}: {why.text}"
    return Break(
        "dynamo",
        text,
        stack[-1] if stack else NOWHERE,
        id=why.id,
        explanation=why.explanation,
        hints=why.hints,
        stack=stack,
        through=UNKNOWN,  # no sensor follows an export
    )
