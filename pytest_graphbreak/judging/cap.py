"""The budget that is written in the code: ``max_graphs(...)`` as marker, block or option."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict

from pytest_graphbreak.model.layers import JUDGED, LAYERS
from pytest_graphbreak.model.record import Plain

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


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that a piece of code may make; None where nothing is said.

    ``every`` holds for each layer that was observed and is judged without being
    named, ``layers`` for one by name and wins over ``every``. ``recompiles`` holds
    for each layer, too, ``breaks`` for the number of distinct breaking places.
    ``by`` is whose cap it is, as texts say it: the ``marker`` of a test, a ``block``
    in it, the ``option`` of a command.
    """

    every: int | None = None
    layers: Mapping[str, int] = field(default_factory=dict)
    recompiles: int | None = None
    breaks: int | None = None
    by: str = "marker"

    def to_dict(self) -> Plain:
        """As the JSON report holds it; ``Cap(**data)`` is the inverse for that of a marker."""
        return {
            "every": self.every,
            "layers": dict(self.layers),
            "recompiles": self.recompiles,
            "breaks": self.breaks,
        }

    def graphs(self, layer: str) -> int | None:
        """The most graphs of one layer."""
        return self.layers.get(layer, self.every if layer in JUDGED else None)


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
