"""What a program raises: in words, as data, and with the user's frames that led there."""

from __future__ import annotations

import dis
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.model.places import Places, places
from pytest_graphbreak.text.errors import error_words

_FAKE: Final = "with fake tensors: "
"""Dynamo's words before what it ran, as in ``get_fake_value`` of ``_dynamo/utils.py``, torch 2.13.

After it comes ``: got RuntimeError('...')``, the operator's own error."""


class Raised(Struct, frozen=True):
    """What a call raised: ``explicit`` is whether a ``raise`` or ``assert`` of the program did."""

    kind: str
    words: str = ""
    explicit: bool = False


ENDLESS: Final = Raised("does not end")
"""Of a drawn call that was ended after its time (``drawing.time_limit``)."""


def raised_by(error: Exception) -> Raised:
    """Return an error as data: that of an operator, where Dynamo wraps it in its own."""
    words: str = describe(error)["error"]
    kind = words.partition(":")[0] if ":" in words else type(error).__name__
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    code, at = frame.f_code, _last_instruction(error)
    explicit = dis.opname[code.co_code[at]] == "RAISE_VARARGS"
    return Raised(kind, words, explicit and places(Path.cwd()).is_written(code.co_filename))


def _last_instruction(error: BaseException) -> int:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_lasti if trace is not None else 0


def describe(error: BaseException) -> dict[str, Any]:
    """Return an exception as parts of an answer: ``error`` in words, and ``stack``, its frames."""
    stack = user_frames(error, places(Path.cwd()))
    words = _operator_error(str(error)) or error_words(error)
    return {"error": words, "stack": [frame.to_dict() for frame in stack]}


def _operator_error(text: str) -> str:
    """Return the operator's own error in that of Dynamo, or "" if it has none.

    ``RuntimeError: a and b`` of ``... with fake tensors: got RuntimeError('a and b')``.
    """
    _, _, ran = text.partition(_FAKE)
    name, _, text = ran.partition(": got ")[2].partition("\n")[0].partition("(")
    return f"{name}: {text[1:-2]}" if name.isidentifier() and text[-2:] in ("')", '")') else ""


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
