"""What a reason means and how to fix it: one line in a failure, a page on demand.

``short`` serves the red test, ``explain`` the command of that name, ``suggest``
whoever asked for something unknown. Nothing here imports torch or pytest.
"""

from __future__ import annotations

from pytest_graphbreak.advice.explanation import Explanation, explain, suggest
from pytest_graphbreak.advice.match import family, name, short

__all__ = ["Explanation", "explain", "family", "name", "short", "suggest"]
