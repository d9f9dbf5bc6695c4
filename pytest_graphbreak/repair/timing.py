"""Times the compiled calls of a target with one way to treat sizes, in a trial's process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, Final

import torch

from pytest_graphbreak.repair import sizes
from pytest_graphbreak.repair.calls import CompiledCall, mode
from pytest_graphbreak.repair.capture import Capture
from pytest_graphbreak.repair.copies import copy_of, store
from pytest_graphbreak.repair.failure import store_error
from pytest_graphbreak.repair.steady import seed, wait

Answer = dict[str, Any]

MOST_INPUTS: Final = 8
"""The number of inputs of other sizes that are called again, to time a call once compiled."""
_SECONDS: Final = 0.5
"""How long each of them is repeated, in seconds."""
_MOST: Final = 50
"""How often each of them is repeated, at most."""


class _Timed(Capture):
    """Compiles with the given ``dynamic``; ``marks`` names the dimensions to mark as dynamic."""

    def __init__(self, dynamic: bool | None, marks: dict[str, list[int]]) -> None:
        super().__init__(allow_breaks=False)
        self._dynamic = dynamic
        self._marks = marks
        self._inputs: dict[object, tuple[CompiledCall, Any, Any]] = {}
        self.seconds: list[float] = []

    def _compile(self, inner: Callable[..., Any], model: Any, options: dict[str, Any]) -> Any:
        return super()._compile(inner, model, options | {"dynamic": self._dynamic})

    def _note(
        self, entry: CompiledCall, inner: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """Call compiled code and record how long it took.

        On a lazy device nothing is copied and nothing that is pending is begun: both make graphs.
        """

        def timed(*args: Any, **kwargs: Any) -> Any:
            tensors = dict(sizes.tensors(entry.original, args, kwargs))
            self._mark(tensors)
            shapes = tuple((name, tuple(leaf.shape)) for name, leaf in tensors.items())
            if len(self._inputs) < MOST_INPUTS:
                self._inputs.setdefault((id(entry), shapes), (entry, store(args), store(kwargs)))
            began = time.perf_counter()
            result = inner(*args, **kwargs)
            wait(pending=False)
            self.seconds.append(time.perf_counter() - began)
            return result

        return super()._note(entry, timed, args, kwargs)

    def _mark(self, tensors: dict[str, torch.Tensor]) -> None:
        for name, dims in self._marks.items():
            if (leaf := tensors.get(name)) is not None:
                for dim in dims:
                    torch._dynamo.mark_dynamic(leaf, dim)

    def special(self) -> dict[str, Any]:
        """Return whether a size that varies is ever 0 or 1, and the name of ``*rows``."""
        special = False
        for calls in self._shapes.values():
            for name, dims in sizes.varying(calls).items():
                special |= any(call[name][dim] < 2 for call in calls for dim in dims)
        names = [sizes.variadic(entry.original) for entry in self.entries if entry.called]
        return {"special": special, "variadic": next(filter(None, names), "")}

    def again(self) -> float | None:
        """Return the mean seconds of a call over the inputs, once everything is compiled."""
        self._depth += 1
        try:
            means = [self._median_time(*call) for call in self._inputs.values()]
        except Exception:  # the call cannot be repeated, for example with donated inputs
            return None
        finally:
            self._depth -= 1
        return statistics.fmean(means) if means else None

    def _median_time(self, entry: CompiledCall, args: Any, kwargs: Any) -> float:
        """Return the median time of a call with its own inputs; the first one is not timed."""
        taken: list[float] = []
        with mode(entry):
            until = time.perf_counter() + _SECONDS
            while len(taken) <= _MOST and (len(taken) < 3 or time.perf_counter() < until):
                args_copy, kwargs_copy = copy_of((args, kwargs))
                self._mark(dict(sizes.tensors(entry.original, args_copy, kwargs_copy)))
                began = time.perf_counter()
                entry.compiled(*args_copy, **kwargs_copy)
                wait()
                taken.append(time.perf_counter() - began)
        return statistics.median(taken[1:])


def work(order: Answer, go: Callable[[Callable[[], Any]], Any]) -> Answer:
    """Run the target with the ``dynamic`` and ``marks`` of ``order["timing"]``."""
    from pytest_graphbreak import observe

    asked = order["timing"]
    timed = _Timed(asked["dynamic"], asked["marks"])
    answer: Answer = {}

    @contextmanager
    def window() -> Any:
        seed()
        with observe() as seen, store_error(answer):
            yield
            wait(pending=False)
        answer["record"] = seen.record.to_dict()

    with timed.install():
        answer.update(go(window) or {})
    answer["calls"] = timed.seconds
    answer |= {"varies": timed.varies(), "numbers": timed.numbers(), **timed.special()}
    answer["again"] = None if answer.get("error") else timed.again()
    return answer
