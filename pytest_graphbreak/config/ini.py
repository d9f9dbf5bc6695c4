"""Values of ini keys that both the plugin and the commands on reports read."""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct

NEW: Final = ("fail", "report")
"""``graph_budget_new``: whether a test without a baseline fails, or is only reported."""

RUNS: Final = ("report", "fail", "off")
"""``graph_budget_runs``: the effect of more executions or reads. ``off``: they are not counted."""

OPS: Final = 10.0
"""``graph_budget_ops``: by how many percent captured operations may fall."""


class Rules(Struct, frozen=True, kw_only=True):
    """The rules by which tests are judged, named after the options and ini keys.

    ``ops`` is None if captured operations may fall by any amount.
    """

    gate: bool = False
    update: bool = False
    record: bool = False
    prune: bool = False
    strict: bool = False
    new: str = "fail"
    ops: float | None = OPS
    runs: str = "report"


def percent(text: str) -> float | None:
    """Return the value of ``graph_budget_ops``: percent from 0 to 100, or None for ``off``.

    Raises ``ValueError`` with a message for the user.
    """
    if text.strip().lower() == "off":
        return None
    try:
        number = float(text.strip().removesuffix("%"))
    except ValueError:
        number = math.nan
    if not 0 <= number <= 100:
        raise ValueError(f"graph_budget_ops: {text!r} is not a percentage from 0 to 100, nor off")
    return number
