"""What is run on each push, and what at night: examples of a property, rows of a table."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

ALL = "GRAPHBREAK_ALL_EXAMPLES"
"""Set, in the environment: all of them. ``python -m tests night-torch`` sets it."""


def examples(number: int) -> settings:
    """Return settings with this number of examples at night, and a tenth of it on a push."""
    return settings(max_examples=number if os.environ.get(ALL) else number // 10, deadline=None)


def sample(
    rows: Iterable[Any],
    of_each_push: Collection[Any],
    mark: pytest.MarkDecorator = pytest.mark.nightly,
) -> list[Any]:
    """Return all rows as parameters, those not ``of_each_push`` with ``mark``: run at night."""
    rows = list(rows)
    assert all(row in rows for row in of_each_push)
    return [row if row in of_each_push else pytest.param(row, marks=mark) for row in rows]
