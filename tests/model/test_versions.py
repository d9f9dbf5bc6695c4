"""Versions as they are compared."""

from __future__ import annotations

import pytest

from pytest_graphbreak.model.versions import minor, same_minor

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2.9", "2.9.1", True),
        ("2.9.1+cpu", "2.9.0", True),
        ("2.1", "2.10", False),
        ("2.9", "2.10", False),
        (None, "2.9", False),
        (None, None, False),
    ],
)
def test_minor_versions(one: str | None, other: str | None, same: bool) -> None:
    assert same_minor(one, other) is same
    assert minor("2.13.0.dev1+cpu") == "2.13"
