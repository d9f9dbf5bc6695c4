"""Works out what a profile is judged by, from the entry of a test.

The rules of profiles and overrides (docs/reference/baseline-file.md) are implemented here and
nowhere else; what an override replaces of each key is in ``rules``.
"""

from __future__ import annotations

from pytest_graphbreak.baseline.model import PLAIN, Entry, Expected
from pytest_graphbreak.baseline.rules import overlay
from pytest_graphbreak.model.budget import Values


def expectation(entry: Entry, profile: str) -> Expected | None:
    """Return what ``profile`` is judged by, or None if the entry has nothing for it."""
    override, is_plain = entry.overrides.get(profile), profile == entry.profile
    if entry.values is None and override is None:
        return None
    values = entry.values or Values()
    versions = override.versions if override else entry.versions
    own = override.layers if override else frozenset[str]()
    return Expected(
        values=overlay(values, override) if override else values,
        profile=profile if override else entry.profile,
        versions=versions,
        recorded=is_plain or override is not None,
        own=own | values.layers if is_plain else own,
        packages=entry.packages,
        plain_with=versions if entry.values is None else entry.versions,
        override=override or PLAIN,
    )
