"""Families of reasons, the one that explains an item of a record, and one line of advice.

A family has one line for all of its reasons, and may have more specific lines for some of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from itertools import pairwise
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.model.items import (
    Break,
    BreakReason,
    Eager,
    Frame,
    Graph,
    LineRuns,
    Recompile,
)

Data = TypeVar("Data")

SHORT_LIMIT: Final = 110
"""Maximum number of characters of the line after ``fix:``."""


class Sign(Struct, frozen=True):
    """The pattern of a family's reasons. Every part that is given must be found.

    ``reason`` is searched in the reason (torch's ``gb_type``, or the free text of an older torch),
    ``detail`` in torch's own explanation and hints, ``code`` in the source line. All are regular
    expressions; case is ignored.
    """

    reason: str = ""
    detail: str = ""
    code: str = ""

    def matches(self, reason: str, detail: str = "", code: str = "") -> bool:
        """Return whether all parts of the sign are in the three texts."""
        pairs = ((self.reason, reason), (self.detail, detail), (self.code, code))
        return all(not part or re.search(part, text, re.IGNORECASE) for part, text in pairs)

    def could_be(self, reason: str) -> bool:
        """Return whether the reason fits, and only detail or code can decide.

        ``graphbreak explain`` is given a reason alone: it names such families as similar.
        """
        open_parts = self.detail or self.code
        return bool(self.reason and open_parts and re.search(self.reason, reason, re.IGNORECASE))


PLAIN: Final = "plain"
"""The form of what plain calls of the user's own functions lead to.

A form is how the line that breaks is reached; ``layers.dynamo.reached`` has them all.
``self.net(x)`` is plain, a line of an installed package is ``library``, one that is called by
``torch.cond`` is ``operator``. ``tests/advice/table.py`` has programs of many forms.
"""


class FixLine(Struct, frozen=True):
    """A line after ``fix:``, for those reasons of a family in which all given parts are found.

    The parts are those of a sign, but their case matters. In ``short``, ``{tensor}`` and ``{dim}``
    are the tensor and the dimension that a failed guard is about. ``holds`` are the forms in which
    a test has followed the line: ``plain``, or what ``Break.through`` may be, and ``device`` where
    the graph also goes to a device. In others it is not shown.
    """

    short: str
    holds: tuple[str, ...]
    reason: str = ""
    detail: str = ""
    code: str = ""

    def matches(self, reason: str, detail: str = "", code: str = "") -> bool:
        """Return whether all parts of the line are in the three texts."""
        pairs = ((self.reason, reason), (self.detail, detail), (self.code, code))
        return all(not part or re.search(part, text) for part, text in pairs)


class Family(Struct, frozen=True, eq=False):
    """Reasons with one meaning and one remedy.

    ``name`` is what a user types after ``graphbreak explain``; ``short`` is one line of at most
    ``SHORT_LIMIT`` characters that sums its page up. The first of ``lines`` that fits is what a
    report may print after ``fix:``.
    """

    name: str
    title: str
    short: str
    signs: tuple[Sign, ...] = ()
    lines: tuple[FixLine, ...] = ()

    def matches(self, reason: str, detail: str = "", code: str = "") -> bool:
        """Return whether a reason belongs to this family."""
        return any(sign.matches(reason, detail, code) for sign in self.signs)


class Families(Struct, frozen=True):
    """The families of ``families.yaml``, by what they apply to.

    ``device`` are graphs and recompiles of a device, ``below`` what inductor, CUDA graphs and
    Triton do. Of JAX are ``retraces`` (its recompiles), ``programs`` (its graphs) and ``stopped``
    (its breaks and what runs eagerly). ``topics`` are causes and words that reports use.
    """

    breaks: tuple[Family, ...]
    recompiles: tuple[Family, ...]
    device: tuple[Family, ...]
    below: tuple[Family, ...]
    retraces: tuple[Family, ...]
    programs: tuple[Family, ...]
    stopped: tuple[Family, ...]
    topics: tuple[Family, ...]


@cache
def families() -> Families:
    """Return all families; they are read when first requested."""
    return load_yaml("families.yaml", Families)


def load_yaml(name: str, kind: type[Data]) -> Data:
    """Return the contents of a YAML file of this package, converted to ``kind``."""
    import yaml

    text = (resources.files(__package__) / name).read_text("utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return msgspec.convert(yaml.load(text, loader), kind)


_MOST_REASONS: Final = 10_000
"""The number of reasons that are looked up once: a run has the same few in all of its tests."""
# tensor 'L['x']' size mismatch at index 0. expected 4, actual 5, or 2 <= x.size()[1]: the tensor
# and its dimension.
_INDEX: Final = re.compile(
    r"tensor '(?P<name>[^\n]{1,200}?)' size mismatch at index (?P<index>\d+)"
    r"|\b2 <= (?P<of>\S{1,200}?)\.size\(\)\[(?P<at>\d+)\]"
)
_SIMPLE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[(?:\d+|'[^']*')\])*")
"""``self.rows[0]``, ``batch['ids']``: what can stand in a line of advice as it is."""
_LOCAL: Final = re.compile(r"^[LG]\['([^']*)'\]")
"""``L['x']`` and ``G['x']``, as guards name local and global variables."""
_KEYWORD: Final = re.compile(r"^kwargs\['([A-Za-z_]\w*)'\]")
"""``kwargs['mask']``, which the caller writes as ``mask``."""
_HELD: Final = re.compile(r"\._(?:buffers|modules|parameters)\['([^'.]+)'\]")
"""``._modules['0']`` and ``._parameters['weight']``, written as ``[0]`` and ``.weight``."""


@lru_cache(_MOST_REASONS)
def fix_line(family: Family, reason: str, detail: str = "", code: str = "") -> FixLine | None:
    """Return the line for a reason of a family, or None; a name too long for it becomes ``x``."""
    fitting = (line for line in family.lines if line.matches(reason, detail, code))
    line = next(fitting, None)
    if line is None:
        return None
    tensor, dim = _dimension(reason)
    texts = (line.short.replace("{dim}", dim).replace("{tensor}", name) for name in (tensor, "x"))
    return replace(line, short=next(text for text in texts if len(text) <= SHORT_LIMIT))


def _dimension(reason: str) -> tuple[str, str]:
    """Return the tensor that a failed guard is about, as code, and its dimension."""
    match = _INDEX.search(reason)
    if match is None:
        return "x", "0"
    name = _as_code(match["name"] or match["of"])
    return name if _SIMPLE.fullmatch(name) else "x", str(int(match["index"] or match["at"]))


def _as_code(subject: str) -> str:
    """Return what a guard is about as the caller writes it: keywords and attributes by name."""
    name = _LOCAL.sub(r"\1", subject)
    name = _KEYWORD.sub(r"\1", name)
    return _HELD.sub(lambda match: f"[{match[1]}]" if match[1].isdigit() else f".{match[1]}", name)


BELOW: Final = ("inductor", "cudagraph", "triton")
"""The layers below Dynamo that have words of their own."""
DEVICES: Final = ("xla", "tt")
"""The layers that compile Dynamo's graphs for a device."""

Item = Break | Eager | Recompile | Graph | LineRuns
"""The items for which there can be advice.

``LineRuns`` has no branch of its own in ``family``: of Dynamo and of devices its ``cause`` is
looked up, as that of a graph.
"""


def family(item: Item) -> Family | None:
    """Return the family that an item belongs to, or None if this package has no words for it."""
    if item.layer == "jax":
        return _jax_family(item)
    if item.layer in BELOW:
        is_graph = isinstance(item, Graph)
        return None if is_graph else first(families().below, f"{item.layer} {item.reason}")
    if isinstance(item, Break):
        return first(families().breaks, *_texts(item))
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


def _jax_family(item: Item) -> Family | None:
    if isinstance(item, Recompile):
        return first(families().retraces, item.reason)
    if isinstance(item, Graph):
        # jit is as it should be, and a retrace is reported by its recompile
        return first(families().programs, item.cause)
    return first(families().stopped, item.reason)


def name(item: Item) -> str:
    """Return the name of an item's family, or an empty string if it has none."""
    match = family(item)
    return match.name if match is not None else ""


def topic(item: Item) -> str:
    """Return what ``graphbreak explain`` is asked for an item: its page, else its id, else empty.

    An id has many situations in one: GB0059 is any builtin, and the page of ``print`` says more.
    """
    if page := name(item):
        return page
    if isinstance(item, Break) and item.id:
        return item.id
    return "eager" if isinstance(item, Eager) else ""


def shorts(item: Item, graphs: Mapping[str, int] | None = None) -> tuple[str, ...]:
    """Return what to write instead for each reason of an item: a line may break for several.

    ``graphs`` are those of the record by layer: what helps Dynamo may not help a device below it.
    Empty where no line was followed by a test in the form that the item has; its page says more.
    """
    forms = {PLAIN}
    if isinstance(item, Break) and item.through:
        forms = {item.through}
    if item.layer == "dynamo" and any((graphs or {}).get(layer) for layer in DEVICES):
        forms.add("device")
    further = item.also if isinstance(item, Break) else ()
    items = [item, *(_alone(item, reason) for reason in further if isinstance(item, Break))]
    lines = [line for reason in items if (line := _line(reason)) and forms <= {*line.holds}]
    return tuple(dict.fromkeys(line.short for line in lines))


def _line(item: Item) -> FixLine | None:
    matching = family(item)
    if matching is None:
        return None
    if isinstance(item, Eager) and item.layer == "dynamo":
        return None  # no test has followed a line for a function that was left to eager
    return fix_line(matching, *_texts(item))


def _alone(item: Break, reason: BreakReason) -> Break:
    """Return the break of a line for another of its reasons."""
    return replace(
        item,
        id=reason.id,
        reason=reason.reason,
        explanation=reason.explanation,
        hints=reason.hints,
        also=(),
    )


def _texts(item: Item) -> tuple[str, str, str]:
    """Return the reason of an item, the details of it, and the source line that it is about."""
    if isinstance(item, Break):
        detail = "\n".join((item.explanation, *item.hints))
        if _in_autograd_function(item.stack):
            detail += f"\n{IN_AUTOGRAD_FUNCTION}"
        return item.reason, detail, item.where.code.strip()
    if isinstance(item, Recompile) and item.guard.code:
        return item.reason, "", item.guard.code.strip()
    return item.reason, "", item.where.code.strip()


IN_AUTOGRAD_FUNCTION: Final = "inside of a torch.autograd.Function"
"""What the details of a break say whose calls lead through ``Function.apply``."""


def _in_autograd_function(stack: Sequence[Frame]) -> bool:
    """Return whether calls lead through ``F.apply(...)`` to a method of ``F``."""
    pairs = pairwise(stack)
    return any(
        re.search(rf"\b{re.escape(inner.function.split('.')[-2])}\.apply\(", outer.code)
        for outer, inner in pairs
        if ".apply(" in outer.code and "." in inner.function
    )


def guard(reason: str) -> str:
    """Return only the failed guard: source code and hints follow `` #`` or a line end.

    It is a text; the place of the guard is ``Recompile.guard``.
    """
    return re.split(r"\s#|\n", reason.strip(), maxsplit=1)[0].rstrip()


@lru_cache(_MOST_REASONS)
def first(
    families: tuple[Family, ...], reason: str, detail: str = "", code: str = ""
) -> Family | None:
    """Return the first family that a reason belongs to, or None."""
    code = code.strip()
    return next((entry for entry in families if entry.matches(reason, detail, code)), None)
