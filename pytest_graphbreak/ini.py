"""What ini keys may say that both the plugin and the commands over reports read."""

from typing import Final

NEW: Final = ("fail", "report")
"""``graph_budget_new``: whether a test without a baseline fails, or is only reported."""
