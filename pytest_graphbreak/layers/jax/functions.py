"""The functions that ``jax.jit`` is given: what is inside of their wrappers, and whose they are.

``calls`` finds such a function in JAX's frames, and asks whether it is JAX's own (``is_own``: then
the program is of eager code) or a library's. ``programs`` tells two functions apart by their
``definition``. No code of the user's is run for it.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from functools import cache
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

from pytest_graphbreak.layers.faults import or_else

LIBRARIES: Final = re.compile(
    r"/site-packages/(?:equinox/(?:_|debug/|internal/)|jaxtyping/|beartype/|chex/_src/"
    r"|flax/core/|flax/linen/(?:module|transforms)\.py"
    r"|flax/nnx/(?!nn/)|torchax/)"
)
"""Wrappers of libraries around a call of JAX: they are not a model's code, nor a user's line.

``/venv/lib/python3.11/site-packages/equinox/_jit.py``, but not ``.../flax/nnx/nn/linear.py``.
"""

_DEEPEST: Final = 32
"""The most wrappers that are taken off a function."""
_NO_DIRECTORY: Final = "\0"
"""No path begins with it."""


@cache
def home() -> str:
    """Return the directory of jax, with a separator at its end; without jax one that has no file.

    It is the beginning of the paths of JAX's own files.
    """
    file = getattr(sys.modules.get("jax"), "__file__", None)
    return os.path.join(os.path.dirname(file), "") if file else _NO_DIRECTORY


def is_own(fun: Any, direct: bool) -> bool:
    """Return whether JAX itself gave this function to ``jit``: then the call is of eager code.

    ``direct``: a function of JAX makes the call, besides those that wrap each call::

        jnp.sin(x)                      its own: jax.numpy has @jit above sin
        jax.lax.sin(x)                  its own: a function that JAX makes for the primitive sin
        jax.jit(jax.nn.softmax)(x)      the user's doing
        jax.jit(jax.vmap(jnp.sin))(x)   the user's doing
        jax.jit(model)(x)               the user's doing
    """
    if is_of_primitive(fun):
        # This primitive is a whole function of the user's, taken from ``jax.export``.
        return str(getattr(fun, "__name__", "")) != "call_exported"
    code = code_of(fun)
    if code is None:  # an object that is called by C
        return direct and str(getattr(fun, "__module__", "")).partition(".")[0] == "jax"
    return code.co_filename.startswith(home()) and (direct or _is_replaced(fun))


def is_of_primitive(fun: Any) -> bool:
    """Return whether JAX made a function for one primitive, called outside of ``jit``.

    JAX marks it (``xla_primitive_callable`` of jax/_src/dispatch.py, of 0.10).
    """
    return bool(getattr(fun, "_apply_primitive", False))


def _is_replaced(fun: Any) -> bool:
    """Return whether a function of JAX's has what ``jit`` made of it in its place.

    Then nobody else can have given it to ``jit``: its name leads to what was made of it.
    """
    function = unwrap(fun)
    name = str(getattr(function, "__qualname__", ""))
    if "<locals>" in name:  # made by checkify of a function, or one of JAX within another
        return False
    if "<" in name:  # a lambda of one of JAX's modules, to which no name leads
        return True
    by_name: Any = sys.modules.get(str(getattr(function, "__module__", "")))
    for part in name.split("."):
        by_name = getattr(by_name, part, None)
    return fun is function and by_name is not function


def is_of_library(fun: Any) -> bool:
    """Return whether a library made this function, by the file that its code is in.

    Such a wrapper hands on the arguments of a call in pytrees and names of its own.
    """
    code = getattr(fun, "__code__", None)  # equinox has a function, nnx an object with one inside
    file = getattr(sys.modules.get(type(fun).__module__), "__file__", None) or ""
    return bool(LIBRARIES.search(file if code is None else code.co_filename))


def unwrap(fun: Any) -> Any:
    """Return the function inside of partials, methods, transformations and callable objects."""
    for _ in range(_DEEPEST):
        if issubclass(type(fun), functools.partial):
            fun = fun.func
        elif type(fun) is MethodType:
            fun = fun.__func__
        elif (inner := _attribute(fun, "__wrapped__")) is not None:
            fun = inner
        elif type(or_else(None, getattr, fun, "__code__", None)) is CodeType:
            return fun
        else:
            method = inspect.getattr_static(type(fun), "__call__", None)
            return method if type(method) is FunctionType else fun
    return fun


def _attribute(owner: Any, name: str) -> Any:
    """Return what an object itself has under a name, without running code of the user's."""
    try:
        return object.__getattribute__(owner, "__dict__").get(name)
    except (AttributeError, TypeError):
        return None


def code_of(fun: Any) -> CodeType | None:
    code = or_else(None, getattr, unwrap(fun), "__code__", None)
    return code if type(code) is CodeType else None


def definition(fun: Any) -> str:
    """Return where a function is defined: two with one definition are the same code."""
    code = code_of(fun)
    if code is None:
        return f"{type(fun).__module__}.{type(fun).__qualname__}"
    return f"{code.co_filename}:{code.co_firstlineno}:{code.co_name}"


def enclosed_value(fun: Any, name: str) -> Any:
    """Return what a variable around a function holds; None if there is no such variable."""
    code = getattr(fun, "__code__", None)
    if code is None or name not in code.co_freevars:
        return None
    return fun.__closure__[code.co_freevars.index(name)].cell_contents


def parameters(fun: Any) -> tuple[tuple[str, Any], ...]:
    """Return the parameters of a primitive called outside of ``jit``; empty for other functions."""
    if not is_of_primitive(fun):
        return ()
    params = enclosed_value(fun, "params")
    return tuple(params.items()) if isinstance(params, dict) else ()
