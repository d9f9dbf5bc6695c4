"""Which classes there are: one for each architecture first, then those with a head."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

GENERATIVE: Final = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
)
"""The lists of transformers whose classes generate."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A class of transformers, by name, and the configuration that builds it, by its type.

    ``part`` is ``base`` for the one class that stands for an architecture, and
    ``head`` for the others. ``generates`` says whether ``generate`` is run.
    """

    name: str
    type: str
    part: str
    generates: bool = False


def architectures(part: str | None = None) -> list[Architecture]:
    """All of them: the base classes first, and both in an order that has nothing to do with names.

    So what a run that is stopped has measured is a sample drawn by chance.
    """
    found = {each.name: each for each in reversed([*_listed()])}
    chosen = [each for each in found.values() if part in (None, each.part)]
    return sorted(chosen, key=lambda each: (each.part, _drawn(each.name)))


def _drawn(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _listed() -> Iterator[Architecture]:
    from transformers.models.auto import modeling_auto as auto

    for kind, name in _pairs(auto.MODEL_MAPPING_NAMES):
        yield Architecture(name, kind, "base")
    for mapping in GENERATIVE:
        for kind, name in _pairs(getattr(auto, mapping)):
            yield Architecture(name, kind, "head", generates=True)
    for mapping in sorted(name for name in vars(auto) if name.endswith("_MAPPING_NAMES")):
        if mapping.startswith("MODEL_"):
            for kind, name in _pairs(getattr(auto, mapping)):
                yield Architecture(name, kind, "head")


def _pairs(mapping: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for kind, names in mapping.items():
        for name in names if isinstance(names, (list, tuple)) else (names,):
            yield kind, str(name)
