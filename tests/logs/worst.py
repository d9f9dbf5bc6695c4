"""Texts that were written to take long: each of one kind of line, or of one part of a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_LINE: Final = "V0821 10:22:52.100000 4242 torch/_dynamo/{}.py:1] [0/{}] {}\n"
_MODULE: Final = "module_builder.cc:1 1| MLIR Module vhlo:"


def _line(file: str, again: int, text: str) -> str:
    return _LINE.format(file, again, text)


def _frames(count: int) -> str:
    first = _line("convert_frame", 0, "[__graph_breaks] Graph break in user code at a:1")
    frame = _line("convert_frame", 0, '[__graph_breaks]   File "' + "a" * 50)
    return first + frame * (count // len(frame))


WORST: Final[dict[str, Callable[[int], str]]] = {
    "refused": lambda n: _line("convert_frame", 0, "WON'T CONVERT " + "f " * n),
    "recompiled": lambda n: _line(
        "guards", 1, "[__recompiles] Recompiling function " + "f in " * n
    ),
    "limit": lambda n: (
        _line("convert_frame", 8, "hit config.a (8)")
        + _line("convert_frame", 8, "function: '" + "' (" * n)
    ),
    "guard": lambda n: (
        _line("guards", 1, "[__recompiles] Recompiling function f in a.py:1")
        + _line("guards", 1, "[__recompiles]     - 0/0: " + " " * n + "#")
    ),
    "reason": lambda n: (
        _line("symbolic_convert", 1, "[__graph_breaks] Graph break in user code at a.py:1")
        + _line("symbolic_convert", 1, "[__graph_breaks] Reason: " + "a " * n)
    ),
    "unsupported": lambda n: (
        _line("symbolic_convert", 1, "[__graph_breaks] Graph break: from user code at:")
        + _line("symbolic_convert", 1, "[__graph_breaks] torch._dynamo.exc.X: " + "a " * n)
    ),
    "spaces": lambda n: _line("convert_frame", 0, "[__graph_breaks] Graph break" + " " * n),
    "frames": _frames,
    "ends": lambda n: "------------------ END OF MLIR MODULE ------------------" * (n // 20),
    "marks": lambda n: "[__graph_breaks]" * (n // 10),
    "analysis": lambda n: "Compilation Analysis: " * (n // 10),
    "headers": lambda n: f"{_MODULE} " * (n // 20),
    "callsites": lambda n: (
        f"{_MODULE}\n#loc1 = loc(" + "callsite(a at " * n + ')\n#loc2 = loc("aten__x"(#loc1))\n'
    ),
    "modules": lambda n: f'{_MODULE}\n#loc1 = loc("0|' + "[" * n + '|a.py:1|f|1|x")\n',
    "ranks": lambda n: "\x1b[0m" * n + "[__graph_breaks]\n",
    "slashes": lambda n: f'{_MODULE}\n#loc1 = loc("' + "/a" * n + '.py":1:0)\n',
}
"""By name; each gives a text of about so many characters, or a few times as many."""
