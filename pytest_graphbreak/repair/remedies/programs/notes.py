"""Notes what lines of inlined functions write, and writes it when the compiled call ends.

Dynamo calls nothing after the graph for a function that it inlines, but it changes lists there.
"""

from __future__ import annotations

import torch

# The program.


_graphbreak_notes = []
_graphbreak_open = False


def _graphbreak_note(write, given):
    """Note the name of a function and what it is given; call it now if no call will end."""
    plain = (torch.Tensor, str, int, float, type(None))
    held = all(isinstance(one, plain) for one in given)
    if _graphbreak_open and torch.compiler.is_compiling() and held:
        _graphbreak_notes.append((write, [_graphbreak_copied(one) for one in given]))
    else:
        _graphbreak_notes.append((write, given))
        _graphbreak_write()


def _graphbreak_copied(one):
    """Return a copy; torch_xla 2.9 mistakes a clone in a graph that is trained for its original."""
    if not isinstance(one, torch.Tensor):
        return one
    return torch.where(one == one, one, one) if one.device.type == "xla" else one.clone()


@torch.compiler.disable
def _graphbreak_write():
    """Write what is noted, in its order."""
    notes = _graphbreak_notes[:]
    _graphbreak_notes.clear()
    for write, given in notes:
        globals()[write](*given)


def _graphbreak_flush(model, inner):
    """Write what is noted in a call when it ends."""

    def call(*args, **kwargs):
        global _graphbreak_open
        before, _graphbreak_open = _graphbreak_open, True
        try:
            return inner(*args, **kwargs)
        finally:
            _graphbreak_open = before
            _graphbreak_write()

    return call
