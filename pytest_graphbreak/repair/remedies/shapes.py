"""Sizes that vary from call to call: marked as dynamic, or padded to a few sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pytest_graphbreak.repair.patch import Preamble, SourcePatch
from pytest_graphbreak.repair.remedies.around import ARGUMENTS, AROUND
from pytest_graphbreak.repair.trial import Trial

_MARK: Final = Preamble(
    '''
def _graphbreak_mark(model, inner):
    """Mark the sizes that vary as dynamic while a call lasts."""
    dims = _graphbreak_dynamic.get(_graphbreak_name(model), {})
    def call(*args, **kwargs):
        import copy

        before = {}

        def marks(tensor):
            ours = ("_dynamo", "_specialize", "_has_dynamo")
            return {k: copy.copy(v) for k, v in vars(tensor).items() if k.startswith(ours)}

        def mark(name, tensor):
            these = [d for d in dims.get(name, ()) if d < tensor.dim() and tensor.shape[d] > 1]
            if these and id(tensor) not in before:
                before[id(tensor)] = (tensor, marks(tensor))
            for dim in these:
                torch._dynamo.mark_dynamic(tensor, dim)
            return tensor

        try:
            _graphbreak_arguments(model, args, kwargs, mark)
            return inner(*args, **kwargs)
        finally:
            for tensor, had in before.values():
                for key in marks(tensor):
                    del vars(tensor)[key]
                vars(tensor).update(had)

    return call
'''.strip()
)

_PAD: Final = Preamble(
    '''
def _graphbreak_pad(model, inner):
    """Fill up the sizes that vary with zeros to the next bucket, and cut the results back."""
    from torch.utils._pytree import tree_flatten, tree_unflatten

    table = _graphbreak_buckets.get(_graphbreak_name(model))
    if table is None:
        return inner
    # On an xla device each size would be a graph again for the padding: there it is the host's.
    at_home = torch.device("cpu")

    def bucket(size, first):
        while first < size:
            first *= 2
        return first

    def padded(tensor, dims):
        where = at_home if tensor.device.type == "xla" else tensor.device
        amounts = [0] * (2 * tensor.dim())
        for dim, first in dims.items():
            amounts[2 * (tensor.dim() - dim) - 1] = bucket(tensor.shape[dim], first) - (
                tensor.shape[dim]
            )
        if not any(amounts):
            return tensor
        return torch.nn.functional.pad(tensor.to(where), amounts).to(tensor.device)

    def call(*args, **kwargs):
        sizes = {}

        def look(name, tensor):
            for dim in table["dims"].get(name, ()):
                if dim < tensor.dim() and tensor.shape[dim]:
                    sizes[name, dim] = tensor.shape[dim]
            return tensor

        _graphbreak_arguments(model, args, kwargs, look)
        if len(sizes) < sum(len(dims) for dims in table["dims"].values()):
            return inner(*args, **kwargs)  # other arguments than those that were seen
        args, kwargs = _graphbreak_arguments(
            model,
            args,
            kwargs,
            lambda name, tensor: padded(tensor, table["dims"].get(name, {})),
        )
        leaves, spec = tree_flatten(inner(*args, **kwargs))
        if len(leaves) != table["results"]:
            raise RuntimeError(f"padding: {len(leaves)} results, not {table['results']}")
        cuts = {}
        for number, dim, name, source in table["follow"]:
            size = sizes[name, source]
            wanted = bucket(size, table["dims"][name][source])
            if leaves[number].shape[dim] != wanted:
                raise RuntimeError(
                    f"padding: size {leaves[number].shape[dim]} of result {number}, not {wanted}"
                )
            if size < wanted:
                cuts.setdefault(number, []).append((dim, size))
        for number, these in cuts.items():
            leaf = leaves[number]
            cut = leaf.to(at_home) if leaf.device.type == "xla" else leaf
            for dim, size in these:
                cut = cut.narrow(dim, 0, size)
            leaves[number] = cut.to(leaf.device)
        return tree_unflatten(leaves, spec)

    return call
'''.strip()
)


def mark(trial: Trial) -> Iterator[SourcePatch]:
    """Only what varies is an input of the graph; all other sizes stay fixed."""
    table = {
        one["name"]: {name: tuple(dim for dim, _ in dims) for name, dims in one["dims"].items()}
        for one in trial.varies
    }
    if not table:
        return
    words = ", ".join(
        f"{name} ({', '.join(map(str, dims))})"
        for these in table.values()
        for name, dims in these.items()
    )
    yield SourcePatch(
        f"mark_dynamic for the sizes that vary: {words}",
        (
            AROUND,
            ARGUMENTS,
            Preamble(f"_graphbreak_dynamic = {table!r}"),
            _MARK,
            Preamble("torch.compile = _graphbreak_around(_graphbreak_mark)"),
        ),
    )


def pad(trial: Trial) -> Iterator[SourcePatch]:
    """Sizes are padded to powers of two, the first for all that were seen."""
    table: dict[str, Any] = {}
    firsts: set[int] = set()
    for one in trial.varies:
        if one["follow"] is None:
            continue  # a result that can not be cut back
        dims = {
            name: {dim: 1 << (most - 1).bit_length() for dim, most in these}
            for name, these in one["dims"].items()
        }
        firsts |= {first for these in dims.values() for first in these.values()}
        follow = [tuple(item) for item in one["follow"]]
        table[one["name"]] = {"dims": dims, "results": one["results"], "follow": follow}
    if not table:
        return
    words = ", ".join(str(first) for first in sorted(firsts))
    yield SourcePatch(
        f"sizes that vary are padded with zeros to {words} (then powers of two)",
        (
            AROUND,
            ARGUMENTS,
            Preamble(f"_graphbreak_buckets = {table!r}"),
            _PAD,
            Preamble("torch.compile = _graphbreak_around(_graphbreak_pad)"),
        ),
        note="inputs are padded with zeros and results cut back; each call computes a whole "
        "bucket, and on an xla device what is padded goes through the host",
    )
