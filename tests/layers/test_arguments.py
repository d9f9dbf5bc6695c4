"""Which line, further away than the call, made an argument what it is."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import pytest

from pytest_graphbreak.layers.arguments import feeding
from pytest_graphbreak.layers.origins import handed_over, origin
from pytest_graphbreak.model.stacks import Line

LIBRARY = Line("/x/site-packages/lib/wrap.py", 9, "wrapper")
PROGRAM = textwrap.dedent(
    """\
    class Model:
        def forward(self, clip):
            hidden = embed(clip)
            for layer in self.layers:
                hidden = layer(hidden)
            return hidden
    def clips(number, size=2):
        return [torch.randn(size + n // 2, 8) for n in range(number)]
    def batches(number, size=2):
        for step in range(number):
            ids = torch.ones(size + step, 8)
            yield {"ids": ids, "labels": ids.clone()}
    def evaluate(model, recordings):
        for clip in recordings:
            out = model(prepared(clip))
    def train(forward, update, loader):
        for batch in loader:
            batch["mask"] = None
            loss = forward(**batch, use_cache=False)
            update()
    def beta(epoch):
        return min(1.0, epoch / 3)
    def fit(images, epochs):
        for epoch in range(epochs):
            rate = self.beta(epoch)
            for part in images.split(4):
                run(part, rate)
    def test_it():
        images = load(10)
        model = Model()
        evaluate(model, clips(3))
        update = optimizer.step
        train(model, update, batches(4))
        trainer.fit(images, epochs=2)
        prune.weight_norm(model.layers[2].fc)
        model.layers[0].up.register_forward_hook(print)
        optimizer = SGD(model.parameters(), lr=0.1)
    """
).splitlines(keepends=True)
EVALUATE = (Line("a.py", 31, "test_it"), Line("a.py", 15, "evaluate"))
TRAIN = (Line("a.py", 33, "test_it"), Line("a.py", 19, "train"))


def source(file: str) -> list[str]:
    return {"a.py": PROGRAM, "b.py": ["def forward(self, *args, **kwargs): ...\n"]}.get(file, [])


@pytest.mark.parametrize(
    ("subject", "code", "callers", "line"),
    [
        # through a library that passes on what nobody can follow, to what a function made
        ("args[0]", Line("/x/site-packages/lib/model.py", 3, "forward"), (*EVALUATE, LIBRARY), 8),
        ("kwargs['ids']", Line("b.py", 1, "forward"), TRAIN, 11),
        ("kwargs", Line("b.py", 1, "forward"), TRAIN, 18),
        ("self.fc", Line("b.py", 1, "forward"), TRAIN, 35),
        ("self.up._forward_hooks", Line("b.py", 1, "forward"), TRAIN, 36),
        ("self.param_groups[0]['lr']", Line("b.py", 1, "forward"), TRAIN, 37),
    ],
)
def test_the_line_that_made_it(
    subject: str, code: Line, callers: Sequence[Line], line: int | None
) -> None:
    found = origin(subject, code, callers, source)
    assert (found and found.line) == line


@pytest.mark.parametrize(("line", "lines"), [(25, [22]), (26, [29])])
def test_what_feeds_a_line_in_other_functions(line: int, lines: list[int]) -> None:
    found = [one.line for one in feeding(Line("a.py", line, "fit"), ["a.py"], source)]
    assert found == lines


def test_the_function_that_a_test_hands_over() -> None:
    found = handed_over(Line("a.py", 20, "train"), Line("a.py", 28, "test_it"), source)
    assert found is not None
    assert found.line == 32
    assert handed_over(Line("a.py", 15, "evaluate"), Line("a.py", 7, "clips"), source) is None
