"""Checks in a trial's process whether ``torch.export`` accepts what a target compiles.

Both the strict and the non-strict mode are tried.
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
    """Run the target uncompiled, then export each compiled callable with its first inputs.

    ``graphbreak export`` orders it. The order says no more than what the target is.
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
    """Return why an export fails, or the call of what it gives, as a ``Break`` in plain data.

    None if both succeed: ``torch.export`` also takes programs that it cannot run.
    """
    args, kwargs = copy_of((entry.args, entry.kwargs))
    original = entry.original
    module = original if isinstance(original, torch.nn.Module) else _Function(original)
    try:
        with mode(entry), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = torch.export.export(module, args, kwargs, strict=strict)
            args, kwargs = copy_of((entry.args, entry.kwargs))
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
