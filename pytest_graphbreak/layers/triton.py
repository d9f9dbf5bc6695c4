"""The triton layer: kernels compiled just in time, by Triton's own hook.

The hook is ``triton.knobs.runtime.jit_post_compile_hook``. It is called after a kernel was
compiled, or loaded from Triton's cache on disk, for a specialization that the process has not
launched before: another dtype, another value of a constexpr, an argument that is divisible by 16 or
is 1 and was not. Whoever had set the hook is called as before.

Triton calls the listener of compilations first, which says whether its cache on disk had the
kernel, then the hook, with the signature, the constants and the options: the ``Specialization``.

Sources: ``_call_hook`` and ``_do_compile`` of triton/runtime/jit.py, triton/knobs.py of Triton 3.5
(torch 2.9) and 3.6.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.layers.faults import or_else
from pytest_graphbreak.layers.hooked import (
    HookedObserver,
    do_without,
    graph_called,
    record_of_graphs,
    stack_here,
)
from pytest_graphbreak.layers.hooks import Hook, LatePatch, note_hook
from pytest_graphbreak.model.items import Graph, Recompile
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.stacks import Line

LAYER: Final = "triton"
_OPTIONS: Final = ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion")
"""The options of a compilation that are compared."""
_LONGEST_CONSTANT: Final = 60
"""The most characters that are shown of a constant."""


# What a kernel was specialized for, and what of it changed.


class Specialization(Struct, frozen=True):
    """The types, constants and alignments of the arguments by name, and the options."""

    types: Mapping[str, str]
    constants: Mapping[str, str]
    aligned: frozenset[str]
    options: Mapping[str, str]

    @property
    def text(self) -> str:
        """The signature: ``(x: *fp32, n: i32, BLOCK=64)``."""
        parts = [
            f"{name}={self.constants[name]}" if name in self.constants else f"{name}: {kind}"
            for name, kind in self.types.items()
        ]
        return f"({', '.join(parts)})"


UNREAD: Final = Specialization({}, {}, frozenset(), {})
"""What is known of a kernel whose constants refuse to be printed."""


def read_specialization(compiled: Mapping[str, Any], function: Any) -> Specialization:
    """Return the specialization that Triton hands to its hook as ``compile``.

    Its keys are names of arguments, or paths of numbers that begin with the position of one.
    """
    names: Sequence[str] = getattr(function, "arg_names", ())

    def name(key: Any) -> str:
        first, *path = key if isinstance(key, tuple) and key else (key,)
        is_position = isinstance(first, int) and first < len(names)
        return _part(str(names[first] if is_position else first), *path)

    constants = {
        name(key): _short(value) for key, value in (compiled.get("constants") or {}).items()
    }
    signature = compiled.get("signature") or {}
    types = dict(pair for key, kind in signature.items() for pair in _types(name(key), kind))
    options = {key: str(compiled[key]) for key in _OPTIONS if key in compiled}
    configs = compiled.get("configs") or ()
    aligned = frozenset(
        name(key)
        for key, attributes in (configs[0] if configs else {}).items()
        if any("divisibility" in str(attribute) for attribute in attributes)
    )
    types |= dict.fromkeys(constants, "constexpr")
    return Specialization(types, constants, aligned, options)


def _part(name: str, *path: int) -> str:
    """Return the name of a part of an argument: ``x[0][1]``."""
    return name + "".join(f"[{number}]" for number in path)


def _types(name: str, kind: Any) -> Iterator[tuple[str, str]]:
    """Yield the type of an argument; that of a tuple is a tuple, of which each part has a name."""
    if isinstance(kind, tuple):
        for number, part in enumerate(kind):
            yield from _types(_part(name, number), part)
    else:
        yield name, str(kind)


def _short(value: Any) -> str:
    return repr(getattr(value, "value", value))[:_LONGEST_CONSTANT]


def difference(compiled: Sequence[Specialization], now: Specialization) -> str:
    """Return what differs from the latest of the most similar ones that were compiled before."""
    words = min((_differing(before, now) for before in reversed(compiled)), key=len)
    return "; ".join(words) or "its options or its source changed"


def _differing(before: Specialization, now: Specialization) -> list[str]:
    """Return ``BLOCK is 128, was 64``, ``n is divisible by 16 now, the one before is not``, ..."""
    words = []
    for name in dict.fromkeys((*now.types, *before.types)):
        was, new = before.types.get(name, "nothing"), now.types.get(name, "nothing")
        constant_was, constant = before.constants.get(name), now.constants.get(name)
        if constant != constant_was:
            words.append(f"{name} is {constant or new}, was {constant_was or was}")
        elif was != new:
            words.append(f"{name} is {new}, was {was}")
        elif (name in now.aligned) != (name in before.aligned):
            verb, verb_before = ("is", "is not") if name in now.aligned else ("is not", "is")
            words.append(f"{name} {verb} divisible by 16 now, the one before {verb_before}")
    for key in dict.fromkeys((*now.options, *before.options)):
        if before.options.get(key) != now.options.get(key):
            words.append(f"{key} is {now.options.get(key)}, was {before.options.get(key)}")
    return words


# The kernels that are compiled.


class Kernel(Struct, frozen=True):
    """A kernel that was compiled; ``again`` says what differs from one compiled before, or is None.

    ``loaded`` is whether it came from the cache on disk, None where Triton does not say it.
    """

    name: str
    specialization: Specialization
    again: str | None
    loaded: bool | None
    stack: tuple[Line, ...]


class _LatestLoad(threading.local):
    """Whether this thread's latest kernel came from the cache; None once that was read."""

    loaded: bool | None = None


class TritonObserver(HookedObserver):
    """Watches Triton in this process, in all of its threads."""

    layer = LAYER

    def __init__(self) -> None:
        super().__init__()
        self._local = _LatestLoad()
        self._compiled_for: weakref.WeakKeyDictionary[Any, list[Specialization]]
        self._compiled_for = weakref.WeakKeyDictionary()
        """What each kernel's function was compiled for since the last ``isolate``."""
        self._alive: list[Any] = []
        """The compiled kernels that ``isolate`` took from their functions."""

    def hooks(self) -> Sequence[LatePatch]:
        kernels = note_hook(self._note_kernel, self.note_fault)
        loads = note_hook(self._note_load, do_without)
        return (
            LatePatch(
                "triton.runtime.jit",
                "serialize_specialization_data",
                _serialize_anything,
                do_without,
            ),
            LatePatch("triton.knobs", "runtime.jit_post_compile_hook", kernels, self.note_fault),
            LatePatch("triton.knobs", "compilation.listener", loads, do_without),
        )

    def isolate(self, key: str) -> None:
        """Forget which kernels this process has, so that a test has the same count in any order.

        They are loaded from Triton's cache on disk where a test launches them. What was compiled is
        kept alive, since a captured CUDA graph may hold it.
        """
        for function, specializations in [*self._compiled_for.items()]:
            specializations.clear()
            for compiled, *_ in [*getattr(function, "device_caches", {}).values()]:
                self._alive.append(dict(compiled))
                compiled.clear()

    def _note_load(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle the listener of ``triton.compile``, which says where the kernel came from."""
        self._local.loaded = bool(kwargs.get("cache_hit"))

    def _note_kernel(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle a call of the hook. Inductor calls it, too, with ``already_compiled``."""
        if kwargs.get("already_compiled"):
            return
        function = kwargs.get("fn")
        parts = (str(getattr(function, part, "")) for part in ("module", "name"))
        name = ".".join(filter(None, parts))
        jit = getattr(function, "jit_function", function)
        now = or_else(UNREAD, read_specialization, kwargs.get("compile") or {}, jit)
        earlier = self._compiled_for.setdefault(jit, [])
        again = difference(earlier, now) if earlier else None
        earlier.append(now)
        loaded, self._local.loaded = self._local.loaded, None
        self.note(Kernel(name, now, again=again, loaded=loaded, stack=stack_here()))

    def explain(self, events: Sequence[Any], places: Places) -> Record:
        numbers: Counter[str] = Counter()
        explained = []
        for event in events:
            numbers[event.name] += 1
            explained.append(_explain(event, numbers[event.name], places))
        return record_of_graphs(LAYER, explained)


def _explain(event: Kernel, number: int, places: Places) -> tuple[Graph, Recompile | None]:
    """Return a kernel's graph; ``number`` counts those of one name, from 1."""
    name = f"{event.name}#{number}" if number > 1 else event.name
    cached = None if event.loaded is None else "loaded" if event.loaded else "compiled"
    graph = Graph(LAYER, name, "kernel", reason=event.specialization.text, cached=cached)
    again = None if event.again is None else f"{event.name}: {event.again}"
    return graph_called(graph, event.stack, again, places)


def _serialize_anything(original: Hook, *args: Any, **kwargs: Any) -> Any:
    """Keep Triton from failing in what it does only for a hook (``_call_hook`` of runtime/jit.py).

    It writes the constants of a kernel as JSON, also those that JSON does not know.
    """
    try:
        return original(*args, **kwargs)
    except TypeError:
        return "{}"
