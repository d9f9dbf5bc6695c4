"""Why a program that was run does not run: its error, and the user's lines that led there."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pytest_graphbreak.model.places import Places, places
from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.text.output import raised

_OPERATOR: Final = re.compile(r"with fake tensors: .*?: got (\w+)\((['\"])(.+?)\2\)", re.DOTALL)
"""An operator's own error in that of Dynamo, which ran it with fake tensors.

As ``_dynamo/utils.py`` (``get_fake_value``) of torch 2.9 and 2.13 has it.
"""


def noted(error: BaseException) -> dict[str, Any]:
    """Return an exception as parts of an answer: ``error`` in words, and ``stack``, its frames."""
    operator = _OPERATOR.search(str(error))
    words = f"{operator[1]}: {operator[3]}" if operator is not None else raised(error)
    stack = user_frames(error, places(Path.cwd()))
    return {"error": words, "stack": [frame.to_dict() for frame in stack]}


@contextmanager
def error_kept(answer: dict[str, Any]) -> Iterator[None]:
    """Store what the program raises in ``answer``, except for an interrupt."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # includes SystemExit and pytest's outcomes
        if not (isinstance(error, SystemExit) and error.code in (None, 0)):
            answer.update(noted(error))


def user_frames(error: BaseException, named: Places) -> tuple[Frame, ...]:
    """Return the user's frames that led to an error, the outermost first.

    Dynamo's errors hold the frames that it was tracing (``real_stack`` of ``_dynamo/exc.py``).
    """
    called = [*_user(traceback.extract_tb(error.__traceback__), named)]
    traced = [*_user(getattr(error, "real_stack", None) or (), named)]
    return (*called, *(frame for frame in traced if frame not in called))


def _user(lines: Iterable[traceback.FrameSummary], named: Places) -> Iterator[Frame]:
    return (
        named.frame(line.filename, line.lineno or 0, line.name, line.line)
        for line in lines
        if named.is_user(line.filename)
    )
