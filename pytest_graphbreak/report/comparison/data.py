"""A comparison as JSON: every key always there, builtin types only; ``comparison.json``."""

from __future__ import annotations

from typing import Final

from msgspec import to_builtins

from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.runs.comparison import CauseChange, Comparison, Pair

VERSION: Final = 1


def document(found: Comparison) -> Plain:
    """The whole comparison; of the tests those of which anything moved."""
    return {
        "version": VERSION,
        "before": to_builtins(found.before),
        "after": to_builtins(found.after),
        "differs": found.differs,
        "compared": len(found.pairs),
        "changes": [_change(change) for change in found.changes],
        "moved": [
            {"why": pair.why, "before": _change(pair.before), "after": _change(pair.after)}
            for pair in found.moved
        ],
        "tests": [_pair(pair) for pair in found.pairs if pair.moved],
        "once": to_builtins(found.once),
        "layers": [
            {"layer": layer, "side": side, "tests": list(tests)}
            for (layer, side), tests in found.layers.items()
        ],
        "settings": [
            {**to_builtins(one), "tests": list(tests)} for one, tests in found.settings.items()
        ],
        "not_compared": to_builtins(found.unequal),
    }


def _change(change: CauseChange) -> Plain:
    return {
        "how": change.how,
        "kind": change.kind,
        "layer": change.layer,
        "id": change.id,
        "reason": change.reason,
        "was": _was(change),
        "where": _frame(change.where),
        "stack": [_frame(frame) for frame in change.stack],
        "package": to_builtins(change.package),
        "graphs": change.graphs,
        "tests": to_builtins(change.effects),
        "with_it": [_change(item) for item in change.with_it.values()],
    }


def _was(change: CauseChange) -> Plain | None:
    """What it was called before; null where it was not there."""
    if change.how in ("new", "gone"):
        return None
    return {"id": change.was_id, "reason": change.was_reason}


def _frame(frame: Frame) -> Plain:
    return frame.to_dict() if frame.file else {}


def _pair(pair: Pair) -> Plain:
    """Counts before and after, by layer."""
    names = ("nodeid", "profile", "layers", "graphs", "recompiles", "ops", "executions", "reads")
    return {name: to_builtins(getattr(pair, name)) for name in names}
