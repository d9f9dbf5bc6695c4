"""What leaves a graph of inductor: operations without code, and CUDA graphs that are not recorded.

An operation that inductor generates no code for is called as eager torch does. Both texts that are
read for it are stored with the graph, so they are the same from a cache: its code, ``source_code``
(``buf1 = torch.ops.aten.histc.default(primals_1, 4)``), and the operations before that with the
lines that they come from, ``inductor_post_grad_graph_str``.

Sources: codegen/wrapper.py, output_code.py and torch/fx/graph.py of torch 2.9 and 2.13;
torch/_inductor/cudagraph_utils.py, cudagraph_trees.py, lowering.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.stacks import Line

_CALL: Final = re.compile(
    r"(?m)^[ ]+(?:\w+ = )?(?:torch\.ops\.(?=\w+\.)|(?=aten\.))"
    # The seeds of inductor's own random numbers; attention and the backward pass of a convolution,
    # which lowering.py leaves to torch's libraries on all devices; other libraries; collectives.
    r"(?!aten\.(?:randint\.low_out|convolution_backward)\b)"
    r"(?!aten\._(?:scaled_dot_product|flash|efficient)_\w*attention)"
    r"(?!(?:mkldnn|onednn|mkl|_c10d_functional)\.)(\w+\.\w+)"
)
_NODE: Final = re.compile(r"(?: = |with_effects\(\w+, )torch\.ops\.((?!higher_order)\w+\.\w+)")
_NO_LINE: Final = "# No stacktrace found"


class Fallback(Struct, frozen=True):
    """An operator (``aten.histc``), and its line, which is None where torch does not say it."""

    operator: str
    line: Line | None

    @property
    def words(self) -> str:
        return f"{self.operator} has no kernel of inductor here: it runs as in eager torch"


def fallbacks(code: str, operations: str) -> tuple[Fallback, ...]:
    """Return the fallbacks of a graph in the order of its code."""
    names = [name.rstrip("_") for name in _CALL.findall(code)]
    places: dict[str, list[Line]] = {}
    for name, line in _nodes(operations) if names else ():
        places.setdefault(name, []).append(line)
    remaining = {name: iter(lines) for name, lines in places.items()}
    return tuple(Fallback(name, next(remaining.get(name, iter(())), None)) for name in names)


def _nodes(operations: str) -> Iterator[tuple[str, Line]]:
    """Yield the operators of a graph, each with the line in the comment before it."""
    line: Line | None = None
    for text in operations.splitlines():
        if place := _place(text):
            line = place
        elif _NO_LINE in text:
            line = None
        elif line is not None and (node := _NODE.search(text)):
            # inductor calls scatter_add by the operator that can do more
            yield node[1].rstrip("_").replace("aten.scatter_add", "aten.scatter_reduce"), line


# A part of a function that was compiled ahead of time, lowered by itself: what it is compiled for,
# and where it begins. Both are from the text that is stored with the graph.

_FIRST_INPUT: Final = re.compile(r'def forward\(self, (\w+): "(\w+\[([^\]"]*)\])')
_SYMBOL: Final = re.compile(r"\b[a-z]+\d+")
_WORD: Final = re.compile(r"\w+")


class Part(Struct, frozen=True):
    """The first input of a part (``f32[8, 64]``; ``f32[s72, 64], any s72``), and the line that
    reads it first. They are empty and None where torch does not say it."""

    sizes: str = ""
    line: Line | None = None


def part(operations: str) -> Part:
    """Return what is known of a part from its operations."""
    head = _FIRST_INPUT.search(operations)
    if head is None:
        return Part()
    name, shape, sizes = head.groups()
    symbols = list(dict.fromkeys(_SYMBOL.findall(sizes)))
    line: Line | None = None
    for text in operations[head.end() :].splitlines()[1:]:
        if place := _place(text):
            line = place
        elif name in _WORD.findall(text):
            break
    else:
        line = None
    return Part(f"{shape}, any {', '.join(symbols)}" if symbols else shape, line)


def _place(text: str) -> Line | None:
    """Return the place that a comment of torch names: ``# File: a.py:3 in f, code: x + 1``."""
    place, _, code = text.partition("# File: ")[2].partition(", code: ")
    if not place:
        return None
    place, _, function = place.rpartition(" in ")
    file, _, number = place.rpartition(":")
    return Line(file, int(number), function, code)


# Why inductor records no CUDA graph where one was asked for, in a user's words.

PREFIX: Final = "no CUDA graph: "

WORDS: Final = (
    (r"multiple devices:\s*$", "nothing of it runs on a GPU; move model and inputs to cuda"),
    (
        r"cpu device|multiple devices",
        "a tensor on the CPU takes part; move it to the GPU, or make it there (device=x.device)",
    ),
    (
        r"mutated inputs|storage mutation",
        "it writes to an input in place; return a new tensor, or make the input static "
        "(torch._dynamo.mark_static_address)",
    ),
    (
        r"re-?recording limit",
        "it was recorded too often; keep its inputs at one address and in one shape",
    ),
    (
        r"dynamic|symint|unbacked|_local_scalar_dense|\bitem\b|nonzero",
        "a size or value is known only on the device; keep it a tensor, or pad to a fixed size",
    ),
    (r"non-?tensor", "an input is no tensor; pass it as a tensor"),
    (r"complex memory|overlap", "a tensor overlaps itself; call .contiguous() on it first"),
    (r"allocator|expandable", "the caching allocator is off (PYTORCH_NO_CUDA_MEMORY_CACHING)"),
    (r"cpp.?wrapper", "cpp_wrapper is on; turn it or CUDA graphs off"),
    (
        r"determinis|incompatible|unsafe|custom op|hop|cond|while",
        "an operation in it cannot be recorded; compile the part around it by itself",
    ),
    (r"no part of it", "none of its parts can be recorded; look for operations on the CPU"),
)
"""What torch says, as a pattern, and what we say; the first that is found counts."""
_VALUES: Final = re.compile(r"[(\[{].{0,200}?[)\]}]|\d+")


def skip_words(reason: str) -> str:
    """Return why there is no CUDA graph and what to do, without values that change by run."""
    text = reason.partition("Found from")[0]
    for pattern, advice in WORDS:
        if re.search(pattern, text.strip(), re.I):
            return f"{PREFIX}{advice}"
    first = text.strip().partition("\n")[0].removeprefix("skipping cudagraphs due to ")
    without_values = " ".join(_VALUES.sub("", first).split())
    return f"{PREFIX}{without_values[:200].strip(' .,') or 'torch gives no reason'}"


def skip_line(reason: str) -> Line | None:
    """Return the line that torch names as the one that prevents it, if it names one."""
    lines = stacks.read(reason.partition("Found from")[2])
    return lines[-1] if lines else None
