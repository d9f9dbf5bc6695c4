"""Says why code is compiled again for another size, and which line needs that size as a number.

A guard names a size that differs. If the size was dynamic and a line needed it as a number, such as
``range(x.shape[0])``, it is fixed again, in each compilation: no mark and no setting changes that.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
import torch._dynamo.utils
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from pytest_graphbreak.model.places import function_name, places

Reason = dict[str, Any]
"""``why``, and ``file``, ``line``, ``function`` and ``code`` of the line that fixes a size.

For another guard these are in ``at``: sizes may still be made dynamic then.
"""

_SIZE: Final = re.compile(r"L\['(?:kwargs'\]\[')?(\w+)'\](.*)\.size\(\)\[(\d+)\]")
_PLACE: Final = re.compile(r"(?P<file>[^:]{1,4000}):(?P<line>\d{1,9}) in (?P<function>\S{1,500})")
_GUARD: Final = re.compile(
    r"(?P<guard>[^#\n]{1,2000}?)\s+# (?P<code>[^\n]{1,2000}?)\s+"
    r"# (?P<file>[^:#\n]{1,4000}):(?P<line>\d{1,9}) in (?P<function>\S{1,500})"
)
_VALUE: Final = re.compile(r"(\S{1,500}) == \S{1,500}")
_LONGEST: Final = 200


class Compilations:
    """The compilations of a block, from one question to the next."""

    def __init__(self) -> None:
        self._envs: list[ShapeEnv] = []
        self._known: list[Any] = []

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Note each environment of sizes that torch makes: nothing else leads to it afterwards."""
        plain, envs = ShapeEnv.__init__, self._envs
        self._known = list(torch._dynamo.utils.get_compilation_metrics())

        def noted(env: ShapeEnv, *args: Any, **options: Any) -> None:
            plain(env, *args, **options)
            envs.append(env)

        ShapeEnv.__init__ = noted
        try:
            yield
        finally:
            ShapeEnv.__init__ = plain

    def reason(self) -> Reason:
        """Return why code was compiled since the last question; the line if a size is fixed."""
        metrics = list(torch._dynamo.utils.get_compilation_metrics())
        new = [one for one in metrics if not any(one is old for old in self._known)]
        guards = [one.recompile_reason for one in new if one.recompile_reason]
        fixed = [one for env in self._envs for one in _fixed(env)]
        self._known = metrics
        self._envs.clear()
        if fixed:
            return next((one for one in fixed if one.get("code")), fixed[0])
        if not guards:
            return {"why": "code that the program did not run is compiled"}
        return _failed(guards[0].partition(": ")[2].strip().partition("\n")[0])


def _failed(guard: str) -> Reason:
    """Return a guard that failed, without its value, and the line that is compiled for that value.

    torch writes it as ``L['n'] == 3  # x * n  # a.py:7 in f``, and adds a remark in brackets if the
    line is the first that uses the value.
    """
    guard = guard.partition(" (user code shown")[0]
    found = _GUARD.fullmatch(guard)
    if found is None and "'NoneType' object has no" in guard:
        return {"why": "something is None now that was not when it was compiled"}
    if found is None:
        return {"why": guard[:_LONGEST]}
    value = _VALUE.fullmatch(found["guard"])
    where = {
        "file": found["file"],
        "line": int(found["line"]),
        "function": function_name(found["function"]),
    }
    why = f"{value[1]} varies" if value else found["guard"]
    return {"why": why[:_LONGEST], "at": {**where, "code": found["code"]}}


def _fixed(env: ShapeEnv) -> Iterator[Reason]:
    """Yield the sizes of the inputs that were dynamic, and became numbers."""
    for symbol, value in env.replacements.items():
        sources = env.var_to_sources.get(symbol)
        if not sources or not value.is_Integer:
            continue
        named: Any = sources[0].name  # a method up to torch 2.9
        text = named() if callable(named) else named
        size = _SIZE.fullmatch(text)
        why = f"dimension {size[3]} of {size[1]}{size[2]}" if size else text
        yield {"why": f"{why} is needed as a number", **_line(env, symbol, sources[0])}


def _line(env: ShapeEnv, symbol: Any, source: Any) -> Reason:
    """Return the line of the user's that needs a size; torch shortens the name of its file."""
    place = getattr(env.replacements_slocs.get(symbol), "maybe_user_loc", None)
    code, _, where = (place or "").rpartition("  # ")
    found = _PLACE.fullmatch(where)
    if found is None:
        return {}
    here = (int(found["line"]), found["function"])
    stack = env.specialization_stacks.get(source) or ()
    files = [one.filename for one in stack if (one.lineno, one.name) == here]
    if not files:
        line = {"file": found["file"], "line": here[0], "function": here[1]}
        return {**line, "code": code.strip()}
    frame = places(Path.cwd()).frame(files[0], *here)
    return {key: getattr(frame, key) for key in ("file", "line", "function", "code")}
