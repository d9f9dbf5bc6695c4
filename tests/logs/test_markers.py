"""Logs with END markers and no headers: the number of stages is found in the log."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.logs.markers import GUESS, LIKELY, SURE, Guess
from tests.examples import examples
from tests.logs import writer
from tests.logs.tools import counted
from tests.logs.writer import Style, Write, Writer, interleave, join

pytestmark = pytest.mark.pure

EIGHT_TO_FIVE = (*writer.VERSIONS, writer.SIX[:3] + writer.SIX[4:])


def guess(writes: list[Write]) -> Guess:
    guesses = counted(join(writes)).guesses()
    assert list(guesses) == [""]
    return guesses[""]


def headless(dialects: bool = True) -> Writer:
    return Writer(Style(headers=False, dialects=dialects))


@pytest.mark.parametrize("by", ["dialects", "names"])
@pytest.mark.parametrize("stages", EIGHT_TO_FIVE, ids=len)
def test_dialects_or_names_tell_where_a_graph_begins(stages: tuple[str, ...], by: str) -> None:
    plugin = headless(dialects=by == "dialects")
    names = [f"SyncTensorsGraph.{n * 19 + 12}" if by == "names" else "Same.1" for n in range(1, 8)]
    writes = [write for n in range(7) for write in plugin.graph(n + 1, stages, name=names[n])]
    seen = guess(writes)
    assert (seen.graphs, seen.completed, seen.stages, seen.sure) == (7, 7, len(stages), SURE)


@pytest.mark.parametrize("stages", EIGHT_TO_FIVE, ids=len)
def test_a_failed_graph_is_a_graph(stages: tuple[str, ...]) -> None:
    plugin = headless(dialects=False)
    writes = [
        *plugin.graph(1, stages, name="Same.1"),
        *plugin.graph(2, stages, name="Same.1", fails_after="shlo_frontend"),
        *plugin.graph(3, stages, name="Same.1"),
    ]
    seen = guess(writes)
    assert (seen.graphs, seen.completed, seen.stages) == (3, 2, len(stages))


@pytest.mark.parametrize(
    ("markers", "graphs", "sure", "least", "most"),
    [
        (7, 1, LIKELY, 1, 1),
        (9, 1, LIKELY, 1, 1),
        (14, 2, LIKELY, 2, 2),
        (16, 2, LIKELY, 2, 2),
        (18, 2, GUESS, 2, 3),
        (35, 5, GUESS, 5, 7),
        (63, 7, GUESS, 7, 9),
        (3, 1, LIKELY, 1, 1),
    ],
)
def test_nothing_but_markers(markers: int, graphs: int, sure: str, least: int, most: int) -> None:
    seen = counted(writer.END.encode() * markers).guesses()[""]
    assert (seen.graphs, seen.sure, seen.least, seen.most) == (graphs, sure, least, most)


@given(
    st.sampled_from(EIGHT_TO_FIVE),
    st.lists(
        st.none() | st.sampled_from(["vhlo", "shlo", "shlo_frontend"]), min_size=1, max_size=8
    ),
    st.booleans(),
    st.booleans(),
)
@examples(400)
def test_dialects_or_distinct_names_are_enough(
    stages: tuple[str, ...], failures: list[str | None], says: bool, dialects: bool
) -> None:
    """Exact, where a log shows at least one whole graph for each that fell short."""
    plugin = headless(dialects=dialects)
    writes = []
    number = 0
    for fails in failures:
        number += 1
        writes += plugin.graph(number, stages, fails_after=fails, says=says or not dialects)
        number += 1
        writes += plugin.graph(number, stages)
    seen = guess(writes)
    whole = number - sum(fails is not None for fails in failures)
    assert (seen.graphs, seen.completed) == (number, whole)


@given(st.integers(5, 9), st.integers(1, 40))
def test_the_truth_is_within_the_bounds(stages: int, number: int) -> None:
    seen = counted(writer.END.encode() * (stages * number)).guesses()[""]
    assert seen.least <= number <= seen.most


def test_ranks_are_counted_apart() -> None:
    ranks = []
    for rank in ("1,0", "1,1"):
        plugin = Writer(Style(headers=False, dialects=False, rank=rank))
        ranks.append([write for n in (1, 2, 3) for write in plugin.graph(n, writer.EIGHT)])
    mixed = interleave(ranks, random.Random(1))
    guesses = counted(join(mixed)).guesses()
    assert {rank: seen.graphs for rank, seen in guesses.items()} == {"1,0": 3, "1,1": 3}


def test_headers_are_believed_before_markers() -> None:
    seen = counted(join(Writer().graph(1)) + writer.END.encode())
    assert seen.guesses() == {}
    assert seen.programs.attempted == 1
