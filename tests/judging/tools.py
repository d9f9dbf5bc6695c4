"""What a case of judging is made of."""

from __future__ import annotations

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.model.budget import Values
from pytest_graphbreak.model.versions import Versions


def recorded(values: Values, versions: Versions) -> Expected:
    """What a baseline with these values expects of the profile that recorded it."""
    return Expected(values, "cpu", versions, recorded=True, own=values.layers, plain_with=versions)
