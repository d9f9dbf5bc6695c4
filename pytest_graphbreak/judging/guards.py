"""What a failed guard says: in plain words, what it is about, and the value that came.

A guard is a condition on the inputs of compiled code. If it fails, the code is compiled again, and
the failed guard is the reason of that recompile. This module reads these reasons as they stand in a
record. They come from ``layers.dynamo.messages`` (``tensor 'x' size mismatch``, ``n == 3``), with
the value that came at their end from ``layers.dynamo.guards``; from ``layers.jax.differences``
(``at x: float32[3] before, float32[4] now``); and from ``layers.xla.fx`` (``x went from shape [4,
8] to``).

What each function makes of ``n == 3 (n is 4 now)``::

    plainly        the same; ``___stack0`` would be "a value that the break left (___stack0)"
    subject        value of n                                 the key ``guard`` of a baseline
    kind           value of n                                 reasons of one kind are one change
    reason         another value of n in each call: 4, 5      the text of that change
    new_condition  n is 4 now                                 why what it calls is recompiled, too
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from pytest_graphbreak.layers.dynamo import messages
from pytest_graphbreak.layers.dynamo.messages import UNNAMED

MOST_VALUES: Final = 6
"""The number of values that a reason names; the rest are counted."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_NAME_OR_NUMBER = re.compile(r"(\b(?!__)[A-Za-z_]\w*)|-?\d+(?:\.\d+)?")
"""A name that a user wrote, or a number.

The names that Dynamo makes up begin with ``__`` and count up (``__builtins_dict___3``): their
numbers are numbers.
"""

# The ends of a reason.
_OF_FUNCTION: Final = re.compile(r" \([^()]{1,200} of [^()]{1,400}:\d{1,9}\)$")
"""The function that a reason of JAX ends with: `` (f of a.py:1)``."""
_CURRENT = re.compile(r" \(([^()]* now)\)$")
"""What the guard met: `` (x has shape [3, 4] now)``."""
_INSTANCE = re.compile(r" \((another [\w.]{1,200}): [^()]{1,200} now\)$")
"""What it met in another module of that class: `` (another Block: self.n is 3 now)``."""
_NOW: Final = (
    # n == 3 (n is 4 now), tensor 'x' size mismatch ... (x has shape [3, 4] now)
    re.compile(r" (?:is|has shape|has strides|is of) ([^()]{1,200}) now\)?$"),
    # the static argument n: 3 before, 4 now
    re.compile(r" before, (.{1,200}) now$"),
    # x went from shape [4, 8] to [5, 8]
    re.compile(r" went from .{1,200}? to (\[[^\]]{0,200}\]|[^\s,]{1,100})"),
)
"""The forms of the value that came."""

# The subject of a reason.
TENSOR = re.compile(r"^tensor '(?P<name>.+?)' (?P<what>size|rank|stride|dtype) mismatch")
_WENT = re.compile(r"^(?P<name>.+?) went from (?P<what>shape )?")
_LENGTH = re.compile(r"^len\((?P<name>.{1,200})\) == \d+")
_VALUE = re.compile(r"^(?P<name>\S+) ==")
# The name stands behind "the static argument", or is "something static in the arguments" itself.
_STATIC = re.compile(
    r"^(?:the static argument |(?=something static))"
    r"(?P<name>[^\s:]+|something static in the arguments): "
)
_ARRAY = re.compile(
    r"^at (?P<name>[^\s:]+): \w+(?P<shape>\[[\d,]*\]) before, \w+(?P<now>\[[\d,]*\]) now"
)
_OPERATION = re.compile(r"^(?P<name>[\w:]+) makes \w+\[[^\]]*\], made ")
_SIZE = re.compile(r"(?P<name>[\w.\[\]']{1,200})\.(?:size\(\)|shape)\[")
_SUBJECTS: Final[dict[re.Pattern[str], Callable[[re.Match[str]], str]]] = {
    # tensor 'x' size mismatch at index 0. expected 4, actual 5
    TENSOR: lambda match: "shape" if match["what"] in ("size", "rank") else match["what"],
    # x went from shape [4, 8] to [5, 8]; x went from float32 to float64
    _WENT: lambda match: "shape" if match["what"] else "value",
    # len(x) == 3
    _LENGTH: lambda _: "length",
    # n == 3
    _VALUE: lambda _: "value",
    # the static argument n: 3 before, 4 now; something static in the arguments: 3 before, 4 now
    _STATIC: lambda _: "value",
    # at x: float32[3] before, float32[4] now; with equal shapes, another type
    _ARRAY: lambda match: "type" if match["shape"] == match["now"] else "shape",
    # aten::add makes f32[5], made f32[4] before
    _OPERATION: lambda _: "shape",
    # 2 <= x.size()[0]
    _SIZE: lambda _: "shape",
}
"""What of a name a reason is about: the first form that matches says it.

``len(x) == 3`` has the form of ``_VALUE``, too, so ``_LENGTH`` comes before that. ``_SIZE`` is
looked for anywhere in a reason, so it comes last.
"""

# Names that Dynamo made up.
LEFT = re.compile(r"'?___stack(\d+)'?")
"""Dynamo's name for a value that a break left on the stack of the frame."""
_IMPORTED = re.compile(r"__import_(\w+)")  # __import_yolo_dot_head.SCALE == 2
# Cache line invalidated because L['fn'] got deallocated
_FREED = re.compile(r"^Cache line invalidated because (\S+) got deallocated$")
# ___check_obj_id(fn, ...)
_IDENTITY = re.compile(r"^___check_(obj|type)_id\(([^\s,()]+), [^\s()]*\)")


def without_numbers(text: str) -> str:
    """Return a reason without its numbers, which depend on the inputs."""
    return _NUMBER.sub("#", text)


def plainly(text: str) -> str:
    """Return a reason with names that Dynamo made up removed or explained.

    It takes a reason as it stands in a record. Its own result would be explained once more.
    """
    text = LEFT.sub(r"a value that the break left (___stack\1)", text, count=1)
    text = _IMPORTED.sub(lambda match: match[1].replace("_dot_", "."), text)
    if match := _FREED.match(text):
        return f"{match[1]} is another object now, and the one before is gone"
    if match := _IDENTITY.match(text):
        what = "another object" if match[1] == "obj" else "of another type"
        return f"{match[2]} is {what} now ({match[0]})"
    return text


def subject(text: str) -> str:
    """Return what a failed guard is about, without values: ``shape of x``, ``value of self.k``.

    The result is a key of baselines (``guard``). It is empty if the compiler did not say which
    guard failed, and the guard itself without numbers, ``x# is None``, if no form describes it. The
    expression alone (``x``) is what ``layers.dynamo.messages.subject`` returns.
    """
    if text == UNNAMED:
        return ""
    return _described_subject(text) or without_numbers(_CURRENT.sub("", plainly(text)))


def _described_subject(text: str) -> str:
    """Return the subject by the first form that describes the reason; empty if none does."""
    text = plainly(text)
    for pattern, what in _SUBJECTS.items():
        if match := pattern.search(text):
            return f"{what(match)} of {match['name']}"
    return ""


def kind(text: str) -> str:
    """Return the same text for reasons of one compilation that differ only in their values.

    It is ``subject``, except for a guard that no form describes: there names stay as they are,
    ``x1 is None`` beside ``x2 is None``, and only numbers and indices are values.
    """
    guard = _without_function(text)
    if described := _described_subject(guard):
        return described
    guard = _CURRENT.sub("", guard)
    if messages.subject(guard):
        return _NAME_OR_NUMBER.sub(lambda match: match[1] or "#", plainly(guard))
    return without_numbers(plainly(guard))


def reason(texts: Iterable[str]) -> str:
    """Return reasons of one kind as one: ``another shape of x in each call: [4], [5]``.

    If fewer than two values are known, it is the first and the last reason, ``n == 3, ... n == 7``.
    """
    recorded = list(dict.fromkeys(texts))
    plain = list(dict.fromkeys(map(plainly, recorded)))
    if len(plain) == 1:
        return plain[0]
    values = list(dict.fromkeys(filter(None, map(_value, plain))))
    if len(values) < 2:
        return f"{plain[0]}, ... {plain[-1]}"
    others = f" and {len(values) - MOST_VALUES} more" if len(values) > MOST_VALUES else ""
    shown = f"{', '.join(values[:MOST_VALUES])}{others}"
    what = _described_subject(_without_function(recorded[0]))
    if not what:
        return f"{kind(recorded[0])} fails in each call: {shown}"
    instances = [match[1] for text in plain if (match := _INSTANCE.search(text))]
    if len(instances) == len(plain) and len(set(instances)) == 1:  # each met another Block
        return f"{instances[0]} in each call, with another {what}: {shown}"
    return f"another {what} in each call: {shown}"


def new_condition(text: str) -> str:
    """Return why the functions that one calls are compiled again, too: ``x has shape [3] now``."""
    current = _CURRENT.search(text)
    return current[1] if current else f"{plainly(text)} failed"


def _without_function(text: str) -> str:
    return _OF_FUNCTION.sub("", text)


def _value(text: str) -> str:
    """Return the value that came now; empty if the reason does not say it."""
    matches = (pattern.search(_without_function(text)) for pattern in _NOW)
    return next((match[1] for match in matches if match), "")
