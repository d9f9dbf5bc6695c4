"""The stages of the TT compiler: which can follow which, and headers that lost what led them in."""

from __future__ import annotations

import pytest

from pytest_graphbreak.layers.tt import headers, programs

pytestmark = pytest.mark.pure

NAMES = list(programs.ORDER)


@pytest.mark.parametrize(
    ("stage", "last", "can"),
    [
        (NAMES[1], NAMES[0], True),
        (NAMES[-1], NAMES[0], True),
        (NAMES[0], NAMES[1], False),
        (NAMES[0], NAMES[0], False),
        ("a_stage_of_next_year", NAMES[0], True),
        (NAMES[2], "a_stage_of_next_year", True),
        (programs.FIRST, "a_stage_of_next_year", False),
    ],
)
def test_what_can_follow(stage: str, last: str, can: bool) -> None:
    assert programs.follows(stage, last) is can


@pytest.mark.parametrize(
    ("before", "found"),
    [("", True), ("12:00:01Z ", True), ("worker-1 | ", True), ("see also ", False)],
)
def test_a_header_without_its_preamble_stands_at_the_start_of_a_line(
    before: str, found: bool
) -> None:
    line = f"{before}MLIR Module {programs.FIRST}:\n"
    assert headers.bare_header(line, len(before)) == (programs.FIRST if found else "")
