"""A loop that compiles at each step is reported as one thing; a warm loop compiles nothing."""

from __future__ import annotations

import textwrap

import pytest

from pytest_graphbreak.judging.repeats import plainly, series
from pytest_graphbreak.model.record import Frame, Recompile
from tests.conftest import Suite

WHERE = Frame("a.py", "decode", 3, "def decode(x, n):")


def again(graph: str, reason: str, layer: str = "dynamo") -> Recompile:
    return Recompile(layer, graph, reason, WHERE)


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (
            ["n == 3 (n is 4 now)", "n == 4 (n is 5 now)", "n == 5 (n is 6 now)"],
            "+1 graph at each call with another value of n, 3 times: "
            "n == 3 (n is 4 now), ... n == 5 (n is 6 now)",
        ),
        (
            [
                f"tensor 'x' size mismatch at index 1. expected {n}, actual {n + 1}"
                for n in (4, 5, 6)
            ],
            "+1 graph at each call with another shape of x, 3 times: tensor 'x' size mismatch at "
            "index 1. expected 4, actual 5, ... tensor 'x' size mismatch at index 1. expected 6, "
            "actual 7",
        ),
        (
            [f"cache went from shape [1, {n}] to [1, {n + 1}]" for n in (4, 5, 6, 7)],
            "+1 graph at each call with another shape of cache, 4 times: cache went from shape "
            "[1, 4] to [1, 5], ... cache went from shape [1, 7] to [1, 8]",
        ),
    ],
)
def test_a_loop(reasons: list[str], words: str) -> None:
    (reported,) = series([again(f"0/{n}", reason) for n, reason in enumerate(reasons, 1)])
    assert reported.graphs == f"0/1 to 0/{len(reasons)}"
    assert reported.reason == words


def test_what_is_no_loop_stays_on_its_own() -> None:
    items = [again("0/1", "n == 3"), again("0/2", "n == 4"), again("0/3", "m == 4")]
    reported = series(items)
    assert [(one.graphs, one.reason) for one in reported] == [
        ("0/1", "n == 3"),
        ("0/2", "n == 4"),
        ("0/3", "m == 4"),
    ]


def test_what_follows_its_caller_is_reported_with_it() -> None:
    """Generated names never stand alone: each function once, with what came."""
    shape = "tensor '{}' size mismatch at index 0. expected 3, actual {} (x has shape [{}, 4] now)"
    test = Frame("test_a.py", "test_it", 9, "f(x)")
    outer = Frame("a.py", "outer", 1, "def outer(x):")
    inner = Frame("a.py", "inner", 5, "def inner(x):")
    rest = Frame("a.py", "outer", 3, "return y + 1")
    items = [
        Recompile("dynamo", f"{frame}/{time}", shape.format(name, 3 + time, 3 + time), where, stack)
        for time in (1, 2, 3)
        for frame, name, where, stack in (
            (0, "x", outer, (test,)),
            (1, "x", inner, (test, rest)),
            (2, "___stack0", rest, (test, rest)),
        )
    ]
    (reported,) = series(items)
    assert reported.times == 3
    assert reported.since == "x has shape [6, 4] now"
    assert [(same[0].where, [one.graph for one in same]) for same in reported.followers] == [
        (inner, ["1/1", "1/2", "1/3"]),
        (rest, ["2/1", "2/2", "2/3"]),
    ]


def test_another_guard_of_a_callee_is_reported_by_itself() -> None:
    outer, inner = Frame("a.py", "outer", 1), Frame("a.py", "inner", 5)
    items = [
        Recompile("dynamo", "0/1", "n == 3", outer),
        Recompile("dynamo", "1/1", "m == 4", inner, (outer,)),
    ]
    assert [reported.first.graph for reported in series(items)] == ["0/1", "1/1"]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("___stack1 == 3", "a value that the break left (___stack1) == 3"),
        (
            "tensor '___stack0' size mismatch at index 0",
            "tensor a value that the break left (___stack0) size mismatch at index 0",
        ),
        ("__import_yolo_dot_head.SCALE == 2", "yolo.head.SCALE == 2"),
        ("___check_obj_id(fn, ...)", "fn is another object now (___check_obj_id(fn, ...))"),
        ("n == 3", "n == 3"),
    ],
)
def test_generated_names_do_not_stand_alone(reason: str, words: str) -> None:
    assert plainly(reason) == words


LOOP = """
    import pytest, torch

    def decode(x, n):
        return x * n

    def test_grows(graph_budget):
        step = torch.compile(decode, backend="eager", dynamic=False)
        step(torch.ones(3), 1)
        with graph_budget(max_graphs=0) as seen:
            for n in range(2, 6):
                step(torch.ones(3), n)

    def test_steady(graph_budget):
        step = torch.compile(decode, backend="eager")
        for n in range(2, 6):
            step(torch.ones(3), n)
        with graph_budget(max_graphs=0) as seen:
            for n in range(6, 20):
                step(torch.ones(3), n)
        assert (seen.graphs, seen.recompiles) == (0, 0)
"""


def test_the_failure_of_a_loop_names_what_was_compiled(suite: Suite) -> None:
    suite.write(LOOP)
    result = suite.run("-k", "grows")
    result.assert_outcomes(failed=1)
    wanted = """
        *graph budget: 4 dynamo graphs, the block allows 0 (+4)
        *recompile ?/1 to ?/4   +1 graph at each call with another value of n, 4 times: *
        *test_it.py:*in decode
        *dynamo 0 -> 4 (4 recompiles)
    """
    result.stdout.fnmatch_lines(textwrap.dedent(wanted).strip().splitlines())
    result.stdout.fnmatch_lines(["*n == 1 (n is 2 now), ... n == 4 (n is 5 now)"])


def test_a_warm_loop_compiles_nothing(suite: Suite) -> None:
    import torch._dynamo

    suite.write(LOOP)
    with torch._dynamo.config.patch(automatic_dynamic_shapes=True):  # torch_xla turns it off
        suite.run("-k", "steady").assert_outcomes(passed=1)
