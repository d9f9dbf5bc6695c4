"""What ``doctor`` tries the toy layer on."""

from __future__ import annotations

from collections.abc import Callable


class ToyProbe:
    expected = "2 graphs = 1 made + 1 broken, 0 recompiles, 1 break"

    def prepare(self) -> Callable[[], object]:
        import toycompiler

        def small() -> None:
            toycompiler.run(small, 1)
            toycompiler.say("hello")

        return small

    def about(self) -> str:
        return "a toy"
