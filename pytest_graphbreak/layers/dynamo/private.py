"""The private names of torch without which something is not seen: Dynamo, inductor, CUDA graphs.

torch promises none of them. A name that is missing becomes an error of the observation, so that a
gate never takes blindness for zero. The names were read in the sources of torch 2.9 to 2.15 (2.10,
2.12 and 2.14 were only read, the others are also run by the tests). They are in these tables:

``NAMES``      have to be there once Dynamo is imported, from ``since`` to ``until``
``LATE``       have to be there once their module is imported
``LateName``   the same, but whoever follows it says what is lost, or does without
``ISOLATION``  what is cleared between tests; a version without it has nothing to clear
``SETTINGS``   what a test may change, and is put back

What is only cleared, or read where it is there, stands where it is used (``isolation``,
``captures``). After the tables come the functions that look a name up, and those that read torch's
state by one.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from contextlib import AbstractContextManager
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.layers.private_names import MissingName, locate

Version = tuple[int, int]
LATEST: Version = (999, 0)


class Name(Struct, frozen=True):
    """A private name: ``module`` and the ``chain`` of attributes inside it.

    ``since`` and ``until`` are the first and the last minor version of torch
    that has it and needs it. ``without`` says what is lost if it is missing: "runs of graphs cannot
    be counted".
    """

    module: str
    chain: str
    without: str
    since: Version = (2, 9)
    until: Version = LATEST

    @property
    def path(self) -> str:
        return f"{self.module}.{self.chain}"


EXTENSION: Final = "torch._C"
"""The compiled module that a real torch has: one that stands in for it has none."""

_FRAMES = "torch._dynamo.convert_frame"
_OUTPUT = "torch._dynamo.output_graph"
_TRACING = "torch._dynamo.symbolic_convert"
_EXC = "torch._dynamo.exc"

_NO_RECOMPILES = "recompiles cannot be seen"
_NO_BREAKS = "graph breaks cannot be seen"
_NOT_RESUMED = "graph breaks that are resumed at an earlier line cannot be seen"
_NO_RUNS = "runs of graphs cannot be counted (graph_budget_runs = off does without)"
_NOT_SUPPRESSED = (
    "functions that run in eager cannot be distinguished from errors that the test saw"
)
_NO_COUNT = "graphs can be counted by Dynamo's own counter only"
_NO_KIND = "graph breaks cannot be distinguished from other failures"
_NOT_SKIPPED = "functions that were skipped without an error cannot be seen"
_NOT_APART = "Dynamo cannot be kept from compiling what observes it"
_UNCHECKED = "the graphs seen cannot be checked against Dynamo's own count"

COMPILE = Name(_FRAMES, "_compile", "frames cannot be counted or identified")
SUPPRESS = Name(_FRAMES, "format_error_msg", _NOT_SUPPRESSED)
REASONS = Name(_FRAMES, "get_and_maybe_log_recompilation_reasons", _NO_RECOMPILES)
BACKEND = Name(_OUTPUT, "OutputGraph.call_user_compiler", _NO_COUNT)
INSTALL = Name(_OUTPUT, "OutputGraph.install_global_unsafe", _NO_RUNS)
BREAK = Name(_TRACING, "InstructionTranslatorBase.log_graph_break", _NO_BREAKS, since=(2, 10))
BREAK_29 = Name(_TRACING, "log_graph_break", _NO_BREAKS, until=(2, 9))
STACK = Name("torch._guards", "TracingContext.extract_stack", "graph breaks have no place")
UNSUPPORTED = Name(_EXC, "Unsupported", _NO_KIND)
# Until 2.9 a break that is resumed at an earlier line, and until 2.10 a break
# inside a generator or a loop, reach no log: the exception has to be followed.
UNSUPPORTED_INIT = Name(_EXC, "Unsupported.__init__", _NOT_RESUMED, until=(2, 9))
RESTART = Name(_TRACING, "SpeculationEntry.fail_and_restart_analysis", _NOT_RESUMED, until=(2, 9))
STEP = Name(_TRACING, "InstructionTranslatorBase.step_graph_break", _NOT_RESUMED, until=(2, 9))
SKIP = Name(_EXC, "SkipFrame", _NOT_SKIPPED, until=(2, 10))
COUNTERS = Name("torch._dynamo.utils", "counters", _UNCHECKED)
CONFIG = Name("torch._dynamo.config", "disable", "whether Dynamo is disabled cannot be known")
STRATEGY = Name("torch._C._dynamo.eval_frame", "set_code_exec_strategy", _NOT_APART)
STRATEGY_KIND = Name("torch._C._dynamo.eval_frame", "_FrameExecStrategy", _NOT_APART)
ACTION = Name("torch._C._dynamo.eval_frame", "_FrameAction", _NOT_APART)
CLEANUP = Name("torch._dynamo.utils", "CleanupManager", _NO_RUNS)

NAMES = tuple(name for name in [*vars().values()] if isinstance(name, Name))
"""The names above this line, and none below. ``DynamoSensors`` looks each of them up."""

# Functions that are followed as soon as torch imports their modules (``LatePatch``).

LateName = tuple[str, str]
"""The module and the chain of attributes of a ``LatePatch``."""

BUCKETS = Name(
    "torch._dynamo.backends.distributed",
    "SubmodCompiler.compile_submod",
    "graphs that DDP cuts cannot be counted",
)
EXPORT = Name("torch.export._trace", "_export", "exports that are stopped cannot be seen")
# What ``aot_compile`` returns, and ``torch.compiler.load_compiled_function`` loads (2.9 to 2.15).
_AOT = "torch._dynamo.aot_compile"
_NO_AOT = "functions that are compiled ahead of time, or loaded, cannot be counted"
AOT_FUNCTION = Name(_AOT, "AOTCompiledFunction.__post_init__", _NO_AOT)
AOT_LOAD = Name(_AOT, "AOTCompiledFunction.deserialize", _NO_AOT)

LATE = (BUCKETS, EXPORT, AOT_FUNCTION, AOT_LOAD)
"""Names that have to be there once their module is imported."""

SET_STANCE: LateName = ("torch._dynamo.decorators", "_set_stance")

# Of inductor and its CUDA graphs, run on torch 2.9 and 2.13.

INDUCTOR_INIT: LateName = ("torch._inductor.output_code", "CompiledFxGraph.__init__")
INDUCTOR_POST_COMPILE: LateName = ("torch._inductor.output_code", "CompiledFxGraph.post_compile")
# These only explain: without them graphs are counted all the same.
INDUCTOR_KEY: LateName = ("torch._inductor.codecache", "FxGraphCache.prepare_key")
AUTOGRAD_KEY: LateName = (
    "torch._functorch._aot_autograd.autograd_cache",
    "autograd_cache_key",
)
INDUCTOR_SKIP: LateName = (
    "torch._inductor.cudagraph_trees",
    "log_cudagraph_skip_and_bump_counter",
)
# Attributes of a graph: its code, and its operations with their lines. Without them no fallback has
# a name.
INDUCTOR_TEXTS = ("source_code", "inductor_post_grad_graph_str")
# Records a function, also again. Without it a second recording is counted as a first one.
CUDAGRAPH_RECORD: LateName = (
    "torch._inductor.cudagraph_trees",
    "CUDAGraphTreeManager.record_function",
)

# What ``isolation`` clears.

RESET_CODE = Name("torch._C._dynamo.eval_frame", "reset_code", "compiled code stays")
SET_AUTOGRAD = Name(
    "torch._C._dynamo.compiled_autograd",
    "set_autograd_compiler",
    "a compiler that was entered ends",
)
ISOLATION = (RESET_CODE, SET_AUTOGRAD)

_STAYS = "settings that a test leaves cannot be put back"
CONFIG_ENTRIES = Name("torch._dynamo.config", "_config", _STAYS)
CONFIG_UNSET = Name("torch.utils._config_module", "_UNSET_SENTINEL", _STAYS)
STANCE = Name("torch._dynamo.eval_frame", "_stance", _STAYS)
DEVICE = Name("torch", "_GLOBAL_DEVICE_CONTEXT", _STAYS)

CONFIG_MODULE = "torch.utils._config_module"
FX_CONFIG = "torch.fx.experimental._config"
GRAD_MODE = Name("torch", "_C._set_grad_enabled", _STAYS)

SETTINGS = (CONFIG_ENTRIES, CONFIG_UNSET, STANCE, DEVICE, GRAD_MODE)
"""The names for ``layers.settings``. Without them graphs count, but tests are not kept apart."""


# Looking a name up.


def minor(version: str) -> Version:
    """Return ``(2, 9)`` for ``2.9.1+cu128``; an unreadable version counts as the newest."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else LATEST


@functools.cache
def required_names(version: str) -> tuple[Name, ...]:
    """Return the names that a version of torch should have."""
    here = minor(version)
    return tuple(name for name in NAMES if name.since <= here <= name.until)


def find(name: Name) -> tuple[Any, str]:
    """Return the object that holds a name, and the last attribute of its chain.

    Raises ``MissingName`` if the name, or what should hold it, does not exist.
    """
    try:
        module = sys.modules.get(name.module) or importlib.import_module(name.module)
        owner, last = locate(module, name.chain)
    except (ImportError, AttributeError) as fault:
        raise MissingName(missing_name(name)) from fault
    if isinstance(owner, type) and last not in vars(owner):  # an inherited one is another function
        raise MissingName(missing_name(name))
    return owner, last


def is_there(name: Name) -> bool:
    """Return whether a name exists."""
    try:
        find(name)
    except MissingName:
        return False
    return True


def value(name: Name) -> Any:
    """Return the value of a private name. Raises ``MissingName``."""
    owner, last = find(name)
    return getattr(owner, last)


def attribute(owner: Any, name: Name) -> Any:
    """Return what a module has under the last part of a name. Raises ``MissingName``.

    ``layers.settings`` asks each module of settings for the name that ``torch._dynamo.config`` has.
    """
    try:
        return getattr(owner, name.chain)
    except AttributeError:
        raise MissingName(missing_name(name)) from None


def missing_name(name: Name, why: str = "it is missing") -> str:
    """Return the error for a private name that is missing, or is not what it was."""
    return (
        f"dynamo: {name.path} cannot be used in torch {torch_version()} ({why}): {name.without}. "
        "Install a newer pytest-graphbreak, or a torch from 2.9 to 2.15."
    )


# Reading torch's state.


def torch_version() -> str:
    """Return the version of the torch that is imported, ``2.9.1+cu128``."""
    return str(getattr(sys.modules.get("torch"), "__version__", "unknown"))


def compile_id() -> Any:
    """Return the id of the compilation that this thread is at, or None."""
    from torch._guards import CompileContext

    return CompileContext.current_compile_id()


DEFAULT_STANCE: Final = "default"


def current_stance() -> str:
    """Return the stance that the compiler has now; the default if torch does not say."""
    stance = getattr(sys.modules.get(STANCE.module), STANCE.chain, None)
    return str(getattr(stance, "stance", DEFAULT_STANCE))


def plain_tensors() -> AbstractContextManager[Any]:
    """Return a context in which tensors are asked without the user's subclasses and modes."""
    from torch._C import DisableTorchFunction

    context: AbstractContextManager[Any] = DisableTorchFunction()
    return context
