"""Which line sets what a failed guard is about: read from the source."""

from __future__ import annotations

import textwrap

import pytest

from pytest_graphbreak.layers.dynamo.messages import setters, subject
from pytest_graphbreak.layers.origins import (
    called,
    calling,
    origin,
    repeated,
    replaced,
    setting,
    step,
)
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
    def test_slices():
        size, many = 8, make()
        for n, batch in enumerate(loader()):
            x, y = batch
            x = x[: 8 - n]
            x = x.float()
            encoded = jit(partial(encode))
            encoded(x, y)
            with torch.set_grad_enabled(n > 1):
                many = cat([many, x])
                encoded(many, size)
            config.update("jax_precision", n)
            total = softmax(many).sum()
            seen = total.item()
            net.blocks = net.blocks[:n]
            net.head = Head(n)
            net.parts[0] = Part(n)
            net.first.requires_grad_(n > 1)
            weight.requires_grad = n > 1
        encoded(size, y), encoded(many, y)
    """
).splitlines(keepends=True)

CODE = Line("a.py", 6, "forward")
CALL = Line("a.py", 21, "test_it")
FIRST, SECOND = Line("a.py", 31, "test_slices"), Line("a.py", 34, "test_slices")
INSIDE = (Line("a.py", 22, "test_it"), Line("a.py", 11, "generate"))
SIZE = "size mismatch at index 0. expected 4, actual 2"


@pytest.mark.parametrize(
    ("guard", "callers", "line"),
    [
        (f"tensor 'x' {SIZE}", (CALL,), 16),
        (f"tensor 'args[0]' {SIZE}", (CALL,), 16),
        ("scale == 8 (scale is 4 now)", (CALL,), 17),
        ("kwargs['scale'] == 8", (CALL,), 17),
        ("kwargs['scale'] is None", (CALL,), 17),
        ("___check_type_id(x, 94022), type=<class 'list'>", (CALL,), 16),
        ("self.k == 3", (CALL,), 18),
        ("self.head.drop.training == True", (CALL,), 19),
        ("self.param_groups[0]['lr'] == 0.1", (CALL,), 20),
        ("len(SEEN) == 1", (CALL,), 7),
        ("not SEEN", (CALL,), 7),
        ("len(self.blocks._modules) != 2", (CALL,), 38),
        (f"tensor 'x' {SIZE}", INSIDE, 11),
        ("scale == 0", INSIDE, 10),
        # What holds it is another object in each step.
        ("self.net.head.bias is None", (CALL,), 39),
        ("tensor 'self.parts[0].weight' stride mismatch at index 0", (CALL,), 40),
        ("___check_obj_id(self.head.act, 9)", (CALL,), 39),
        ("tensor 'self.first.weight' requires_grad mismatch. expected 0", (SECOND,), 41),
        ("tensor 'x' requires_grad mismatch. expected requires_grad=0", (CALL,), 16),
        # The call itself says it, or nothing does.
        (f"tensor 'x' {SIZE}", (Line("a.py", 23, "test_it"),), None),
        ("GLOBAL_STATE changed: grad_mode", (CALL,), None),
        ("self.other == 3", (CALL,), None),
        ("tensor 'x[' size mismatch", (CALL,), None),
    ],
)
def test_the_line_that_sets_it(guard: str, callers: tuple[Line, ...], line: int | None) -> None:
    found = origin(subject(guard), CODE, callers, lambda file: PROGRAM)
    assert (found and found.line) == line


ENCODE = Line("b.py", 1, "encode")


@pytest.mark.parametrize(
    ("argument", "caller", "line"),
    [
        ("x", FIRST, 28),  # what differs from step to step, and not what comes after it
        ("y", FIRST, 26),  # handed on from what the loop runs over
        ("x", SECOND, 33),  # it grows
        ("y", SECOND, 25),
        ("x", Line("a.py", 43, "test_slices"), None),  # two calls, and which it was is not known
    ],
)
def test_the_line_that_differs_from_step_to_step(
    argument: str, caller: Line, line: int | None
) -> None:
    texts = {"a.py": PROGRAM, "b.py": ["def encode(x, y): ...\n"]}
    found = origin(argument, ENCODE, [caller], texts.__getitem__)
    assert (found and found.line) == line


def test_the_line_that_sets_a_function_or_a_setting() -> None:
    source = {"a.py": PROGRAM}.__getitem__
    assert called(FIRST, source) == Line("a.py", 30, "", "encoded = jit(partial(encode))")
    assert called(Line("a.py", 25, "test_slices"), source) is None
    assert setting(["jax_precision"], [FIRST], source) == Line(
        "a.py", 35, "", 'config.update("jax_precision", n)'
    )
    assert setting(["jax_other"], [FIRST], source) is None
    grad = setting(setters("GLOBAL_STATE changed: grad_mode "), [SECOND], source)
    assert grad is not None
    assert grad.line == 32
    assert setters("GLOBAL_STATE changed: something") == ()


def test_a_line_that_reads_or_ends_a_step() -> None:
    source = {"a.py": PROGRAM}.__getitem__
    read = step([Line("a.py", 37, "test_slices")], source, reads=True)
    assert read is not None
    assert read.line == 33
    ended = step([Line("a.py", 21, "test_it")], source, reads=False)
    assert ended is not None
    assert ended.line == 20
    assert step([Line("a.py", 14, "test_it")], source, reads=False) is None


LAZY = textwrap.dedent(
    """\
    def batches(number):
        for n in range(number):
            yield torch.ones(2 + n % 2)
    def train(net, loader):
        total = 0
        for step, x in enumerate(loader):
            FIRST
            x = x.to(DEVICE)
            SECOND
            loss = net(x).sum()
            total += loss.detach()
            sync()
    def test_it():
        train(net, batches(3))
    """
)


@pytest.mark.parametrize(
    ("first", "second", "line", "code"),
    [
        ("pass", "pass", 3, "yield torch.ones(2 + n % 2)"),
        ("x = x[:1] if step == 2 else x", "pass", 7, "x = x[:1] if step == 2 else x"),
        ("pass", "net.requires_grad_(step < 1)", 9, "net.requires_grad_(step < 1)"),
        ("pass", "print(step)", 3, "yield torch.ones(2 + n % 2)"),
        ("pass", "out[:, step] = x", 9, "out[:, step] = x"),
    ],
)
def test_what_makes_the_steps_of_a_lazy_loop_differ(
    first: str, second: str, line: int, code: str
) -> None:
    lines = LAZY.replace("FIRST", first).replace("SECOND", second).splitlines(keepends=True)
    callers = [Line("a.py", 14, "test_it"), Line("a.py", 12, "train")]
    found = step(callers, {"a.py": lines}.__getitem__, reads=False)
    assert found is not None
    assert (found.line, found.code) == (line, code)


def test_the_line_that_calls_a_function_of_torch() -> None:
    source = {"a.py": PROGRAM}.__getitem__
    found = calling("softmax", SECOND, source)
    assert found is not None
    assert found.line == 36
    assert calling("encoded", SECOND, source) is None


STEPS = textwrap.dedent(
    """\
    class Model:
        def forward(self, images):
            hidden = embed(images)
            for layer in self.layers:
                hidden = layer(hidden)
            return hidden
    def evaluate(model, batches):
        for n, x in enumerate(batches):
            CHANGE
            y = model(x)
            torch_xla.sync()
    """
)


@pytest.mark.parametrize("change", ["x = x[: 8 - n]", "model.double() if n else None"])
def test_a_line_that_counts_steps_goes_before_one_that_goes_on_from_there(change: str) -> None:
    def source(file: str) -> list[str]:
        return STEPS.replace("CHANGE", change).splitlines(True)

    layer = Line("a.py", 1, "layer")
    callers = [Line("a.py", 10, "evaluate"), Line("a.py", 5, "forward")]
    found = origin("args[0]", layer, callers, source)
    assert found is not None
    assert found.line == 9
    if change.startswith("x"):
        ended = step([Line("a.py", 11, "evaluate")], source, reads=False)
        assert ended is not None
        assert ended.line == 9


LOOPING = Line("a.py", 1, "test_it")
LOOPS = textwrap.dedent(
    """\
    def test_it():
        model = make(3)
        for layer in model.layers[1:]:
            layer.compile()
        head = model.head.forward
        update = optimizer.step
        for step in range(2):
            out = model(step)
            while step:
                head(out)
                update()
        length = 4
        return generate(model, length)

    def generate(step, length):
        for index in range(length):
            token = step(token)

    class Stack:
        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return head(x)
    """
).splitlines(keepends=True)


@pytest.mark.parametrize(
    ("place", "lines"),
    [
        (Line("a.py", 10, "test_it"), [9, 7]),
        (Line("a.py", 8, "test_it"), [7]),
        (Line("a.py", 17, "generate"), [16, 12]),
        (Line("a.py", 22, "Stack.forward"), [21]),
        (Line("a.py", 23, "Stack.forward"), []),
    ],
)
def test_what_says_how_often_a_line_runs(place: Line, lines: list[int]) -> None:
    assert [line.line for line in repeated(place, LOOPING, lambda file: LOOPS)] == lines


@pytest.mark.parametrize(
    ("function", "code", "line"),
    [
        ("test_it", "head(out)", 5),
        ("test_it.<locals>.<lambda>", "update = compile(lambda: optimizer.step())", 6),
        ("test_it", "other(out)", None),
        ("test_it", "return generate(model, length)", 15),
        ("other", "head(out)", None),
        ("Stack.forward", "x = layer(x)", 21),
    ],
)
def test_what_took_the_place_of_a_line(function: str, code: str, line: int | None) -> None:
    found = replaced(
        Line("a.py", 0, function, code), Line("a.py", 1, "test_it"), lambda file: LOOPS
    )
    assert (found and found.line) == line


def test_a_file_that_cannot_be_read_says_nothing() -> None:
    assert origin("self.k", CODE, (CALL,), lambda file: ()) is None
    assert step([CALL], lambda file: (), reads=True) is None
    assert origin("self.k", CODE, (CALL,), lambda file: ["def broken(:\n"]) is None
