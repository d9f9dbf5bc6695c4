"""The sensors for what Dynamo could not take: graph breaks, functions left to eager, exports.

Dynamo raises an ``Unsupported`` inside where it cannot trace; one that is raised from another is a
consequence of that. Then it either breaks the graph, or runs the frame in eager (``SkipFrame``).

One function of Dynamo logs a break, and is called whether or not anybody listens: that is the main
sensor, ``_on_log``. Older versions of torch do not call it for these breaks::

    up to 2.10   one that ends its whole function: the         _on_format_error
                 exception that Dynamo then handles itself
    up to 2.9    one in a generator: a SkipFrame               _on_skip
    up to 2.9    one that is resumed at an earlier line: a     _on_restart, _on_step
                 second tracing, up to that line

What they know of a break waits as ``BreakDetails`` in the ``Running`` of its attempt. An exception
that was noted is marked by an attribute, so that no break is noted twice.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from inspect import getattr_static, unwrap
from traceback import walk_stack, walk_tb
from types import CodeType, TracebackType
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.dynamo.events import (
    NO_CODE,
    Attempt,
    Broke,
    Ended,
    Refused,
    Stopped,
)
from pytest_graphbreak.layers.dynamo.frames import torch_is_compiling
from pytest_graphbreak.layers.dynamo.messages import exception_text, has_own
from pytest_graphbreak.layers.dynamo.notes import BreakDetails, Notes, stack_lines
from pytest_graphbreak.layers.dynamo.private import Name
from pytest_graphbreak.layers.dynamo.reached import inlined_functions, live_frames
from pytest_graphbreak.layers.faults import or_else
from pytest_graphbreak.layers.hooks import Hook, Note, argument, caller, note_hook
from pytest_graphbreak.layers.notifier import NOTIFIER
from pytest_graphbreak.model.stacks import Line, first_line, of_traceback


class BreakSensors(Struct, frozen=True):
    """The hooks that note breaks; ``sensors`` puts them in.

    ``_resolved`` has what private names resolve to.
    """

    _notes: Notes
    _resolved: Mapping[Name, Any]

    def hooks(self) -> dict[Name, Hook]:
        """Return the hook of each private name by which a version of torch reports breaks."""
        return {
            names.BREAK: self._hook("graph breaks", self._on_log_method),
            names.BREAK_29: self._hook("graph breaks", self._on_log),
            names.SUPPRESS: self._hook("functions left to eager", self._on_format_error),
            # Until 2.9 and 2.10: breaks that are in no log. The exception is followed instead.
            names.UNSUPPORTED_INIT: self._hook("graph breaks", self._on_unsupported, after=True),
            names.RESTART: self._hook("graph breaks", self._on_restart),
            names.STEP: self._hook("graph breaks", self._on_step),
            names.SKIP: self._hook("skipped frames", self._on_skip, after=True),
        }

    def _hook(self, what: str, note: Note, *, after: bool = False) -> Hook:
        return note_hook(note, partial(self._notes.sensor_failed, what), after=after)

    def _on_log_method(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle a method of the translator (from 2.10), which gets the exception from 2.11 on."""
        self._on_log(args[1:], kwargs)

    def _on_log(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle a call of ``log_graph_break(code_options, reason, ...)``.

        The details are those of the exception that Dynamo handles, where there is one: of the first
        in its chain. Where an attribute is set, torch 2.9 logs in the second tracing, and only the
        first one had the exception.
        """
        running = self._notes.thread.current()
        message = str(args[1] if len(args) > 1 else kwargs.get("reason", ""))
        fault = kwargs.get("exc") or self._find_unsupported(sys.exc_info()[1])
        if fault is not None and getattr(fault, "logged", False):
            return  # Dynamo does not log it twice either
        stack = kwargs.get("user_stack")
        if running is not None and running.pending and message.startswith("STORE_ATTR"):
            details = running.pending  # store_attr_graph_break of torch 2.9
        elif fault is not None:
            root = self._root(fault)
            details = _details(root, fault)
            details = details._replace(
                message=message if root is fault else details.message, stack=details.stack or stack
            )
            self._mark(fault)
        else:
            inlined = inlined_functions(live_frames())
            details = BreakDetails(message, stack, inlined=inlined)
        self.add_break(None if running is None else running.attempt, details)

    def add_break(self, attempt: Attempt | None, details: BreakDetails) -> None:
        """Note a break once for each place of an attempt: restarts meet it again."""
        if attempt is not None and attempt.is_torchs:
            return
        event = Broke(
            attempt,
            details.message,
            stack_lines(details.stack or self._resolved[names.STACK]()),
            raised=details.raised,
            disabled=details.disabled,
            inlined=details.inlined,
        )
        if attempt is not None:
            key = (event.message, event.stack[-1:])  # the innermost line, if there is a stack
            if key in attempt.breaks:
                return
            attempt.breaks[key] = event
        self._notes.events.append(event)

    def _mark(self, fault: Any) -> bool:
        """Mark an exception and its causes as noted; return False if one of them was already."""
        was_noted = False
        while fault is not None:
            was_noted = was_noted or hasattr(fault, "_graphbreak_noted")
            fault._graphbreak_noted = True
            fault = self._find_unsupported(fault.__cause__)
        return not was_noted

    def _root(self, fault: Any) -> Any:
        """Return the first of a chain of ``Unsupported``: the later ones are its consequences."""
        while (cause := self._find_unsupported(fault.__cause__)) is not None:
            fault = cause
        return fault

    def _find_unsupported(self, fault: Any) -> Any:
        """Return an ``Unsupported``: the exception itself, or the cause of a ``SkipFrame``."""
        if type(fault).__name__ == "SkipFrame":
            fault = fault.__cause__
        return fault if isinstance(fault, self._resolved[names.UNSUPPORTED]) else None

    def _on_format_error(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle ``format_error_msg(exc, code, ...)``: an error that Dynamo keeps to itself."""
        fault, code = argument("exc", 0, args, kwargs), argument("code", 1, args, kwargs)
        self._handle_suppressed(fault, code)
        NOTIFIER.listener.on_event()  # its attempt has ended before

    def _handle_suppressed(self, fault: Any, code: CodeType) -> None:
        failed, self._notes.thread.failed = self._notes.thread.failed, None
        # What ended no attempt was raised before the function was attempted.
        if failed is None or failed.fault != id(fault):
            self._note_refusal(fault, code)
            return
        attempt = failed.attempt
        if not attempt.is_torchs:
            self._notes.events.append(Ended(attempt))
        if attempt.fault is None:
            return
        attempt.fault.suppressed = True
        # Until 2.10 a break that ends the whole function is reported only by its exception.
        is_break = attempt.fault.traced and self._find_unsupported(fault) is not None
        is_new = is_break and self._mark(fault)
        if is_new:
            self.add_break(attempt, _details(self._root(fault)))

    def _note_refusal(self, fault: Any, code: CodeType) -> None:
        if not torch_is_compiling(caller()):
            _, parent = self._notes.look_up(caller())
            self._notes.events.append(Refused(first_line(code), exception_text(fault), parent))

    def _on_unsupported(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle a new ``Unsupported``. If raised from another one, it is a consequence of that."""
        cause = self._find_unsupported(sys.exc_info()[1])
        root = args[0] if cause is None else self._root(cause)
        self._notes.thread.unsupported = _details(root)

    def _on_restart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle a restart of tracing, which is to stop earlier this time.

        It has a reason where its break was logged.
        """
        running = self._notes.thread.current()
        if running is not None and args[0].reason is None:
            running.pending = self._notes.thread.unsupported

    def _on_step(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle that the second tracing has reached the line at which it has to stop."""
        running = self._notes.thread.current()
        if running is not None and running.pending:
            self.add_break(running.attempt, running.pending)

    def _on_skip(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle ``SkipFrame(reason)``: unless something catches it, the frame runs in eager."""
        running = self._notes.thread.current()
        if running is None:
            return
        running.attempt.skip = str(args[1]) if len(args) > 1 else "graph break"
        fault = self._find_unsupported(sys.exc_info()[1])
        if fault is not None and not hasattr(fault, "_graphbreak_noted"):
            running.unlogged = _details(self._root(fault))

    # An export cannot break, so it raises.
    #
    # From torch 2.10 on ``torch.export`` traces without Dynamo's entry to a frame, and a non-strict
    # export never goes through Dynamo at all. So the function that all exports go through is
    # followed (the first one imports it, each looks it up; 2.9 to 2.15), and an exception that
    # leaves it is noted with its reason and its place. It reaches the test as it would have.

    def on_export(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        thread = self._notes.thread
        thread.exports += 1
        try:
            return original(*args, **kwargs)
        except Exception as fault:
            if thread.exports == 1:  # noted once, by the outermost export
                with self._notes.guard("exports that are stopped"):
                    self.note_stop(fault)
            raise
        finally:
            thread.exports -= 1

    def note_stop(self, fault: Exception) -> None:
        """Note what stopped an export. It is kept out of what Dynamo compiles (``sensors``)."""
        root = _traced_root(fault)
        stack = vars(root)["real_stack"] if has_own(root, "real_stack") else None
        traced = stack_lines(stack) if stack else of_traceback(sys.exc_info()[2])
        self._notes.events.append(
            Stopped(type(root).__name__, exception_text(root), self._notes.above(), traced)
        )


_RAISING_FILES: Final = ("_dynamo/exc.py", "_dynamo\\exc.py")
"""The file whose functions raise for their callers: a break was raised above them."""


def _details(fault: Any, latest: Any = None) -> BreakDetails:
    """Return what an ``Unsupported`` says, and what its traceback shows.

    ``latest`` is the last of the exceptions that followed from it: its traceback goes further out.
    """
    trace = _first_exception(fault).__traceback__
    stack = getattr(fault, "real_stack", None)
    outer = latest.__traceback__ if latest is not None and latest is not fault else None
    frames = [frame for part in (outer, trace) for frame, _ in walk_tb(part)] or live_frames()
    return BreakDetails(
        exception_text(fault),
        stack,
        raised=_innermost_line(trace),
        disabled=or_else(NO_CODE, _disabled_definition, trace),
        inlined=inlined_functions(frames),
    )


def _first_exception(fault: Any) -> Any:
    """Return the exception that is raised again with more words, not as a cause, from 2.13 on."""
    words = str(getattr(fault, "msg", ""))
    while type(earlier := fault.__context__) is type(fault) and words.startswith(earlier.msg):
        fault = earlier
    return fault


def _innermost_line(trace: TracebackType | None) -> Line:
    """Return the innermost line of a traceback that does more than raise the exception."""
    line = NO_CODE
    for frame, number in walk_tb(trace):
        code = frame.f_code
        if not code.co_filename.endswith(_RAISING_FILES):
            name = getattr(code, "co_qualname", code.co_name)  # from Python 3.11 on
            line = Line(code.co_filename, number, name)
    return line


_REFUSING: Final = {"check_inlineable": ("func", "fn"), "call_function": ("self", "value")}
"""The functions of Dynamo that refuse a disabled function, and where they have it: in an attribute
of a local variable (``symbolic_convert.py``, ``variables/functions.py``)."""


def _disabled_definition(trace: TracebackType | None) -> Line:
    """Return the definition of the disabled function that Dynamo did not call, or ``NO_CODE``.

    An exception that was not raised yet has no traceback: then the frames that make it are used.
    """
    for frame, _ in [*walk_tb(trace)][::-1] or walk_stack(None):
        variable, attribute = _REFUSING.get(frame.f_code.co_name, ("", ""))
        function: Any = getattr(frame.f_locals.get(variable), attribute, None) if variable else None
        if getattr_static(function, "_torchdynamo_disable", False):
            code = getattr(unwrap(function), "__code__", None)
            return NO_CODE if code is None else first_line(code)
    return NO_CODE


def _traced_root(fault: BaseException) -> BaseException:
    """Return the first of a chain of Dynamo's exceptions; the later ones are its consequences."""
    while (cause := fault.__cause__) is not None and has_own(cause, "real_stack"):
        fault = cause
    return fault
