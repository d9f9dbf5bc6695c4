"""Functions that are captured as a whole: by an export, ahead of time, or at an earlier start.

A function that is loaded (``torch.compiler.load_compiled_function``) has the one graph that was
captured for it. What is stored (``CompileArtifacts`` of torch/_dynamo/aot_compile.py, 2.9 to 2.15)
has the code of the function and no FX graph: how many operations that had is not known.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any

from pytest_graphbreak.layers.base import NOTIFIER
from pytest_graphbreak.layers.dynamo import ahead
from pytest_graphbreak.layers.dynamo.events import (
    Attempt,
    Ended,
    Event,
    GivenUp,
    Local,
    Made,
    Started,
)
from pytest_graphbreak.layers.dynamo.executions import GraphRuns
from pytest_graphbreak.layers.dynamo.frames import owner, written_forward
from pytest_graphbreak.layers.hooks import caller
from pytest_graphbreak.model.stacks import Line, first_line

LookUp = Callable[[FrameType | None], tuple[tuple[Line, ...], Attempt | None]]
"""Returns the stack above a frame, and the attempt at its nearest function."""


class Captures:
    """Notes among ``events`` what is captured or loaded; ``runs`` returns what counts its runs."""

    def __init__(
        self,
        events: list[Event],
        local: Local,
        look_up: LookUp,
        runs: Callable[[], GraphRuns | None],
    ) -> None:
        self._events = events
        self._local = local
        self._look_up = look_up
        self._runs = runs
        self._count = 0
        self._unused: list[tuple[weakref.ref[Any], Made, ahead.Function]] = []

    def capture(self, root: Any) -> Attempt:
        """Return the attempt for a function that is captured. ``root`` is what Dynamo traces it by.

        Loads of it that were given up are noted: an engine loads what it compiled at an earlier
        start, finds that it is not what it can use, and compiles again (vLLM 0.32).
        """
        code, values = getattr(root, "f_code", None), getattr(root, "f_locals", {})
        attempt = self._attempt(code, values, caller())
        ahead.begin().name = attempt.id
        for reference, graph, function in [*self._unused]:
            same = graph.attempt.code == attempt.code
            if same and reference() is None and not self._has_run(graph):
                function.given_up = True
                self._events.append(GivenUp(graph))
                self._unused.remove((reference, graph, function))
        return attempt

    def _has_run(self, graph: Made) -> bool:
        runs = self._runs()
        return runs is not None and runs.has_run(graph)

    def _attempt(
        self, code: CodeType | None, values: Mapping[str, Any], frame: FrameType | None
    ) -> Attempt:
        attempt = Attempt(f"capture/{self._count}", outcome="compiled", is_capture=True)
        self._count += 1
        attempt.above = self._look_up(frame)[0]
        if code is not None:
            attempt.code = first_line(code)
            attempt.written = first_line(written_forward(code, values) or code)
            attempt.owner = owner(frame, values)
        self._events.extend([Started(attempt), Ended(attempt)])
        return attempt

    def note(self, compiled: Any, loaded: bool) -> None:
        """Note a function compiled ahead of time, which was ``loaded`` or captured right before."""
        artifacts = compiled._artifacts
        graph = self._local.latest_graph
        if loaded:
            frame = caller()  # the __init__ of a dataclass, which has no file
            attempt = self._attempt(artifacts.original_code, {}, frame and frame.f_back)
            attempt.graphs = attempt.calls = 1
            graph = Made(attempt, 0, cached="loaded")
            function = ahead.latest() or ahead.begin()
            function.name = attempt.id
            self._events.append(graph)
            self._unused.append((weakref.ref(compiled), graph, function))
            NOTIFIER.listener.on_event()
        if (runs := self._runs()) is not None:
            runs.add_ahead_of_time(compiled.fn, artifacts.backend_id, graph)
