"""Lines of advice that name what one reason names: its dimension, its dtype, its argument.

A family has one line for all of its reasons. Where the reason says more, the line here does too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pytest_graphbreak.advice.family import SHORT_LIMIT

_INDEX: Final = re.compile(
    r"tensor '(?P<name>[^\n]{1,200}?)' size mismatch at index (?P<index>\d+)"
    r"|\b2 <= (?P<of>\S{1,200}?)\.size\(\)\[(?P<at>\d+)\]"
)
_SIMPLE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[(?:\d+|'[^']*')\])*")
_LOCAL: Final = re.compile(r"^[LG]\['([^']*)'\]")
_NUMBER: Final = r"-?[\d.]+(?:e[+-]?\d+)?"


def line(family: str, reason: str) -> str | None:
    """The line for a reason of a family; None where the family's own says it all."""
    for pattern, words in _LINES.get(family, ()):
        if found := re.search(pattern, reason):
            text = words(found, reason) if callable(words) else words
            return text if len(text) <= SHORT_LIMIT else None
    return None


def _dimension(reason: str) -> tuple[str, int]:
    """The tensor that a failed guard is about, as code, and its dimension."""
    found = _INDEX.search(reason)
    if found is None:
        return "x", 0
    name = _LOCAL.sub(r"\1", found["name"] or found["of"])
    index = int(found["index"] or found["at"])
    return name if _SIMPLE.fullmatch(name) and len(name) <= 30 else "x", index


def _mark_dynamic(found: re.Match[str], reason: str) -> str:
    name, index = _dimension(reason)
    mark = f"torch._dynamo.mark_dynamic({name}, {index})"
    return f"many sizes: {mark}, or dynamic=True; on a device pad to a few"


def _mark_unbacked(found: re.Match[str], reason: str) -> str:
    name, index = _dimension(reason)
    mark = f"torch._dynamo.decorators.mark_unbacked({name}, {index})"
    return f"0 and 1 get graphs of their own: pad them away, or {mark}"


Line = str | Callable[[re.Match[str], str], str]

_LINES: Final[dict[str, tuple[tuple[str, Line], ...]]] = {
    "size": (
        (r"size mismatch at index", _mark_dynamic),
        (
            r"rank mismatch",
            "one number of dimensions for all calls: unsqueeze or flatten before the function",
        ),
    ),
    "zero-one": ((_INDEX.pattern, _mark_unbacked),),
    "device-recompile": (
        (
            r"went from (?:b?float|complex|u?int|bool)\w* to \w+$",
            "convert it to one dtype before the compiled function, in every call",
        ),
        (
            r"^the number in ",
            "pass this number as a tensor, or as one value in every call: it is a constant here",
        ),
    ),
    "split-cpu": (
        (
            r"moved to the CPU",
            "keep it on the device: move results to the CPU outside of the compiled function",
        ),
    ),
    "sync": (
        (
            r"torch_xla\.step\(\)",
            "one torch_xla.step() around the whole step: each ends with a sync and its graph",
        ),
    ),
    "jax-static": (
        (
            r"^the static argument self\b",
            "one object for all calls, __hash__ and __eq__ in its class, or make it a pytree",
        ),
        (
            rf"^the static argument [^:\n]{{1,200}}: (?!{_NUMBER} before, {_NUMBER} now)",
            "keep to a few values of it, made once: each is a program of its own",
        ),
    ),
    "jax-dtype": (
        (
            r"of weak type before, \S{1,200} of weak type now",
            "one type of number in every call: float(n), or jnp.float32(n)",
        ),
    ),
}
