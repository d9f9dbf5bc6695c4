"""Halving finds the first bad one, whatever is skipped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.cli.versions.halving import Halving


@given(st.data(), st.integers(2, 60))
def test_the_first_bad_one_is_among_the_answers(data: st.DataObject, count: int) -> None:
    first = data.draw(st.integers(1, count - 1))
    torn = data.draw(st.sets(st.integers(1, max(1, count - 2))))
    row = Halving(range(count))
    steps = 0
    while (number := row.next) is not None:
        assert steps <= count
        steps += 1
        row.say("skip" if number in torn else "bad" if number >= first else "good", number)
    assert first in row.answers
    assert set(row.answers) - {row.bad} <= torn
    if not torn:
        assert row.answers == [first]
        assert steps <= (count - 2).bit_length()


def test_neighbours_need_no_step() -> None:
    row = Halving("ab")
    assert (row.next, row.steps, row.answers) == (None, 0, [1])
