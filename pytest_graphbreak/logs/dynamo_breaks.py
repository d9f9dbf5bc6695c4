"""The graph breaks of Dynamo's log, and the functions that it left to eager, each place once.

``dynamo`` makes a ``LoggedBreaks`` for a log, and hands it each record of a break (``add``), of a
refusal, ``WON'T CONVERT`` (``refuse``), and of a recompile limit (``leave``), with the attempt that
met it: what Dynamo tried to compile, as ``dynamo_attempts`` has read it. What the layer's own
``EventReader`` makes of an event (``Broke``) in a window, it makes of it here. Two forms of a
break's record are read::

    Graph break in user code at /home/me/model.py:22
    Graph Break Reason: <message>
    User code traceback:
      <stack>

    Graph break: skip: from user code at:                   (2.9, the frame is left to eager)
      <stack>
    Traceback (most recent call last):
      <frames of torch>
    torch._dynamo.exc.Unsupported: <message>

The first has no stack where torch logged that line before. From torch 2.10 on a stack begins at the
program; before that, at the frame that Dynamo compiled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from pytest_graphbreak.layers.dynamo import messages
from pytest_graphbreak.layers.dynamo.events import Broke
from pytest_graphbreak.layers.dynamo.explain import LAYER, EventReader
from pytest_graphbreak.layers.dynamo.messages import Reason
from pytest_graphbreak.logs.dynamo_attempts import KEPT, LoggedAttempt
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.items import NOWHERE, Break, Eager, Frame
from pytest_graphbreak.model.stacks import Line

LONGEST: Final = 4_000
"""The longest reason, in characters: thousands are kept, and each may fill a log's line."""

_MOST_HINTS: Final = 20
"""The most hints of a reason that are kept, for the same reason."""

_LEFT: Final = "Skipping the function and falling back to eager"
"""Words of a break's record, after which its frame is left to eager."""


class LoggedBreaks:
    """Collects breaks and what was left to eager: all are counted, the first places are kept."""

    def __init__(self, explain: EventReader) -> None:
        self._explain = explain
        # By ``key``, the identity of a place.
        self.breaks: dict[tuple[str, ...], Break] = {}
        self.eager: dict[tuple[str, ...], Eager] = {}
        self._places: dict[tuple[str, int], Break] = {}
        """The first break at each file and line, as torch names them."""

    def add(self, attempt: LoggedAttempt | None, text: str) -> None:
        """Add the break of a record, which ``attempt`` met; None if the log does not have it."""
        logged = _read_break(text)
        why = _cut_reason(messages.reason(logged.message))
        where = self._count_break(attempt, logged, why)
        if attempt:
            # Of the breaks of an attempt only the reason of the last one is asked for here
            # (``why_broke``), so there is one entry, with an empty key.
            attempt.breaks[()] = Broke(attempt, "", (), logged_reason=why)
        if _LEFT in text or text.startswith("Graph break: skip"):
            self.leave(attempt, why.text, where)

    def _count_break(self, attempt: LoggedAttempt | None, logged: _Break, why: Reason) -> Frame:
        """Count a break at its place, and return that."""
        traced, place = logged.stack, logged.place
        # Torch logs a second break at a line without its stack: it has that of the first.
        first = self._places.get(place) if place else None
        if first is not None and not traced:
            shown = replace(first, reason=why.text, id=why.id)
        else:
            stack = stacks.since_test(traced) or ([Line(*place, "")] if place else [])
            # A stack that is not whole goes on where that of the attempt ends.
            is_whole = not traced or attempt is None or _begins_alike(attempt.above, stack)
            event = Broke(attempt, "", tuple(stack), full_stack=is_whole, logged_reason=why)
            shown = self._explain.graph_break(event)
        _count(self.breaks, replace(shown, count=1))
        if place and len(self._places) < KEPT:
            self._places.setdefault(place, shown)
        return shown.where

    def leave(self, attempt: LoggedAttempt | None, why: str = "", where: Frame = NOWHERE) -> None:
        """Add a frame that was left to eager, once for each attempt."""
        if attempt is None:
            _count(self.eager, Eager(LAYER, why, where))
        elif not attempt.in_eager:
            attempt.in_eager = True
            _count(self.eager, self._explain.left_to_eager(attempt, why or attempt.why_broke))

    def refuse(self, attempt: LoggedAttempt, text: str) -> None:
        """Add a function left to eager for an error that Dynamo kept to itself."""
        self.leave(attempt, attempt.why_broke or _last_exception(text))


_Placed = TypeVar("_Placed", Break, Eager)


def _count(places: dict[tuple[str, ...], _Placed], placed: _Placed) -> None:
    """Count what happened at a place; of the first places it is also kept."""
    earlier = places.get(placed.key)
    if earlier is not None:
        places[placed.key] = replace(earlier, count=earlier.count + 1)
    elif len(places) < KEPT:
        places[placed.key] = placed


def _begins_alike(above: Sequence[Line], stack: Sequence[Line]) -> bool:
    """Return whether both stacks begin at the same line, the program's (torch from 2.10 on)."""
    return bool(above and stack and above[0][:2] == stack[0][:2])


# The text of a record.

_BROKE: Final = re.compile(
    r"Graph break(?: \([^)\n]*\))? in user code at ([^\n]*):(\d{1,9})\n"
    r"(?:Graph Break )?Reason: ((?s:.*))"
)
"""The first form, from its first line on: the file, the line, and the text after ``Reason: ``.

``Graph break (user stack suppressed due to duplicate graph break) in user code at`` begins it, too.
"""
_TRACEBACK: Final = re.compile(r"\n *(?:Stack variable source attribution|User code traceback):")
"""The line that parts a message from the stack."""
_UNSUPPORTED: Final = re.compile(r"^torch\._dynamo\.exc\.\w+: ((?s:.*))", re.M)
"""``torch._dynamo.exc.Unsupported: `` and the message, in the second form."""
_RAISED: Final = re.compile(
    r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Unsupported|Exceeded|Failed)): (.*)$", re.M
)
"""The last line of a traceback: ``torch._dynamo.exc.InternalTorchDynamoError: KeyError: 'x'``."""


class _Break(NamedTuple):
    """A graph break's record: its message, its stack (may be empty), and file and line, if known.

    ``place`` is known where the stack is left out, since Dynamo logged it before.
    """

    message: str
    stack: tuple[Line, ...]
    place: tuple[str, int] | None


def _cut_reason(why: Reason) -> Reason:
    """Return what is kept of a reason."""
    return Reason(
        why.text[:LONGEST],
        why.id,
        why.explanation[:LONGEST],
        tuple(hint[:LONGEST] for hint in why.hints[:_MOST_HINTS]),
    )


def _last_exception(text: str) -> str:
    """Return the last exception of a traceback, in words."""
    exceptions = _RAISED.findall(text)
    if not exceptions:
        return ""
    kind, message = exceptions[-1][0], exceptions[-1][1][:LONGEST]
    return messages.reason(message).text if kind == "Unsupported" else messages.error(kind, message)


def _read_break(text: str) -> _Break:
    """Return the message, the stack and the line of a graph break's record."""
    match = _BROKE.match(text)
    if match is not None:
        file, line, message_on = match.groups()
        message, *after = _TRACEBACK.split(message_on)
        return _Break(message, stacks.read(after[-1]) if after else (), (file, int(line)))
    message, after_message = _first_unsupported(text)
    traced = stacks.read(after_message) or stacks.read(text.split("Traceback (most")[0])
    place = traced[-1][:2] if traced else None
    return _Break(message or text.split("\n")[0], traced, place)


def _first_unsupported(text: str) -> tuple[str, str]:
    """Return the message of the first exception of Dynamo in a text, and what follows it."""
    exception = _UNSUPPORTED.search(text)
    message, _, after = (exception[1] if exception else "").partition("\n\nfrom user code:")
    return message, after
