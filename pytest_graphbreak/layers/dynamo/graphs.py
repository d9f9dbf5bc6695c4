"""The sensors for graphs: one is noted for each call of the backend that returned.

Of all calls of the backend that torch makes (2.6 to 2.13), only those of DDP take another way.
``sensors`` makes a ``GraphSensors`` and puts its ``on_backend`` and ``on_bucket`` in. Dynamo calls
them in the thread that compiles, and most often in an attempt to compile a frame::

    _compile                  an attempt begins                   sensors
      call_user_compiler      the backend is called once          on_backend
        compile_submod        ... or for each part, below DDP     on_bucket
      install_global_unsafe   the graph gets a name to run by     sensors
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_graphbreak.layers.dynamo import counters
from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.dynamo.captures import Captures
from pytest_graphbreak.layers.dynamo.counters import Ledger
from pytest_graphbreak.layers.dynamo.events import Attempt, Made, Started
from pytest_graphbreak.layers.dynamo.frames import owner_of_graph
from pytest_graphbreak.layers.dynamo.notes import Notes, Running
from pytest_graphbreak.layers.dynamo.operations import NO_SHAPE, Shape, shape_of
from pytest_graphbreak.layers.faults import or_else
from pytest_graphbreak.layers.hooks import Hook, argument


class GraphSensors:
    """Notes each graph as a ``Made``, an event of its attempt.

    The ``Ledger`` is told of each as well: it compares with what Dynamo counted. ``Captures`` makes
    the attempt of a function that is captured as a whole.
    """

    def __init__(
        self, notes: Notes, ledger: Ledger, captures: Captures, resolved: Mapping[names.Name, Any]
    ) -> None:
        self._notes = notes
        self._ledger = ledger
        self._captures = captures
        self._resolved = resolved
        """What private names resolve to: Dynamo's counters among them."""
        self._makers: dict[int, tuple[weakref.ref[Any], Attempt]] = {}
        """The attempt that each ``OutputGraph`` is of, by the ``id()`` of that."""

    def on_backend(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``call_user_compiler(output, gm, ...)`` of an ``OutputGraph``, ``output``."""
        __tracebackhide__ = True
        thread = self._notes.thread
        shape, before = NO_SHAPE, None
        with self._notes.guard("graphs"):
            # It is read now, since a backend may change the graph that it is given.
            gm = argument("gm", 1, args, kwargs)
            shape = shape_of(gm)
            if (running := thread.current()) and not running.attempt.owner:
                running.attempt.owner = or_else("", owner_of_graph, gm)
            before = self._cache_counts()
        began = time.perf_counter()
        # A backend may compile by itself: what DDP cuts of that is none of this graph.
        outer, thread.buckets = thread.buckets, []
        try:
            result = original(*args, **kwargs)
        finally:
            buckets, thread.buckets = thread.buckets, outer
        with self._notes.guard("graphs"):
            cached = None if before is None else counters.cache_state(before, self._cache_counts())
            took = time.perf_counter() - began
            self._note_graph(args[0], buckets or [shape], cached, took)
        return result

    def _cache_counts(self) -> tuple[int, ...]:
        return counters.cache_counts(self._resolved.get(names.COUNTERS))

    def _note_graph(
        self, output: Any, shapes: Sequence[Shape], cached: str | None, took: float
    ) -> None:
        """Note a graph that came back from the backend, by one call or, in buckets, by several."""
        running = self._notes.thread.current()
        attempt = self._attempt_of(output, running)
        if attempt.is_torchs:  # it is reported after all: its beginning was not noted
            attempt.is_torchs = False
            self._notes.events.append(Started(attempt))
        first = attempt.graphs
        # Dynamo does not count a graph of an attempt that ended with one: a specialization's.
        if running is not None or first == 0:
            count_before = self._ledger.count_seen()
            self._makers[id(output)] = (weakref.ref(output), attempt)
            if running is not None:
                running.counted = running.counted or count_before
                running.calls += 1
        after_break = _ends_at_break(output)
        for bucket, shape in enumerate(shapes):
            event = Made(
                attempt,
                first + bucket,
                *shape,
                after_break=after_break and bucket == len(shapes) - 1,
                bucket=bucket,
                buckets=len(shapes),
                cached=cached,
                backend_seconds=took / len(shapes) if running is None else None,
            )
            self._notes.events.append(event)
            self._notes.thread.latest_graph = event
        attempt.graphs += len(shapes)

    def _attempt_of(self, output: Any, running: Running | None) -> Attempt:
        """Return the attempt that a graph is of: the one that this thread is at, if there is one.

        Without one, either a graph is compiled again while it runs, for a specialization
        (``mark_dynamic(specialize_on=...)``). Dynamo does not count that, but for the device it is
        one graph more, of the attempt that made it. Or ``torch.export`` and ahead-of-time
        compilation trace without a frame.
        """
        if running is not None:
            return running.attempt
        reference, maker = self._makers.get(id(output), (None, None))
        if maker is not None and reference is not None and reference() is output:
            return maker
        return self._captures.capture(getattr(output, "root_tx", None))

    # DDP cuts one captured graph and calls the backend for each part.
    #
    # Inside the forward pass of ``DistributedDataParallel`` Dynamo's backend is
    # ``DDPOptimizer``: it cuts the graph where DDP's gradient buckets end, and hands each
    # part to the user's backend by ``SubmodCompiler.compile_submod``
    # (torch/_dynamo/backends/distributed.py, 2.9 to 2.13). With one bucket nothing is cut.
    # Dynamo imports the module when it first compiles inside DDP.

    def on_bucket(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``compile_submod(self, input_mod, ...)``."""
        __tracebackhide__ = True
        shape = NO_SHAPE
        with self._notes.guard("the buckets of DDP"):
            shape = shape_of(argument("input_mod", 1, args, kwargs))
        result = original(*args, **kwargs)
        self._notes.thread.buckets.append(shape)
        return result


def _ends_at_break(output: Any) -> bool:
    """Return whether a graph break ended the graph of an ``OutputGraph``."""
    reason = getattr(output, "compile_subgraph_reason", None)
    return bool(getattr(reason, "graph_break", False))
