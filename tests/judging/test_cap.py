"""The cap in code: what it may say, and how it speaks of what it may not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.judging.cap import CapError, parse
from pytest_graphbreak.model.budget import Cap
from pytest_graphbreak.model.layers import LAYERS

pytestmark = pytest.mark.pure


UNJUDGED = dict.fromkeys(("inductor", "cudagraph", "triton"))


@pytest.mark.parametrize(
    ("number", "named", "others"),
    [
        (2, {}, UNJUDGED),  # a number holds for every layer that is judged
        (0, {"triton": 1}, {}),  # and none at all for the others, too
        (2, {"xla": 5}, UNJUDGED),
    ],
)
def test_a_named_layer_wins_over_the_number_of_the_others(
    number: int, named: dict[str, int], others: dict[str, None]
) -> None:
    cap = parse((number,), named)
    found = {layer: cap.graphs(layer) for layer in LAYERS}
    assert found == dict.fromkeys(LAYERS, number) | others | named


def test_what_may_be_compiled_stands_alone() -> None:
    assert parse((), {"compiled": 0}) == Cap(compiled=0)


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "says no number"),
        ((1, 2), {}, "one number by position, got 2"),
        ((True,), {}, "True is not a count"),
        ((-1,), {}, "-1 is not a count"),
        (("1",), {}, "'1' is not a count"),
        ((None,), {}, "None is not a count"),
        ((), {"cuda": 1}, "unknown argument 'cuda'"),
        ((1,), {"breaks": 1.0}, "breaks=1.0 is not a count"),
    ],
)
def test_a_wrong_cap_names_itself_and_what_is_allowed(
    args: tuple[object, ...], kwargs: dict[str, object], said: str
) -> None:
    with pytest.raises(CapError) as caught:
        parse(args, kwargs)
    assert said in str(caught.value)
    assert "allowed: max_graphs(N)" in str(caught.value)


@given(
    st.dictionaries(
        st.sampled_from([*LAYERS, "recompiles", "breaks"]), st.integers(0, 10**6), min_size=1
    )
)
def test_every_allowed_form_is_taken_as_written(kwargs: dict[str, int]) -> None:
    cap = parse((), kwargs)
    for layer in LAYERS:
        assert cap.graphs(layer) == kwargs.get(layer)
    assert cap.recompiles == kwargs.get("recompiles")
    assert cap.breaks == kwargs.get("breaks")
