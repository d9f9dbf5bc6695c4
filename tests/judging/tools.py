"""What a case of judging is made of."""

from __future__ import annotations

from pytest_graphbreak.baseline.model import Entry, Expected
from pytest_graphbreak.baseline.rules import expectation
from pytest_graphbreak.model.budget import Values
from pytest_graphbreak.model.versions import Versions


def expecting(entry: Entry, profile: str = "cpu") -> Expected:
    """What an entry of a baseline expects of a profile; it is an error if it says nothing."""
    (found,) = filter(None, [expectation(entry, profile)])
    return found


def recorded(values: Values, versions: Versions) -> Expected:
    """What a baseline with these values expects of the profile that recorded it."""
    return Expected(values, "cpu", versions, recorded=True, own=values.layers, plain_with=versions)
