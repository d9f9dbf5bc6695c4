"""What ``doctor`` tries the dynamo layer on."""

from __future__ import annotations

from collections.abc import Callable

from pytest_graphbreak.layers.dynamo.private import required


class DynamoProbe:
    """A function with one graph break, called with two lengths of its input."""

    expected = "4 graphs = 1 entry + 1 break + 2 recompiles, 2 recompiles, 1 break"

    def prepare(self) -> Callable[[], object]:
        import torch

        def small(x: torch.Tensor) -> torch.Tensor:
            y = torch.sin(x)
            torch._dynamo.graph_break()
            return torch.cos(y)

        def run() -> None:
            compiled = torch.compile(small, backend="eager", dynamic=False)
            compiled(torch.ones(3))
            compiled(torch.ones(4))

        return run

    def about(self) -> str:
        import torch

        return f"torch {torch.__version__}"

    def internals(self) -> list[str]:
        import torch

        return [name.path for name in required(torch.__version__)]
