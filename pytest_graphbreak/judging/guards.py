"""What a failed guard says: in plain words, what it is about, and the value that came."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pytest_graphbreak.layers.dynamo.messages import UNNAMED

MOST_VALUES: Final = 6
"""The number of values that a reason names; the rest are counted."""

# What guards say; Dynamo's and those of JAX are reasons as they stand in a record.
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_CURRENT = re.compile(r" \(([^()]* now)\)$")  # (x has shape [3, 4] now)
TENSOR = re.compile(r"^tensor '(?P<name>.+?)' (?P<what>size|rank|stride|dtype) mismatch")
_INSTANCE = re.compile(r" \((another [\w.]{1,200}): [^()]{1,200} now\)$")
_WENT = re.compile(r"^(?P<name>.+?) went from (?P<what>shape )?")
_VALUE = re.compile(r"^(?P<name>\S+) ==")
_LENGTH = re.compile(r"^len\((?P<name>.{1,200})\) == \d+")
_SIZE = re.compile(r"(?P<name>[\w.\[\]']{1,200})\.(?:size\(\)|shape)\[")
_STATIC = re.compile(
    r"^(?:the static argument |(?=something static))"
    r"(?P<name>[^\s:]+|something static in the arguments): "
)
_ARRAY = re.compile(
    r"^at (?P<name>[^\s:]+): \w+(?P<shape>\[[\d,]*\]) before, \w+(?P<now>\[[\d,]*\]) now"
)
_OPERATION = re.compile(r"^(?P<name>[\w:]+) makes \w+\[[^\]]*\], made ")
_SUBJECTS: Final[Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]] = (
    # tensor 'x' size mismatch at index 0. expected 4, actual 5
    (TENSOR, lambda match: "shape" if match["what"] in ("size", "rank") else match["what"]),
    # x went from shape [4, 8] to [5, 8]
    (_WENT, lambda match: "shape" if match["what"] else "value"),
    # len(x) == 3
    (_LENGTH, lambda _: "length"),
    # n == 3
    (_VALUE, lambda _: "value"),
    # the static argument n: 3 before, 4 now
    (_STATIC, lambda _: "value"),
    # at x: float32[3] before, float32[4] now
    (_ARRAY, lambda match: "type" if match["shape"] == match["now"] else "shape"),
    # aten::add makes f32[5], made f32[4] before
    (_OPERATION, lambda _: "shape"),
    # 2 <= x.size()[0]
    (_SIZE, lambda _: "shape"),
)
"""What of a name a reason is about; the first pattern that it has says so."""
LEFT = re.compile(r"'?___stack(\d+)'?")
"""Dynamo's name for a value that a break left on the stack of the frame."""
_IMPORTED = re.compile(r"__import_(\w+)")  # __import_yolo_dot_head.SCALE == 2
# Cache line invalidated because L['fn'] got deallocated
_FREED = re.compile(r"^Cache line invalidated because (\S+) got deallocated$")
# ___check_obj_id(fn, ...)
_IDENTITY = re.compile(r"^___check_(obj|type)_id\(([^\s,()]+), [^\s()]*\)")


def without_numbers(reason: str) -> str:
    """Return a reason without its numbers, which depend on the inputs."""
    return _NUMBER.sub("#", reason)


def plainly(reason: str) -> str:
    """Return a guard with names that Dynamo made up removed or explained."""
    reason = LEFT.sub(r"a value that the break left (___stack\1)", reason, count=1)
    reason = _IMPORTED.sub(lambda match: match[1].replace("_dot_", "."), reason)
    if match := _FREED.match(reason):
        return f"{match[1]} is another object now, and the one before is gone"
    if match := _IDENTITY.match(reason):
        what = "another object" if match[1] == "obj" else "of another type"
        return f"{match[2]} is {what} now ({match[0]})"
    return reason


def subject(reason: str) -> str:
    """Return what a failed guard is about, without values: ``shape of x``, ``value of self.k``.

    The result is empty if the compiler did not say which guard failed.
    """
    reason = plainly(reason)
    for pattern, what in _SUBJECTS:
        if match := pattern.search(reason):
            return f"{what(match)} of {match['name']}"
    return "" if reason == UNNAMED else without_numbers(_CURRENT.sub("", reason))


_OF_FUNCTION: Final = re.compile(r" \([^()]{1,200} of [^()]{1,400}:\d{1,9}\)$")
"""The function that a reason of JAX ends with: `` (f of a.py:1)``."""
_NOW: Final = (
    re.compile(r" (?:is|has shape|has strides|is of) ([^()]{1,200}) now\)?$"),
    re.compile(r" before, (.{1,200}) now$"),
    re.compile(r" went from .{1,200}? to (\[[^\]]{0,200}\]|[^\s,]{1,100})"),
)
"""The value that came, in a reason, one pattern for each of these forms.

``x has shape [3, 4] now``, ``3 before, 4 now``, ``x went from shape [4, 8] to [5, 8]``
"""


def kind(reason: str) -> str:
    """Return the same text for reasons that differ only in their values."""
    stem = _stem(reason)
    return subject(stem) or without_numbers(stem)


def reason(reasons: Iterable[str]) -> str:
    """Return reasons of one kind as one: ``another shape of x in each call: [4], [5]``.

    Where no values came, or only one, they are the first and the last of the reasons.
    """
    texts = list(dict.fromkeys(map(plainly, reasons)))
    if len(texts) == 1:
        return texts[0]
    values = list(dict.fromkeys(filter(None, map(_value, texts))))
    what = subject(_stem(texts[0]))
    if not what or len(values) < 2:
        return f"{texts[0]}, ... {texts[-1]}"
    others = f" and {len(values) - MOST_VALUES} more" if len(values) > MOST_VALUES else ""
    shown = f"{', '.join(values[:MOST_VALUES])}{others}"
    instances = {match and match[1] for match in map(_INSTANCE.search, texts)}
    instance = instances.pop() if len(instances) == 1 else None
    if instance:
        return f"{instance} in each call, with another {what}: {shown}"
    return f"another {what} in each call: {shown}"


def new_condition(reason: str) -> str:
    """Return why what a function calls is compiled again: ``x has shape [3, 4] now``."""
    current = _CURRENT.search(reason)
    return current[1] if current else f"{plainly(reason)} failed"


def _stem(text: str) -> str:
    return _OF_FUNCTION.sub("", text)


def _value(text: str) -> str:
    """Return the value that came now; empty if the reason does not say it."""
    matches = (pattern.search(_stem(text)) for pattern in _NOW)
    return next((match[1] for match in matches if match), "")


MOST_NAMES: Final = 2
"""The number of graphs that are named one by one; of more, the first and the last."""


def names_of(graphs: Sequence[str]) -> str:
    """Return the names of graphs that were made in a row: ``0/1``, ``0/1, 0/2``, ``0/1 to 0/9``."""
    if len(graphs) > MOST_NAMES:
        return f"{graphs[0]} to {graphs[-1]}"
    return ", ".join(graphs)
