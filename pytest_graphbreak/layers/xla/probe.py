"""What ``doctor`` tries the xla layer on, and other layers that torch_xla leads to."""

from __future__ import annotations

import os
from collections.abc import Callable

from pytest_graphbreak.layers.xla.sensors import SENSORS


class XlaProbe:
    """A function of one graph. Where nothing says otherwise the CPU will do."""

    expected = "1 graph = 1 fx"
    backend = "openxla"

    def prepare(self) -> Callable[[], object]:
        # No device is taken from anybody.
        os.environ.setdefault("PJRT_DEVICE", "CPU")
        import torch
        import torch_xla

        x = torch.ones(3, 5).to(torch_xla.device())
        torch_xla.sync(wait=True)

        def run() -> None:
            torch.compile(torch.sin, backend=self.backend)(x)
            torch_xla.sync(wait=True)

        return run

    def about(self) -> str:
        import torch_xla

        return f"torch_xla {torch_xla.__version__} on {os.environ['PJRT_DEVICE']}"

    def internals(self) -> list[str]:
        names = [f"{sensor.module}.{sensor.chain}" for sensor in SENSORS]
        return ["the metric CompileTime", *names]
