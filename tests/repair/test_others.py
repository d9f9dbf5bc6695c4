"""The inputs that a program did not use itself: values, positions, shapes of images, batches."""

from __future__ import annotations

from typing import Any

import torch

from pytest_graphbreak.repair.others import BATCHES, LENGTHS, TEXTS, VARIANTS, OtherInputs


def model(x: Any, position_ids: Any = None, image_grid_thw: Any = None, **more: Any) -> Any:
    return x


def inputs(*args: Any, **kwargs: Any) -> OtherInputs:
    return OtherInputs(model, args, kwargs, {})


def test_kinds_are_those_of_the_arguments() -> None:
    row, whole = torch.ones(3), torch.arange(3)
    assert inputs(row).kinds() == VARIANTS
    assert inputs(row, whole).kinds() == (*VARIANTS, "positions")
    assert inputs(row, row).kinds() == VARIANTS  # floats are no positions
    assert inputs(row, cache_position=whole).kinds() == (*VARIANTS, "positions")
    assert inputs(row, composition=whole).kinds() == VARIANTS
    grid = torch.tensor([[1, 4, 4]])
    assert inputs(row, image_grid_thw=grid).kinds() == (*VARIANTS, "shapes", *BATCHES)
    assert inputs({"position_ids": whole}).kinds() == (*VARIANTS, "positions")
    found = OtherInputs(model, (row,), {}, {"x": {0: 3}}).kinds()
    assert found == (*VARIANTS, *LENGTHS)


def test_positions_are_the_next_ones_and_nothing_else_changes() -> None:
    x, positions = torch.rand(1, 3), torch.arange(3)
    (other, shifted), _ = inputs(x, positions).drawn("positions")
    assert torch.equal(other, x)
    assert other is not x
    assert shifted.tolist() == [1, 2, 3]
    assert positions.tolist() == [0, 1, 2]


def test_the_first_image_has_another_shape_with_as_many_patches() -> None:
    grid = torch.tensor([[1, 4, 6], [1, 4, 4]])
    _, changed = inputs(torch.rand(40, 8), image_grid_thw=grid).drawn("shapes")
    assert changed["image_grid_thw"].tolist() == [[1, 2, 12], [1, 4, 4]]
    odd = torch.tensor([[3, 6]])
    _, changed = inputs(torch.rand(18, 8), spatial_shapes=odd).drawn("shapes")
    assert changed["spatial_shapes"].tolist() == [[3, 6]]


def test_the_batch_grows_in_all_arguments_that_have_it() -> None:
    given = {
        "position_ids": torch.zeros(3, 2, 4, dtype=torch.long),
        "image_grid_thw": torch.ones(2, 3, dtype=torch.long),
        "pixels": torch.rand(32, 5),
        "cache_position": torch.arange(2),
        "labels": torch.tensor([0, 1]),
        "scale": torch.tensor(2.0),
    }
    (x,), changed = inputs(torch.rand(2, 4), **given).drawn("batch 3")
    assert x.shape == (6, 4)
    assert {name: tuple(one.shape) for name, one in changed.items()} == {
        "position_ids": (3, 6, 4),
        "image_grid_thw": (6, 3),
        "pixels": (96, 5),
        "cache_position": (2,),
        "labels": (6,),
        "scale": (),
    }
    assert changed["labels"].tolist() == [0, 1] * 3


def test_text_is_shorter_in_all_arguments_that_have_its_tokens() -> None:
    ids = torch.arange(24).reshape(2, 12)
    given = {
        "input_ids": ids,
        "attention_mask": torch.ones(2, 1, 12, 12, dtype=torch.bool),
        "position_ids": torch.zeros(3, 2, 12, dtype=torch.long),
        "cache_position": torch.arange(12),
        "labels": ids,
        "rows": torch.rand(12, 4),
        "pixels": torch.rand(2, 3, 12, 12),
    }
    one = inputs(torch.rand(2, 12, 12), **given)
    assert one.kinds() == (*VARIANTS, "positions", *BATCHES, *TEXTS)
    (x,), changed = one.drawn("length 2")
    assert x.shape == (2, 10, 12)
    assert {name: tuple(value.shape) for name, value in changed.items()} == {
        "input_ids": (2, 10),
        "attention_mask": (2, 1, 10, 10),
        "position_ids": (3, 2, 10),
        "cache_position": (10,),
        "labels": (2, 10),
        "rows": (12, 4),
        "pixels": (2, 3, 12, 12),
    }
    assert torch.equal(changed["input_ids"], ids[:, :10])
    assert inputs(torch.rand(2, 12), input_ids=ids[:, :7]).kinds() == (*VARIANTS, *BATCHES)
