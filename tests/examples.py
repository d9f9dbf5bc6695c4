"""How many examples are drawn for a property: on each push a third of those at night."""

from __future__ import annotations

import os

from hypothesis import settings

ALL = "GRAPHBREAK_ALL_EXAMPLES"
"""Set, in the environment: all of them. ``python -m tests whole`` sets it."""


def examples(number: int) -> settings:
    return settings(max_examples=number if os.environ.get(ALL) else number // 3, deadline=None)
