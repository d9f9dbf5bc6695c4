"""Has Dynamo leave the code that observes it alone: it is never compiled.

While a compiled function runs, Dynamo is asked about each Python frame that is entered in its
thread, also below code that has left the compiler. Our hooks are called there, too. For each code
object torch keeps whether it may be compiled, and whether what it calls may be
(``set_code_exec_strategy`` of torch/csrc/dynamo/eval_frame_cpp.cpp, torch 2.9 to 2.15), and looks
there by itself. So nothing is turned off around a call of ours that an exception could leave off.

There are two kinds of code::

    patched(...)            never_compile   our wrapper; what it calls may be compiled
        the original                        torch's function, or a graph
        note(...)           keep_out        our own work, with all that it calls

Whoever puts a hook in marks its code first. A mark stays, and code that is marked already costs a
look-up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

from pytest_graphbreak.layers.dynamo import private as names

_MARKED: Final[dict[int, CodeType]] = {}
"""The code that is marked, by its id, and kept alive so that no other code gets that id."""


def never_compile(code: CodeType, within: bool = False) -> None:
    """Have Dynamo run this code as it is from now on, and with ``within`` also what it calls.

    Does nothing without torch. Raises ``MissingName``.
    """
    if id(code) not in _MARKED and names.STRATEGY.module in sys.modules:
        strategy, action = names.value(names.STRATEGY_KIND), names.value(names.ACTION)
        called = action.SKIP if within else action.DEFAULT
        names.value(names.STRATEGY)(code, strategy(action.SKIP, called))
        _MARKED[id(code)] = code


def keep_out(function: Callable[..., Any]) -> None:
    """Have Dynamo leave a function of ours alone, with all that it calls. Raises ``MissingName``"""
    code = getattr(function, "__code__", None)
    if code is not None:
        never_compile(code, within=True)
