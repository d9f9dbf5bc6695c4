"""Draws random numbers of NumPy and of Python in the middle of a graph, in the program's order."""

from __future__ import annotations

import torch

# The program.


_graphbreak_turn = torch.zeros((), dtype=torch.int64)


def _graphbreak_draw(name, given, names):
    """Call what has this name in this file; the last arguments are those with names."""
    import functools

    first, *rest = name.split(".")
    function = functools.reduce(getattr, rest, globals()[first])
    count = len(given) - len(names)
    return function(*given[:count], **dict(zip(names, given[count:])))


def _graphbreak_draws(kind):
    """Return the op that draws a number of a type: ``float`` or ``int``.

    It changes ``turn``, and so is never left out, done twice, or done before another draw.
    """
    import numbers

    dtype = torch.float64 if kind is float else torch.int64

    def run(turn, name, given, names):
        number = _graphbreak_draw(name, given, names)
        if type(number) is not kind and not (kind is int and isinstance(number, numbers.Integral)):
            raise TypeError(f"{name} gives no {kind.__name__}")
        turn.add_(1)
        return torch.tensor(int(number) if kind is int else number, dtype=dtype)

    op = torch.library.custom_op(
        f"graphbreak::draw_{kind.__name__}",
        run,
        mutates_args=("turn",),
        schema="(Tensor(a!) turn, str name, Scalar[] given, str[] names) -> Tensor",
        tags=(torch.Tag.nondeterministic_seeded,),
    )
    op.register_fake(lambda turn, name, given, names: torch.empty((), dtype=dtype))
    return op


_graphbreak_draw_float = _graphbreak_draws(float)
_graphbreak_draw_int = _graphbreak_draws(int)


def _graphbreak_drawn(kind, name, *given, **named):
    """Return a number that ``name`` draws when the graph comes to this place."""
    every = [*given, *named.values()]
    if not torch.compiler.is_compiling():
        return _graphbreak_draw(name, every, list(named))
    op = _graphbreak_draw_int if kind is int else _graphbreak_draw_float
    number = op(_graphbreak_turn, name, every, list(named)).item()
    if kind is int and not named:
        # An index or a size: what is known of it lets the sizes that follow from it be known.
        below = name.rpartition(".")[2] in ("randint", "integers", "randrange")
        least = given[0] if below and len(given) > 1 else 0
        torch._check(number >= least)
        if below:
            torch._check(number < given[-1])
    return number
