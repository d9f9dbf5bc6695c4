"""What a program holds at its end, and what it logs, as it is compared from run to run."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

import pytest
import torch

from pytest_graphbreak.repair.holdings import around, difference, held, logged


class Odd(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("not now")


SPACE = {
    "losses": [1.0, 2.0],
    "stats": {"n": 3, "last": torch.tensor(2.0)},
    "recent": deque([1, 2], maxlen=2),
    "seen": {"a", "b"},
    "name": "a text",
    "pid": 3,
    "at": [1 << 40],
    "meta": torch.ones((), device="meta"),
    "odd": Odd(a=1),
    "torch": torch,
    "__file__": 3,
    "_graphbreak_now": 3,
    "sub_f": [1],  # by Dynamo
}


SOURCE = "import torch\n" + "".join(f"{name} = 0\n" for name in SPACE if name != "sub_f")


def test_numbers_and_lengths_are_noted() -> None:
    found = dict(held(SPACE, SOURCE))
    assert found == {
        "losses": 2,
        "losses[0]": 1.0,
        "losses[1]": 2.0,
        "at": 1,
        "seen": 2,
        "recent": 2,
        "recent[0]": 1,
        "recent[1]": 2,
        "stats": 2,
        "stats['n']": 3,
        "stats['last']": 2.0,
    }


def test_a_number_is_noted_if_a_function_sets_it() -> None:
    assert dict(held({"n": 3, "m": 4}, "n = m = 0\ndef f():\n    global n\n")) == {"n": 3}


def test_times_and_counts_of_graphs_are_left_out() -> None:
    assert "losses[0]" not in dict(held(SPACE, f"import time\n{SOURCE}"))
    assert held(SPACE, f"{SOURCE}torch.compile(f, backend=mine)") == []
    assert held(SPACE, f"{SOURCE}torch.compile(f, backend='eager')")
    assert held(SPACE, "def f(:") == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([("a", 1.0), ("b", float("nan"))], None),
        ([("a", 1.001), ("b", float("nan"))], None),
        ([("a", 2.0), ("b", float("nan"))], "at the end a is 2, and 1 without the patch"),
        ([("a", 1.0)], "at the end the program no longer holds b"),
        (
            [("a", 1.0), ("b", float("nan")), ("c", 0.0)],
            "at the end the program holds c as well",
        ),
    ],
)
def test_what_differs_is_named(given: list[tuple[str, float]], words: str | None) -> None:
    assert difference([("a", 1.0), ("b", float("nan"))], given) == words


def test_objects_of_methods_and_variables_of_closures_are_held_too() -> None:
    notes = [1]

    def note() -> None:
        notes.append(2)

    assert around([note])["notes"] is notes
    assert around([notes.append])["the object of function 0"] is notes


def test_lines_of_loggers_are_noted_but_for_torchs() -> None:
    with logged() as lines:
        logging.getLogger("a").warning("%s of %s", 1, 2)
        logging.getLogger("torch.a").warning("three")
    logging.getLogger("a").warning("later")
    assert lines == ["a: 1 of 2"]
