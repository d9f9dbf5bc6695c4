"""Small functions that break graphs in the ways that Dynamo logs, and their run.

Run as a script with ``TORCH_LOGS`` set it makes the logs in ``data``; the tests
also run it beside the live observer and compare what both saw.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from typing import Any

import torch

logger = logging.getLogger("broken")


class Head(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        s = x * 2
        if s.max().item() > 100:
            s = s + 1
        return s


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = Head()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.fc(x)
        y = self.head(y)
        print("hi")
        return y.relu()  # type: ignore[no-any-return]


def branch(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x + 1
    return x - 1


def leaf(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


def nested(x: torch.Tensor) -> torch.Tensor:
    return leaf(x.sin()).cos()


def loop(x: torch.Tensor) -> torch.Tensor:
    for i in range(3):
        x = x + i
        print(i)
    return x


def shapes(x: torch.Tensor, n: float) -> torch.Tensor:
    return x * n


def checksum(x: torch.Tensor) -> torch.Tensor:
    z = zlib.crc32(b"a")
    return x + z


class Context:
    def __enter__(self) -> None:
        logger.info("enter")

    def __exit__(self, *error: object) -> None:
        return None


def managed(x: torch.Tensor) -> torch.Tensor:
    with Context():
        x = x + 1
    return x * 2


def limited(x: torch.Tensor, n: int) -> torch.Tensor:
    return x + n


def go(function: Callable[..., Any], *calls: tuple[Any, ...]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager")
    for arguments in calls:
        compiled(*arguments)


def main() -> None:
    x = torch.ones(4, 4)
    config: Any = torch._dynamo.config
    limit = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
    with torch.no_grad():
        go(Model(), (x,), (x,))
        go(branch, (x,))
        go(nested, (x,))
        go(loop, (x,))
        go(shapes, (torch.ones(4), 2), (torch.ones(5), 2), (torch.ones(6).double(), 3))
        go(checksum, (x,))
        go(managed, (x,))
        with config.patch(**{limit: 3}):
            go(limited, *[(torch.ones([3] * (i % 5 + 1)), 1) for i in range(5)])


if __name__ == "__main__":
    main()
