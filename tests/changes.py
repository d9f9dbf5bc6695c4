"""Changes as tests write them: numbers of a whole test, with the verdict that they lead to."""

from __future__ import annotations

from pytest_graphbreak.model.differences import Difference


def total(
    kind: str = "graph",
    layer: str | None = "dynamo",
    before: int = 1,
    after: int = 3,
    by: str = "baseline",
    verdict: str | None = None,
) -> Difference:
    """A number that changed. Without ``verdict``: over where it grew, lost where it fell."""
    verdict = verdict or ("over" if after > before else "lost")
    return Difference(kind, layer, total=True, before=before, after=after, by=by, verdict=verdict)
