"""Compares the results of two runs: values as flat lists, by dtype, and the weights of modules."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from typing import Any

import torch

Flat = list[tuple[str, Any]]
"""Each leaf of a value by its path: tensors on the CPU, numbers, texts, names of types."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def flatten(value: Any, path: str = "", depth: int = 0) -> Flat:
    """Return the leaves of a value. Tensors are copied, so later changes do not matter."""
    if isinstance(value, torch.Tensor):
        return [(path, plain(value))]
    if isinstance(value, _PLAIN):
        return [(path, value)]
    if depth > 8:
        return [(path, f"<{type(value).__name__}>")]
    parts: list[tuple[str, Any]] | None = None
    if isinstance(value, Mapping):
        parts = [(f"{path}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{path}[{number}]", item) for number, item in enumerate(value)]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [
            (f"{path}.{field.name}", getattr(value, field.name, None))
            for field in dataclasses.fields(value)
        ]
    elif type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        return (
            [(path, torch.as_tensor(value).clone())] if _is_number(value) else [(path, str(value))]
        )
    if parts is None:
        return [(path, f"<{type(value).__name__}>")]
    found: Flat = [(f"{path}()", f"<{type(value).__name__}>")]
    for name, item in parts:
        found += flatten(item, name, depth + 1)
    return found


def _is_number(value: Any) -> bool:
    return getattr(value.dtype, "kind", "") in "biufc"


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return a dense copy on the CPU, without autograd history."""
    dense = tensor.detach()
    if dense.layout != torch.strided:
        dense = dense.to_dense()
    if dense.is_quantized:
        dense = dense.dequantize()
    return dense.cpu().clone().contiguous()


def difference(wanted: Flat, given: Flat) -> str | None:
    """Return what differs, in a few words, or None if the values agree."""
    if [path for path, _ in wanted] != [path for path, _ in given]:
        return "the result has another structure"
    for (path, old), (_, new) in zip(wanted, given, strict=True):
        words = _differs(old, new)
        if words:
            return f"{path or 'the result'}: {words}"
    return None


def _differs(old: Any, new: Any) -> str | None:
    if isinstance(old, torch.Tensor) != isinstance(new, torch.Tensor):
        return "a tensor in one, none in the other"
    if isinstance(old, torch.Tensor):
        return _tensors(old, new)
    if type(old) is not type(new):
        return f"{type(old).__name__} became {type(new).__name__}"
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
    fine = torch.where(torch.isfinite(wide.abs()), wide.abs(), 0).max().item()
    scale = max(1.0, float(fine))
    relative, absolute = torch.testing._comparison.default_tolerances(old)
    try:
        torch.testing.assert_close(new, old, rtol=relative, atol=absolute * scale, equal_nan=True)
    except AssertionError:
        apart = (new.to(wide.dtype) - wide).abs()
        return (
            f"values differ by up to {apart[torch.isfinite(apart)].max().item():.3g}"
            if (torch.isfinite(apart).any())
            else "values differ"
        )
    return None


def digest(module: torch.nn.Module) -> str:
    """Return a hash of a module's parameters (names, dtypes, values) and of what is trained.

    Buffers are left out: running a module changes them.
    """
    found = hashlib.sha256(str(module.training).encode())
    for name, parameter in module.named_parameters():
        value = parameter.detach().cpu()
        if value.is_complex():
            value = torch.view_as_real(value)
        sums = [float(one) for one in (value.double().sum(), value.double().abs().sum())]
        words = (name, value.dtype, tuple(value.shape), parameter.requires_grad, sums)
        found.update(repr(words).encode())
    return found.hexdigest()


def called(entries: Any) -> str | None:
    """Return the digest of the module that was compiled and called first; None if there is none."""
    entry = next((one for one in entries if one.called), None)
    if entry is None:
        return None
    given = (getattr(entry.original, "__self__", entry.original), *entry.args[:1])
    return next((digest(one) for one in given if isinstance(one, torch.nn.Module)), None)
