"""The keys that programs of JAX are compiled for, and how one is read from a call of ``jit``.

JAX compiles a function again if its arguments have other shapes or types, if they are nested
differently, if a static argument has another value, or if a setting, a device or an option of
``jax.jit`` is another. A ``Key`` holds all of that.

``calls`` finds the variables of JAX on the stack and has ``key_of_call`` read them, while the
program is compiled; ``sensors`` adds the devices and the settings. ``programs`` keeps the keys of
each function, and ``differences`` says how two of them differ.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.layers.jax import private

Pairs = tuple[tuple[str, Any], ...]
"""Names and values; a name is empty where JAX has none, or where it is a library's."""


class Key(Struct, frozen=True):
    """All that JAX looks a program up by.

    The key of ``f(x, n=2)``, with ``f = jax.jit(lambda x, n: x * n, static_argnames="n")``::

        arguments   (("x", float32[3]),)          each array, by its abstract value
        tree        (((*,), {}))                  how the arrays are nested; None if not known
        statics     (("n", 2),)
        parameters  ()                            of a primitive that is called outside of ``jit``
        shardings   (None,)                       where the user put each array, None for elsewhere
        devices     ("cpu:0",)                    what the program runs on
        options     (("donate_argnums", ()), ...) of ``jax.jit``
        settings    (("jax_enable_x64", False), ...)
    """

    arguments: Pairs = ()
    tree: Any = None
    statics: Pairs = ()
    parameters: Pairs = ()
    shardings: tuple[Any, ...] = ()
    devices: tuple[str, ...] = ()
    options: Pairs = ()
    settings: Pairs = ()

    def placement(self, number: int) -> Any:
        """Return where an array lies, by the user's doing, else by its type."""
        placed = self.shardings[number] if number < len(self.shardings) else None
        return placed or getattr(self.arguments[number][1], "sharding", None)


_OPTIONS: Final = (
    "donate_argnums",
    "donate_argnames",
    "static_argnums",
    "static_argnames",
    "in_shardings_leaves",
    "out_shardings_leaves",
    "in_layouts_leaves",
    "out_layouts_leaves",
    "device",
    "backend",
    "keep_unused",
    "inline",
    "compiler_options_kvs",
)
"""The fields of ``PjitInfo`` (jax/_src/pjit.py) that decide what is compiled, besides arguments."""


def key_of_call(miss: dict[str, Any], params: Any, jaxpr: Any) -> Key:
    """Return the key of a call of ``jit``, but for its devices and settings.

    ``miss`` are the variables of ``cache_miss(*args, **kwargs)``: the function, its ``PjitInfo``,
    and the arguments as the user gave them. ``params`` is what JAX made of the arguments; where its
    frame is not found, the traced ``jaxpr`` has their types without names.
    """
    info = miss.get("jit_info")
    call = info, miss.get("args", ()), miss.get("kwargs", {})
    if params is not None:
        arguments = named(params.arg_names or (), params.in_avals)
    else:
        arguments = named((), getattr(jaxpr, "in_avals", ()))
    return Key(
        arguments=arguments,
        tree=getattr(params, "in_tree", None),
        statics=tuple(_statics(*call)),
        shardings=tuple(_shardings(*call)),
        options=tuple((name, getattr(info, name, None)) for name in _OPTIONS),
    )


def named(names: Iterable[Any], values: Sequence[Any]) -> Pairs:
    """Return values with their names, the last ones with empty names if there are fewer names."""
    labels = [str(name) for name in names]
    return tuple(zip(labels + [""] * (len(values) - len(labels)), values, strict=False))


def without_names(key: Key) -> Key:
    """Return a key without the library's names: ``dynamic_nodonate['first'][0]``."""
    arguments = tuple((name if name.isidentifier() else "", value) for name, value in key.arguments)
    return replace(key, arguments=arguments, statics=tuple(("", value) for _, value in key.statics))


def _statics(info: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the static arguments: those given by position, then those given by name."""
    names = list(getattr(getattr(info, "fun_signature", None), "parameters", ()))
    for number in _static_numbers(info, args):
        yield (names[number] if number < len(names) else str(number)), args[number]
    for name in getattr(info, "static_argnames", ()):
        if name in kwargs:
            yield name, kwargs[name]


def _static_numbers(info: Any, args: tuple[Any, ...]) -> list[int]:
    """Return the positions of static arguments from the left: of two, ``-1`` is 1."""
    numbers = getattr(info, "static_argnums", ())
    size = len(args)
    return sorted({number % size for number in numbers if -size <= number < size})


def _shardings(info: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """Yield where each array of a call lies if the user put it there, and None for all else."""
    tree: Any = getattr(sys.modules.get("jax"), "tree_util", None)
    if tree is None:
        return
    static = _static_numbers(info, args)
    names = getattr(info, "static_argnames", ())
    dynamic = (
        tuple(value for number, value in enumerate(args) if number not in static),
        {name: value for name, value in kwargs.items() if name not in names},
    )
    array = private.value(private.ARRAY)
    for leaf in tree.tree_leaves(dynamic):
        placed = isinstance(leaf, array) and leaf.committed
        yield leaf.sharding if placed else None
