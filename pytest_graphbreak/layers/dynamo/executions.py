"""Counts how often captured graphs ran, and which lines called them.

A backend returns a function for each graph, and Dynamo puts it under a name of its own,
``__compiled_fn_...``, into the globals of the function that it compiled; the code that Dynamo made
looks it up there each time. While a window is open, a function that counts replaces it.
So each run is counted with the graph that ran, in all threads, and a frame without a graph is not.
(Guards report only that some code was found: ``set_guard_complete_hook`` of torch 2.7 and later is
called for frames without a graph, too, and has one place, which guard collectives take.)

``sensors`` makes a ``GraphRuns`` and attaches it, which finds what was compiled before:

- by the hooks with which Dynamo takes these names away again (``CleanupManager``);
- functions that were compiled ahead of time, or loaded, if an earlier window saw them. They have
  globals of their own with such a name.

From then on ``add`` is called for what Dynamo puts into globals, ``add_ahead_of_time`` by
``captures``. A window looks at ``calls_so_far`` when it opens and when it is read; ``runs`` names
the lines of the difference, ``calls_since``. A child process is told of each call as well
(``notifier``), since it may be killed at any moment.

Sources: ``OutputGraph.install_global_unsafe`` of torch/_dynamo/output_graph.py, ``CleanupManager``
of torch/_dynamo/utils.py, torch/_dynamo/aot_compile.py. Compared with the calls of what the backend
returned on torch 2.6.0 (45 cases of ``cases/dynamo.py``), 2.9.1 (138) and 2.13.0 (115);
docs/explanation/proof.md says how.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.dynamo.events import Made
from pytest_graphbreak.layers.dynamo.kept_out import keep_out, never_compile
from pytest_graphbreak.layers.hooks import COUNTING, count_calls
from pytest_graphbreak.layers.imports import directory
from pytest_graphbreak.layers.notifier import NOTIFIER
from pytest_graphbreak.model.items import NOWHERE, LineRuns
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.stacks import line_of

LAYER: Final = "dynamo"
_PREFIX: Final = "__compiled_fn"

Key = tuple[int, int, int]
"""The place of a call of a graph: the ``id`` of the code object (0 if no frame is the user's), its
instruction, the thread."""
Counted = dict[tuple[int, Key], int]
"""The number of calls of each compiled function from each place: ``{(2, (94..., 48, 140...)): 5}``
if function 2, by its position in the list of ``GraphRuns``, was called five times from there."""

_AHEAD_OF_TIME: Final[WeakKeyDictionary[Any, str]] = WeakKeyDictionary()
"""The functions compiled ahead of time in this process, each with the name of its graph."""


class _Compiled:
    """A function that a backend returned, with its calls by place: a ``CountedFunction``.

    ``graph`` is the ``Made`` of the graph that it runs, an event of ``graphs``; None where it was
    compiled before the sensors went in. ``scope`` are the globals in which Dynamo put it under
    ``name``; ``codes`` has the code objects of the places, which ``GraphRuns`` shares with all.
    """

    def __init__(
        self, scope: dict[str, Any], name: str, graph: Made | None, codes: Mapping[int, CodeType]
    ) -> None:
        self.graph = graph
        self._codes = codes
        self.calls: dict[Key, int] = {}
        self._scope = scope
        self._name = name
        self._original = scope[name]
        self._counting: Any = None

    def line(self, key: Key, places: Places) -> LineRuns:
        """Return one run that this place asked for."""
        code, instruction, _ = key
        graph, where = self.graph, NOWHERE
        if code in self._codes:  # 0 is not
            where = places.frame(*line_of(self._codes[code], instruction))
        if graph is None:
            return LineRuns(LAYER, "call", "", count=1, where=where)
        # The parts that DDP cut a graph into run in one call.
        return LineRuns(LAYER, "call", graph.attempt.id, count=graph.buckets, where=where)

    def attach(self, called: Callable[[_Compiled], None]) -> None:
        """Put in a function that calls ``called`` with this before each run."""
        self._counting = count_calls(self._original, called, self)
        self._scope[self._name] = self._counting

    def detach(self) -> None:
        """Put the backend's function back, if ours is still there."""
        if self._scope.get(self._name) is self._counting:
            self._scope[self._name] = self._original


class GraphRuns:
    """The runs of all compiled graphs while this is attached."""

    def __init__(self) -> None:
        self._compiled: list[_Compiled] = []
        self._codes: dict[int, CodeType] = {}
        """The code objects that were met on stacks, by ``id()``."""
        self._torch = ""
        """The directory of torch; it is known once this is attached."""
        self._is_torchs: dict[int, bool] = {}
        """Whether the code of this ``id()`` is torch's, which is passed over."""

    def attach(self) -> None:
        """Begin to count, also the runs of what was compiled before."""
        self._torch = directory("torch")
        never_compile(COUNTING)
        keep_out(self._count_call)
        for hooks in [*names.value(names.CLEANUP).instance.values.values()]:
            for hook in hooks:
                self.add(hook.scope, hook.name, None)
        for function, name in [*_AHEAD_OF_TIME.items()]:
            self.add(function.__globals__, name, None)

    def add(self, scope: dict[str, Any], name: str, graph: Made | None) -> None:
        """Handle something that Dynamo put into the globals of a function that it compiled."""
        if name.startswith(_PREFIX) and name in scope:
            compiled = _Compiled(scope, name, graph, self._codes)
            compiled.attach(self._count_call)
            self._compiled.append(compiled)

    def add_ahead_of_time(self, function: Any, name: str, graph: Made | None) -> None:
        """Handle the function that runs the graph of one that was compiled ahead of time."""
        _AHEAD_OF_TIME[function] = name
        self.add(function.__globals__, name, graph)

    def has_run(self, graph: Made) -> bool:
        """Return whether a graph ran: ``captures`` asks it of a function that is gone."""
        return any(compiled.calls for compiled in self._compiled if compiled.graph is graph)

    def detach(self) -> None:
        for compiled in self._compiled:
            compiled.detach()

    def _count_call(self, compiled: _Compiled) -> None:
        """Count a call of a compiled function. No other thread writes the same key."""
        # Frames: this one, that of count_calls, the code that Dynamo made, its caller.
        frame: FrameType | None = sys._getframe(3)
        is_torchs = self._is_torchs
        while frame is not None:
            code = frame.f_code
            if not (is_torchs[id(code)] if id(code) in is_torchs else self._classify(code)):
                break
            frame = frame.f_back
        thread = threading.get_ident()
        key = (0, 0, thread) if frame is None else (id(frame.f_code), frame.f_lasti, thread)
        calls = compiled.calls
        calls[key] = calls.get(key, 0) + 1
        NOTIFIER.listener.on_run(compiled, key)

    def _classify(self, code: CodeType) -> bool:
        """Return whether code is torch's; it is kept alive, so that no other code gets its id."""
        self._codes[id(code)] = code
        self._is_torchs[id(code)] = is_torchs = code.co_filename.startswith(self._torch)
        return is_torchs

    def calls_so_far(self) -> Counted:
        """Return all calls up to now."""
        return {
            (number, key): count
            for number, compiled in enumerate([*self._compiled])
            for key, count in [*compiled.calls.items()]
        }

    def runs(self, counted: Mapping[tuple[int, Key], int], places: Places) -> Iterator[LineRuns]:
        """Yield what these calls ran, with the lines that called."""
        for (number, key), count in counted.items():
            line = self._compiled[number].line(key, places)
            yield replace(line, count=line.count * count)


def calls_since(after: Counted, before: Counted) -> Counted:
    """Return the calls after a moment."""
    return {
        key: count - before.get(key, 0)
        for key, count in after.items()
        if count > before.get(key, 0)
    }
