"""``graphbreak dynamic``: static or dynamic sizes, run and counted in each way."""

from __future__ import annotations

import json

import pytest

from pytest_graphbreak.cli.dynamic import AUTOMATIC, MARKED, Way, advice
from pytest_graphbreak.model.merging import merge, record_of
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.trial import Trial
from tests.repair.conftest import Shop

pytestmark = pytest.mark.once

SIZES = """
    import torch

    @torch.compile(backend="eager"{options})
    def f(x):
        return torch.relu(x * 2).sum(1)

    for n in {sizes}:
        f(torch.ones(n, 3))
"""


Counts = dict[str, tuple[int, int]]


def measured(shop: Shop, *, sizes: str, options: str = "") -> tuple[Counts, str]:
    """Return graphs and recompiles of each way, and what is printed."""
    shop.write("a.py", SIZES.format(sizes=sizes, options=options))
    said = shop.succeed("dynamic", "a.py", "--json", "out.json")
    data = json.loads((shop.path / "out.json").read_text())
    return {way["way"]: (way["graphs"], way["recompiles"]) for way in data["ways"]}, said.out


def test_each_way_is_counted_and_it_says_what_to_take(shop: Shop) -> None:
    counts, out = measured(shop, sizes="(4, 8, 6, 12, 9, 5)")
    assert counts == {
        "automatic": (2, 1),
        "dynamic=False": (6, 5),
        "dynamic=True": (1, 0),
        MARKED: (1, 0),
    }
    table, varies, take = out.rsplit("\n", 3)[:3]
    assert table.splitlines()[0].split() == ["graphs", "recompiles"]
    assert varies == "sizes that vary: x in dimension 0"
    assert take == "take torch._dynamo.mark_dynamic(x, 0): 1 in place of 6 graphs"


def test_what_the_program_asks_for_is_replaced(shop: Shop) -> None:
    """With one size nothing is marked, and each way makes one graph."""
    counts, out = measured(shop, sizes="(4, 4)", options=", dynamic=True")
    assert out.endswith("take dynamic=False: no size varies\n")
    assert counts == dict.fromkeys(("automatic", "dynamic=False", "dynamic=True"), (1, 0))


def test_a_way_that_fails_is_reported(shop: Shop) -> None:
    """The size is a constant of the program, so it cannot be dynamic."""
    shop.write(
        "a.py",
        """
        import torch

        @torch.compile(backend="eager")
        def f(x):
            return x[: 4 if x.size(0) == 4 else 8]

        for n in (4, 8):
            f(torch.ones(n))
        """,
    )
    said = shop.succeed("dynamic", "a.py")
    assert f"{MARKED} fails: ConstraintViolationError" in said.out


SEVERAL = """
    import torch

    @torch.compile(backend="eager")
    def f(x, y):
        return x[:, None] + y

    @torch.compile(backend="eager")
    def g(*x):
        return x[1] * 2

    for n in (2, 3, 4, 5, 6):
        f(torch.ones(n), torch.ones(n, 2 * n))
        g(1, torch.ones(n))
"""


def test_each_size_that_varies_is_marked_by_a_call_that_can_be_typed(shop: Shop) -> None:
    shop.write("a.py", SEVERAL)
    said = shop.run("dynamic", "a.py")
    *_, varies, take = said.out.splitlines()
    where = "x in dimension 0, y in dimension 0, y in dimension 1, x[1] in dimension 0"
    assert varies == f"sizes that vary: {where}"
    lines = take.removeprefix("take ").partition(": ")[0].split("; ")
    assert lines == [
        "torch._dynamo.mark_dynamic(x, 0)",
        "torch._dynamo.mark_dynamic(y, [0, 1])",
        "torch._dynamo.mark_dynamic(x[1], 0)",
    ]


def way(name: str, graphs: int, xla: int = 0) -> Way:
    records = [record_of("dynamo", graphs=graphs)]
    records += [record_of("xla", graphs=xla)] if xla else []
    return Way(name, Trial(merge(records)))


FAILED = Way("dynamic=False", Trial(Record(), error="E"))


@pytest.mark.parametrize(
    ("static", "marked", "taken"),
    [
        (way("dynamic=False", 7), way(MARKED, 1), "torch._dynamo.mark_dynamic(x, 1): 1"),
        (way("dynamic=False", 3), way(MARKED, 3), "dynamic=False: dynamic sizes make no"),
        (way("dynamic=False", 7, xla=7), way(MARKED, 1, xla=7), "dynamic=False, and pad to one"),
        (way("dynamic=False", 7, xla=7), way(MARKED, 1, xla=1), "torch._dynamo.mark_dynamic("),
        (FAILED, way(MARKED, 1), "torch._dynamo.mark_dynamic(x, 1): 1 graph, and dynamic=False f"),
        (FAILED, Way(MARKED, FAILED.trial), "automatic: the other ways fail"),
        (way("dynamic=False", 3), Way(MARKED, FAILED.trial), "dynamic=False: dynamic sizes fail"),
    ],
)
def test_what_is_advised(static: Way, marked: Way, taken: str) -> None:
    said = next(advice([way(AUTOMATIC, 4), static, marked], {"x": [1]}))
    assert said.startswith(f"take {taken}")


NUMBERS = """
    import torch

    @torch.compile(backend="eager")
    def f(x, offset):
        return x + offset

    for n in range(10):
        f(torch.ones(n + 1), n)
"""


def test_a_way_that_stops_at_the_recompile_limit_is_said(shop: Shop) -> None:
    shop.write("a.py", NUMBERS)
    said = shop.succeed("dynamic", "a.py", "--json", "out.json")
    assert "8, then eager" in said.out
    assert "dynamic=False stops at the recompile limit: 8 graphs, and the other calls" in said.out
    data = json.loads((shop.path / "out.json").read_text())
    assert [way["limited"] for way in data["ways"]][1:3] == [True, False]
