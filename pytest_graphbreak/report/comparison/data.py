"""A comparison as JSON: every key always there, builtin types only; ``comparison.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.runs.comparison import CauseChange, ComparedSide, Comparison, Effect, Pair

VERSION: Final = 1


def document(found: Comparison) -> Plain:
    """The whole comparison; of the tests those of which anything moved."""
    return {
        "version": VERSION,
        "before": _side(found.before),
        "after": _side(found.after),
        "differs": found.differs,
        "compared": len(found.pairs),
        "changes": [_change(change) for change in found.changes],
        "moved": [
            {"why": pair.why, "before": _change(pair.before), "after": _change(pair.after)}
            for pair in found.moved
        ],
        "tests": [_pair(pair) for pair in found.pairs if pair.moved],
        "once": [
            {"nodeid": one.nodeid, "profile": one.profile, "side": one.side, "maybe": one.maybe}
            for one in found.once
        ],
        "layers": [
            {"layer": layer, "side": side, "tests": list(tests)}
            for (layer, side), tests in found.layers.items()
        ],
        "settings": [
            {"name": one.name, "before": one.before, "after": one.after, "tests": list(tests)}
            for one, tests in found.settings.items()
        ],
        "not_compared": [
            {"nodeid": one.nodeid, "profile": one.profile, "why": one.why} for one in found.unequal
        ],
    }


def _side(side: ComparedSide) -> Plain:
    return {
        "reports": list(side.reports),
        "profiles": list(side.profiles),
        "versions": dict(side.versions),
        "packages": dict(side.packages),
        "tests": side.tests,
        "problems": list(side.problems),
    }


def _change(change: CauseChange) -> Plain:
    package = change.package
    return {
        "how": change.how,
        "kind": change.kind,
        "layer": change.layer,
        "id": change.id,
        "reason": change.reason,
        "was": _was(change),
        "where": _frame(change.where),
        "stack": [_frame(frame) for frame in change.stack],
        "package": None
        if package is None
        else {"name": package.name, "before": package.before, "after": package.after},
        "graphs": change.graphs,
        "tests": [_effect(effect) for effect in change.effects],
        "with_it": [_change(item) for item in change.with_it.values()],
    }


def _was(change: CauseChange) -> Plain | None:
    """What it was called before; null where it was not there."""
    if change.how in ("new", "gone"):
        return None
    return {"id": change.was_id, "reason": change.was_reason}


def _frame(frame: Frame) -> Plain:
    return frame.to_dict() if frame.file else {}


def _effect(effect: Effect) -> Plain:
    return {
        "nodeid": effect.nodeid,
        "profile": effect.profile,
        "times": list(effect.times),
        "graphs": dict(effect.graphs),
    }


def _pair(pair: Pair) -> Plain:
    return {
        "nodeid": pair.nodeid,
        "profile": pair.profile,
        "layers": list(pair.layers),
        "graphs": _counts(pair.graphs),
        "recompiles": _counts(pair.recompiles),
        "ops": _counts(pair.ops),
    }


def _counts(counts: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """Before and after, by layer."""
    return {layer: list(count) for layer, count in counts.items()}
