"""Which line sets what a failed guard is about: read from the source."""

from __future__ import annotations

import textwrap

import pytest

from pytest_graphbreak.layers.dynamo.origins import origin
from pytest_graphbreak.model.stacks import Line

PROGRAM = textwrap.dedent(
    """\
    import torch
    SEEN = []
    class Net:
        def __init__(self):
            self.k = 1
        def forward(self, x, scale=1):
            SEEN.append(1)
            return x * self.k * len(SEEN) * scale
    def generate(step, token, length):
        for index in range(length):
            token = step(token, scale=index)
        return token
    def test_it():
        net = Net()
        for n in (4, 4, 2):
            x = torch.ones(n, 8)
            scale = n * 2
            net.k += 1
            net.train(n > 2)
            optimizer.param_groups[0]["lr"] = 0.1 / n
            run(x, scale=scale)
        generate(net, x, 3)
        run(torch.ones(n))
    """
).splitlines(keepends=True)

CODE = Line("a.py", 6, "forward")
CALL = Line("a.py", 21, "test_it")
INSIDE = (Line("a.py", 22, "test_it"), Line("a.py", 11, "generate"))
SIZE = "size mismatch at index 0. expected 4, actual 2"


@pytest.mark.parametrize(
    ("guard", "callers", "line"),
    [
        (f"tensor 'x' {SIZE}", (CALL,), 16),
        (f"tensor 'args[0]' {SIZE}", (CALL,), 16),
        ("scale == 8 (scale is 4 now)", (CALL,), 17),
        ("kwargs['scale'] == 8", (CALL,), 17),
        ("self.k == 3", (CALL,), 18),
        ("self.head.drop.training == True", (CALL,), 19),
        ("self.param_groups[0]['lr'] == 0.1", (CALL,), 20),
        ("len(SEEN) == 1", (CALL,), 7),
        ("not SEEN", (CALL,), 7),
        (f"tensor 'x' {SIZE}", INSIDE, 11),
        ("scale == 0", INSIDE, 10),
        # The call itself says it, or nothing does.
        (f"tensor 'x' {SIZE}", (Line("a.py", 23, "test_it"),), None),
        ("GLOBAL_STATE changed: grad_mode", (CALL,), None),
        ("self.other == 3", (CALL,), None),
        ("tensor 'x[' size mismatch", (CALL,), None),
    ],
)
def test_the_line_that_sets_it(guard: str, callers: tuple[Line, ...], line: int | None) -> None:
    found = origin(guard, CODE, callers, lambda file: PROGRAM)
    assert (found and found.line) == line


def test_a_file_that_cannot_be_read_says_nothing() -> None:
    assert origin("self.k == 3", CODE, (CALL,), lambda file: ()) is None
    assert origin("self.k == 3", CODE, (CALL,), lambda file: ["def broken(:\n"]) is None
