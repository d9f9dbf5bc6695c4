"""The guards that failed before a frame was compiled again, and the value that one of them met.

Dynamo says what a guard expected, not always what came: that is read from the locals of the frame
that is compiled again, while its guards are looked at.

No code of the user runs for it (see ``objects``): only exact builtin values and plain tensors are
shown.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from pytest_graphbreak.layers.dynamo.events import Attempt
from pytest_graphbreak.layers.dynamo.notes import Notes
from pytest_graphbreak.layers.dynamo.objects import (
    NOTHING,
    dict_attribute,
    instance_attribute,
    is_module,
    look_up,
)
from pytest_graphbreak.layers.dynamo.private import plain_tensors
from pytest_graphbreak.layers.faults import or_else
from pytest_graphbreak.layers.hooks import Hook, argument


class GuardSensor:
    """The hook around the function by which Dynamo asks which guards of a frame failed."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._modules: dict[str, Modules] = {}
        """Those of each attempt, by its id: a guard names the id of the compile that it is of."""

    def note_modules(self, attempt: Attempt, values: Mapping[str, Any]) -> None:
        """Note the modules among the locals of a frame that is about to be compiled."""
        self._modules[attempt.id] = or_else({}, modules, values)

    def on_reasons(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``get_and_maybe_log_recompilation_reasons(cache_entry, frame, ...)``."""
        __tracebackhide__ = True
        reasons = original(*args, **kwargs)
        with self._notes.guard("recompiles"):
            running = self._notes.thread.current()
            if running is not None and not kwargs.get("skip_logging"):
                self._note(running.attempt, reasons, argument("frame", 1, args, kwargs))
        return reasons

    def _note(self, attempt: Attempt, reasons: Any, frame: Any) -> None:
        attempt.guards = tuple(str(reason) for reason in reasons or ())
        if attempt.guards:
            guard, values = attempt.failed_guard, frame.f_locals
            attempt.guard_value = or_else("", self._what_came, attempt, guard, values)

    def _what_came(self, attempt: Attempt, guard: str, values: Mapping[str, Any]) -> str:
        """Return what the guard met: ``n is 3 now``, ``another Block: self.n is 3 now``."""
        value = current_value(guard, values)
        before = self._modules.get(compile_of(guard), {})
        now = self._modules.get(attempt.id, {})
        if instance := other_instance(guard, before, now, values):
            return f"another {instance}: {value}" if value else f"another {instance} now"
        return value


_PREFIX: Final = re.compile(r"^(!?[\d/]+):\s*")
"""The id of the compile that a guard is of: ``0/0: ``."""

_LOCAL: Final = re.compile(r"^L\['(\w+)'\]")
"""A local variable, as Dynamo writes it: ``L['self']``."""

_PROPERTIES: Final = "size|rank|stride|dtype|dispatch key set"
"""What may differ of a tensor, as guards name it."""
_PLAIN: Final = (int, float, bool, str, type(None))
"""The types of values that are shown."""
_LONGEST: Final = 40
"""The longest text of a value that is shown."""


def compile_of(guard: str) -> str:
    """Return the id of the compile that a guard is of, ``0/0``; empty if it does not say."""
    match = _PREFIX.match(guard.strip())
    return match[1] if match else ""


def _text_of(guard: str) -> str:
    """Return a guard without the id of its compile."""
    return _PREFIX.sub("", guard.strip())


# What the guard met.


def current_value(guard: str, values: Mapping[str, Any]) -> str:
    """Return ``x has shape [5, 3] now`` or ``n is 3 now``; empty if it is not known.

    ``guard`` is Dynamo's text on a guard that failed, ``values`` are the frame's local variables.
    """
    text = _text_of(guard).partition("  #")[0]  # without the line of code that it comes from
    for pattern, words_of in _FORMS:
        if match := pattern.search(text):
            source = _LOCAL.sub(r"\1", match[1].strip())
            met = look_up(source, values)
            words = "" if met is NOTHING else words_of(met, match)
            return f"{source} {words} now" if words else ""
    return ""


def _words_of_tensor(met: Any, match: re.Match[str]) -> str:
    """Return what a tensor has now of what differs; the shape tells its rank, too."""
    torch = sys.modules["torch"]
    if type(met) not in (torch.Tensor, torch.nn.Parameter):
        return ""
    differs = match.groupdict().get("differs", "size")
    with plain_tensors():  # this keeps out the user's modes, too
        if differs == "dispatch key set":
            return _words_of_inference(met, match.string)
        if differs == "dtype":
            return f"is of {str(met.dtype).removeprefix('torch.')}"
        if differs == "stride":
            return f"has strides {list(met.stride())}"
        return f"has shape {list(met.shape)}"


def _words_of_inference(met: Any, text: str) -> str:
    """Return whether a tensor is one of ``inference_mode``, if this is what differs."""
    # ``... mismatch. expected DispatchKeySet(CPU, AutogradCPU), actual DispatchKeySet(CPU)``: only
    # what autograd follows has its keys. Another device has them, too, under other names, so that
    # both sides have some: ``actual DispatchKeySet(XLA, AutogradXLA)``.
    if len({"Autograd" in keys for keys in text.split(", actual ")}) < 2:
        return ""
    return "is an inference tensor" if met.is_inference() else "is no inference tensor"


def _words_of_value(met: Any, match: re.Match[str]) -> str:
    return _is(repr(met)) if type(met) in _PLAIN else _words_of_member(met, match)


def _words_of_member(met: Any, _: re.Match[str]) -> str:
    """Return which member of an enum it is, ``is Mode.FAST``; empty for all else."""
    name = instance_attribute(met, "_name_")
    is_enum = issubclass(type(type(met)), enum.EnumMeta)
    return _is(f"{type(met).__name__}.{name}") if is_enum and type(name) is str else ""


def _is(shown: str) -> str:
    return f"is {shown}" if len(shown) <= _LONGEST else ""


def _words_of_type(met: Any, _: re.Match[str]) -> str:
    return f"is of type {type(met).__name__}"


_FORMS: Final[tuple[tuple[re.Pattern[str], Callable[[Any, re.Match[str]], str]], ...]] = (
    # ``tensor 'x' size mismatch at index 0. expected 4, actual 5``
    (re.compile(f"^tensor '(.+?)' (?P<differs>{_PROPERTIES}) mismatch"), _words_of_tensor),
    # ``2 <= L['x'].size()[0]``
    (re.compile(r"([A-Za-z_][\w.\[\]']{0,200})\.size\(\)\["), _words_of_tensor),
    # ``L['n'] == 2``
    (re.compile(r"^([A-Za-z_][^=<>!(]*?) =="), _words_of_value),
    # ``___check_obj_id(L['mode'], 94...)``
    (re.compile(r"^___check_obj_id\(([^,()]{1,200}),"), _words_of_member),
    # ``___check_type_id(L['x'], 94...)``
    (re.compile(r"^___check_type_id\(([^,()]{1,200}),"), _words_of_type),
)
"""The forms of guards that say what they looked at, and what says what that is now."""


# Another instance of a module, whose guards fail for that alone.

_MOST_SHAPES: Final = 400
"""The most parameters of a module whose shapes are compared."""


class _ModuleState(NamedTuple):
    """What distinguishes a module from another of its class; ``shapes`` are of its parameters."""

    id: int
    shapes: tuple[tuple[int, ...], ...]


Modules = Mapping[str, _ModuleState]
"""The modules among the local variables of a call, by the name of the variable."""


def modules(values: Mapping[str, Any]) -> Modules:
    """Return what distinguishes the modules of one call of a function from those of another."""
    return {
        name: _ModuleState(id(value), tuple(islice(_shapes(value), _MOST_SHAPES)))
        for name, value in values.items()
        if is_module(value)
    }


def _shapes(module: Any) -> Iterator[tuple[int, ...]]:
    """Yield the shapes of the parameters of a module and of all modules in it."""
    torch = sys.modules["torch"]
    for value in dict_attribute(module, "_parameters").values():
        if type(value) is torch.nn.Parameter:
            with plain_tensors():
                yield tuple(map(int, value.shape))
    for inner in dict_attribute(module, "_modules").values():
        yield from _shapes(inner) if inner is not None else ()


def other_instance(guard: str, before: Modules, now: Modules, values: Mapping[str, Any]) -> str:
    """Return the class of a module if the failed guard is about another instance of it.

    It is if it begins with the local variable that is another module now, or if the two modules
    have parameters of other shapes, which their inputs follow.
    """
    text = _text_of(guard)
    for name, module in now.items():
        earlier = before.get(name, module)
        if earlier.id == module.id:
            continue
        # ``L['self'].n == 2``, ``self.n == 2``, ``len(self) == 2``
        begins_with_it = re.search(rf"\b{re.escape(name)}\b'?\]?[.)]", text)
        if begins_with_it or earlier.shapes != module.shapes:
            return type(values[name]).__name__
    return ""
