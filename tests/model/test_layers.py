"""What the layers say of themselves fits together."""

from __future__ import annotations

import pytest

from pytest_graphbreak.layers import load, observers
from pytest_graphbreak.layers.protocol import Observer
from pytest_graphbreak.model.items import Break
from pytest_graphbreak.model.layers import (
    BREAKING,
    BY_NAME,
    DESCRIPTIONS,
    EXPECTED,
    LAYERS,
    GraphCause,
    Layer,
)
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.record import Record

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("name", LAYERS)
def test_a_description_names_what_is_there(name: str) -> None:
    layer = DESCRIPTIONS[name]
    assert layer.name == name
    observer = load(layer.observer)
    assert issubclass(observer, Observer)
    assert observer.layer == name
    assert layer.above in (None, *LAYERS[: LAYERS.index(name)])
    assert sum(cause.is_plain for cause in layer.causes) == 1
    if layer.probe is not None:
        assert load(layer.probe).expected
        assert layer.remedy


def test_the_observers_are_in_the_order_of_the_layers() -> None:
    assert tuple(observer.layer for observer in observers()) == LAYERS


def test_causes_of_one_name_mean_the_same() -> None:
    for layer in DESCRIPTIONS.values():
        for cause in layer.causes:
            known = BY_NAME[cause.name]
            assert (cause.kind, cause.plural) == (known.kind, known.plural)
    above = ("entry", "fx", "backward", "jit", "aot")
    below = ("forward", "inference", "captured", "callable", "tree", "kernel")
    assert (*above, *below) == EXPECTED
    assert BREAKING == ("dynamo", "jax", "inductor")


def test_a_cause_that_is_not_known_is_a_defect() -> None:
    cause = DESCRIPTIONS["xla"].cause("of a later version")
    assert cause == GraphCause("of a later version")
    assert not cause.is_expected
    assert [cause.count_words(1), cause.count_words(1200)] == [
        "1 of a later version",
        "1,200 of a later versions",
    ]


def test_a_layer_is_a_keyword() -> None:
    with pytest.raises(ValueError, match="'jax-host'"):
        Layer(name="jax-host", causes=(), observer="")


def test_breaks_are_known_by_layer_and_place() -> None:
    items = [Break(layer, "why") for layer in ("dynamo", "xla", "dynamo")]
    record = record_of("dynamo", breaks=items)
    assert [(item.layer, item.count) for item in record.breaks] == [("dynamo", 2), ("xla", 1)]


@pytest.mark.parametrize(
    ("graphs", "layer"),
    [({"dynamo": 2}, "dynamo"), ({"dynamo": 2, "xla": 1}, "xla"), ({}, "xla")],
)
def test_a_record_is_headed_by_the_deepest_layer_that_made_graphs(
    graphs: dict[str, int], layer: str
) -> None:
    assert Record(layers=("dynamo", "xla"), graphs=graphs).headline == layer
