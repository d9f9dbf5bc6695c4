"""What compiles again for inputs that a program does not use: said with its line, or mended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytest_graphbreak.cli import program
from pytest_graphbreak.repair.again import Compilations, _failed
from tests.repair.conftest import Shop


def counted(x: torch.Tensor) -> torch.Tensor:
    for _ in range(x.shape[1]):
        x = x + 1
    return x


def listed(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([row.sum() for row in x.unbind(1)])


def bounded(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[1] > 4 else x


def free(x: torch.Tensor) -> torch.Tensor:
    return x * x.shape[1]


def reasons(function: Callable[..., Any], *sizes: int) -> list[dict[str, Any]]:
    """What is said of each call that compiled, except for the first."""
    torch._dynamo.reset()
    stats = torch._dynamo.utils.counters["stats"]
    run = torch.compile(function, backend="eager")
    run(torch.ones(2, sizes[0]))
    found, compilations = [], Compilations()
    with compilations.watched():
        for size in sizes[1:]:
            before = stats["unique_graphs"]
            run(torch.ones(2, size))
            if stats["unique_graphs"] > before:
                found.append(compilations.reason())
    return found


def test_a_copy_of_a_view_is_not_what_a_user_varies(shop: Shop) -> None:
    """A gradient is often a view, which is guarded once its size is dynamic; a copy is none."""
    target = shop.write(
        "a.py",
        """
        import torch

        @torch.compile(backend="eager", dynamic=True)
        def f(x, g):
            return x - 0.1 * g

        f(torch.ones(3, 4), torch.ones(4, 3).t())
        """,
    )
    with program.bench(300) as trials:
        trials.measure(target, compare=False)
        trial = trials.measure(target)
    assert (trial.same, list(trial.again)) == (True, [])


@pytest.mark.parametrize(
    ("function", "code"),
    [(counted, "for _ in range(x.shape[1]):"), (listed, "x.unbind(1)")],
)
def test_a_size_that_a_line_needs_as_a_number_is_named_with_the_line(
    function: Callable[..., Any], code: str
) -> None:
    found = reasons(function, 3, 5, 6, 7)
    assert len(found) == 3
    for one in found:
        assert one["why"] == "dimension 1 of x is needed as a number"
        assert code in one["code"]
        assert one["file"] == "tests/repair/test_again.py"
        assert one["function"] == function.__name__
        first = function.__code__.co_firstlineno
        assert first < one["line"] < first + 4


def test_a_size_that_a_branch_asks_for_is_named_by_its_guard() -> None:
    (first, then) = reasons(bounded, 8, 6, 3, 2)
    assert first["why"].startswith("tensor 'x' size mismatch at index 1")
    assert "size()[1]" in then["why"]
    assert "code" not in then


def moded(x: torch.Tensor, mode: str) -> torch.Tensor:
    return x * len(mode)


def test_a_value_that_varies_is_named_once_with_its_line() -> None:
    torch._dynamo.reset()
    run = torch.compile(moded, backend="eager")
    run(torch.ones(2), "a")
    found, compilations = [], Compilations()
    with compilations.watched():
        for mode in ("bb", "ccc"):
            run(torch.ones(2), mode)
            found.append(compilations.reason())
    assert found[0] == found[1]
    assert found[0]["why"].endswith("varies")
    at = found[0]["at"]
    assert (at["function"], at["code"]) == ("moded", "return x * len(mode)")
    assert at["file"].endswith("repair/test_again.py")
    assert at["line"] == moded.__code__.co_firstlineno + 1


def test_a_size_that_is_dynamic_compiles_once_more() -> None:
    assert len(reasons(free, 3, 5, 6, 7)) == 1


HEAD = """
    import torch

    {setting}

    def f(x, input_ids):
        print("x", x.shape)
        {line}
        return x * input_ids.sum()

    model = torch.compile(f, backend="eager")
    model(torch.ones(2, 4), torch.ones(2, 12, dtype=torch.long))
"""


def test_a_length_that_is_unrolled_is_said_with_its_line(shop: Shop) -> None:
    line = "for n in range(input_ids.shape[1]): x = x + n"
    shop.write("a.py", HEAD.format(setting="", line=line))
    said = shop.run("fix", "a.py")
    assert said.code == 0, said.err
    assert "compiled again for each length: dimension 1 of input_ids is needed" in said.out
    assert line in said.out.partition("compiled again for each length")[2]
    assert "the program without these patches is compiled again for them as well" in said.out
    assert "mark_dynamic" not in said.out


def test_sizes_of_other_inputs_are_marked_where_that_holds(shop: Shop) -> None:
    setting = "torch._dynamo.config.automatic_dynamic_shapes = False"
    shop.write("a.py", HEAD.format(setting=setting, line="x = x * x.shape[0]"))
    said = shop.run("fix", "a.py")
    assert said.code == 0, said.err
    assert "kept  mark_dynamic for the sizes that vary: x (0), input_ids (0" in said.out
    assert "compiled again" not in said.out.partition("side effect moved")[2]


def test_a_message_that_fixes_a_size_is_written_later(shop: Shop) -> None:
    """The function is one of another file, as that of ``transformers`` is."""
    shop.write(
        "checks.py",
        """
        import torch

        def torch_compilable_check(cond, msg):
            if torch.compiler.is_compiling():
                torch._check(cond)
            elif not cond:
                raise ValueError(msg() if callable(msg) else msg)

        class Layer(torch.nn.Module):
            def forward(self, x, input_ids):
                torch_compilable_check(
                    x.shape[0] < 100,
                    f"too many rows: {x.shape[0]}",
                )
                return x * input_ids.sum()
        """,
    )
    program = """
    import torch
    from checks import Layer

    layer = Layer()

    def f(x, input_ids):
        print("x")
        return layer(x, input_ids)

    model = torch.compile(f, backend="eager")
    model(torch.ones(2, 4), torch.ones(2, 12, dtype=torch.long))
    """
    shop.write("a.py", program)
    said = shop.run("fix", "a.py")
    assert said.code == 0, said.err
    assert "kept  a message with a size in it is only written if its check fails" in said.out
    assert "compiled again" not in said.out.partition("kept  a message")[2]
    assert 'lambda: f"too many rows' in (shop.path / "a_fixed.py").read_text()


def test_nothing_is_said_where_other_sizes_fit_one_graph(shop: Shop) -> None:
    shop.write("a.py", HEAD.format(setting="", line="x = x * x.shape[0]"))
    said = shop.run("fix", "a.py")
    assert said.code == 0, said.err
    assert "compiled again" not in said.out


def test_a_line_that_did_not_compile_before_does_not_count(shop: Shop) -> None:
    """A loop with a break is skipped whole; won back, its own lines need the size as a number."""
    shop.write(
        "a.py",
        """
        import math
        import torch

        @torch.compile(backend="eager")
        def f(x, y):
            scale = torch.full((y.shape[0],), math.log(y.shape[0]))
            for _ in range(50):
                x = x * 0.5
                if x.abs().max() < 0.1:
                    break
            return x, scale

        with torch.no_grad():
            f(torch.ones(4, 2), torch.ones(3, 2))
        """,
    )
    said = shop.run("fix", "a.py")
    assert said.code == 0, said.err
    assert "kept  the loop became torch.while_loop" in said.out
    assert "is needed as a number" in said.out
    assert "scale = torch.full((y.shape[0],), math.log(y.shape[0]))" in said.out


def test_a_guard_that_torch_cannot_read_is_said_in_words() -> None:
    why = "something is None now that was not when it was compiled"
    assert _failed("'NoneType' object has no attribute 'size'") == {"why": why}


def test_a_remark_of_torch_is_no_part_of_a_guard() -> None:
    text = "2 <= args[1].size()[0] <= 15  # y = f(x)  # a.py:7 in f (user code shown is the first"
    assert _failed(text) == {
        "why": "2 <= args[1].size()[0] <= 15",
        "at": {"file": "a.py", "line": 7, "function": "f", "code": "y = f(x)"},
    }
