"""Reads the text of Dynamo's records: of a graph break the message and the stack, an exception."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from pytest_graphbreak.layers.dynamo import messages
from pytest_graphbreak.layers.dynamo.messages import Reason
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.stacks import Line

LONGEST: Final = 4_000
"""The longest reason, in characters: thousands are kept, and each may fill a log's line."""

_MOST_HINTS: Final = 20
"""The most hints of a reason that are kept, for the same reason."""

_BROKE: Final = re.compile(
    r"Graph break(?: \([^)\n]*\))? in user code at ([^\n]*):(\d{1,9})\n"
    r"(?:Graph Break )?Reason: ((?s:.*))"
)
"""``Graph break in user code at /home/me/model.py:22``, and on the next line the reason: from
``Graph Break Reason:`` on."""
_TRACEBACK: Final = re.compile(r"\n *(?:Stack variable source attribution|User code traceback):")
"""The line that parts a message from the stack."""
_UNSUPPORTED: Final = re.compile(r"^torch\._dynamo\.exc\.\w+: ((?s:.*))", re.M)
"""``torch._dynamo.exc.Unsupported: `` and the message: the form without a place."""
_RAISED: Final = re.compile(
    r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Unsupported|Exceeded|Failed)): (.*)$", re.M
)


class LoggedBreak(NamedTuple):
    """A graph break's record: its message, its stack (may be empty), and file and line, if known.

    ``place`` is known where the stack is left out, since Dynamo logged it before.
    """

    message: str
    stack: tuple[Line, ...]
    place: tuple[str, int] | None


def cut_reason(why: Reason) -> Reason:
    """Return what is kept of a reason."""
    return Reason(
        why.text[:LONGEST],
        why.id,
        why.explanation[:LONGEST],
        tuple(hint[:LONGEST] for hint in why.hints[:_MOST_HINTS]),
    )


def last_exception(text: str) -> str:
    """Return the last exception of a traceback, in words."""
    exceptions = _RAISED.findall(text)
    if not exceptions:
        return ""
    kind, message = exceptions[-1][0], exceptions[-1][1][:LONGEST]
    return messages.reason(message).text if kind == "Unsupported" else messages.error(kind, message)


def read_break(text: str) -> LoggedBreak:
    """Return the message, the stack and the line of a graph break's record."""
    match = _BROKE.match(text)
    if match is not None:
        file, line, message_on = match.groups()
        message, *after = _TRACEBACK.split(message_on)
        return LoggedBreak(message, stacks.read(after[-1]) if after else (), (file, int(line)))
    message, after_message = _first_unsupported(text)
    traced = stacks.read(after_message) or stacks.read(text.split("Traceback (most")[0])
    place = traced[-1][:2] if traced else None
    return LoggedBreak(message or text.split("\n")[0], traced, place)


def _first_unsupported(text: str) -> tuple[str, str]:
    """Return the message of the first exception of Dynamo in a text, and what follows it."""
    exception = _UNSUPPORTED.search(text)
    message, _, after = (exception[1] if exception else "").partition("\n\nfrom user code:")
    return message, after
