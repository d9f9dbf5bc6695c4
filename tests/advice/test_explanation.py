"""``explain``: every id of torch, every name of ours, reasons of any torch, and near misses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.advice import Explanation, explain, registry, suggest
from pytest_graphbreak.advice.explanation import by_name

pytestmark = pytest.mark.once

IDS = sorted(registry.installed_registry().ids)
with_ids = pytest.mark.skipif(not IDS, reason="this torch has no ids")


@with_ids
def test_every_id_is_explained() -> None:
    for id in IDS:
        found = explain(id.lower())
        assert found.id == id
        assert found.torch == registry.installed_registry().version
        assert found.words[0].reason == found.title
        assert found.url == f"{registry.SITE}{id.lower()}.html"


@with_ids
def test_most_ids_say_more_than_torch_does() -> None:
    """More than half of the ids lead to a page of ours: 295 of 517 with torch 2.13."""
    ours = [id for id in IDS if (found := explain(id)) and found.page]
    assert len(ours) > len(IDS) / 2


@with_ids
def test_an_id_names_the_families_that_share_its_reason() -> None:
    found = explain("GB0059")  # Failed to trace builtin operator
    assert found.family == "builtin"
    assert {"print", "repr"} <= set(found.also)


@with_ids
def test_the_text_of_a_reason_finds_its_id() -> None:
    found = explain("data-dependent   BRANCHING")
    assert found.title == "Data-dependent branching"


@pytest.mark.parametrize("name", sorted(by_name()))
def test_every_name_is_explained(name: str) -> None:
    found = explain(name.upper())
    assert found.family == name
    assert found.page is not None
    assert found.short == by_name()[name].short


WHOLE = (
    "Attempted to call function marked as skipped\n"
    "  Explanation: Dynamo does not know how to trace the Python builtin `_warnings.warn`.\n"
    "  Hint: Please file an issue.\n\n from user code:\n"
)
"""A message of torch, as it is pasted."""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (".item()", "item"),
        ("torch.cond", "cond"),
        ("grad mode", "grad-mode"),
        ("one_hot", "one-hot"),
        ("Unsupported: builtin: print [<class 'torch...ConstantVariable'>] False", "print"),
        ("Data-dependent jump", "branch"),
        ("call torch._dynamo.disable() wrapped function <function dis at 0x7f68>", "disabled"),
        ("tensor 'L['x']' size mismatch at index 0. expected 4, actual 5", "size"),
        ("GLOBAL_STATE changed: grad_mode", "grad-mode"),
        ("Could not guard on data-dependent expression u0 < 0", "unbacked"),
        ("Dim.AUTO", "export"),
        ("torch.map", "map"),
        (WHOLE, "warnings"),
    ],
)
def test_texts_of_any_torch_lead_to_a_page(text: str, name: str) -> None:
    found = explain(text)
    assert found.family == name


@pytest.mark.parametrize("text", ["", " ", "GB9999", "no such thing", "frobnicate"])
def test_what_nobody_knows_is_none(text: str) -> None:
    assert explain(text) is None


@pytest.mark.parametrize(
    ("text", "near"),
    [
        *(("recompyle", "recompile"), ("brnach", "branch"), ("spilt", "split"), ("while", "loop")),
        pytest.param("GB01240", "GB0124", marks=with_ids),
    ],
)
def test_near_misses_are_named(text: str, near: str) -> None:
    assert near in suggest(text)


@pytest.mark.nightly  # it looks for near names of each text
@given(st.text())
def test_any_text_can_be_asked_for(text: str) -> None:
    found = explain(text)
    assert found is None or isinstance(found, Explanation)
    assert all(explain(name) for name in suggest(text))


@with_ids
@pytest.mark.parametrize("text", ["GB9999", "GB59x", "gb 12345"])
def test_an_id_that_nobody_has_is_not_one_with_near_digits(text: str) -> None:
    assert suggest(text) == ()
