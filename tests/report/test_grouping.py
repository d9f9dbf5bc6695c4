"""Equal reasons of one place are one entry, with the values that came."""

from __future__ import annotations

import pytest

from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.record import Frame, Graph, Recompile
from pytest_graphbreak.report.findings import observed
from pytest_graphbreak.report.grouping import grouped, reason

pytestmark = pytest.mark.pure

LINE = Frame("a.py", "f", 3, "f(x, n)")


@pytest.mark.parametrize(
    ("layer", "texts", "said"),
    [
        (
            "dynamo",
            [f"n == {n} (n is {n + 1} now)" for n in range(7)],
            "another value of n in each call: 1, 2, 3, 4, 5, 6 and 1 more",
        ),
        (
            "dynamo",
            [
                f"tensor 'x' size mismatch at index 0. expected {n}, actual {n + 1} "
                f"(x has shape [{n + 1}, 8] now)"
                for n in (4, 5)
            ],
            "another shape of x in each call: [5, 8], [6, 8]",
        ),
        (
            "jax",
            [f"the static argument n: {n} before, {n + 1} now (f of a.py:1)" for n in (3, 4)],
            "another value of n in each call: 4, 5",
        ),
        (
            "xla",
            [f"`x` went from shape [{n}, 8] to [{n + 1}, 8]" for n in (4, 5)],
            "another shape of `x` in each call: [5, 8], [6, 8]",
        ),
        ("dynamo", ["n == 3", "n == 3"], "n == 3"),
    ],
)
def test_recompiles_of_one_value_are_one_entry(layer: str, texts: list[str], said: str) -> None:
    items = [Recompile(layer, str(at), text, LINE) for at, text in enumerate(texts)]
    (group,) = grouped(items)
    assert reason(group) == said


def test_other_values_and_other_places_are_entries_of_their_own() -> None:
    other = Frame("b.py", "g", 1, "g(x)")
    items = [
        Recompile("dynamo", "0/1", "n == 3 (n is 4 now)", LINE),
        Recompile("dynamo", "0/2", "m == 3 (m is 4 now)", LINE),
        Recompile("dynamo", "1/1", "n == 3 (n is 4 now)", other),
    ]
    assert len(grouped(items)) == 3


def test_a_lazy_line_that_compiles_again_is_one_entry_with_the_line_that_sets_it() -> None:
    origin = Frame("a.py", "f", 1, "x = torch.ones(n)")
    words = "a shape, a type or a constant differs, and explicit sync compiles its graph again"
    graphs = [Graph("xla", str(n), "recompile", where=LINE, reason=words) for n in range(1, 7)]
    recompiles = [Recompile("xla", str(n), words, LINE, origin=origin) for n in range(1, 7)]
    record = record_of("xla", graphs=6, recompiles=6, graph_list=graphs, recompile_list=recompiles)
    (entry,) = observed(record)
    assert (entry.count, entry.origin) == (6, origin)
