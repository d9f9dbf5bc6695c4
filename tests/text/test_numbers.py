"""Numbers with their nouns."""

from __future__ import annotations

import pytest

from pytest_graphbreak.text.numbers import noun, plural, size

pytestmark = pytest.mark.pure


def test_a_number_has_its_noun() -> None:
    assert [noun(count, "place") for count in (0, 1, 2)] == ["places", "place", "places"]
    assert plural(1, "test") == "1 test"
    assert plural(0, "more reason") == "0 more reasons"
    assert plural(1000, "test") == "1,000 tests"


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (999_999_999, "1.0 GB"),
        (1_100_000_000_000, "1100.0 GB"),
    ],
)
def test_a_size_has_the_unit_of_its_rounded_number(count: int, words: str) -> None:
    assert size(count) == words
