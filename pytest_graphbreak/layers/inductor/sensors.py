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
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.layers.dynamo import private
from pytest_graphbreak.layers.dynamo.captures import LATEST, Function
from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.hooked import do_without, stack_here
from pytest_graphbreak.layers.hooks import Hook, LatePatch, note_hook
from pytest_graphbreak.model.stacks import Line

MOST_REASON: Final = 300
"""The most characters of a reason that are kept."""


class Fallback(Struct, frozen=True):
    """An operator (``aten.histc``), and its line, which is None where torch does not say it."""

    operator: str
    line: Line | None

    @property
    def words(self) -> str:
        return f"{self.operator} has no kernel of inductor here: it runs as in eager torch"


class Part(Struct, frozen=True):
    """The first input of a part (``f32[8, 64]``; ``f32[s72, 64], any s72``), and the line that
    reads it first. They are empty and None where torch does not say it."""

    sizes: str = ""
    line: Line | None = None


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
    def frame(self) -> str:
        """The name of the graph of Dynamo, empty without one."""
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
        self._built: dict[int, tuple[weakref.ref[Any], bool]] = {}
        """The graphs that were compiled here, by ``id()``, and whether CUDA graphs were asked."""
        self._noted: dict[int, weakref.ref[Any]] = {}
        """The graphs that are an event already, by ``id()``."""
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
            self._note_graph(args[0], options, asked, args[1] if len(args) > 1 else ())
        return result

    def _note_graph(self, graph: Any, options: Any, asked: bool, inputs: Any) -> None:
        """Note a graph once. ``asked``: its ``options`` had CUDA graphs when it was ready."""
        number = id(graph)
        if (reference := self._noted.get(number)) is not None and reference() is graph:
            return
        self._noted[number] = weakref.ref(graph, lambda _: self._noted.pop(number, None))
        reference, asked_before = self._built.get(number, (None, False))
        built = reference is not None and reference() is graph
        asked = asked or (built and asked_before)
        key = str(getattr(graph, "_fx_graph_cache_key", None) or "")
        skip = _why_skipped(graph) if asked and not options.get("cudagraphs") else ""
        compile_id = _compile_id()
        bypassed = self._bypassed.get(compile_id or threading.get_ident())
        missed = self._missed(key, bypassed) if built or bypassed else ""
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
            loaded=not (built or bypassed),
            missed=missed,
            skip=skip,
            stack=stack_here(),
            # A fallback is among the calls (codegen_extern_call of _inductor/scheduler.py).
            fallbacks=fallbacks(code, operations) if calls else (),
            part=Part() if compile_id else read_part(operations),
        )
        self._note(event)

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


# An operation that inductor generates no code for is called as eager torch does. Both texts that
# are read for it are stored with the graph, so they are the same from a cache: its code,
# ``source_code`` (``buf1 = torch.ops.aten.histc.default(primals_1, 4)``), and the operations before
# that with the lines that they come from, ``inductor_post_grad_graph_str`` (codegen/wrapper.py and
# torch/fx/graph.py of torch 2.9 and 2.13).

_CALL: Final = re.compile(
    r"(?m)^[ ]+(?:\w+ = )?(?:torch\.ops\.(?=\w+\.)|(?=aten\.))"
    # The seeds of inductor's own random numbers; attention and the backward pass of a convolution,
    # which lowering.py leaves to torch's libraries on all devices; other libraries; collectives.
    r"(?!aten\.(?:randint\.low_out|convolution_backward)\b)"
    r"(?!aten\._(?:scaled_dot_product|flash|efficient)_\w*attention)"
    r"(?!(?:mkldnn|onednn|mkl|_c10d_functional)\.)(\w+\.\w+)"
)
_NODE: Final = re.compile(r"(?: = |with_effects\(\w+, )torch\.ops\.((?!higher_order)\w+\.\w+)")
_NO_LINE: Final = "# No stacktrace found"


def fallbacks(code: str, operations: str) -> tuple[Fallback, ...]:
    """Return the fallbacks of a graph in the order of its code."""
    names = [name.rstrip("_") for name in _CALL.findall(code)]
    places: dict[str, list[Line]] = {}
    for name, line in _nodes(operations) if names else ():
        places.setdefault(name, []).append(line)
    remaining = {name: iter(lines) for name, lines in places.items()}
    return tuple(Fallback(name, next(remaining.get(name, iter(())), None)) for name in names)


def _nodes(operations: str) -> Iterator[tuple[str, Line]]:
    """Yield the operators of a graph, each with the line in the comment before it."""
    line: Line | None = None
    for text in operations.splitlines():
        if place := _place(text):
            line = place
        elif _NO_LINE in text:
            line = None
        elif line is not None and (node := _NODE.search(text)):
            # inductor calls scatter_add by the operator that can do more
            yield node[1].rstrip("_").replace("aten.scatter_add", "aten.scatter_reduce"), line


# A part of a function that was compiled ahead of time, lowered by itself: what it is compiled for,
# and where it begins. Both are from the text that is stored with the graph.

_FIRST_INPUT: Final = re.compile(r'def forward\(self, (\w+): "(\w+\[([^\]"]*)\])')
_SYMBOL: Final = re.compile(r"\b[a-z]+\d+")
_WORD: Final = re.compile(r"\w+")


def read_part(operations: str) -> Part:
    """Return what is known of a part from its operations."""
    head = _FIRST_INPUT.search(operations)
    if head is None:
        return Part()
    name, shape, sizes = head.groups()
    symbols = list(dict.fromkeys(_SYMBOL.findall(sizes)))
    line: Line | None = None
    for text in operations[head.end() :].splitlines()[1:]:
        if place := _place(text):
            line = place
        elif name in _WORD.findall(text):
            break
    else:  # nothing reads it
        line = None
    return Part(f"{shape}, any {', '.join(symbols)}" if symbols else shape, line)


def _place(text: str) -> Line | None:
    """Return the place that a comment of torch names: ``# File: a.py:3 in f, code: x + 1``."""
    place, _, code = text.partition("# File: ")[2].partition(", code: ")
    if not place:
        return None
    place, _, function = place.rpartition(" in ")
    file, _, number = place.rpartition(":")
    return Line(file, int(number), function, code)
