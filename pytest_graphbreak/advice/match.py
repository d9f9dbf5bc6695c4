"""Finds the family that explains an item of a record, and one line of advice.

A family has one line for all of its reasons. More specific lines for some reasons are here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from pytest_graphbreak.advice.family import SHORT_LIMIT, Family, families
from pytest_graphbreak.model.record import Break, Eager, Graph, LineRuns, Recompile

_INDEX: Final = re.compile(
    r"tensor '(?P<name>[^\n]{1,200}?)' size mismatch at index (?P<index>\d+)"
    r"|\b2 <= (?P<of>\S{1,200}?)\.size\(\)\[(?P<at>\d+)\]"
)
_SIMPLE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[(?:\d+|'[^']*')\])*")
_LOCAL: Final = re.compile(r"^[LG]\['([^']*)'\]")
_NUMBER: Final = r"-?[\d.]+(?:e[+-]?\d+)?"


def specific(family: str, reason: str) -> str | None:
    """Return the line for a reason of a family, or None if the family's own line is enough."""
    for pattern, words in _SPECIFIC.get(family, ()):
        if found := re.search(pattern, reason):
            text = words(found, reason) if callable(words) else words
            return text if len(text) <= SHORT_LIMIT else None
    return None


def _dimension(reason: str) -> tuple[str, int]:
    """Return the tensor that a failed guard is about, as code, and its dimension."""
    found = _INDEX.search(reason)
    if found is None:
        return "x", 0
    name = _LOCAL.sub(r"\1", found["name"] or found["of"])
    index = int(found["index"] or found["at"])
    return name if _SIMPLE.fullmatch(name) and len(name) <= 30 else "x", index


def _mark_dynamic(found: re.Match[str], reason: str) -> str:
    name, index = _dimension(reason)
    mark = f"torch._dynamo.mark_dynamic({name}, {index})"
    return f"many sizes: {mark}, or dynamic=True; on a device, pad to a few sizes"


def _mark_unbacked(found: re.Match[str], reason: str) -> str:
    name, index = _dimension(reason)
    mark = f"torch._dynamo.decorators.mark_unbacked({name}, {index})"
    return f"0 and 1 get graphs of their own: pad them away, or {mark}"


Line = str | Callable[[re.Match[str], str], str]

_SPECIFIC: Final[dict[str, tuple[tuple[str, Line], ...]]] = {
    "size": (
        (r"size mismatch at index", _mark_dynamic),
        (
            r"rank mismatch",
            "one number of dimensions for all calls: unsqueeze or flatten before the function",
        ),
    ),
    "zero-one": ((_INDEX.pattern, _mark_unbacked),),
    "length": (
        (
            r"_hooks\b",
            "register hooks once, before the first compiled call: each new one compiles again",
        ),
        (
            r"param_groups\b",
            "keep the keys and the groups of the optimizer the same from step to step",
        ),
    ),
    "type": (
        (
            r"\.grad is (?:not )?None",
            "zero_grad(set_to_none=False), or a first step before: None has a graph of its own",
        ),
        (r"\bis (?:not )?None\b", "pass it in every call, or in none: None has a graph of its own"),
    ),
    "requires-grad-varies": (
        (
            r"^tensor '(?:self|mod)\b",
            "freeze parameters once, before the first compiled call, or compile each stage alone",
        ),
    ),
    "object": (
        (r"param_groups|optimizer", "make the optimizer once, before the loop, and keep it"),
        (
            r"hasattr\(",
            "give the attribute its first value in __init__, before the first compiled call",
        ),
    ),
    "value": (
        (
            r"param_groups\[\d+\]\['lr'\]",
            "lr=torch.tensor(...) in the optimizer: a tensor may change without a recompile",
        ),
        (
            r"param_groups\[\d+\]\['(\w+)'\]",
            "set it once, when the optimizer is made; what varies as a tensor",
        ),
        (
            r"^[\w.\[\]']{1,200}\.p ==",
            "set p once; where it varies: x * (torch.rand_like(x) >= p) / (1 - p), p a buffer",
        ),
        (
            r"^(?:self|fn|mod)\b[\w.\[\]']{0,200}\.\w{1,100} ==",
            "set the attribute once, or make it a buffer (register_buffer) where it varies",
        ),
    ),
    "device-recompile": (
        (
            r"^aten::cat makes ",
            "write into a buffer of full length (index_copy_), or pad: each length is a graph",
        ),
        (
            r"^a constant or an attribute ",
            "pass a number that varies as a tensor: it is a constant of the graph here",
        ),
        (
            r"^\d{1,9} operations, \d{1,9} before",
            "run the same operations in each step; do what only the first needs before the loop",
        ),
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


JAX: Final = ("jax", "jax_host")
"""The layers whose programs JAX makes."""

Item = Break | Eager | Recompile | Graph | LineRuns
"""The items for which there can be advice."""

_IDLE_HINTS = re.compile(
    r"^(this graph break (is fundamental|may be difficult)"
    r"|it may be possible to write dynamo tracing rules"
    r"|(please )?(report|file) an issue"
    r"|if it is a python builtin, please file"
    r"|this is likely to be a dynamo bug"
    r"|dynamo has detected that tracing the code will result in an error"
    r"|your code may result in an error when running in eager)",
    re.IGNORECASE,
)
"""Hints of torch that contain nothing to do in the user's code."""

_LOGGED = re.compile(
    r"\.((?:debug|info|warning|warn|error|exception|critical|fatal|log)(?:_\w+)?)\("
)
"""The logger method that a line calls, including those that libraries add (``warning_once``)."""


def family(item: Item) -> Family | None:
    """Return the family that an item belongs to, or None if this package has no words for it."""
    if item.layer in JAX:
        return _of_jax(item)
    if isinstance(item, Break):
        detail = "\n".join((item.explanation, *item.hints))
        return first(families().breaks, item.reason, detail, item.where.code)
    if isinstance(item, Recompile):
        if item.layer != "dynamo":
            return first(families().device, "recompile", item.reason)
        return first(families().recompiles, guard(item.reason))
    if isinstance(item, Eager):
        return first(families().breaks, item.reason, "", item.where.code)
    if item.layer == "dynamo":
        # for entry, break, callee and recompile, the break or the recompile has the advice
        return first(families().topics, item.cause)
    return first(families().device, item.cause, item.reason)


def _of_jax(item: Item) -> Family | None:
    if isinstance(item, Recompile):
        return first(families().retraces, item.reason)
    if isinstance(item, Graph):
        # jit is as it should be, and a retrace is reported by its recompile
        return first(families().programs, item.cause)
    return first(families().stopped, item.reason)


def name(item: Item) -> str:
    """Return the name of an item's family, or an empty string if it has none."""
    found = family(item)
    return found.name if found is not None else ""


def short(item: Item) -> str | None:
    """Return what to write instead, on one line of at most ``SHORT_LIMIT`` characters, or None.

    The words are those of the item's family; without one, the first of torch's own hints that
    contains something to do.
    """
    known = family(item)
    if known is not None:
        if known.name == "logging":
            return _of_logger(item.where.code)
        return specific(known.name, item.reason) or known.short
    return _hint(item.hints) if isinstance(item, Break) else None


def _of_logger(code: str) -> str:
    """Return the advice with the logger method of the line: naming another has no effect."""
    known = next(one.short for one in families().breaks if one.name == "logging")
    found = _LOGGED.search(code)
    line = known.replace("Logger.info", f"Logger.{found[1]}") if found else known
    return line if len(line) <= SHORT_LIMIT else known.partition(",")[0]


def guard(reason: str) -> str:
    """Return only the failed guard: source code and hints follow `` #`` or a line end."""
    return re.split(r"\s#|\n", reason.strip(), maxsplit=1)[0].rstrip()


def first(
    families: Iterable[Family], reason: str, detail: str = "", code: str = ""
) -> Family | None:
    """Return the first family that a reason belongs to, or None."""
    code = code.strip()
    return next((one for one in families if one.found(reason, detail, code)), None)


def _hint(hints: Iterable[str]) -> str | None:
    """Return the first hint that helps, on one line, cut to length."""
    for hint in hints:
        line = _cut(" ".join(hint.split()))
        if line and not _IDLE_HINTS.match(line):
            return line
    return None


def _cut(line: str) -> str:
    """Return at most ``SHORT_LIMIT`` characters: the first sentence, else whole words."""
    if len(line) <= SHORT_LIMIT:
        return line.rstrip(".")
    sentence = re.match(r"(.{20,}?)[.:;] ", line)
    if sentence and len(sentence[1]) <= SHORT_LIMIT:
        return sentence[1]
    return line[: SHORT_LIMIT - 3].rsplit(" ", 1)[0] + "..."
