"""Programs of torch.compile on the CPU: breaks, recompiles, eager, operations, functions."""

from __future__ import annotations

from typing import Final

from tests.golden.situation import Changes, Situation

HEAD: Final = """
    import torch
    from torch import nn

    class Head(nn.Module):
        def forward(self, scores):
            scores = torch.sin(scores)
            best = scores.max()
            return scores + best

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = Head()

        def forward(self, x):
            return self.head(x * 2) + 1

    def run():
        torch.compile(Model(), backend="eager")(torch.ones(4))
    """
"""A model of two modules, whose head is one graph with it."""
ITEM: Final = ("best = scores.max()", "best = scores.max().item()")
PRINT: Final = ("best = scores.max()", "best = scores.max(); print('best')")

STEPS: Final = """
    import torch

    def scale(x):
        return torch.cos(x) * 3

    def step(x, factor=1):
        y = torch.sin(x) * factor
        y = scale(y)
        return y + 1

    def run():
        compiled = torch.compile(step, backend="eager", dynamic=False)
        compiled(torch.ones(3))
    """
"""A function that calls another, compiled once."""


def called(text: str) -> tuple[str, str]:
    """Return the change that calls something else than the compiled function once."""
    return ("compiled(torch.ones(3))", text)


def first(text: str) -> tuple[str, str]:
    """Return the change that puts a line before all else that is run."""
    return ("def run():", f"def run():\n    {text}")


TWICE: Final = called("compiled(torch.ones(3)), compiled(torch.ones(4))")
FOUR_TIMES: Final = called("[compiled(torch.ones(n)) for n in (3, 4, 5, 6)]")
ENTRY: Final = called(
    "compiled(torch.ones(3)), torch.compile(lambda x: step(x), backend='eager')(torch.ones(3))"
)
"""The same captured by an entry more."""
GRAPH_BREAK: Final = ("y = scale(y)", "torch._dynamo.graph_break(); y = scale(y)")


OF_HEAD: Final[dict[str, Changes]] = {
    "over_item": (ITEM,),
    "over_print": (PRINT,),
    "over_branch_on_data": (
        ("return scores + best", "return scores + best if best > 0 else scores"),
    ),
    "over_two_places": (ITEM, ("x * 2) + 1", "x * 2) + x.sum().item()")),
    "over_list_of_values": (("best = scores.max()", "best = scores.tolist()[0]"),),
    "over_numpy": (("best = scores.max()", "best = float(scores.numpy()[0])"),),
    "over_long_lines": (
        (
            "best = scores.max()",
            "best = scores.max().item() if scores.shape[0] > 1 and scores.shape[-1] > 1 "
            "and scores.dtype == torch.float32 else scores.min().item()  # the best",
        ),
        ("class Head", "class HeadThatChoosesTheLargestOfAllItsManyScoresBeforeTheyAreNormalised"),
        ("= Head()", "= HeadThatChoosesTheLargestOfAllItsManyScoresBeforeTheyAreNormalised()"),
    ),
    "over_control_characters": (
        (
            "best = scores.max()",
            "best = scores.max(); print('\x1b[31mred\x1b[0m \u202e <b> | `x` ::')",
        ),
    ),
    "lost_not_compiled": (
        ('torch.compile(Model(), backend="eager")(torch.ones(4))', "Model()(torch.ones(4))"),
    ),
    "lost_disabled_model": (("class Model", "@torch._dynamo.disable\nclass Model"),),
    "lost_force_eager": (("def run():", "@torch.compiler.set_stance('force_eager')\ndef run():"),),
    "lost_dynamo_disabled": (first("torch._dynamo.config.disable = True"),),
    "error_counts_contradict": (
        first("torch._dynamo.utils.counters['stats']['unique_graphs'] += 2"),
    ),
    "settings_left": (first("torch._dynamo.config.recompile_limit = 3"),),
}
"""What takes the place of what in ``HEAD``, and no more."""
OF_STEPS: Final[dict[str, Changes]] = {
    "over_disabled_function": (
        ("def scale(x)", "@torch._dynamo.disable(reason='not traced yet')\ndef scale(x)"),
    ),
    "over_graph_break_call": (GRAPH_BREAK,),
    "over_in_a_loop": (
        ("y = scale(y)", "\n".join(["y = scale(y)", *["    print(); y = y * 2"] * 3])),
    ),
    "changed_inlined_twice": (("y = scale(y)", "y = scale(scale(y))"),),
    "over_unknown_builtin": (("y = scale(y)", "import os; os.getpid(); os.times(); y = scale(y)"),),
    "over_recompile_shape": (TWICE,),
    "over_recompile_shapes": (FOUR_TIMES,),
    "over_recompile_value": (called("compiled(torch.ones(3), 2), compiled(torch.ones(3), 3)"),),
    "over_recompile_dtype": (
        called("[compiled(torch.ones(3, dtype=d)) for d in (None, torch.half)]"),
    ),
    "over_recompile_grad_mode": (
        called(
            "compiled(torch.ones(3))\n    with torch.no_grad():\n        compiled(torch.ones(3))"
        ),
    ),
    "over_second_entry": (
        called("compiled(torch.ones(3)), torch.compile(scale, backend='eager')(torch.ones(3))"),
    ),
    "over_break_and_recompile": (GRAPH_BREAK, TWICE),
    "over_skipped_frame": (("y = scale(y)", "for _ in range(2):\n        print(); y = scale(y)"),),
    "over_recompile_limit": (
        ("compiled = ", "torch._dynamo.config.recompile_limit = 2\n    compiled = "),
        FOUR_TIMES,
    ),
    "lost_backend_error": (
        ('backend="eager"', "backend=failing"),
        (
            "def run():",
            "def failing(graph, inputs):\n    raise ValueError('no kernel for cos')\n\n"
            "def run():\n    torch._dynamo.config.suppress_errors = True",
        ),
    ),
    "lost_function": (
        ('compiled = torch.compile(step, backend="eager", dynamic=False)', "compiled = step"),
        ("y = torch.sin(x) * factor", "y = torch.compile(torch.sin, backend='eager')(x) * factor"),
    ),
    "lost_smaller_program": (
        ("    return torch.cos(x) * 3", "    return x + 1"),
        ("y = torch.sin(x) * factor", "y = x"),
    ),
    "lost_and_over": (
        ("def scale(x)", "@torch._dynamo.disable\ndef scale(x)"),
        ("torch.cos(x) * 3", "torch.cos(x).exp().exp().exp() * 3"),
        TWICE,
    ),
    "changed_operations": (("return y + 1", "return y.exp().exp().exp().exp() + 1"),),
}
"""The same of ``STEPS``."""

OVER: Final = (
    Situation(
        "over_known_break_and_new",
        HEAD.replace("best = scores.max()", "best = scores.max().item()"),
        (("x * 2) + 1", "x * 2) + x.sum().item()"),),
    ),
    Situation(
        "over_one_gone_two_new",
        STEPS.replace("y = scale(y)", "print(1); y = scale(y)"),
        (
            ("print(1); y = scale(y)", "y = scale(y)"),
            ("y = torch.sin(x)", "print(2); y = torch.sin(x)"),
            ("return y + 1", "print(3); return y + 1"),
        ),
    ),
    Situation("over_marker", HEAD, (ITEM,), mark="max_graphs(1)", new=True),
    Situation("over_marker_alone", HEAD, (ITEM,), mark="max_graphs(1)", new=True, options=()),
    Situation(
        "over_marker_of_breaks", HEAD, (ITEM,), mark="max_graphs(dynamo=3, breaks=0)", new=True
    ),
    Situation(
        "over_marker_of_recompiles", STEPS, (TWICE,), mark="max_graphs(5, recompiles=0)", new=True
    ),
    Situation("over_marker_and_baseline", HEAD, (ITEM,), mark="max_graphs(1)"),
    Situation(
        "over_cases",
        STEPS,
        (("factor=1):", "factor=1):\n    if factor > 1: print(factor)"),),
        """
        import pytest

        @pytest.mark.parametrize("factor", [1, 2, 3])
        def test_factor(factor):
            import over_cases as model
            import torch

            torch.compile(model.step, backend="eager")(torch.ones(3), factor)
        """,
    ),
    Situation(
        "over_one_cause_of_many_tests",
        HEAD,
        (ITEM,),
        "\n\n".join(
            f"def test_{name}():\n    import over_one_cause_of_many_tests as m\n\n    m.run()"
            for name in ("first", "second", "third", "fourth")
        )
        + "\n",
    ),
    Situation(
        "over_in_a_fixture",
        HEAD,
        (ITEM,),
        """
        import pytest

        @pytest.fixture
        def warm():
            import over_in_a_fixture as model

            model.run()

        def test_with_fixture(warm):
            pass
        """,
    ),
    Situation(
        "over_in_a_child",
        HEAD,
        (ITEM,),
        """
        import subprocess
        import sys

        def test_child():
            command = [sys.executable, "-c", "import over_in_a_child as m; m.run()"]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        """,
    ),
    Situation(
        "over_during",
        HEAD,
        (ITEM,),
        """
        from pytest_graphbreak import during

        def test_phases():
            import over_during as model

            with during("prefill"):
                model.run()
            with during("decode"):
                model.run()
        """,
    ),
    Situation(
        "over_training",
        """
        import torch
        from torch import nn

        def loss_of(model, x):
            loss = model(x).square().mean()
            return loss

        def run():
            model = nn.Linear(4, 4)
            compiled = torch.compile(loss_of, backend="aot_eager")
            for _ in range(2):
                compiled(model, torch.ones(2, 4)).backward()
        """,
        (("    return loss\n", "    print(loss.item())\n    return loss * 2\n"),),
    ),
    Situation(
        "over_block",
        HEAD,
        (ITEM,),
        """
        def test_block(graph_budget):
            import over_block as model

            with graph_budget(max_graphs=1):
                model.run()
        """,
        new=True,
        options=(),
        shown=True,
    ),
    Situation(
        "over_observed",
        HEAD,
        (ITEM,),
        """
        def test_observed():
            import over_observed as model

            from pytest_graphbreak import observe

            with observe(breaks=0):
                model.run()
        """,
        new=True,
        options=(),
        shown=True,
    ),
    Situation(
        "failed_in_the_compiler",
        HEAD.replace('backend="eager"', 'backend="eager", fullgraph=True'),
        (PRINT,),
        shown=True,
    ),
    Situation(
        "over_with_settings",
        HEAD,
        (PRINT,),
        """
        import pytest

        @pytest.fixture(autouse=True)
        def _settings():
            import torch

            with torch._dynamo.config.patch(capture_scalar_outputs=True):
                yield

        def test_with_settings():
            import over_with_settings as model

            model.run()
        """,
    ),
    Situation("over_xfail", HEAD, (ITEM,), mark="xfail(reason='slow')"),
    Situation("over_ungated", HEAD, (ITEM,), mark="graph_budget(gate=False, reason='moving')"),
    Situation(
        "over_ungated_by_baseline",
        HEAD,
        (ITEM,),
        baseline=(("    graphs:", "    ungated: moving\n    graphs:"),),
    ),
    Situation(
        "over_with_note_and_override",
        HEAD,
        (ITEM,),
        baseline=(
            (
                "  test_over_with_note_and_override:\n",
                "  # kept above\n  test_over_with_note_and_override:\n"
                "    note: the flag is read back\n"
                "    overrides:\n      cuda:\n        graphs: {dynamo: 5}\n",
            ),
        ),
    ),
    Situation("over_other_profile", HEAD, (ITEM,), baseline=(("profile: cpu", "profile: cuda"),)),
    Situation("over_older_torch", HEAD, (ITEM,), baseline=(('torch: "2.13"', 'torch: "2.9"'),)),
    Situation("over_by_graphs_alone", HEAD, (ITEM,), baseline=(("    ops: {dynamo: 5}\n", ""),)),
)

LOST: Final = (
    Situation(
        "lost_operations",
        STEPS,
        (("    return torch.cos(x) * 3", "    return x"),),
        """
        def test_lost():
            import lost_operations as model
            import torch

            model.run()
            torch.compile(model.scale, backend="eager")(torch.ones(3))
        """,
    ),
)

OTHERS: Final = (
    Situation("new_test", HEAD, new=True),
    Situation("new_with_break", HEAD, (ITEM,), new=True),
    Situation("new_reported", HEAD, (ITEM,), new=True, ini=("graph_budget_new = report",)),
    Situation("new_xfail", HEAD, (ITEM,), mark="xfail(reason='slow')", new=True),
    Situation("new_not_judged", HEAD, (ITEM,), new=True, options=()),
    Situation("new_recorded", HEAD, (ITEM,), new=True, options=("--graph-budget-record",)),
    Situation("marker_of_absent_layer", HEAD, (), mark="max_graphs(xla=1)", new=True),
    Situation("improved_break", HEAD.replace(*ITEM), (ITEM[::-1],)),
    Situation("improved_recompile", STEPS.replace(*TWICE), (TWICE[::-1],)),
    Situation(
        "improved_strict", HEAD.replace(*ITEM), (ITEM[::-1],), ini=("graph_budget_strict = true",)
    ),
    Situation(
        "improved_and_updated",
        HEAD.replace(*ITEM),
        (ITEM[::-1],),
        options=("--graph-budget-update",),
    ),
    Situation("over_updated", HEAD, (ITEM,), options=("--graph-budget-update",)),
    Situation("changed_place", HEAD.replace(*ITEM), (ITEM[::-1], ("best = ", "print(); best = "))),
    Situation(
        "changed_strict",
        HEAD.replace(*ITEM),
        (ITEM[::-1], ("best = ", "print(); best = ")),
        ini=("graph_budget_strict = true",),
    ),
    Situation("changed_reason", HEAD.replace(*ITEM), ((ITEM[1], PRINT[1]),)),
    Situation("improved_recompile_is_entry", STEPS.replace(*TWICE), (TWICE[::-1], ENTRY)),
    Situation("ok", HEAD, ()),
    Situation(
        "ok_line_moved", HEAD.replace(*ITEM), (("class Head", "# one line more\n\nclass Head"),)
    ),
    Situation("none_compiled", "def run():\n    pass\n", ()),
    Situation(
        "compiled_around",
        HEAD,
        (),
        """
        import pytest

        @pytest.fixture(scope="module")
        def model():
            import compiled_around as model

            model.run()
            return model

        def test_one(model):
            model.run()

        def test_two(model):
            pass
        """,
    ),
    Situation(
        "outcomes",
        HEAD,
        (ITEM, ("def test_passes", "@pytest.mark.skip(reason='later')\ndef test_passes")),
        """
        import pytest

        def test_passes():
            import outcomes as model

            model.run()

        def test_red():
            import outcomes as model

            model.run()

        def test_failing():
            import outcomes as model

            model.run()
            raise RuntimeError("it failed by itself")

        @pytest.mark.xfail(reason="known")
        def test_xfailing():
            import outcomes as model

            model.run()
            raise RuntimeError("it failed by itself")
        """,
    ),
    Situation(
        "stale_entry",
        HEAD,
        (("def test_gone", "def _gone"),),
        """
        def test_kept():
            import stale_entry as model

            model.run()

        def test_gone():
            import stale_entry as model

            model.run()
        """,
    ),
)

ALL: Final = (
    *(Situation(name, HEAD, changes) for name, changes in OF_HEAD.items()),
    *(Situation(name, STEPS, changes) for name, changes in OF_STEPS.items()),
    *OVER,
    *LOST,
    *OTHERS,
)
