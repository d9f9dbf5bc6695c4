"""Reads the texts that inductor stores with a graph: its fallbacks, and where a part begins.

``sensors`` hands over two texts of a ``CompiledFxGraph``, which are the same from a cache:

    code        ``source_code``, what inductor generated:
                    buf1 = torch.ops.aten.histc.default(primals_1, 4)
    operations  ``inductor_post_grad_graph_str``, what it was generated from, with lines of source:
                    # File: /src/a.py:15 in f, code: h = torch.histc(x, 4)
                    histc: "f32[4][1]cpu" = torch.ops.aten.histc.default(primals_1, 4)

Sources: torch/_inductor/codegen/wrapper.py and torch/fx/graph.py of torch 2.9 and 2.13.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from pytest_graphbreak.model.stacks import Line

# An operation that inductor generates no code for is called as eager torch does.


class Fallback(Struct, frozen=True):
    """An operator (``aten.histc``), and its line, which is None where torch does not say it."""

    operator: str
    line: Line | None

    @property
    def words(self) -> str:
        return f"{self.operator} has no kernel of inductor here: it runs as in eager torch"


# A call in ``code``, of which the operator is taken: ``aten.histc``, ``aten.index_put_``.
#     buf1 = torch.ops.aten.histc.default(primals_1, 4)
#     aten.index_put_(buf0, [buf4], buf5, True)
_CALL: Final = re.compile(
    r"(?m)^[ ]+(?:\w+ = )?(?:torch\.ops\.(?=\w+\.)|(?=aten\.))"
    # The seeds of inductor's own random numbers; attention and the backward pass of a convolution,
    # which lowering.py leaves to torch's libraries on all devices; other libraries; collectives.
    r"(?!aten\.(?:randint\.low_out|convolution_backward)\b)"
    r"(?!aten\._(?:scaled_dot_product|flash|efficient)_\w*attention)"
    r"(?!(?:mkldnn|onednn|mkl|_c10d_functional)\.)(\w+\.\w+)"
)
# The operator of a node in ``operations``, plain or with a token of its effects:
#     histc: "f32[4][1]cpu" = torch.ops.aten.histc.default(primals_1, 4)
#     with_effects = torch.ops.higher_order.with_effects(token, torch.ops.aten.sort.default, ...
_NODE: Final = re.compile(r"(?: = |with_effects\(\w+, )torch\.ops\.((?!higher_order)\w+\.\w+)")


def fallbacks(code: str, operations: str) -> tuple[Fallback, ...]:
    """Return the fallbacks of a graph in the order of its code.

    The first call of an operator there is the first one in the operations, and so on.
    """
    names = [name.rstrip("_") for name in _CALL.findall(code)]
    if not names:
        return ()
    lines: dict[str, deque[Line | None]] = defaultdict(deque)
    for text, line in _nodes(operations):
        if line is not None and (node := _NODE.search(text)):
            # inductor calls scatter_add by the operator that can do more
            name = node[1].rstrip("_").replace("aten.scatter_add", "aten.scatter_reduce")
            lines[name].append(line)
    return tuple(Fallback(name, lines[name].popleft() if lines[name] else None) for name in names)


# An engine may lower a function that was compiled ahead of time in parts, each by itself (vLLM).


class Part(Struct, frozen=True):
    """A part of a function, as it is told from the others."""

    sizes: str = ""
    """Its first input: ``f32[8, 64]``, or ``f32[s72, 64], any s72``; empty if not known."""
    line: Line | None = None
    """The line that reads that input first; None if not known."""


# ``def forward(self, arg0_1: "f32[s72, 64][64, 1]cpu", ...``: name, type with sizes, and sizes.
_FIRST_INPUT: Final = re.compile(r'def forward\(self, (\w+): "(\w+\[([^\]"]*)\])')
_SYMBOL: Final = re.compile(r"\b[a-z]+\d+")
"""A size that is not fixed: ``s72``, ``u0``."""
_WORD: Final = re.compile(r"\w+")


def read_part(operations: str) -> Part:
    """Return what is known of a part from its operations."""
    head = _FIRST_INPUT.search(operations)
    if head is None:
        return Part()
    name, shape, sizes = head.groups()
    symbols = list(dict.fromkeys(_SYMBOL.findall(sizes)))
    _, _, body = operations[head.end() :].partition("\n")
    reads = (line for text, line in _nodes(body) if name in _WORD.findall(text))
    return Part(f"{shape}, any {', '.join(symbols)}" if symbols else shape, next(reads, None))


# Both read the operations by the lines of source in the comments between them.

_NO_LINE: Final = "# No stacktrace found"


def _nodes(operations: str) -> Iterator[tuple[str, Line | None]]:
    """Yield the text of each operation, with the line of source in the comment before it."""
    line: Line | None = None
    for text in operations.splitlines():
        if place := _place(text):
            line = place
        elif _NO_LINE in text:
            line = None
        else:
            yield text, line


def _place(text: str) -> Line | None:
    """Return the place that a comment of torch names: ``# File: a.py:3 in f, code: x + 1``."""
    place, _, code = text.partition("# File: ")[2].partition(", code: ")
    if not place:
        return None
    place, _, function = place.rpartition(" in ")
    file, _, number = place.rpartition(":")
    return Line(file, int(number), function, code)
