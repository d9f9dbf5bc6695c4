"""Reads the budget that code or a command sets: its numbers become a ``Cap``.

There are three: the marker ``@pytest.mark.max_graphs(1)``, the block ``graph_budget(max_graphs=1)``
and the option ``--max-graphs`` of ``graphbreak run``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypedDict

from pytest_graphbreak.model.budget import Cap
from pytest_graphbreak.model.layers import LAYERS

ALLOWED: Final = (
    "allowed: max_graphs(N) for every layer, a layer at a time "
    f"({', '.join(f'{layer}=N' for layer in LAYERS)}), recompiles=N, breaks=N, "
    "executions=N, reads=N "
    "(of these two also by layer: reads={'xla': 0}), compiled=N (and not loaded from a cache); "
    "N is a whole number, 0 or more"
)


class Limits(TypedDict, total=False):
    """The keywords of a cap, for type checkers; ``parse`` enforces them.

    A type checker reads them off the source, so the layers stand here once more.
    """

    dynamo: int
    xla: int
    tt: int
    jax: int
    inductor: int
    cudagraph: int
    triton: int
    recompiles: int
    breaks: int
    executions: int | dict[str, int]
    reads: int | dict[str, int]
    compiled: int


_RUNS: Final = ("executions", "reads")
"""The keywords that take a number for every layer, or a mapping of layers to numbers."""


class CapError(ValueError):
    """A cap that is not understood. The message lists what is allowed."""


def parse(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    name: str = "max_graphs",
    by: str = "marker",
) -> Cap:
    """Return the cap of a call ``max_graphs(*args, **kwargs)``.

    ``name`` is what the user wrote, for messages, and ``by`` the kind of it: ``marker``, ``block``
    or ``option`` (``Cap.by``). Raises ``CapError`` for anything but the forms in ``ALLOWED``.
    """
    if len(args) > 1:
        raise CapError(f"{name}: takes one number by position, got {len(args)}; {ALLOWED}")
    if not args and not kwargs:
        raise CapError(f"{name}: says no number; {ALLOWED}")
    for argument in kwargs:
        if argument not in (*LAYERS, "recompiles", "breaks", "compiled", *_RUNS):
            raise CapError(f"{name}: unknown argument {argument!r}; {ALLOWED}")
    for text, value in _numbers(args, kwargs):
        # bool is a subclass of int, but max_graphs(True) is a mistake.
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise CapError(f"{name}: {text} is not a count; {ALLOWED}")
    return Cap(
        every=args[0] if args else None,
        layers={layer: kwargs[layer] for layer in LAYERS if layer in kwargs},
        recompiles=kwargs.get("recompiles"),
        breaks=kwargs.get("breaks"),
        executions=kwargs.get("executions"),
        reads=kwargs.get("reads"),
        compiled=kwargs.get("compiled"),
        by=by,
    )


def _numbers(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield everything that has to be a count, with its text in the code."""
    yield from ((repr(value), value) for value in args)
    for key, value in kwargs.items():
        by_layer = key in _RUNS and isinstance(value, Mapping) and value and {*value} <= {*LAYERS}
        for number in value.values() if by_layer else (value,):
            yield f"{key}={value!r}", number
