"""The frames that Dynamo compiled in one process, and which of them came from which.

Compile ids (``0/0``: frame 0, compiled the first time) begin again when Dynamo
is reset; from then on names carry the number of the round, ``0/0#2``, as those
of the live observer do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pytest_graphbreak.layers.dynamo.events import Attempt
from pytest_graphbreak.layers.dynamo.messages import attempt_name
from pytest_graphbreak.model.places import is_resume
from pytest_graphbreak.model.stacks import Line, function

_EVAL_FRAME: Final = "torch/_dynamo/eval_frame.py"


@dataclass(eq=False, slots=True)
class LoggedAttempt(Attempt):
    """An attempt in a log. ``id`` has the number of the round too, ``0/0#2``.

    ``traced``: that its tracing began was logged; ``buckets``: in how many parts
    its next graph goes to the backend, since DDP cuts it; ``left``: it was left to eager;
    ``broke_at`` is the place of the break that ended it, ``start`` when it began.
    """

    traced: bool = False
    buckets: int = 1
    left: bool = False
    broke_at: tuple[str, ...] = ()
    start: float | None = None

    @classmethod
    def at(cls, id: str, code: Line, above: tuple[Line, ...] = ()) -> LoggedAttempt:
        return cls(id, code, code, above=above)


class Guards(NamedTuple):
    """The guards that failed before a frame was compiled again, and which record named them."""

    texts: tuple[str, ...]
    artifact: str = ""


Function = tuple[str, str]
"""A file and the name of a function in it; the rest of a function counts as that function."""


@dataclass(slots=True)
class Process:
    """One process: what it did since compile ids last began again.

    ``whole`` says that its stacks have their last frame (see ``torch_calls``),
    ``broken`` is the last attempt that ended in a graph break. Attempts are
    also kept by what stacks name, the latest of each first line.
    """

    label: str
    whole: bool = False
    attempts: dict[str, LoggedAttempt] = field(default_factory=dict)
    guards: dict[str, Guards] = field(default_factory=dict)
    broken: LoggedAttempt | None = None
    rounds: int = 1
    _functions: dict[Function, dict[int, LoggedAttempt]] = field(default_factory=dict)

    def begin(self) -> None:
        """Ids begin again, since Dynamo was reset."""
        self.attempts.clear()
        self.guards.clear()
        self._functions.clear()
        self.broken = None
        self.rounds += 1

    def forget(self) -> None:
        """Drop the older half: a log has no end, and attempts refer to late ones mostly."""
        kept = list(self.attempts.items())[len(self.attempts) // 2 :]
        self.attempts.clear()
        self._functions.clear()
        for id, attempt in kept:
            attempt.parent = None  # or it would keep the whole past alive
            self.add(id, attempt)

    def name(self, id: str) -> str:
        return attempt_name(id, self.rounds)

    def add(self, id: str, attempt: LoggedAttempt) -> None:
        """One more attempt."""
        self.attempts[id] = attempt
        lines = self._functions.setdefault(function(attempt.code), {})
        lines.pop(attempt.code.line, None)
        lines[attempt.code.line] = attempt

    def latest(self, line: Line) -> LoggedAttempt | None:
        """The latest attempt at the function of a frame."""
        return next(reversed(self._functions.get(function(line), {}).values()), None)

    def at(self, code: Line) -> LoggedAttempt | None:
        """The latest attempt at a function with this first line."""
        return self._functions.get(function(code), {}).get(code.line)

    def begun(self, code: Line) -> LoggedAttempt | None:
        """Of the attempts at a function and its rests, the nearest that begins before a line."""
        lines = self._functions.get(function(code), {})
        return lines.get(max((line for line in lines if line <= code.line), default=-1))


def is_recompile(id: str) -> bool:
    """Whether a compile id is of a frame that was compiled before: ``0/1``."""
    return id.rpartition("/")[2] not in ("", "0")


def parent(process: Process, code: Line, above: tuple[Line, ...]) -> LoggedAttempt | None:
    """The attempt that this one comes from: whose rest it is, or that called it after a break."""
    if is_resume(code.name):
        return process.begun(code)
    for frame in reversed(above):
        if frame.file.endswith(_EVAL_FRAME):
            break
        if known := process.latest(frame):
            return known
    if process.whole or not torch_calls(above):
        return None
    return process.broken


def torch_calls(above: tuple[Line, ...]) -> bool:
    """Whether the last frame shown is of what calls the function that is compiled, or its module.

    Torch leaves its own frames out of the stack, and one too many: the caller's.
    If torch is still last then, it is what called the caller, so the caller
    is a compiled function itself. The first frame of all has no such caller;
    by it is seen whether a version of torch shows whole stacks.
    """
    if not above:
        return False
    last = above[-1]
    return last.file.endswith(_EVAL_FRAME) or (
        last.file.endswith("torch/nn/modules/module.py") and last.name == "_call_impl"
    )
