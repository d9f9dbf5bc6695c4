"""What a Triton kernel was specialized for, and what of it changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_OPTIONS: Final = ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion")
_LONGEST: Final = 60


@dataclass(frozen=True, slots=True)
class Specialization:
    """The types, constants and alignments of the arguments by name, and the options."""

    types: Mapping[str, str]
    constants: Mapping[str, str]
    aligned: frozenset[str]
    options: Mapping[str, str]

    @property
    def text(self) -> str:
        """The signature: ``(x: *fp32, n: i32, BLOCK=64)``."""
        parts = [
            f"{name}={self.constants[name]}" if name in self.constants else f"{name}: {kind}"
            for name, kind in self.types.items()
        ]
        return f"({', '.join(parts)})"


def read(compiled: Mapping[str, Any], function: Any) -> Specialization:
    """Return the specialization that Triton hands to its hook as ``compile``.

    Arguments are named, numbered, or a path of numbers, by the version of Triton.
    """
    names: Sequence[str] = getattr(function, "arg_names", ())

    def name(key: Any) -> str:
        at = key[0] if isinstance(key, tuple) and key else key
        return str(names[at]) if isinstance(at, int) and at < len(names) else str(at)

    constants = {
        name(key): _short(value) for key, value in (compiled.get("constants") or {}).items()
    }
    types = {name(key): str(kind) for key, kind in (compiled.get("signature") or {}).items()}
    options = {key: str(compiled[key]) for key in _OPTIONS if key in compiled}
    configs = compiled.get("configs") or ()
    aligned = frozenset(name(key) for key in _divisible(configs[0] if configs else None))
    return Specialization(
        {**types, **dict.fromkeys(constants, "constexpr")} if constants else types,
        constants,
        aligned,
        options,
    )


def _short(value: Any) -> str:
    return repr(getattr(value, "value", value))[:_LONGEST]


def _divisible(config: Any) -> Sequence[Any]:
    """Return the arguments that are divisible by 16, by name, number or path."""
    if isinstance(config, Mapping):
        return [
            key
            for key, attributes in config.items()
            if any("divisibility" in str(attribute) for attribute in attributes)
        ]
    aligned = getattr(config, "divisible_by_16", None) or getattr(config, "divisibility_16", ())
    return list(aligned or ())


def difference(compiled: Sequence[Specialization], now: Specialization) -> str:
    """Return what differs from the latest of the most similar ones that were compiled before."""
    words = min((_differing(before, now) for before in reversed(compiled)), key=len)
    return "; ".join(words) or "its options or its source changed"


def _differing(before: Specialization, now: Specialization) -> list[str]:
    words = []
    for name in dict.fromkeys((*now.types, *before.types)):
        was, new = before.types.get(name, "nothing"), now.types.get(name, "nothing")
        constant_was, constant = before.constants.get(name), now.constants.get(name)
        if constant != constant_was:
            words.append(f"{name} is {constant or new}, was {constant_was or was}")
        elif was != new:
            words.append(f"{name} is {new}, was {was}")
        elif (name in now.aligned) != (name in before.aligned):
            verb, verb_before = ("is", "is not") if name in now.aligned else ("is not", "is")
            words.append(f"{name} {verb} divisible by 16 now, the one before {verb_before}")
    for key in dict.fromkeys((*now.options, *before.options)):
        if before.options.get(key) != now.options.get(key):
            words.append(f"{key} is {now.options.get(key)}, was {before.options.get(key)}")
    return words
