"""Loops over what a tensor chose, such as the experts of a mixture that have a token."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies.configs import SHAPES
from pytest_graphbreak.repair.trial import Trial


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    if ".nonzero(" in item.where.code and "dynamic shape" in item.reason.lower():
        yield SourcePatch(
            "the loop goes over all indices, and capture_dynamic_output_shape_ops",
            (Rewrite("every_index", item.where), SHAPES),
            note="what is selected for an index may be empty, and is computed all the same",
        )
