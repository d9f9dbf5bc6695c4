"""The hooks in inductor: one event for each graph that it compiled or loaded, and each skip.

``CompiledFxGraph.post_compile`` runs once for each graph, whether it was compiled or came from the
FX graph cache or AOTAutograd's: these go past ``compile_fx_inner``. Only a graph that was compiled
here went through ``CompiledFxGraph.__init__``; a loaded one was unpickled.

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

from pytest_graphbreak.layers.dynamo import ahead, private
from pytest_graphbreak.layers.dynamo.ahead import Function
from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.hooked import Attachable, do_without, stack_here
from pytest_graphbreak.layers.hooks import Hook, LatePatch
from pytest_graphbreak.layers.inductor.eager import Fallback, Part, fallbacks, part
from pytest_graphbreak.model.stacks import Line

MOST_REASON: Final = 300
MOST_KEYS: Final = 64
"""The number of cache keys whose parts are remembered, to say what of a new key differs."""


class InductorGraph(Struct, frozen=True):
    """A graph that inductor compiled, or loaded (``loaded``).

    ``compile_id`` is that of the Dynamo graph, ``0/1``, empty without one; ``function`` then is
    what was compiled ahead of time. ``kernels`` are
    those that inductor generated, ``calls`` those of libraries and fallbacks. ``key`` is that of
    the FX graph cache, empty where it was not asked; ``missed`` says why the graph was compiled.
    ``skip`` is why no CUDA graph will be recorded although one was asked for, empty otherwise.
    ``fallbacks`` are those of the ``calls`` that inductor has no code for. ``part`` is known of
    what was compiled ahead of time.
    """

    compile_id: str
    function: Function | None
    kind: str
    kernels: int
    calls: int
    inputs: int
    key: str
    loaded: bool
    missed: str
    skip: str
    stack: tuple[Line, ...]
    fallbacks: tuple[Fallback, ...] = ()
    part: Part = Part()

    @property
    def frame(self) -> str:
        """The name of the graph of Dynamo, empty without one."""
        return self.compile_id or (self.function.name if self.function is not None else "")


class Skipped(Struct, frozen=True):
    """A CUDA graph that was not recorded when the compiled function ran."""

    reason: str
    stack: tuple[Line, ...]


class _Lookup(threading.local):
    """The key that this thread computed last, with what of it differs from the one before."""

    key = ""
    moved = ""
    passed_over: str | None = None
    """Why inductor did not ask its cache for the graph that it compiles; None where it did."""


class InductorSensors:
    """The hooks, and what they remember between two calls of one compilation."""

    def __init__(self, note: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        self._note = note
        self._failed = failed
        self._local = _Lookup()
        self._built: dict[int, tuple[weakref.ref[Any], bool]] = {}
        self._noted: dict[int, weakref.ref[Any]] = {}
        self._parts: dict[str, dict[str, str]] = {}
        self._bypassed: dict[str | int, str] = {}
        """By frame, or without one by thread, why AOTAutograd bypassed its cache; empty where it
        asked it."""

    def hooks(self) -> tuple[Attachable, ...]:
        return (
            LatePatch(*private.INDUCTOR_INIT, self._init, self._failed),
            LatePatch(*private.INDUCTOR_POST_COMPILE, self._post_compile, self._failed),
            LatePatch(*private.INDUCTOR_HASH, self._hash, do_without),
            LatePatch(*private.INDUCTOR_KEY, self._key, do_without),
            LatePatch(*private.AUTOGRAD_KEY, self._autograd_key, do_without),
            LatePatch(*private.INDUCTOR_SKIP, self._skip, do_without),
        )

    def forget(self) -> None:
        """Forget the keys that earlier code computed."""
        self._parts.clear()
        self._bypassed.clear()
        ahead.forget()

    def _init(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
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

    def _post_compile(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``post_compile(self, example_inputs, constants, graph_kwargs)``."""
        __tracebackhide__ = True
        asked, options = False, dict[str, Any]()
        with guard(self._failed):
            options = kwargs.get("graph_kwargs") or (args[3] if len(args) > 3 else {})
            asked = bool(options.get("cudagraphs"))
        result = original(*args, **kwargs)
        with guard(self._failed):
            self._compiled(args[0], options, asked, args[1] if len(args) > 1 else ())
        return result

    def _compiled(self, graph: Any, options: Any, asked: bool, inputs: Any) -> None:
        number = id(graph)
        if (reference := self._noted.get(number)) is not None and reference() is graph:
            return
        self._noted[number] = weakref.ref(graph, lambda _: self._noted.pop(number, None))
        built = self._built.get(number)
        compiled = built is not None and built[0]() is graph
        asked = asked or (built is not None and compiled and built[1])
        key = str(getattr(graph, "_fx_graph_cache_key", None) or "")
        skip = _why_skipped(graph) if asked and not options.get("cudagraphs") else ""
        compile_id = _compile_id()
        bypassed = self._bypassed.get(compile_id or threading.get_ident())
        missed = self._missed(key, bypassed) if compiled or bypassed else ""
        self._local.passed_over = None
        calls = int(graph.counter_deltas.get("extern_calls", 0))
        # A fallback is among the calls (codegen_extern_call of _inductor/scheduler.py).
        code, operations = (str(getattr(graph, name, "") or "") for name in private.INDUCTOR_TEXTS)
        self._note(
            InductorGraph(
                compile_id,
                None if compile_id else ahead.latest(),
                _kind(graph),
                int(graph.metrics_deltas.generated_kernel_count),
                calls,
                len(inputs or ()),
                "" if bypassed and not compiled else key,
                not (compiled or bypassed),
                missed,
                skip,
                stack_here(),
                fallbacks(code, operations) if calls else (),
                Part() if compile_id else part(operations),
            )
        )

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
        if not key:
            return "" if bypassed is None else "AOTAutograd's cache did not have it"
        moved = self._local.moved if self._local.key == key else ""
        return f"its key is not in the cache: {moved}" if moved else ""

    def _hash(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``compiled_fx_graph_hash(...)``: a key, and its parts as lines."""
        result = original(*args, **kwargs)
        with guard(self._failed):
            key, lines = result
            parts = {}
            for line in lines:
                digest, _, text = str(line)[:200].partition("] ")
                parts[text.partition(":")[0]] = digest
            self._local.key, self._local.moved = str(key), self._moved(str(key), parts)
            if len(self._parts) < MOST_KEYS:
                self._parts[str(key)] = parts
        return result

    def _key(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``FxGraphCache.prepare_key(...)``: a key, or why there is none."""
        result = original(*args, **kwargs)
        with guard(self._failed):
            key, info = result
            reason = None if key else _one_line(str(info.get("cache_bypass_reason")))
            self._local.passed_over = reason
        return result

    def _autograd_key(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
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

    def _moved(self, key: str, parts: dict[str, str]) -> str:
        """Return what of a key differs from the most similar one that was computed here before."""
        if key in self._parts or not self._parts:
            return ""
        moved = min((_differing(parts, earlier) for earlier in self._parts.values()), key=len)
        if "gm" in moved:  # another graph, and no other key of the same one
            return ""
        others = f" and {len(moved) - 3} more" if len(moved) > 3 else ""
        return f"that of an earlier graph differs in {', '.join(moved[:3])}{others}"

    def _skip(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle a skip that shows only when the compiled function runs."""
        with guard(self._failed):
            self._note(Skipped(str(args[0] if args else kwargs.get("msg", "")), stack_here()))
        return original(*args, **kwargs)


def _differing(parts: dict[str, str], earlier: dict[str, str]) -> list[str]:
    return sorted(name for name in {*parts, *earlier} if parts.get(name) != earlier.get(name))


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
