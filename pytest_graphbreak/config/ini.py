"""What ini keys may say that both the plugin and the commands over reports read."""

import math
from typing import Final

NEW: Final = ("fail", "report")
"""``graph_budget_new``: whether a test without a baseline fails, or is only reported."""

SWAPS: Final = ("report", "fail")
"""``graph_budget_swaps``: whether a new place fails a test of which no count grew."""

RUNS: Final = ("fail", "report", "off")
"""``graph_budget_runs``: what more executions or reads do. ``off``: they are not counted."""

OPS: Final = 10.0
"""``graph_budget_ops``: by how many percent captured operations may fall."""


def percent(text: str) -> float | None:
    """What ``graph_budget_ops`` says: percent from 0 to 100, or None for ``off``.

    Raises ``ValueError`` with the words for the user.
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
