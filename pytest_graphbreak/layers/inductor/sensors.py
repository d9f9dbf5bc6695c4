"""The hooks in inductor: one event for each graph that it compiled or loaded, and each skip.

``CompiledFxGraph.post_compile`` runs once for each graph, whether it was compiled or came from the
FX graph cache or AOTAutograd's: these go past ``compile_fx_inner``. Only a graph that was compiled
here went through ``CompiledFxGraph.__init__``; a loaded one was unpickled. In the order in which
inductor calls them, for one graph::

    autograd_cache_key   AOTAutograd's key, or why it has none     _bypassed
    prepare_key          inductor's own key, or why it has none    passed_over
    __init__             where no cache had the graph              _built
    post_compile         the graph is ready                        the event

The observer makes one for the process, whose ``note`` gets the events.

Sources: torch/_inductor/output_code.py, codecache.py and cudagraph_trees.py, read in torch 2.6 to
2.13 and run on 2.9 and 2.13.
"""

from __future__ import annotations

import inspect
import re
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.layers.dynamo import private
from pytest_graphbreak.layers.dynamo.captures import LATEST, Function
from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.hooked import do_without, stack_here
from pytest_graphbreak.layers.hooks import Hook, LatePatch, note_hook
from pytest_graphbreak.layers.inductor.texts import Fallback, Part, fallbacks, read_part
from pytest_graphbreak.model.stacks import Line

MOST_REASON: Final = 300
"""The most characters of a reason that are kept."""


class InductorGraph(Struct, frozen=True):
    """A graph that inductor compiled, or loaded (``loaded``)."""

    # Where it comes from.
    compile_id: str
    """That of the Dynamo graph, ``0/1``; empty without one."""
    function: Function | None
    """What was compiled ahead of time, where there is no ``compile_id``."""
    part: Part
    """The part of that function; empty for a graph of Dynamo."""
    kind: str
    """``forward``, ``backward`` or ``inference``."""
    stack: tuple[Line, ...]

    # What is in it.
    inputs: int
    kernels: int
    """Those that inductor generated."""
    calls: int
    """Calls of libraries and fallbacks."""
    fallbacks: tuple[Fallback, ...]
    """Those of the calls that inductor has no code for."""

    # What its caches and CUDA graphs did with it.
    key: str
    """That of the FX graph cache; empty where it was not asked."""
    loaded: bool
    missed: str
    """Why it was compiled and not loaded."""
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


class _Lookup(threading.local):
    """Why inductor did not ask its cache for the graph of this thread; None where it did."""

    passed_over: str | None = None


class InductorSensors:
    """The hooks, and what they remember between two calls of one compilation."""

    def __init__(self, note: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        self._note = note
        self._failed = failed
        self._local = _Lookup()
        # Both by ``id()``: a ``CompiledFxGraph`` is a dataclass without a hash.
        self._built: dict[int, tuple[weakref.ref[Any], bool]] = {}
        """The graphs that were compiled here, and whether CUDA graphs were asked for then."""
        self._noted: dict[int, weakref.ref[Any]] = {}
        """The graphs that are an event already."""
        self._bypassed: dict[str | int, str] = {}
        """By frame, or without one by thread, why AOTAutograd bypassed its cache; empty where it
        asked it."""

    def hooks(self) -> tuple[LatePatch, ...]:
        return (
            LatePatch(*private.INDUCTOR_INIT, self._on_init, self._failed),
            LatePatch(*private.INDUCTOR_POST_COMPILE, self._on_post_compile, self._failed),
            LatePatch(*private.INDUCTOR_KEY, self._on_key, do_without),
            LatePatch(*private.AUTOGRAD_KEY, self._on_autograd_key, do_without),
            LatePatch(*private.INDUCTOR_SKIP, note_hook(self._note_skip, self._failed), do_without),
        )

    def forget(self) -> None:
        """Forget what earlier code was told of caches."""
        self._bypassed.clear()
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
            self._remember(args[0], asked)
        return result

    def _remember(self, graph: Any, asked: bool) -> None:
        number = id(graph)
        self._built[number] = (weakref.ref(graph, lambda _: self._built.pop(number, None)), asked)

    def _on_post_compile(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``post_compile(self, example_inputs, constants, graph_kwargs)``."""
        __tracebackhide__ = True
        asked, options = False, dict[str, Any]()
        with guard(self._failed):
            options = kwargs.get("graph_kwargs") or (args[3] if len(args) > 3 else {})
            asked = bool(options.get("cudagraphs"))
        result = original(*args, **kwargs)
        with guard(self._failed):
            inputs = args[1] if len(args) > 1 else ()
            self._note_graph(args[0], options, inputs, asked=asked)
        return result

    def _note_graph(self, graph: Any, options: Any, inputs: Any, *, asked: bool) -> None:
        """Note a graph once. ``asked``: its ``options`` had CUDA graphs before ``post_compile``."""
        number = id(graph)
        if (reference := self._noted.get(number)) is not None and reference() is graph:
            return
        self._noted[number] = weakref.ref(graph, lambda _: self._noted.pop(number, None))
        built, asked_before = self._look_up(graph)
        key = str(getattr(graph, "_fx_graph_cache_key", None) or "")
        is_skipped = (asked or asked_before) and not options.get("cudagraphs")
        compile_id = _compile_id()
        bypassed = self._bypassed.get(compile_id or threading.get_ident())
        # Where AOTAutograd bypassed its cache, it traces anew what inductor may have loaded.
        is_compiled = built or bool(bypassed)
        missed = self._missed(key, bypassed) if is_compiled else ""
        self._local.passed_over = None
        calls = int(graph.counter_deltas.get("extern_calls", 0))
        code, operations = (str(getattr(graph, name, "") or "") for name in private.INDUCTOR_TEXTS)
        event = InductorGraph(
            compile_id=compile_id,
            function=None if compile_id else LATEST.get(),
            kind=_kind(graph),
            kernels=int(graph.metrics_deltas.generated_kernel_count),
            calls=calls,
            inputs=len(inputs or ()),
            key="" if bypassed and not built else key,
            loaded=not is_compiled,
            missed=missed,
            skip=_why_skipped(graph) if is_skipped else "",
            stack=stack_here(),
            # A fallback is among the calls (codegen_extern_call of _inductor/scheduler.py).
            fallbacks=fallbacks(code, operations) if calls else (),
            part=Part() if compile_id else read_part(operations),
        )
        self._note(event)

    def _look_up(self, graph: Any) -> tuple[bool, bool]:
        """Return whether a graph was compiled here, and whether CUDA graphs were asked for then."""
        reference, asked = self._built.get(id(graph), (None, False))
        is_built = reference is not None and reference() is graph
        return is_built, is_built and asked

    def _missed(self, key: str, bypassed: str | None) -> str:
        """Return why a graph had to be compiled, as far as torch says it.

        ``bypassed`` is why AOTAutograd bypassed its cache; empty where it asked it, None where it
        has none.
        """
        config = sys.modules.get("torch._inductor.config")
        if getattr(config, "force_disable_caches", False):
            return "caches are off (torch._inductor.config.force_disable_caches)"
        if not (getattr(config, "fx_graph_cache", True) or key):
            return "the cache is off (torch._inductor.config.fx_graph_cache)"
        if bypassed:
            return f"AOTAutograd bypassed its cache, so it is traced at every start: {bypassed}"
        if self._local.passed_over:
            return f"inductor bypassed its cache: {self._local.passed_over}"
        return "AOTAutograd's cache did not have it" if not key and bypassed is not None else ""

    def _on_key(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``FxGraphCache.prepare_key(...)``: a key, or why there is none."""
        result = original(*args, **kwargs)
        with guard(self._failed):
            key, info = result
            reason = None if key else _one_line(str(info.get("cache_bypass_reason")))
            self._local.passed_over = reason
        return result

    def _on_autograd_key(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``autograd_cache_key(...)``, which raises where the cache is bypassed."""
        frame = _compile_id() or threading.get_ident()
        try:
            result = original(*args, **kwargs)
        except Exception as fault:
            with guard(self._failed):
                self._bypassed[frame] = _one_line(str(fault)) or type(fault).__name__
            raise
        self._bypassed[frame] = ""
        return result

    def _note_skip(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle a skip that shows only when the compiled function runs."""
        self._note(Skipped(str(args[0] if args else kwargs.get("msg", "")), stack_here()))


def _one_line(text: str) -> str:
    """Return a reason of torch without what changes from run to run."""
    return re.sub(r"0x[0-9a-f]+", "0x...", " ".join(text.split()))[:MOST_REASON]


def _kind(graph: Any) -> str:
    # What AOTAutograd's cache loads is post-compiled without is_inference: the graph has it.
    options = graph.fx_kwargs
    if options.get("is_backward"):
        return "backward"
    return "inference" if options.get("is_inference") else "forward"


def _compile_id() -> str:
    """Return the id of the frame that Dynamo compiles, or whose backward is compiled."""
    context: Any = getattr(sys.modules.get(private.STACK.module), "CompileContext", None)
    compile_id = context.current_compile_id() if context is not None else None
    return "" if compile_id is None else str(compile_id)


def _why_skipped(graph: Any) -> str:
    """Return why inductor turned CUDA graphs off for a graph, in torch's words."""
    if reason := getattr(graph, "disabled_cudagraphs_reason", None):
        return str(reason)
    reasons = getattr(getattr(graph, "cudagraph_info", None), "cudagraph_fail_reasons", None)
    return "; ".join(map(str, reasons)) if reasons else "no part of it can be recorded"
