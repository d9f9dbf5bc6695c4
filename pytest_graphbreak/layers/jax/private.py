"""All private names of jax that are used, and what each one is for.

Three kinds: ``NAMES`` are looked up when the sensors go in, and what is missing is an error of each
window; the caches that ``traces`` looks into, without which it clears all; and functions of which
only the variables on the stack are read (``check_frames``).

jax is never imported from here: it is loaded once the user's code has imported it.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any, Final, NamedTuple

from pytest_graphbreak.layers.imports import is_extension, loaded
from pytest_graphbreak.layers.private_names import MissingName, locate


class JaxName(NamedTuple):
    """A private name of jax."""

    module: str
    chain: str
    """The name in the module, with dots if it is of a class."""
    purpose: str
    """What it is used for, said where it is missing."""
    parameters: tuple[str, ...] = ()
    """The names that the parameters of a function have to begin with."""

    @property
    def path(self) -> str:
        return f"{self.module}.{self.chain}"


COMPILE: Final = JaxName(
    "jax._src.compiler",
    "compile_or_get_cached",
    "programs are counted there",
    ("backend", "computation", "devices"),
)
BACKEND: Final = JaxName(
    "jax._src.compiler",
    "backend_compile_and_load",
    "it shows whether a program was compiled or loaded from the persistent cache",
)
DURATION: Final = JaxName(
    "jax._src.dispatch", "record_event_duration_secs", "JAX's own count is heard there"
)
EVENT: Final = JaxName("jax._src.dispatch", "BACKEND_COMPILE_EVENT", "it is the name of that count")
CONTEXT: Final = JaxName("jax._src.config", "trace_context", "settings are compared by it")
CLEAR: Final = JaxName("jax._src.api", "clear_caches", "it isolates tests")
ARRAY: Final = JaxName("jax._src.array", "ArrayImpl", "it gives the devices of arguments")
BRIDGE: Final = JaxName("jax._src.xla_bridge", "get_backend", "it gives the device")
EXCEPTION: Final = JaxName(
    "jax._src.traceback_util",
    "_is_under_reraiser",
    "code that cannot be traced is seen there",
    ("e",),
)
NAMES: Final = (EXCEPTION, COMPILE, BACKEND, DURATION, EVENT, CONTEXT, CLEAR, ARRAY, BRIDGE)

# Not in ``NAMES``: where one of these is missing, ``traces`` clears all caches.
_KEEPS: Final = "what JAX traced of functions of its own stays there"
TRACES: Final = JaxName("jax._src.interpreters.partial_eval", "trace_to_jaxpr", _KEEPS)
LOWERINGS: Final = JaxName("jax._src.pjit", "_pjit_lower", _KEEPS)
LOWERED: Final = JaxName("jax._src.interpreters.pxla", "MeshComputation", _KEEPS)
PRIMITIVES: Final = JaxName("jax._src.dispatch", "xla_primitive_callable", _KEEPS)
CACHES: Final = JaxName("jax._src.util", "_caches", _KEEPS)

# Of these only the variables are read, on the stack (``calls``): ``check_frames`` says what is
# missing.
MISS: Final = JaxName(
    "jax._src.pjit", "_cpp_pjit", "a call that compiles is known by its inner function cache_miss"
)
IMPL: Final = JaxName("jax._src.pjit", "_pjit_call_impl_python", "what is compiled is known by it")

_CALL_LOCALS: Final = ("fun", "jit_info", "args", "kwargs")
_IMPL_LOCALS: Final = ("jaxpr", "name")


def is_loaded() -> bool:
    """Return whether the user's code has imported jax, with its extension module.

    What a test puts into ``sys.modules`` under the name of jax has none. Source: jaxlib 0.7.1 to
    0.12.
    """
    return is_extension("jaxlib._jax") and loaded(COMPILE.module) is not None


def has_compiled() -> bool:
    """Return whether a backend of JAX is open: before that nothing was compiled."""
    bridge = sys.modules.get(BRIDGE.module)
    is_open = getattr(bridge, "backends_are_initialized", None)
    return bridge is not None and (is_open is None or bool(is_open()))


def jit_is_disabled() -> bool:
    """Return whether ``JAX_DISABLE_JIT`` is set, or ``jax.disable_jit`` is in force."""
    return bool(sys.modules[CONTEXT.module].config.jax_disable_jit)


def version() -> str:
    return str(getattr(sys.modules.get("jax.version"), "__version__", "of unknown version"))


def find(name: JaxName) -> tuple[Any, str]:
    """Return the object that holds a name, and its last part. Raises ``MissingName``."""
    try:
        owner, last = locate(importlib.import_module(name.module), name.chain)
    except (AttributeError, ImportError):
        raise MissingName(f"jax {version()} has no {name.path}: {name.purpose}") from None
    if name.parameters:
        _check_parameters(name, getattr(owner, last))
    return owner, last


def value(name: JaxName) -> Any:
    """Return what a name resolves to. Raises ``MissingName``."""
    return getattr(*find(name))


def _check_parameters(name: JaxName, function: Any) -> None:
    parameters = tuple(inspect.signature(function).parameters)
    if parameters[: len(name.parameters)] != name.parameters:
        raise MissingName(
            f"{name.path} of jax {version()} does not begin with the parameters "
            f"{', '.join(name.parameters)}: {name.purpose}"
        )


def check_frames() -> Iterator[str]:
    """Yield what is wrong with the functions of jax whose variables are read."""
    try:
        impl = inspect.unwrap(value(IMPL)).__code__
        if lost := [local for local in _IMPL_LOCALS if local not in _variables(impl)]:
            yield f"{IMPL.path} of jax {version()} has no {', '.join(lost)}: {IMPL.purpose}"
        inner = [code for code in value(MISS).__code__.co_consts if isinstance(code, CodeType)]
        miss = [code for code in inner if code.co_name == "cache_miss"]
        lost = [local for local in _CALL_LOCALS if not miss or local not in _variables(miss[0])]
        if lost:
            yield (
                f"{MISS.path} of jax {version()} has no cache_miss with {', '.join(lost)}: "
                f"{MISS.purpose}"
            )
    except MissingName as fault:
        yield str(fault)


def settings() -> tuple[tuple[str, Any], ...]:
    """Return the settings of this thread that make JAX trace again. Raises ``MissingName``."""
    context = value(CONTEXT)
    values = tuple(context())
    return tuple(zip(_setting_names(len(values)), values, strict=True))


def _setting_names(number: int) -> tuple[str, ...]:
    """Return the names of so many settings, in the order of ``trace_context()``.

    jax 0.10 and later list them. The code of earlier ones is a tuple of ``enable_x64.value`` and so
    on, and has the names in that order. Where neither is so, they are ``number 0``, ``number 1``.
    """
    config = sys.modules[CONTEXT.module]
    try:
        names = tuple(map(str, config.trace_context_names()))
    except (AttributeError, NotImplementedError):
        code = getattr(config.trace_context, "__code__", None)
        read_names = code.co_names if code is not None else ()
        names = tuple(name for name in read_names if name != "value")
    names = tuple(_as_typed(name) for name in names)
    return names if len(names) == number else tuple(f"number {n}" for n in range(number))


def _as_typed(name: str) -> str:
    """Return a name as a user types it, if it is one of ``jax.config``: ``jax_enable_x64``."""
    config = sys.modules[CONTEXT.module].config
    return f"jax_{name}" if hasattr(config, f"jax_{name}") else name


def _variables(code: CodeType) -> tuple[str, ...]:
    """Return the names in ``f_locals`` of a frame of this code."""
    return (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
