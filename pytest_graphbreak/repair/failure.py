"""Why a program that was run does not run: its error, and the user's lines that led there."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pytest_graphbreak.model.places import Places, places
from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.text.errors import error_words

_LONGEST: Final = 400
_FAKE: Final = "with fake tensors: "
"""Dynamo's words before what it ran, as in ``get_fake_value`` of ``_dynamo/utils.py``, torch 2.13.

After it comes ``: got RuntimeError('...')``, the operator's own error."""


def describe(error: BaseException) -> dict[str, Any]:
    """Return an exception as parts of an answer: ``error`` in words, and ``stack``, its frames."""
    stack = user_frames(error, places(Path.cwd()))
    words = _operator_error(str(error)) or _body_error(str(error)) or error_words(error)
    words = words.partition(" (Could this error message be improved?")[0]  # of torch._check
    if words.endswith(":"):  # what was found is in the lines below
        words = " ".join([words, *str(error).partition(words[-40:])[2].split()])[:_LONGEST]
    return {"error": words, "stack": [frame.to_dict() for frame in stack]}


def _operator_error(text: str) -> str:
    """Return the operator's own error in that of Dynamo, or "" if it has none."""
    _, _, ran = text.partition(_FAKE)
    name, _, text = ran.partition(": got ")[2].partition("\n")[0].partition("(")
    return f"{name}: {text[1:-2]}" if name.isidentifier() and text[-2:] in ("')", '")') else ""


def _body_error(text: str) -> str:
    """Return why Dynamo could not take the body of an operator such as a loop, or "".

    As ``_dynamo/variables/higher_order_ops.py`` of torch 2.13 says it.
    """
    _, _, why = text.partition("Got graph break/error:")
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    details = [line.partition(": ")[2] for line in lines if line.startswith("Explanation: ")]
    return f"{lines[0]}: {details[0]}" if lines and details else "".join(lines[:1])


@contextmanager
def store_error(answer: dict[str, Any]) -> Iterator[None]:
    """Store what the program raises in ``answer``, except for an interrupt.

    A test that exceeds its budget does what is expected where its graphs are counted.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except SystemExit as stop:
        if stop.code not in (None, 0):
            answer["error"] = f"the script ended with {stop.code}"
    except BaseException as error:  # pytest's outcomes are not Exceptions
        if type(error).__name__ != "GraphBudgetFailure":
            answer.update(describe(error))


def user_frames(error: BaseException, namer: Places) -> tuple[Frame, ...]:
    """Return the user's frames that led to an error, the outermost first.

    Dynamo's errors hold the frames that it was tracing (``real_stack`` of ``_dynamo/exc.py``).
    """
    called = [*_user(traceback.extract_tb(error.__traceback__), namer)]
    traced = [*_user(getattr(error, "real_stack", None) or (), namer)]
    return (*called, *(frame for frame in traced if frame not in called))


def _user(lines: Iterable[traceback.FrameSummary], namer: Places) -> Iterator[Frame]:
    return (
        namer.frame(line.filename, line.lineno or 0, line.name, line.line)
        for line in lines
        if namer.is_user(line.filename)
    )
