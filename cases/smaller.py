"""Edits that make compiled code less, each with whether any of it became eager.

``PROGRAM`` is a module with a function ``make``, which gives back a step to call. An edit
replaces lines of it. The truth was found without the observer: ``eager_operations`` counts by
torch's profiler what runs outside of the graphs that a backend was handed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

PROGRAM: Final = """\
import torch
import torch.nn.functional as F
from torch import nn


def scale(x):
    return x * 0.5 + 1


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.o = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        weights = self.q(x) @ self.k(x).transpose(-1, -2)
        weights = torch.softmax(weights, -1)
        return self.o(weights @ x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.norm = Attention(), nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        hidden = F.relu(self.up(x))
        hidden = F.dropout(hidden, 0.1, self.training)
        return x + self.down(hidden)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense, self.out = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        x = F.gelu(self.dense(x))
        return self.out(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = Encoder(), Head()

    def forward(self, x):
        x = scale(x)
        x = self.encoder(x)
        return self.head(x)


def loss_of(y):
    y = y.float()
    return (y * y).mean()


def evaluate(model, x):
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16):
            y = model(x)
    return y.float().exp()


def clip(model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def make(compile):
    torch.manual_seed(0)
    model, x = Model().eval(), torch.ones(2, 4, 8)
    compiled = compile(model)
    return lambda: compiled(x)


def make_evaluation(compile):
    torch.manual_seed(0)
    model, x = Model().eval(), torch.ones(2, 4, 8)
    compiled = compile(evaluate)
    return lambda: compiled(model, x)


def make_training(compile):
    torch.manual_seed(0)
    model, x = Model(), torch.ones(2, 4, 8)
    compiled = compile(lambda x: loss_of(model(x)))
    return lambda: compiled(x)


def make_clipping(compile):
    torch.manual_seed(0)
    model = Model()
    model(torch.ones(2, 4, 8)).sum().backward()
    compiled = compile(clip)
    return lambda: compiled(model)
"""


_Edits = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


class Edit(NamedTuple):
    """Lines of ``PROGRAM`` that are replaced by others; ``make`` is the function to measure.

    ``eager``: something that was compiled is not any more.
    """

    name: str
    eager: bool
    lines: tuple[tuple[str, str], ...]
    make: str

    @property
    def program(self) -> str:
        text = PROGRAM
        for old, new in self.lines:
            if old not in text:
                raise ValueError(f"{self.name}: {old!r} is not in the program")
            text = text.replace(old, new)
        return text


def _compiled(by: str) -> tuple[str, str]:
    return "    compiled = compile(model)\n", f"    {by}\n"


def _called(by: str) -> tuple[str, str]:
    return "    return lambda: compiled(x)\n\n\ndef make_e", f"    return {by}\n\n\ndef make_e"


def _outside(blocks: int) -> tuple[tuple[str, str], ...]:
    """The first blocks of the encoder are called before the compiled model."""
    return (
        ("in self.blocks:", f"in self.blocks[{blocks}:]:"),
        _called(f"lambda: compiled(nn.Sequential(*model.encoder.blocks[:{blocks}])(x))"),
    )


_WHOLE: Final = "    compiled = compile(evaluate)\n    return lambda: compiled(model, x)"
_EVALUATED: Final = "    return lambda: compiled(model, x)"
_LOSS: Final = "    compiled = compile(lambda x: loss_of(model(x)))\n    return lambda: compiled(x)"
_HEAD: Final = ("        return self.head(x)", "        return x")
_BLOCK: Final = "    def forward(self, x):\n        x = x + self"
_LOOP: Final = "        for block in self.blocks:\n            x = block(x)\n        return x"
_NO_RELU: Final = ("F.relu(self.up(x))", "self.up(x)")
_NO_GELU: Final = ("F.gelu(self.dense(x))", "self.dense(x)")
_NO_DROPOUT: Final = ("        hidden = F.dropout(hidden, 0.1, self.training)\n", "")
_WEIGHTS: Final = "        weights = self.q(x) @ self.k(x).transpose(-1, -2)\n"
_SOFTMAX: Final = "        weights = torch.softmax(weights, -1)\n"
_CALL: Final = "y = model(x)"
_AUTOCAST: Final = 'with torch.autocast("cpu", torch.bfloat16):'

LEFT: _Edits = (
    ("the encoder alone", (_compiled("model.encoder = compile(model.encoder); compiled = model"),)),
    ("the head alone", (_compiled("model.head = compile(model.head); compiled = model"),)),
    (
        "each block",
        (
            _compiled("compiled = model"),
            ("_ in range(4))", "_ in range(4))\n        [b.compile() for b in self.blocks]"),
        ),
    ),
    (
        "the first block",
        (
            _compiled(
                "blocks = model.encoder.blocks; blocks[0] = compile(blocks[0]); compiled = model"
            ),
        ),
    ),
    (
        "the attentions",
        (
            _compiled(
                "for block in model.encoder.blocks: block.attention = compile(block.attention)\n"
                "    compiled = model"
            ),
        ),
    ),
    ("scale alone", (_compiled("global scale; scale = compile(scale); compiled = model"),)),
    ("the head is called outside", (_HEAD, _called("lambda: model.head(compiled(x))"))),
    (
        "scale is called outside",
        (("        x = scale(x)\n", ""), _called("lambda: compiled(scale(x))")),
    ),
    (
        "a layer of the head is called outside",
        (
            ("        return self.out(x)", "        return x"),
            _called("lambda: model.head.out(compiled(x))"),
        ),
    ),
    ("the first block is called outside", _outside(1)),
    ("half of the blocks are called outside", _outside(2)),
    (
        "the head under force_eager",
        (
            _HEAD,
            _called("lambda: torch.compiler.set_stance('force_eager')(model.head)(compiled(x))"),
        ),
    ),
    ("a block that is disabled", ((_BLOCK, f"    @torch.compiler.disable\n{_BLOCK}"),)),
    (
        "the forward of the encoder",
        (_compiled("model.encoder.forward = compile(model.encoder.forward); compiled = model"),),
    ),
    ("nothing is compiled", (_compiled("compiled = model"),)),
    ("a flag turns it off", (_compiled("compiled = torch.compile(model, disable=True)"),)),
    (
        "a function that calls the encoder",
        (
            _compiled(
                "inner = compile(lambda x: model.encoder(x))\n"
                "    compiled = lambda x: model.head(inner(scale(x)))"
            ),
        ),
    ),
)
LEFT_EVALUATION: _Edits = (
    (
        "the model without what is around it",
        ((_WHOLE, "    compiled = compile(model)\n    return lambda: evaluate(compiled, x)"),),
    ),
    (
        "exp is called outside",
        (("y.float().exp()", "y.float()"), (_EVALUATED, f"{_EVALUATED}.exp()")),
    ),
)
LEFT_TRAINING: _Edits = (
    (
        "the loss is computed outside",
        ((_LOSS, "    compiled = compile(model)\n    return lambda: loss_of(compiled(x))"),),
    ),
    (
        "the encoder in training",
        (
            (
                _LOSS,
                "    model.encoder = compile(model.encoder)\n    return lambda: loss_of(model(x))",
            ),
        ),
    ),
    (
        "the mean outside",
        (
            (".mean()", ""),
            (_LOSS, f"{_LOSS}.mean()"),
        ),
    ),
)

LESS: _Edits = (
    ("no relu", (_NO_RELU,)),
    ("no dropout", (_NO_DROPOUT,)),
    ("no norm", (("self.attention(self.norm(x))", "self.attention(x)"),)),
    ("no relu and no dropout", (_NO_RELU, _NO_DROPOUT)),
    ("no residual", (("x + self.down(hidden)", "self.down(hidden)"),)),
    ("no gelu", (_NO_GELU,)),
    ("a head of one layer", (("        x = F.gelu(self.dense(x))\n", ""),)),
    ("no softmax", ((_SOFTMAX, ""),)),
    ("one product for scale", (("x * 0.5 + 1", "x * 0.5"),)),
    (
        "fused attention",
        (
            (_WEIGHTS + _SOFTMAX, ""),
            ("weights @ x", "F.scaled_dot_product_attention(self.q(x), self.k(x), x)"),
        ),
    ),
    (
        "the head is renamed, and has no gelu",
        (("class Head", "class Top"), ("Head()", "Top()"), _NO_GELU),
    ),
    (
        "the model is renamed, and has no relu",
        (("class Model", "class Net"), ("Model()", "Net()"), _NO_RELU),
    ),
    (
        "a method moves to a base class",
        (
            ("class Head(nn.Module):", "class Base(nn.Module):"),
            ("class Model(nn.Module)", "class Head(Base):\n    pass\n\n\nclass Model(nn.Module)"),
            _NO_GELU,
        ),
    ),
    (
        "a loop becomes a function",
        (
            (_LOOP, f"        return self.all(x)\n\n    def all(self, x):\n{_LOOP}"),
            _NO_RELU,
        ),
    ),
    ("the head is renamed", (("class Head", "class Top"), ("Head()", "Top()"))),
    ("the model is renamed", (("class Model", "class Net"), ("Model()", "Net()"))),
    ("scale is inlined", (("x = scale(x)", "x = x * 0.5 + 1"),)),
    ("a block less", (("range(4)", "range(3)"),)),
    ("scale is not called", (("        x = scale(x)\n", ""),)),
)
LESS_EVALUATION: _Edits = (
    (
        "autocast is entered outside",
        (
            (f"        {_AUTOCAST}\n            {_CALL}", f"        {_CALL}"),
            (
                _EVALUATED,
                '    return torch.autocast("cpu", torch.bfloat16)(lambda: compiled(model, x))',
            ),
        ),
    ),
    (
        "no_grad is entered outside",
        (
            (
                f"    with torch.no_grad():\n        {_AUTOCAST}",
                f"    if True:\n        {_AUTOCAST}",
            ),
            (_EVALUATED, "    return torch.no_grad()(lambda: compiled(model, x))"),
        ),
    ),
    ("no exp", (("y.float().exp()", "y.float()"),)),
)
LESS_TRAINING: _Edits = (
    ("another loss", (("    return (y * y).mean()", "    return y.sum()"),)),
    ("no cast", (("    y = y.float()\n", ""),)),
    ("the loss is renamed", (("loss_of", "objective"), ("    y = y.float()\n", ""))),
)
LESS_CLIPPING: _Edits = (
    ("the gradient is clipped by value", (("clip_grad_norm_(", "clip_grad_value_("),)),
)

UNREPORTED: Final = frozenset(
    (
        "a layer of the head is called outside",
        "exp is called outside",
        "the mean outside",
        "a block less",
        "scale is not called",
    )
)
"""Edits whose kind no count of operations tells: a line that moved out of a function that is still
compiled is as one that was deleted, a call that was deleted as one that moved out."""


def _edits() -> Iterator[Edit]:
    for eager, make, edits in (
        (True, "make", LEFT),
        (True, "make_evaluation", LEFT_EVALUATION),
        (True, "make_training", LEFT_TRAINING),
        (False, "make", LESS),
        (False, "make_evaluation", LESS_EVALUATION),
        (False, "make_training", LESS_TRAINING),
        (False, "make_clipping", LESS_CLIPPING),
    ):
        for name, lines in edits:
            yield Edit(name, eager, lines, make)


EDITS: Final = tuple(_edits())


class Compile:
    """``torch.compile`` with a backend whose graphs the profiler can tell from eager code."""

    @staticmethod
    def backend(gm: Any, inputs: Any) -> Callable[..., Any]:
        import torch

        def run(*args: Any) -> Any:
            with torch.profiler.record_function(_RUN):
                return gm.forward(*args)

        return run

    def __call__(self, function: Any) -> Any:
        import torch

        return torch.compile(function, backend=self.backend)


def eager_operations(step: Callable[[], Any]) -> int:
    """How many operations a step runs outside of compiled graphs, once all is compiled."""
    import torch

    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        step()
    return sum(_is_eager(event) for event in profile.events())


_RUN: Final = "a compiled graph"


def _is_eager(event: Any) -> bool:
    """Whether an event is an operation that nothing but Python called."""
    if not event.name.startswith("aten::"):
        return False
    above = event.cpu_parent
    while above is not None:
        if above.name == _RUN or above.name.startswith(("aten::", "autograd::")):
            return False
        above = above.cpu_parent
    return True
