"""Rewrites attention to parts of a sequence as attention to all of it under a mask.

``torch.split`` by lengths that a tensor holds makes one call for each part, of a size that is read
from the tensor. Under a mask it is one call, and no length has to be known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite.scope import Surroundings, UnfitError, replace
from pytest_graphbreak.repair.source import alike, functions, lines

_ALONG: Final = 2
"""The dimension of the sequence in ``(batch, heads, sequence, size)``."""
_BLOCKS: Final = ("body", "orelse", "finalbody")


@dataclass(frozen=True, slots=True)
class _Parts:
    """``splits = [torch.split(x, lengths.tolist(), dim=2) for x in (q, k, v)]``."""

    name: str
    tensors: list[str]
    lengths: str


def to_one_part(source: str, where: Frame) -> str | None:
    """Return the source with one part in place of several, and a mask for the attention.

    A statement after the ``torch.split`` has to call a function of attention for each part, without
    a mask and with ``is_causal=False``. Weights of other parts are exactly zero. An output that is
    not finite raises: a NaN of one part would reach the others. Returns None if there is no such
    split. Raises ``UnfitError``.
    """
    text = lines(source)
    hits = alike(text, where.code)
    made: list[tuple[ast.stmt, Surroundings, list[str]]] = []
    place = Surroundings(text)
    for function in functions(ast.parse(source), where.function):
        for node, rest in _followed(function):
            last = node.end_lineno or node.lineno
            parts = _parts(node) if hits & set(range(node.lineno, last + 1)) else None
            if parts is not None:
                use = _use(function, rest, parts)
                made.append((node, place, _whole(parts)))
                made.append((use, place, _masked(use, parts, place)))
    return replace(source, made) if made else None


def _followed(function: ast.AST) -> Iterator[tuple[ast.stmt, list[ast.stmt]]]:
    """Yield each statement of a function with those that follow it in its block."""
    for node in ast.walk(function):
        for name in _BLOCKS:
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield from ((one, block[number:]) for number, one in enumerate(block, 1))


def _parts(node: ast.stmt) -> _Parts | None:
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.ListComp):
        return None
    made, target = node.value, node.targets[0]
    loop = made.generators[0]
    names = loop.iter.elts if isinstance(loop.iter, ast.Tuple | ast.List) else []
    tensors = [one.id for one in names if isinstance(one, ast.Name)]
    if not isinstance(target, ast.Name) or not names or len(tensors) < len(names):
        return None
    if len(made.generators) > 1 or loop.ifs or not isinstance(loop.target, ast.Name):
        return None
    call = made.elt
    known = f"torch.split({loop.target.id}, "
    if not isinstance(call, ast.Call) or not ast.unparse(call).startswith(known):
        return None
    sizes = call.args[1] if len(call.args) > 1 else None
    if [ast.unparse(one) for one in call.keywords] != [f"dim={_ALONG}"]:
        return None
    if not isinstance(sizes, ast.Call) or not isinstance(sizes.func, ast.Attribute):
        return None
    if sizes.func.attr != "tolist" or not isinstance(sizes.func.value, ast.Name):
        return None
    return _Parts(target.id, tensors, sizes.func.value.id)


def _whole(parts: _Parts) -> list[str]:
    """Return the statements that check the lengths, and make the mask and the only part."""
    first, lengths = parts.tensors[0], parts.lengths
    size = f"{first}.shape[{_ALONG}]"
    return [
        f"torch._check({lengths}.dim() == 1 and {lengths}.shape[0] > 0)",
        "torch._assert_async(",
        f"    (({lengths} >= 0).all() & ({lengths}.sum() == {size})),",
        '    "the lengths of the parts do not add up to the sequence",',
        ")",
        f"_part = torch.arange({size}, device={lengths}.device)",
        f"_part = torch.searchsorted({lengths}.cumsum(0), _part, right=True)",
        "_mask = (_part[:, None] != _part)[None, None]",
        f'_mask = {first}.new_zeros(()).masked_fill(_mask, float("-inf"))',
        f"{parts.name} = [(tensor,) for tensor in ({', '.join(parts.tensors)})]",
    ]


def _use(function: ast.AST, rest: list[ast.stmt], parts: _Parts) -> ast.stmt:
    """Return the statement that takes the parts one by one. Raises ``UnfitError``."""
    uses = [one for one in ast.walk(function) if isinstance(one, ast.Name) and one.id == parts.name]
    loads = [one for one in uses if isinstance(one.ctx, ast.Load)]
    found = [one for one in rest if loads and loads[0] in ast.walk(one)]
    if len(loads) != 1 or not found or not isinstance(found[0], ast.Assign | ast.For):
        raise UnfitError("the parts are used in another way than one by one")
    loops = (one for one in ast.walk(found[0]) if isinstance(one, ast.For | ast.comprehension))
    if not any(ast.unparse(one.iter) == f"zip(*{parts.name})" for one in loops):
        raise UnfitError("the parts are not taken one by one")
    return found[0]


def _masked(node: ast.stmt, parts: _Parts, place: Surroundings) -> list[str]:
    """Return a statement with the mask, and checks after it. Raises ``UnfitError``."""
    calls = [one for one in ast.walk(node) if isinstance(one, ast.Call) and _is_attention(one)]
    if len(calls) != 1:
        raise UnfitError("a part is not given to one call with attention_mask and is_causal=False")
    mask = next(one.value for one in calls[0].keywords if one.arg == "attention_mask")
    before = ast.unparse(mask)
    output, weights = _results(node, calls[0])
    unmasked = [] if before == "None" else [f"torch._check({before} is None)"]
    unseen = [f"torch._check({weights} is None)"] if weights else []
    return [
        *unmasked,
        *_with_name(place.source(node), node, mask),
        *unseen,
        f'torch._assert_async(torch.isfinite({output}).all(), "the attention is not finite")',
    ]


def _is_attention(call: ast.Call) -> bool:
    named = {one.arg: ast.unparse(one.value) for one in call.keywords if one.arg}
    return "attention_mask" in named and named.get("is_causal") == "False"


def _results(node: ast.stmt, call: ast.Call) -> tuple[str, str]:
    """Return the names of the output and of the weights, "" if they are dropped.

    The weights of the whole are of another shape than those of the parts. Raises ``UnfitError``.
    """
    for one in ast.walk(node):
        target = one.targets[0] if isinstance(one, ast.Assign) else None
        if isinstance(one, ast.Assign) and one.value is call and isinstance(target, ast.Tuple):
            names = [each.id for each in target.elts if isinstance(each, ast.Name)]
            if len(names) == len(target.elts) == 2:
                return names[0], names[1]
    first = [one for one in ast.walk(node) if isinstance(one, ast.Subscript) and one.value is call]
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and first:
        each = "[0]" if isinstance(node.value, ast.ListComp) else ""
        if ast.unparse(first[0].slice) == "0":
            return f"{node.targets[0].id}{each}", ""
    raise UnfitError("the results of the attention are used in another way than its output")


def _with_name(written: list[str], node: ast.stmt, mask: ast.expr) -> list[str]:
    """Return the lines of a statement with ``_mask`` in place of an expression of one line."""
    number, start = mask.lineno - node.lineno, mask.col_offset - node.col_offset
    line, old = written[number].encode(), ast.unparse(mask).encode()
    if line[start : start + len(old)] != old:
        raise UnfitError("the statement is not laid out as usual")
    written[number] = (line[:start] + b"_mask" + line[start + len(old) :]).decode()
    return written
