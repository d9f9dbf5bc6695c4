"""Which inputs are drawn for a call, and what they hold."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_graphbreak.repair.inputs import FLOATS, INTEGERS, OWN, DrawnInputs, DrawnWay

pytestmark = pytest.mark.once


def model(*args: Any, **kwargs: Any) -> None:
    pass


def inputs(*args: Any, **kwargs: Any) -> DrawnInputs:
    return DrawnInputs(model, args, kwargs, {})


def names(drawn: DrawnInputs, **options: bool) -> list[str]:
    options = {"values_only": False, "grad": True, "modules": True} | options
    return [way.name for way in drawn.ways(**options)]


def draw(drawn: DrawnInputs, kind: str) -> Any:
    return drawn.draw(DrawnWay(kind, kind))


def test_what_is_drawn_follows_from_the_arguments() -> None:
    batches = ("an empty batch", "a batch of one", "a batch twice as large")
    assert names(inputs(torch.ones(2, 3))) == [
        OWN,
        *FLOATS,
        *batches,
        "a shorter length",
        "a longer length",
        "inputs of float64",
        "no gradients",
        "train and eval mode exchanged",
        "inputs that require gradients",
        "inputs that require gradients, negated",
    ]
    whole = names(inputs(torch.ones(2, dtype=torch.long)), grad=False, modules=False)
    assert whole == [OWN, *INTEGERS, *batches, "gradients"]
    assert names(inputs(torch.ones(2, 3), True), values_only=True) == [OWN, *FLOATS, "other flags"]
    assert names(inputs(3), modules=False) == [OWN, "other numbers", "no gradients"]


@pytest.mark.parametrize(
    ("kind", "shapes"),
    [
        ("a batch of one", [(1, 8), (1, 8, 4), (6, 2), (4,)]),
        ("a batch twice as large", [(4, 8), (4, 8, 4), (6, 2), (4,)]),
        ("a shorter length", [(2, 7), (2, 7, 4), (6, 2), (4,)]),
        ("a longer length", [(2, 16), (2, 16, 4), (6, 2), (4,)]),
    ],
)
def test_sizes_that_belong_together_are_changed_together(
    kind: str, shapes: list[tuple[int, ...]]
) -> None:
    """What has neither that batch nor that length stays as it is."""
    ids = torch.ones(2, 8, dtype=torch.long)
    args, _ = draw(inputs(ids, torch.ones(2, 8, 4), torch.ones(6, 2), torch.ones(4)), kind)
    assert [tuple(one.shape) for one in args] == shapes


def test_a_length_changes_in_both_dimensions_of_a_mask() -> None:
    """A mask of another length than the rest is no input of the program."""
    q, mask = torch.ones(2, 5, 8), torch.ones(5, 5, dtype=torch.bool)
    args, _ = draw(inputs(q, mask, torch.ones(2, 1, 5, 5)), "a shorter length")
    assert [tuple(tensor.shape) for tensor in args] == [(2, 4, 8), (4, 4), (2, 1, 4, 4)]


def test_no_length_is_shorter_than_none() -> None:
    drawn = DrawnInputs(model, (torch.ones(2, 0),), {}, {"args[0]": [1]})
    assert draw(drawn, "a shorter length")[0][0].shape == (2, 0)


def test_values() -> None:
    x = torch.tensor([1.0, -2.0, 3.0, 4.0])
    drawn = {kind: draw(inputs(x), kind)[0][0] for kind in (OWN, *FLOATS)}
    assert drawn[OWN].tolist() == x.tolist()
    assert drawn[OWN].data_ptr() != x.data_ptr()
    assert drawn["negated"].tolist() == [-1, 2, -3, -4]
    assert drawn["zero"].tolist() == [0] * 4
    assert 0 < int(drawn["NaN"].isnan().sum()) < 4
    assert drawn["inf"].isposinf().tolist() == [True, False, False, True]
    assert bool(drawn["-inf"].isneginf().any())
    assert drawn["largest"].max() == torch.finfo(torch.float32).max
    assert not drawn["random"].isnan().any()
    targets = torch.tensor([1, 2, 3, 4])
    assert draw(inputs(targets), "-100")[0][0].tolist() == [-100, 2, 3, -100]
    masks = inputs(torch.ones(4, dtype=torch.bool))
    assert draw(masks, "0")[0][0].tolist() == [False, True, True, False]
    assert not draw(masks, "all 0")[0][0].any()
    (number, flag), _ = draw(inputs(2, True), "other numbers")
    assert (number, flag) == (3, True)


def test_gradients_and_dtypes() -> None:
    given = inputs(torch.ones(2), 3, y=torch.ones(1))
    (x, n), named = given.draw(DrawnWay("", OWN, requiring=True))
    assert (x.requires_grad, n, named["y"].requires_grad) == (True, 3, True)
    (x,), _ = draw(inputs(torch.ones(2, requires_grad=True)), "inputs of float64")
    assert (x.dtype, x.requires_grad, x.is_leaf) == (torch.float64, True, True)


def test_strides_are_those_of_the_original() -> None:
    (x,), _ = draw(inputs(torch.ones(3, 2).t()), "random")
    assert x.stride() == torch.ones(3, 2).t().stride()
