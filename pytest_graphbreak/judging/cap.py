"""The budget that is written in the code: ``max_graphs(...)`` as marker, block or option."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

from pytest_graphbreak.model.budget import Cap
from pytest_graphbreak.model.layers import LAYERS

ALLOWED: Final = (
    "allowed: max_graphs(N) for every layer, a layer at a time "
    f"({', '.join(f'{layer}=N' for layer in LAYERS)}), recompiles=N, breaks=N; "
    "N is a whole number, 0 or more"
)


class Limits(TypedDict, total=False):
    """The keywords of a cap, as a type checker knows them; ``parse`` holds a call to them."""

    dynamo: int
    xla: int
    tt: int
    jax: int
    jax_host: int
    recompiles: int
    breaks: int


class CapError(ValueError):
    """A cap that says something we do not know. The message names what is allowed."""


def parse(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    name: str = "max_graphs",
    by: str = "marker",
) -> Cap:
    """The cap that a call ``max_graphs(*args, **kwargs)`` means; ``by`` is that of ``Cap``.

    Raises ``CapError`` for anything but the forms in ``ALLOWED``.
    """
    if len(args) > 1:
        raise CapError(f"{name}: takes one number by position, got {len(args)}; {ALLOWED}")
    if not args and not kwargs:
        raise CapError(f"{name}: says no number; {ALLOWED}")
    for argument in kwargs:
        if argument not in (*LAYERS, "recompiles", "breaks"):
            raise CapError(f"{name}: unknown argument {argument!r}; {ALLOWED}")
    shown = [repr(value) for value in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
    for value, text in zip((*args, *kwargs.values()), shown, strict=True):
        # bool is an int to Python, and max_graphs(True) is a slip of the pen.
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise CapError(f"{name}: {text} is not a count; {ALLOWED}")
    return Cap(
        every=args[0] if args else None,
        layers={layer: kwargs[layer] for layer in LAYERS if layer in kwargs},
        recompiles=kwargs.get("recompiles"),
        breaks=kwargs.get("breaks"),
        by=by,
    )
