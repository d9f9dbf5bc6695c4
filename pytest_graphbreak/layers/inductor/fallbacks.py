"""The operations of a graph that inductor generates no code for, but calls as eager torch does.

Both texts that are read are stored with the graph, so they are the same from a cache: its code,
``source_code`` (``buf1 = torch.ops.aten.histc.default(primals_1, 4)``), and the operations before
that with the lines that they come from, ``inductor_post_grad_graph_str``.

Sources: codegen/wrapper.py, output_code.py and torch/fx/graph.py of torch 2.9 and 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pytest_graphbreak.model.stacks import Line

_CALL: Final = re.compile(
    r"(?m)^[ ]+(?:\w+ = )?(?:torch\.ops\.(?=\w+\.)|(?=aten\.))"
    # The seeds of inductor's own random numbers; calls of libraries; collectives.
    r"(?!aten\.randint\.low_out\b|(?:mkldnn|onednn|mkl|_c10d_functional)\.)(\w+\.\w+)"
)
_NODE: Final = re.compile(r"(?: = |with_effects\(\w+, )torch\.ops\.((?!higher_order)\w+\.\w+)")
_NO_LINE: Final = "# No stacktrace found"


@dataclass(frozen=True, slots=True)
class Fallback:
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
        place, _, code = text.partition("# File: ")[2].partition(", code: ")
        if place:
            place, _, function = place.rpartition(" in ")
            file, _, number = place.rpartition(":")
            line = Line(file, int(number), function, code)
        elif _NO_LINE in text:
            line = None
        elif line is not None and (node := _NODE.search(text)):
            # inductor calls scatter_add by the operator that can do more
            yield node[1].rstrip("_").replace("aten.scatter_add", "aten.scatter_reduce"), line
