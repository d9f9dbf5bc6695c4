"""Calls compiled code once more, with inputs that are drawn, for a limited time.

``measure`` asks for it when the program has ended and all is counted. An ``entry`` is here a
``calls.CompiledCall``, what one ``torch.compile`` of the program gave, as ``Capture`` recorded it:
the callable, the inputs and modes of its first call, and the objects that it reaches. What a call
with other inputs gives is saved as a ``CallResult``, and compared with that of another run.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import torch
from msgspec import Struct
from msgspec.structs import replace
from torch.utils._pytree import tree_flatten

from pytest_graphbreak.repair.calls import (
    ENDLESS,
    CallResult,
    CompiledCall,
    mode,
    raised_by,
    result_of,
)
from pytest_graphbreak.repair.capture import Capture
from pytest_graphbreak.repair.inputs import DrawnInputs, DrawnWay
from pytest_graphbreak.repair.objects import Reached
from pytest_graphbreak.repair.surroundings import next_random, seed, silence
from pytest_graphbreak.repair.tolerance import is_equal
from pytest_graphbreak.repair.values import Lines, is_small, named, settle

LIMIT: Final = 10.0
"""The time in seconds that a call with other inputs may take, or three of the program's slowest."""
COMPILING: Final = 90.0
"""The same where inductor generates code for other inputs, which takes most of the time."""


class Drawing(Struct, frozen=True):
    """Calls of a run with drawn inputs, each time from the state before the first call.

    ``inputs.DrawnInputs`` draws the inputs of one compiled callable, and lists the ways to call it
    (``DrawnWay``). A way is a kind of inputs, such as "zero" or "a batch of one", together with
    whether gradients are computed and whether the modules are in the other of their train and eval
    modes (``flipped``).
    """

    capture: Capture
    eager: bool
    """Nothing is compiled, as in the first run of the original."""
    values_only: bool
    """All inputs have the sizes of the program's own."""
    left_out: Collection[str] = ()
    """The keys of calls that are not made: they did not end in the first run of the original."""

    def results(self, entries: Sequence[CompiledCall]) -> dict[str, CallResult]:
        """Return what each call gives, by the name of its way, which is the key."""
        drawn: dict[str, CallResult] = {}
        for number, entry in enumerate(entries):
            dims = self.capture.dims(entry)  # the dimensions whose size varies in the program
            inputs = DrawnInputs(entry.original, entry.args, entry.kwargs, dims)
            modules = bool(entry.objects.modules)
            ways = inputs.ways(values_only=self.values_only, grad=entry.grad, modules=modules)
            for way in ways:
                # "zero" of the first compiled callable, "zero, call 2" of the second
                key = f"{way.name}, call {number + 1}" if number else way.name
                if key not in self.left_out:
                    # Each call has another seed, so that a random number shows that was drawn
                    # once while a graph was made, and is a constant of it.
                    seed(len(drawn) + 1)
                    drawn[key] = self._result(entry, inputs, way)
            entry.put_back()
        return drawn

    def _result(self, entry: CompiledCall, inputs: DrawnInputs, way: DrawnWay) -> CallResult:
        """Return what a call gives, prints, changes in place, and its gradients; or raises."""
        if self.eager:
            restore_capturable(entry.objects.owners.values())
        entry.put_back()
        for module in entry.objects.modules if way.flipped else ():
            module.train(not module.training)
        before = entry.objects.values()
        try:  # ``inside`` keeps the call from being recorded as one of the program's
            with self._limited(entry), self.capture.inside(), mode(entry, way.grad), _roomy():
                args, kwargs = inputs.draw(way)
                with silence() as lines:
                    result = entry.compiled(*args, **kwargs)
                gradients = _gradients(entry.objects.modules, result, args, kwargs)
            if not entry.grad:
                gradients = _marks(gradients)
            call = result_of(entry, result, args, kwargs)
        except TooLongError:
            return CallResult(entry.name, raised=ENDLESS)
        except Exception as error:
            return CallResult(entry.name, raised=raised_by(error))
        # Compared as arguments are. The next number tells how many random numbers were drawn.
        further = named({"gradients": gradients, "the next random number of ": next_random()})
        # Of the objects that the call leaves as they were, only small ones are kept.
        after = Reached({}, [entry.original, args, kwargs]).values()
        same = {name for name in after if is_equal(before.get(name, []), after[name])}
        values = {x: settle(flat) for x, flat in after.items() if x not in same or is_small(flat)}
        return replace(
            call,
            output=settle(call.output),
            arguments=[*settle(call.arguments), *further],
            lines=Lines(lines),
            objects=values,
            changed=after.keys() - same,
        )

    @contextlib.contextmanager
    def _limited(self, entry: CompiledCall) -> Iterator[None]:
        """Limit the time of a call, and turn off the compiler if nothing is to be compiled."""
        codegen = self.capture.generates_code and not self.eager
        stance = (
            torch.compiler.set_stance("force_eager") if self.eager else contextlib.nullcontext()
        )
        with time_limit(max(COMPILING if codegen else LIMIT, 3 * entry.slowest)), stance:
            yield


@contextlib.contextmanager
def _roomy() -> Iterator[None]:
    """Let Dynamo compile for all drawn inputs: at its recompile limit it would run eager code."""
    with torch._dynamo.config.patch(recompile_limit=256, accumulated_recompile_limit=1024):
        yield


def _marks(gradients: Iterable[torch.Tensor | None]) -> list[torch.Tensor]:
    """Return, for each gradient, a zero that requires gradients if the gradient is there.

    Of a program that computes no gradients these are compared instead: a patch may give other
    gradients, but may not lose one. ``[2.5, None]`` becomes ``[0, 0]``, of which the first requires
    gradients. A gradient that is zero is as good as None (``Comparer``).
    """
    is_there = (gradient is not None and bool(gradient.any()) for gradient in gradients)
    return [torch.zeros(()).requires_grad_(there) for there in is_there]


def _gradients(modules: list[torch.nn.Module], result: Any, args: Any, kwargs: Any) -> Any:
    """Return the gradients of a weighted sum of the outputs, for the inputs and the parameters.

    The weight of element ``n`` is ``cos(n)``. With equal weights, a patch that exchanges two
    elements would give the same gradients.
    """
    outputs = [
        leaf
        for leaf in tree_flatten(result)[0]
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.is_floating_point()
    ]
    leaves = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
    leaves += [parameter for module in modules for parameter in module.parameters()]
    leaves = [leaf for leaf in leaves if leaf.requires_grad]
    if not outputs or not leaves:
        return [None] * len(leaves)
    total = sum(
        (out * torch.arange(out.numel(), device=out.device).cos().reshape(out.shape).to(out)).sum()
        for out in outputs
    )
    assert isinstance(total, torch.Tensor)
    return list(torch.autograd.grad(total, leaves, allow_unused=True))


class TooLongError(BaseException):
    """Raised in a call that takes too long. No ``except Exception`` of the user's catches it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``TooLongError`` in a block that takes longer.

    It comes between two instructions of Python, so not within an operator. The user's own alarm is
    put back, with the time that it had left before the block, as if the block took none. Outside of
    the main thread, where no signal arrives, there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLongError

    handler = signal.signal(signal.SIGALRM, stop)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:  # also after an alarm that comes while the timer is stopped
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def restore_capturable(objects: Iterable[Any]) -> None:
    """Set ``capturable`` of all optimizers among objects to what each was made with.

    Dynamo turns it on where it traces a step (``_dynamo/variables/optimizer.py``, torch 2.13).
    """
    for optimizer in objects:
        if isinstance(optimizer, torch.optim.Optimizer):
            for group in optimizer.param_groups:
                if "capturable" in group and "capturable" in optimizer.defaults:
                    group["capturable"] = optimizer.defaults["capturable"]
