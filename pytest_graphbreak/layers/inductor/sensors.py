"""The hooks in inductor: one event for each graph that it compiled or loaded, and each skip.

What inductor calls for one graph, in this order, and what is taken from it::

    autograd_cache_key, prepare_key      why no cache has it: ``caches``
    CompiledFxGraph.__init__             it is compiled here: a loaded one is unpickled    _compiled
    CompiledFxGraph.post_compile         it is ready: an InductorGraph
    log_cudagraph_skip_and_bump_counter  when it runs: a Skipped

``post_compile`` runs once for each graph, also for one from the FX graph cache or AOTAutograd's:
these go past ``compile_fx_inner``. ``texts`` reads what a graph has stored: its ``Fallback``s, the
operators that inductor has no code for, and the ``Part`` of a larger function that it may be.

The observer makes one ``InductorSensors`` for the process, whose ``note`` gets the events.

Sources: torch/_inductor/output_code.py and cudagraph_trees.py, read in torch 2.6 to 2.13 and run on
2.9 and 2.13.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from pytest_graphbreak.layers.dynamo import private
from pytest_graphbreak.layers.dynamo.captures import LATEST, Function
from pytest_graphbreak.layers.faults import Tell, guard
from pytest_graphbreak.layers.hooked import do_without, stack_here
from pytest_graphbreak.layers.hooks import Hook, LatePatch, note_hook
from pytest_graphbreak.layers.inductor.caches import CacheReasons
from pytest_graphbreak.layers.inductor.texts import Fallback, Part, fallbacks, read_part
from pytest_graphbreak.model.stacks import Line


class InductorGraph(Struct, frozen=True):
    """A graph that inductor compiled, or loaded (``loaded``)."""

    # Where it comes from.
    compile_id: str
    """The compile id of the Dynamo graph, ``0/1``; empty without one."""
    function: Function | None
    """The function that Dynamo captured or loaded as a whole, where there is no ``compile_id``: the
    name of its graph of Dynamo is in it."""
    part: Part
    """The part of that function; an empty one for a graph with a ``compile_id``."""
    kind: str
    """``forward``, ``backward`` or ``inference``."""
    stack: tuple[Line, ...]

    # What is in it.
    inputs: int
    kernels: int
    """How many kernels inductor generated."""
    calls: int
    """How many calls of libraries and fallbacks there are."""
    fallbacks: tuple[Fallback, ...]
    """The fallbacks among these calls."""

    # What its caches and CUDA graphs did with it.
    key: str
    """The key in the FX graph cache; empty where that was not asked."""
    loaded: bool
    """A cache had it, and all that was traced for it."""
    missed: str
    """Why it was compiled and not loaded; empty if it was loaded, or torch does not say it."""
    skip: str
    """Why no CUDA graph will be recorded although one was asked for; empty otherwise."""

    @property
    def above(self) -> str:
        """The name of the graph of Dynamo that it is lowered from, empty without one."""
        return self.compile_id or (self.function.name if self.function is not None else "")


class Skipped(Struct, frozen=True):
    """A CUDA graph that was not recorded when the compiled function ran."""

    reason: str
    stack: tuple[Line, ...]


class _BuiltGraph(Struct, frozen=True):
    """A graph that was compiled here, and whether CUDA graphs were asked for when it was made."""

    graph: weakref.ref[Any]
    asked: bool


class InductorSensors:
    """The hooks, and what they remember between two calls of one compilation."""

    def __init__(self, note: Callable[[Any], None], failed: Tell) -> None:
        self._note = note
        self._failed = failed
        self._caches = CacheReasons(failed)
        # Both by ``id()``: a ``CompiledFxGraph`` is a dataclass without a hash.
        self._compiled: dict[int, _BuiltGraph] = {}
        """The graphs that were compiled here and are alive."""
        self._noted: dict[int, weakref.ref[Any]] = {}
        """The graphs that are an event already."""

    def hooks(self) -> tuple[LatePatch, ...]:
        """Return the hooks. Where one of the last three has no place, there are fewer words."""
        caches, on_skip = self._caches, note_hook(self._note_skip, self._failed)
        return (
            LatePatch(*private.INDUCTOR_INIT, self._on_init, self._failed),
            LatePatch(*private.INDUCTOR_POST_COMPILE, self._on_post_compile, self._failed),
            LatePatch(*private.INDUCTOR_KEY, caches.on_inductor_key, do_without),
            LatePatch(*private.AUTOGRAD_KEY, caches.on_autograd_key, do_without),
            LatePatch(*private.INDUCTOR_SKIP, on_skip, do_without),
        )

    def forget(self) -> None:
        """Forget what earlier code was told of caches, and which function it captured."""
        self._caches.forget()
        LATEST.forget()

    def _on_init(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``CompiledFxGraph(...)``, which may turn CUDA graphs off."""
        __tracebackhide__ = True
        asked = False
        with guard(self._failed):
            bound = inspect.signature(original).bind(*args, **kwargs)
            asked = bool(bound.arguments.get("cudagraphs"))
        result = original(*args, **kwargs)
        with guard(self._failed):
            graph, number = args[0], id(args[0])
            gone = weakref.ref(graph, lambda _: self._compiled.pop(number, None))
            self._compiled[number] = _BuiltGraph(gone, asked)
        return result

    def _on_post_compile(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``post_compile(self, example_inputs, constants, graph_kwargs)``."""
        __tracebackhide__ = True
        asked, options = False, dict[str, Any]()
        with guard(self._failed):
            options = kwargs.get("graph_kwargs") or (args[3] if len(args) > 3 else {})
            asked = bool(options.get("cudagraphs"))
        result = original(*args, **kwargs)
        with guard(self._failed):
            if self._is_first_time(args[0]):
                inputs = args[1] if len(args) > 1 else ()
                self._note(self._event(args[0], options, inputs, asked=asked))
        return result

    def _is_first_time(self, graph: Any) -> bool:
        """Return whether a graph is no event yet; from now on it is."""
        number = id(graph)
        if (reference := self._noted.get(number)) is not None and reference() is graph:
            return False
        self._noted[number] = weakref.ref(graph, lambda _: self._noted.pop(number, None))
        return True

    def _event(self, graph: Any, options: Any, inputs: Any, *, asked: bool) -> InductorGraph:
        """Return the event of a graph that is ready.

        ``asked``: its ``options`` had CUDA graphs before ``post_compile``, which may turn them off.
        """
        compiled = self._compiled.get(id(graph))
        if compiled is not None and compiled.graph() is not graph:  # another had its id before
            compiled = None
        key = str(getattr(graph, "_fx_graph_cache_key", None) or "")
        missed = self._caches.why_compiled(key)
        # Where AOTAutograd bypassed its cache, it traces anew what inductor may have loaded.
        is_traced_anew = bool(self._caches.autograd_bypass())
        loaded = compiled is None and not is_traced_anew
        was_asked = asked or (compiled is not None and compiled.asked)
        calls = int(graph.counter_deltas.get("extern_calls", 0))
        code, operations = (str(getattr(graph, name, "") or "") for name in private.INDUCTOR_TEXTS)
        id_of_frame = private.compile_id()
        return InductorGraph(
            compile_id="" if id_of_frame is None else str(id_of_frame),
            function=LATEST.get() if id_of_frame is None else None,
            kind=_kind(graph),
            kernels=int(graph.metrics_deltas.generated_kernel_count),
            calls=calls,
            inputs=len(inputs or ()),
            key="" if compiled is None and is_traced_anew else key,
            loaded=loaded,
            missed="" if loaded else missed,
            skip=_why_skipped(graph) if was_asked and not options.get("cudagraphs") else "",
            stack=stack_here(),
            # A fallback is among the calls (codegen_extern_call of _inductor/scheduler.py).
            fallbacks=fallbacks(code, operations) if calls else (),
            part=read_part(operations) if id_of_frame is None else Part(),
        )

    def _note_skip(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle a skip that shows only when the compiled function runs."""
        self._note(Skipped(str(args[0] if args else kwargs.get("msg", "")), stack_here()))


def _kind(graph: Any) -> str:
    """Return ``forward``, ``backward`` or ``inference``."""
    # What AOTAutograd's cache loads is post-compiled without is_inference: the graph has it.
    options = graph.fx_kwargs
    if options.get("is_backward"):
        return "backward"
    return "inference" if options.get("is_inference") else "forward"


def _why_skipped(graph: Any) -> str:
    """Return why inductor turned CUDA graphs off for a graph, in torch's words."""
    if reason := getattr(graph, "disabled_cudagraphs_reason", None):
        return str(reason)
    reasons = getattr(getattr(graph, "cudagraph_info", None), "cudagraph_fail_reasons", None)
    return "; ".join(map(str, reasons)) if reasons else "no part of it can be recorded"
