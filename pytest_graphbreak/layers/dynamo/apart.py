"""Keeps Dynamo from compiling what observes it.

While a compiled function runs, Dynamo is asked about each Python frame that is entered in its
thread, also below code that has left the compiler. For each code object torch keeps whether it may
be compiled, and whether what it calls may be (``set_code_exec_strategy`` of
torch/csrc/dynamo/eval_frame_cpp.cpp, torch 2.9 to 2.15), and looks there by itself: nothing is
turned off around a call of ours that an exception could leave off.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

from pytest_graphbreak.layers.dynamo import private

_MARKED: Final[dict[int, CodeType]] = {}
"""The code that is marked, by its id, and kept so that the id stays its own."""


def never_compile(code: CodeType, within: bool = False) -> None:
    """Have Dynamo run this code as it is from now on, and with ``within`` also what it calls.

    Does nothing without torch. Raises ``MissingName``.
    """
    if id(code) not in _MARKED and private.STRATEGY.module in sys.modules:
        strategy, action = private.value(private.STRATEGY_KIND), private.value(private.ACTION)
        called = action.SKIP if within else action.DEFAULT
        private.value(private.STRATEGY)(code, strategy(action.SKIP, called))
        _MARKED[id(code)] = code


def keep_out(function: Callable[..., Any]) -> None:
    """Have Dynamo leave a function of ours alone, with all that it calls. Raises ``MissingName``"""
    code = getattr(function, "__code__", None)
    if code is not None:
        never_compile(code, within=True)
