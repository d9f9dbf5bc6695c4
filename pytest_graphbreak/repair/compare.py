"""Compares the results of two runs: values as flat lists, by structure, dtype and value."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from pytest_graphbreak.repair import printed
from pytest_graphbreak.repair.inputs import GRADIENTS

Flat = list[tuple[str, Any]]
"""Each leaf of a value by its path: tensors on the CPU, numbers, texts, names of types."""
Results = Mapping[str, Any]
"""What a run gave: ``calls``, ``state``, ``objects`` and ``drawn`` (``capture.Capture``)."""

ENDLESS: Final = "does not end"
DRAWN: Final = "with other inputs"
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))
_DEPTH: Final = 8


def flatten(value: Any, path: str = "", depth: int = 0) -> Flat:
    """Return the leaves of a value. Tensors are copied, so later changes do not matter."""
    if isinstance(value, torch.Tensor):
        return [(path, dense(value))]
    if isinstance(value, _PLAIN):
        return [(path, value)]
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        number = getattr(value.dtype, "kind", "") in "biufc"
        return [(path, torch.as_tensor(value).clone() if number else str(value))]
    parts = _parts(value, path) if depth <= _DEPTH else None
    kind = f"<{type(value).__name__}>"
    if parts is None:
        return [(path, kind)]
    leaves: Flat = [(f"{path}()", kind)]
    for name, item in parts:
        leaves += flatten(item, name, depth + 1)
    return leaves


def _parts(value: Any, path: str) -> list[tuple[str, Any]] | None:
    """Return the parts of a container by their paths, or None for another object."""
    if isinstance(value, Mapping):
        return [(f"{path}[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [(f"{path}[{number}]", item) for number, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return [(f"{path}.{name}", getattr(value, name, None)) for name in names]
    return None


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return a dense copy on the CPU, without autograd history."""
    value = tensor.detach()
    if value.layout != torch.strided:
        value = value.to_dense()
    if value.is_quantized:
        value = value.dequantize()
    return value.cpu().clone().contiguous()


def difference(before: Flat, after: Flat) -> str | None:
    """Return what differs, in a few words, or None if the values agree."""
    if [path for path, _ in before] != [path for path, _ in after]:
        return "the result has another structure"
    for (path, old), (_, new) in zip(before, after, strict=True):
        if words := _differs(old, new):
            return f"{path or 'the result'}: {words}"
    return None


def _differs(old: Any, new: Any) -> str | None:
    if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
        return _tensors(old, new)
    if type(old) is not type(new):
        return f"{type(old).__name__} became {type(new).__name__}"
    if isinstance(old, printed.Lines):
        return printed.difference(old, new)
    if isinstance(old, float):
        same = math.isclose(old, new, rel_tol=1e-5, abs_tol=1e-6) or (old != old and new != new)
        return None if same else f"{old!r} became {new!r}"
    return None if old == new else f"{str(old)[:40]!r} became {str(new)[:40]!r}"


def _tensors(old: torch.Tensor, new: torch.Tensor) -> str | None:
    if old.shape != new.shape:
        return f"shape {list(old.shape)} became {list(new.shape)}"
    if old.dtype != new.dtype:
        return f"{old.dtype} became {new.dtype}"
    if not old.numel() or not (old.is_floating_point() or old.is_complex()):
        return None if torch.equal(old, new) else "values differ"
    # The tolerances of torch.testing are for values around one: the absolute one has to grow
    # with the largest value of the tensor, since rounding does.
    wide = old.to(torch.complex128 if old.is_complex() else torch.float64)
    largest = torch.where(torch.isfinite(wide.abs()), wide.abs(), 0).max().item()
    relative, absolute = torch.testing._comparison.default_tolerances(old)
    bound = absolute * max(1.0, float(largest))
    if torch.allclose(new.to(wide.dtype), wide, rtol=relative, atol=bound, equal_nan=True):
        return None
    apart = (new.to(wide.dtype) - wide).abs()
    finite = apart[torch.isfinite(apart)]
    if bool((torch.isnan(new) != torch.isnan(old)).any()):
        return "values are NaN in one, not in the other"
    return (
        f"values differ by up to {finite.max().item():.3g}" if finite.numel() else "values differ"
    )


def work(order: dict[str, Any], _: Any) -> dict[str, Any]:
    """Compare files of results: ``wanted``, each of which is right, with ``other``."""
    originals = [torch.load(file, weights_only=False) for file in order["wanted"]]
    patched = torch.load(order["other"], weights_only=False)
    words, counts = results(originals, patched, objects=order["objects"])
    return {"compared": {"words": words or "", **counts}}


def results(
    originals: Sequence[Results], patched: Results, *, objects: bool
) -> tuple[str | None, dict[str, Any]]:
    """Return how a run differs from all of ``wanted``, and how many inputs were compared.

    ``objects`` is whether what the program holds at its end is compared as well. Where a patch put
    a function around what it compiles, that one is compared, with inputs of the original, in place
    of the calls. For inputs that the original raises for, only that the other raises. Gradients
    that the program does not ask for may be refused, but not be others.
    """
    counts: dict[str, Any] = {"inputs": 0, "raised": 0, "kinds": [], "refused": []}
    calls = [item["calls"] for item in originals if not patched["moved"]] or [[]]
    patched_calls = patched["calls"] if not patched["moved"] else []
    if len(calls[0]) != len(patched_calls):
        return f"{len(calls[0])} calls became {len(patched_calls)}", counts
    for number, new in enumerate(patched_calls):
        counts["inputs"] += 1
        if words := _every([item[number] for item in calls if item[number:]], new):
            return f"call {number + 1}: {words}", counts
    if words := _every([item["state"] for item in originals], patched["state"]):
        return words, counts
    if objects and (words := _objects([item["objects"] for item in originals], patched["objects"])):
        return words, counts
    for kind, new in patched["drawn"].items():
        olds = [item["drawn"][kind] for item in originals if kind in item["drawn"]]
        if olds and (words := _difference_on_drawn(olds, new, kind, counts)):
            return f"{DRAWN} ({kind}): {words}", counts
    return None, counts


def _difference_on_drawn(
    olds: Sequence[Flat | str], new: Flat | str, kind: str, counts: dict[str, Any]
) -> str | None:
    """Return how a call with drawn inputs differs; a text is what was raised."""
    raised = [old for old in olds if isinstance(old, str)]
    if isinstance(new, str):
        if raised:
            counts["raised"] += 1
            return None
        if kind.endswith(GRADIENTS):
            counts["refused"].append(kind)
            return None
        return f"it {new} where the original does not"
    values = [old for old in olds if not isinstance(old, str)]
    if not values:
        return f"it does not raise where the original {raised[0][:80]}"
    counts["inputs"] += 1
    counts["kinds"].append(kind)
    return _every(values, new)


def _every(olds: Sequence[Flat], new: Flat) -> str | None:
    """Return how a value differs from the first of several, or None if it is one of them."""
    words = [difference(old, new) for old in olds]
    return None if None in words else words[0]


def _objects(olds: Sequence[Mapping[str, Flat]], new: Mapping[str, Flat]) -> str | None:
    """Return which object, by its name in both runs, has another value at the end.

    One that differs from run to run of the original is left out, such as a time.
    """
    for name, value in new.items():
        originals = [old[name] for old in olds if name in old]
        if not originals or any(difference(originals[0], again) for again in originals[1:]):
            continue
        if words := difference(originals[0], value):
            return (
                f"at the end {name}{words}" if words[0] in ".[(" else f"at the end {name}: {words}"
            )
    return None
