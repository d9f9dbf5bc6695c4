"""The meaning of a reason and how to fix it: one line in a failure, a page on demand.

``shorts`` are for the failure, ``explain`` for
the command of that name, ``suggest`` for a request for something unknown. Nothing here imports
torch or pytest.
"""

from __future__ import annotations

from pytest_graphbreak.advice.explanation import Explanation, explain, suggest
from pytest_graphbreak.advice.match import family, name, shorts, topic

__all__ = ["Explanation", "explain", "family", "name", "shorts", "suggest", "topic"]
