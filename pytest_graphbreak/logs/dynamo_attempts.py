"""The frames that Dynamo compiled in one process of a log, and the one that each came from.

An attempt is one try of Dynamo to compile a frame. ``LoggedAttempt`` is the ``Attempt`` of the live
observer, filled from the lines of a log, so that both are explained by the same code. ``dynamo``
keeps a ``Process`` for each process that wrote the log, and adds the attempts in their order.

A frame of a stack is a ``Line`` here: file, number of the line, name of the function. Stacks run
from the outermost frame inwards; ``above`` is the stack that led to a frame.

Compile ids (``0/0``: frame 0, compiled the first time) begin again when Dynamo is reset; from then
on names carry the number of the round, ``0/0#2``, as those of the live observer do.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec import Struct

from pytest_graphbreak.layers.dynamo.events import Attempt, attempt_name
from pytest_graphbreak.model.places import is_resume
from pytest_graphbreak.model.stacks import Line, function

KEPT: Final = 5_000
"""The most attempts, graphs, recompiles and places of a log that are kept one by one; all count."""

_EVAL_FRAME: Final = "torch/_dynamo/eval_frame.py"
"""The file of torch whose wrapper calls each function that ``torch.compile`` returned."""


class LoggedAttempt(Attempt, eq=False):
    """An attempt in a log. ``id`` has the number of the round too, ``0/0#2``."""

    traced: bool = False
    """Whether the log says that its tracing began."""
    buckets: int = 1
    """In how many parts its next graph goes to the backend; DDP cuts it into several."""
    in_eager: bool = False
    """Whether its function was left to eager."""

    @classmethod
    def at_code(cls, id: str, code: Line, above: tuple[Line, ...] = ()) -> LoggedAttempt:
        """Return an attempt at a function, which ``code`` names with its first line.

        A log does not show the wrapper of a decorator, so ``written`` is the same.
        """
        return cls(id, code=code, written=code, above=above)


class Guards(NamedTuple):
    """The guards that failed before a frame was compiled again.

    ``artifact`` is the setting of ``TORCH_LOGS`` whose record named them::

        recompiles            a log may also have the same guards under the other name
        recompiles_verbose
        ""                    no record named them: the id alone says that it is a recompile
    """

    texts: tuple[str, ...]
    artifact: str = ""


Function = tuple[str, str]
"""A file and the name of a function in it; the rest of a function counts as that function."""


class Process(Struct):
    """The state of one process since compile ids last began again.

    A log has no end, so of more than ``KEPT`` attempts or guards the older half is dropped: what
    follows in a log mostly refers to late ones.
    """

    label: str
    """``rank 0``, or ``process 1234``."""
    full_stacks: bool = False
    """Whether its torch logs stacks with their last frame: see ``parent``."""
    attempts: dict[str, LoggedAttempt] = {}
    """By compile id."""
    guards: dict[str, Guards] = {}
    """The guards of each compile id that is a recompile, which is counted when it comes in here."""
    broken: LoggedAttempt | None = None
    """The last attempt that ended in a graph break."""
    rounds: int = 1
    """How often compile ids began, counted from 1."""
    _functions: dict[Function, dict[int, LoggedAttempt]] = {}
    """The latest attempt at each function and first line: the rest after a break has another."""

    def begin_round(self) -> None:
        """Begin a new round of ids, since Dynamo was reset."""
        self.attempts.clear()
        self.guards.clear()
        self._functions.clear()
        self.broken = None
        self.rounds += 1

    def name(self, id: str) -> str:
        return attempt_name(id, self.rounds)

    def add_guards(self, id: str, guards: Guards) -> None:
        """Note that the frame of this id is compiled again, and why."""
        if len(self.guards) >= KEPT:
            _drop_older_half(self.guards)
        self.guards[id] = guards

    def add(self, id: str, attempt: LoggedAttempt) -> None:
        """Add an attempt."""
        if len(self.attempts) >= KEPT:
            _drop_older_half(self.attempts)
            self._functions.clear()
            for item in self.attempts.values():
                item.parent = None  # or it would keep the whole past alive
                self._index(item)
        self.attempts[id] = attempt
        self._index(attempt)

    def _index(self, attempt: LoggedAttempt) -> None:
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


def _drop_older_half(by_id: dict[str, Any]) -> None:
    for id in list(by_id)[: len(by_id) // 2]:
        del by_id[id]


def is_recompile(id: str) -> bool:
    """Return whether a compile id belongs to a frame that was compiled before: ``0/1``."""
    return id.rpartition("/")[2] not in ("", "0")


def parent(process: Process, code: Line, above: tuple[Line, ...]) -> LoggedAttempt | None:
    """Return the attempt whose rest this one is, or that called this one after a break.

    Where ``forward`` broke at a call of ``helper``, both the rest of ``forward``
    (``torch_dynamo_resume_in_forward_at_12``) and ``helper`` are compiled next, and ``forward`` is
    the parent of both. ``code`` is the function that is compiled now, ``above`` the stack that led
    to it.
    """
    if is_resume(code.name):
        return process.nearest_before(code)
    for frame in reversed(above):
        if frame.file.endswith(_EVAL_FRAME):
            break
        if caller := process.latest(frame):
            return caller
    # Some versions of torch leave the caller's frame out of the stack. There a stack ends in a
    # frame of torch only if the caller was compiled code, which is then the attempt that broke
    # last. Versions that log whole stacks end all of them in torch, which says nothing.
    if process.full_stacks or not ends_in_torch(above):
        return None
    return process.broken


def ends_in_torch(above: tuple[Line, ...]) -> bool:
    """Return whether the last frame shown is torch's: it calls a compiled function or a module."""
    if not above:
        return False
    last = above[-1]
    return last.file.endswith(_EVAL_FRAME) or (
        last.file.endswith("torch/nn/modules/module.py") and last.name == "_call_impl"
    )
