"""Numbers with their nouns."""

from __future__ import annotations

import pytest

from pytest_graphbreak.text.numbers import noun, plural

pytestmark = pytest.mark.pure


def test_a_number_has_its_noun() -> None:
    assert [noun(count, "place") for count in (0, 1, 2)] == ["places", "place", "places"]
    assert plural(1, "test") == "1 test"
    assert plural(0, "more reason") == "0 more reasons"
    assert plural(1000, "test") == "1,000 tests"
