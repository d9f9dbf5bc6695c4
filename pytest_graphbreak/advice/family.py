"""What a family of reasons is, and the short tables: device graphs and words of the reports."""

from __future__ import annotations

import re
from dataclasses import dataclass

SHORT_LIMIT = 110
"""How long the line after ``try:`` may be, in characters."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What a reason of a family looks like. Every part that is given has to be found.

    ``reason`` is searched in the reason (torch's ``gb_type``, or the free text
    of an older torch), ``detail`` in torch's own explanation and hints, ``code``
    in the source line. All are regular expressions; case does not matter.
    """

    reason: str = ""
    detail: str = ""
    code: str = ""

    def __post_init__(self) -> None:
        if not (self.reason or self.detail or self.code):
            raise ValueError("a sign with no part would be found in everything")

    def found(self, reason: str, detail: str = "", code: str = "") -> bool:
        """Whether all parts of the sign are in the three texts."""
        pairs = ((self.reason, reason), (self.detail, detail), (self.code, code))
        return all(not part or re.search(part, text, re.IGNORECASE) for part, text in pairs)

    def could_be(self, reason: str) -> bool:
        """Whether the reason fits, and only detail or code can tell if this is it."""
        open_parts = self.detail or self.code
        return bool(self.reason and open_parts and re.search(self.reason, reason, re.IGNORECASE))


@dataclass(frozen=True, slots=True)
class Family:
    """Reasons with one meaning and one remedy.

    ``name`` is what a user types after ``graphbreak explain``; ``short`` is one
    line of at most ``SHORT_LIMIT`` characters: what to write instead.
    """

    name: str
    title: str
    short: str
    signs: tuple[Sign, ...]

    def found(self, reason: str, detail: str = "", code: str = "") -> bool:
        """Whether a reason belongs to this family."""
        return any(sign.found(reason, detail, code) for sign in self.signs)


LIMIT = Family(
    "limit",
    "the recompile limit was hit",
    "stop the recompiles; then the limit does not matter",
    (Sign(reason=r"(recompile|cache_size|cache size)[ _]limit"),),
)
"""Said of breaks, of code that left the compiler and of recompiles alike."""


_SCALAR = r"shape \[\]|\bscalar\b"

DEVICE: tuple[Family, ...] = (
    Family(
        "scalar",
        "a tensor with no dimensions that is on the CPU, or was moved by itself",
        "a Python number (x * 0.5), or a buffer of the module (register_buffer)",
        (Sign(reason=r"^(split|pending)\b", detail=_SCALAR),),
    ),
    Family(
        "split-cpu",
        "an FX graph cut at a tensor that is on the CPU, or was moved there",
        "move the tensor to the device once, in __init__ (register_buffer), not in forward",
        (Sign(reason=r"^split\b", detail=r"\bCPU tensor\b|\bmoved to the CPU\b"),),
    ),
    Family(
        "split",
        "an FX graph cut at an op that XLA does not have",
        "ops that XLA has, or move this op before or after the rest",
        (Sign(reason=r"^split\b"),),
    ),
    Family(
        "access",
        "a value of a device tensor was read",
        "read values once, at the end, after torch_xla.sync(): no .item(), print or if in between",
        (Sign(reason=r"^access\b"),),
    ),
    Family(
        "sync",
        "torch_xla.sync() cut the work here",
        "one torch_xla.sync() at the end of the step, not one after each part",
        (Sign(reason=r"^sync\b"),),
    ),
    Family(
        "pending",
        "an input of a compiled function was still waiting to be computed",
        "make inputs on the CPU and move them, or torch_xla.sync() once before the compiled call",
        (Sign(reason=r"^pending\b"),),
    ),
    Family(
        "reshard",
        "a sharded tensor was gathered to be read",
        "read sharded tensors once, at the end; compare on the device and read one number",
        (Sign(reason=r"^reshard\b"),),
    ),
    Family(
        "device-recompile",
        "a graph compiled again for other shapes or constants",
        "pad inputs to a few sizes (buckets), and pass numbers that vary as tensors",
        (Sign(reason=r"^recompile\b"),),
    ),
    Family(
        "backward",
        "the backward of a device graph",
        "mend the breaks and splits of the forward: its backward is cut where it is cut",
        (Sign(reason=r"^backward\b"),),
    ),
    Family(
        "other",
        "a device graph whose cause is not known",
        "PT_XLA_DEBUG_LEVEL=2 PT_XLA_DEBUG_FILE=xla.txt and this test alone: the file may say it",
        (Sign(reason=r"^other\b"),),
    ),
)


BUCKET = Family(
    "bucket",
    "a part of a graph that DDP cut where its gradient buckets end",
    "a larger bucket_cap_mb makes fewer; torch._dynamo.config.optimize_ddp = False leaves it whole",
    (Sign(reason=r"^bucket\b"),),
)
"""Said of dynamo graphs, as the families of ``device`` are of xla graphs."""

TOPICS: tuple[Family, ...] = (
    Family("break", "a graph break", "mend the first break of a test first", ()),
    Family(
        "recompile",
        "a frame compiled again",
        "decide how many variants are meant: one, a few, or many",
        (),
    ),
    Family(
        "eager",
        "a function that was to be compiled, and that Python runs",
        "take what breaks out of the loop, the with or the try that it stands in",
        (),
    ),
    Family("entry", "the graph of a function that you compiled", "compile what calls it", ()),
    Family(
        "callee",
        "a function compiled for itself, since its caller broke",
        "mend the break in the caller",
        (),
    ),
    BUCKET,
    Family("fx", "an FX graph that became one device graph", "nothing: this is the good case", ()),
)
