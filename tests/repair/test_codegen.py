"""Programs that inductor compiles: searched without its code generation, proven with it."""

from __future__ import annotations

from tests.repair.conftest import Shop

PROGRAM = """
    import torch
    {before}
    torch.manual_seed(0)
    history = []

    @torch.compile{options}
    def step(x):
        loss = (x * 2).sum()
        history.append(loss.item())
        return torch.tanh(x) * loss

    for _ in range(3):
        step(torch.randn(4, 3))
    print(history)
"""


def test_only_the_original_and_the_written_file_generate_code(shop: Shop) -> None:
    shop.write("net.py", PROGRAM.format(before="", options=""))
    said = shop.run("fix", "net.py")
    assert said.code == 0
    assert "[2] the same without inductor's code generation" in said.err
    assert "net_fixed.py as written" in said.err
    assert "-> 1" in said.out
    (row,) = (line for line in said.out.splitlines() if line.startswith("all "))
    assert "more of other sizes, without inductor" in row
    assert row.endswith("a call")  # both times are of code that inductor generated


def test_another_backend_is_run_as_it_is(shop: Shop) -> None:
    shop.write("net.py", PROGRAM.format(before="", options='(backend="eager")'))
    said = shop.run("fix", "net.py")
    assert said.code == 0
    assert "inductor" not in said.err + said.out


LIMITED = """
    import torch._inductor.config

    def small(graph):
        if sum(node.op == "call_function" for node in graph.nodes) > 3:
            raise RuntimeError("too many operators for this device")

    torch._inductor.config.post_grad_custom_pre_pass = small
    torch._inductor.config.fx_graph_cache = False
"""


def test_what_inductor_does_not_compile_is_not_written(shop: Shop) -> None:
    shop.write("net.py", PROGRAM.format(before=LIMITED, options=""))
    said = shop.run("fix", "net.py")
    assert "With inductor's code generation it does not hold" in said.out + said.err
    assert "too many operators for this device" in said.out
    assert said.code == 1
    assert "No remedy worked: nothing is written." in said.out
    assert not (shop.path / "net_fixed.py").exists()
