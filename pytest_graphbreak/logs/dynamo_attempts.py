"""The frames that Dynamo compiled in one process of a log, and the one that each came from.

Compile ids (``0/0``: frame 0, compiled the first time) begin again when Dynamo is reset; from then
on names carry the number of the round, ``0/0#2``, as those of the live observer do.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct

from pytest_graphbreak.layers.dynamo.events import Attempt, attempt_name
from pytest_graphbreak.model.places import is_resume
from pytest_graphbreak.model.stacks import Line, function

KEPT: Final = 5_000
"""The most attempts, graphs, recompiles and places of a log that are kept one by one; all count."""

_EVAL_FRAME: Final = "torch/_dynamo/eval_frame.py"


class LoggedAttempt(Attempt, eq=False):
    """An attempt in a log. ``id`` has the number of the round too, ``0/0#2``.

    ``traced``: that its tracing began was logged; ``buckets``: in how many parts
    its next graph goes to the backend, since DDP cuts it; ``in_eager``: it was left to eager.
    """

    traced: bool = False
    buckets: int = 1
    in_eager: bool = False

    @classmethod
    def at_code(cls, id: str, code: Line, above: tuple[Line, ...] = ()) -> LoggedAttempt:
        """Return one at a function, with its first line; a log has no wrappers of decorators."""
        return cls(id, code=code, written=code, above=above)


class Guards(NamedTuple):
    """The guards that failed before a frame was compiled again.

    ``artifact`` is what the record that named them belongs to: ``recompiles``, or
    ``recompiles_verbose``, where a log may have both; empty if none did.
    """

    texts: tuple[str, ...]
    artifact: str = ""


Function = tuple[str, str]
"""A file and the name of a function in it; the rest of a function counts as that function."""


class Process(Struct):
    """The state of one process since compile ids last began again.

    ``full_stacks`` says that its stacks have their last frame (``ends_in_torch``), ``broken`` is
    the last attempt that ended in a graph break. Attempts are also kept by the function that stacks
    name, the latest for each first line.
    """

    label: str
    full_stacks: bool = False
    attempts: dict[str, LoggedAttempt] = {}
    guards: dict[str, Guards] = {}
    broken: LoggedAttempt | None = None
    rounds: int = 1
    _functions: dict[Function, dict[int, LoggedAttempt]] = {}

    def begin_round(self) -> None:
        """Begin a new round of ids, since Dynamo was reset."""
        self.attempts.clear()
        self.guards.clear()
        self._functions.clear()
        self.broken = None
        self.rounds += 1

    def forget(self) -> None:
        """Drop the older half: a log has no end, and attempts mostly refer to late ones."""
        younger = list(self.attempts.items())[len(self.attempts) // 2 :]
        self.attempts.clear()
        self._functions.clear()
        for id, attempt in younger:
            attempt.parent = None  # or it would keep the whole past alive
            self.add(id, attempt)

    def name(self, id: str) -> str:
        return attempt_name(id, self.rounds)

    def add(self, id: str, attempt: LoggedAttempt) -> None:
        """Add an attempt."""
        self.attempts[id] = attempt
        lines = self._functions.setdefault(function(attempt.code), {})
        lines.pop(attempt.code.line, None)  # so that the latest is the last
        lines[attempt.code.line] = attempt

    def latest(self, line: Line) -> LoggedAttempt | None:
        """Return the latest attempt at the function of a frame."""
        return next(reversed(self._functions.get(function(line), {}).values()), None)

    def begun_at(self, code: Line) -> LoggedAttempt | None:
        """Return the latest attempt at a function with this first line."""
        return self._functions.get(function(code), {}).get(code.line)

    def nearest_before(self, code: Line) -> LoggedAttempt | None:
        """Return the attempt at a function or a rest of it that begins nearest before a line."""
        lines = self._functions.get(function(code), {})
        return lines.get(max((line for line in lines if line <= code.line), default=-1))


def is_recompile(id: str) -> bool:
    """Return whether a compile id belongs to a frame that was compiled before: ``0/1``."""
    return id.rpartition("/")[2] not in ("", "0")


def parent(process: Process, code: Line, above: tuple[Line, ...]) -> LoggedAttempt | None:
    """Return the attempt whose rest this one is, or that called this one after a break.

    Where ``forward`` broke at a call of ``helper``, both the rest of ``forward``
    (``torch_dynamo_resume_in_forward_at_12``) and ``helper`` are compiled next, and ``forward`` is
    the parent of both.
    """
    if is_resume(code.name):
        return process.nearest_before(code)
    for frame in reversed(above):
        if frame.file.endswith(_EVAL_FRAME):
            break
        if caller := process.latest(frame):
            return caller
    # A version that drops the caller's frame ends a stack in torch only where the caller was
    # compiled code. That is not on the stack: it is the attempt that broke last. A version that
    # logs whole stacks always ends them in torch, which says nothing.
    if process.full_stacks or not ends_in_torch(above):
        return None
    return process.broken


def ends_in_torch(above: tuple[Line, ...]) -> bool:
    """Return whether the last frame shown is torch's that calls a compiled function or a module.

    Torch leaves its own frames out of the stack, and one too many: the caller's.
    """
    if not above:
        return False
    last = above[-1]
    return last.file.endswith(_EVAL_FRAME) or (
        last.file.endswith("torch/nn/modules/module.py") and last.name == "_call_impl"
    )
