"""Writes logs as the TT plugin prints them, and knows their true counts.

The line format is that of tt-xla: a loguru preamble and the header in one
write, then the text of the module and the END marker raw, in as many writes as
it takes. Writes of several processes or threads can be put between each other;
no write is ever cut, but by the end of the log.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

NINE = (
    "vhlo",
    "shlo",
    "shlo_frontend",
    "shlo_compiler",
    "shlo_set_mesh_attr",
    "shlo_compiler_cleaned",
    "ttir",
    "ttnn",
    "ttnn_runtime",
)
EIGHT = NINE[:-1]
SEVEN = tuple(stage for stage in EIGHT if stage != "shlo_set_mesh_attr")
SIX = tuple(stage for stage in SEVEN if stage != "shlo_compiler_cleaned")
LOAD = NINE[:6]
VERSIONS = (NINE, EIGHT, SEVEN, SIX)

OLD = {
    "vhlo": "VHLO Module:",
    "shlo": "SHLO Module:",
    "shlo_frontend": "SHLO Module after frontend StableHLO pipeline:",
    "shlo_compiler": "SHLO Module after compiler StableHLO pipeline:",
    "ttir": "TTIR Module:",
    "ttnn": "TTNN Module:",
}
END = "------------------ END OF MLIR MODULE ------------------\n"

FAILURES = {
    "vhlo": "Failed to convert from VHLO to SHLO module",
    "shlo": "Failed to run stablehlo pipeline",
    "shlo_frontend": "Failed to run stablehlo pipeline",
    "shlo_compiler": "Failed to set proper sdy.mesh attribute in SPMD mode",
    "shlo_set_mesh_attr": "Failed to convert from SHLO to TTIR module",
    "shlo_compiler_cleaned": "Failed to convert from SHLO to TTIR module",
    "ttir": "Failed to run TTIRToTTNNCommon pipeline",
}

_OPS = {
    "vhlo": '    %1 = "vhlo.add_v1"(%arg0, %arg0) : (!vhlo.tensor_v1<2x8x!vhlo.f32_v1>)',
    "ttir": '    %1 = "ttir.add"(%arg0, %arg0) : (tensor<2x8xf32>, tensor<2x8xf32>)',
    "ttnn": '    %1 = "ttnn.add"(%arg0, %arg0) : (tensor<2x8xf32, #ttnn_layout>)',
    "ttnn_runtime": '    %1 = "ttnn.add"(%arg0, %arg0) : (tensor<2x8xf32, #ttnn_layout>)',
}
_SHLO = "    %1 = stablehlo.add %arg0, %arg0 : tensor<2x8xf32>"


class Write(NamedTuple):
    """One write to the log. ``stage`` if it is a header, ``error`` if it is the compiler's."""

    text: bytes
    graph: int
    stage: str = ""
    error: bool = False

    def __repr__(self) -> str:
        return f"<{self.graph} {self.stage or len(self.text)}>"


@dataclass
class Style:
    """How a run prints: its format, and what is before and in its lines."""

    colour: bool = False
    crlf: bool = False
    rank: str = ""
    thread: str = "421D1300"
    old: bool = False
    ends: bool = True
    headers: bool = True
    bodies: bool = True
    dialects: bool = True
    junk: bytes = b""


@dataclass
class Writer:
    """Makes the writes of graphs, one after the other in one thread of one process."""

    style: Style = field(default_factory=Style)
    clock: float = 12.0

    def graph(
        self,
        number: int,
        stages: Sequence[str] = NINE,
        name: str | None = None,
        fails_after: str | None = None,
        says: bool = True,
    ) -> list[Write]:
        """All writes of one graph. ``says``: whether a failure prints its error line."""
        name = name or f"SyncTensorsGraph.{number * 19 + 12}"
        writes = []
        for stage in stages:
            if self.style.headers:
                writes.append(self._line(number, f"{self._header(stage)}", stage=stage))
            if self.style.bodies:
                writes += self._body(number, stage, name)
            if self.style.ends:
                writes.append(self._raw(number, END))
            if stage == fails_after:
                if says:
                    writes += self._failure(number, stage)
                break
        return writes

    def note(self, number: int, text: str, level: str = "1") -> Write:
        return self._line(number, text, level)

    def _header(self, stage: str) -> str:
        return OLD[stage] if self.style.old else f"MLIR Module {stage}:"

    def _failure(self, number: int, stage: str) -> list[Write]:
        diagnostic = (
            "loc(\"reduce-window.112\"): error: failed to legalize operation 'stablehlo.x'\n"
        )
        line = self._line(
            number, FAILURES.get(stage, "Failed to generate flatbuffer binary"), "ERR"
        )
        return [self._raw(number, diagnostic), line._replace(error=True)]

    def _line(self, number: int, message: str, level: str = "1", stage: str = "") -> Write:
        self.clock += 0.007
        text = (
            f"2026-08-21 10:22:{52 + self.clock % 7:06.3f} ({self.clock:8.3f}s) "
            f"[{self.style.thread:>16}]{'module_builder.cc':>23}:{1278:<5} {level:>4}| {message}"
        )
        if self.style.colour:
            text = f"\x1b[0m\x1b[2m{text}\x1b[0m"
        return Write(self._encode(text + "\n"), number, stage)

    def _body(self, number: int, stage: str, name: str) -> list[Write]:
        op = _OPS.get(stage, _SHLO) if self.style.dialects else "    ..."
        pieces = [
            '#loc1 = loc("p0.1")\n',
            f"module @{name} attributes {{mhlo.num_partitions = 1 : i32}} {{\n",
            '  func.func @main(%arg0: tensor<2x8xf32> {ttir.name = "a"} loc("p0.1")) {\n',
            f"{op} loc(#loc2)\n",
            "  } loc(#loc)\n} loc(#loc)\n",
            "#loc = loc(unknown)\n",
        ]
        writes = [self._raw(number, piece) for piece in pieces]
        if self.style.junk:
            writes.insert(4, Write(self._encode("") + self.style.junk + b"\n", number))
        return writes

    def _raw(self, number: int, text: str) -> Write:
        return Write(self._encode(text), number)

    def _encode(self, text: str) -> bytes:
        if self.style.rank:
            lines = text.splitlines(keepends=True)
            text = "".join(f"[{self.style.rank}]<stderr>:{line}" for line in lines)
        if self.style.crlf:
            text = text.replace("\n", "\r\n")
        return text.encode()


class Truth(NamedTuple):
    """What a log holds: graphs begun, graphs lowered."""

    attempted: int
    completed: int


def truth(writes: Iterable[Write], size: int | None = None) -> Truth:
    """The counts of a log of these writes that ends after ``size`` bytes."""
    begun: set[int] = set()
    lowered: set[int] = set()
    at = 0
    for write in writes:
        colon = write.text.rfind(b"Module") if write.stage else -1
        if colon >= 0:
            colon = write.text.index(b":", colon)
            if size is None or at + colon + 1 <= size:
                if write.stage == "vhlo":
                    begun.add(write.graph)
                if write.stage == "ttnn":
                    lowered.add(write.graph)
        at += len(write.text)
    return Truth(len(begun), len(lowered))


def interleave(threads: Sequence[Sequence[Write]], rng: random.Random) -> list[Write]:
    """The writes of several threads in one log, each thread's in its own order."""
    queues = [list(reversed(thread)) for thread in threads if thread]
    mixed = []
    while queues:
        queue = rng.choice(queues)
        mixed.append(queue.pop())
        if not queue:
            queues.remove(queue)
    return mixed


def join(writes: Iterable[Write]) -> bytes:
    return b"".join(write.text for write in writes)


TORCH = "V0821 10:22:52.100000 4242 torch/_dynamo/"


def dynamo(id: str, name: str = "forward", file: str = "/home/me/net.py", line: int = 10) -> bytes:
    """Dynamo compiles a frame into one graph (``TORCH_LOGS=+dynamo``)."""
    prefix = f"{TORCH}convert_frame.py:930] [{id}] "
    return (
        f"{prefix}torchdynamo start compiling {name} {file}:{line}, stack (elided 5 frames):\n"
        f'{prefix}  File "/home/me/main.py", line 3, in <module>\n'
        f"{prefix}    net(x)\n"
        f"{prefix}\n"
        f"{TORCH}symbolic_convert.py:2706] [{id}] Step 1: torchdynamo start tracing "
        f"{name} {file}:{line}\n"
        f"{TORCH}output_graph.py:1500] [{id}] Step 2: calling compiler function tt\n"
        f"{TORCH}output_graph.py:1505] [{id}] Step 2: done compiler function tt\n"
    ).encode()


def broke(id: str, line: int, code: str, reason: str = "Failed to trace builtin operator") -> bytes:
    """Dynamo reports a graph break."""
    prefix = f"{TORCH}symbolic_convert.py:5124] [{id}] [__graph_breaks] "
    text = (
        f"Graph break in user code at /home/me/net.py:{line}\n"
        f"Graph Break Reason: {reason}\n"
        "  Explanation: Dynamo does not know how to trace it\n"
        "  Hint: Avoid it.\n"
        "\n"
        "  Developer debug context: builtin print\n"
        "\n"
        " For more details about this graph break, please visit: "
        "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html\n"
        "\n"
        "User code traceback:\n"
        f'  File "/home/me/net.py", line {line}, in forward\n'
        f"    {code}\n"
    )
    return "".join(f"{prefix}{part}\n" for part in text.split("\n")).encode()


def compilation(cause: str, frames: Sequence[str] = ("<module> (/home/me/main.py:7)",)) -> bytes:
    """torch_xla reports a compilation (``PT_XLA_DEBUG_LEVEL=1``)."""
    rule, line = "=" * 80, "-" * 80
    body = [
        rule,
        "Compilation Cause",
        f"  {cause}",
        "Graph Info: ",
        "  Graph Hash: 15a8d4cc2a3da07d6a0ee323488ba5ec",
        "  Number of Graph Inputs: 2",
        "  Number of Graph Outputs: 1",
        "Python Frame Triggered Execution: ",
        *(f"  {frame}" for frame in frames),
        line,
        rule,
    ]
    text = "".join(f"Compilation Analysis: {part}\n" for part in body)
    return (
        f"\n{text}\nComputation hash: ef22cd4d9884153787e4ca220c0abd32\n\n"
        f"Post Compilation Analysis: {rule}\nPost Compilation Analysis: Graph input size: 0 GB\n"
        f"Post Compilation Analysis: {line}\nPost Compilation Analysis: {rule}\n"
    ).encode()
