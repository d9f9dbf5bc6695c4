"""The table of forms and causes: how a line is reached, and why it breaks.

A cell is a program whose function ``body`` breaks for the cause and is reached in the form. Where
``families.yaml`` holds a line for the cause in that form, ``after`` is the line followed to the
letter; elsewhere no line may be shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Form:
    """A form. ``code`` defines ``f``, which reaches ``body``; ``through`` is what is observed.

    ``call`` is what is run; ``x`` is the input.
    """

    name: str
    code: str
    through: str = ""
    call: str = "torch.compile(f, backend='eager')(x)"


@dataclass(frozen=True)
class Cause:
    """A cause. ``body`` is the body of the function that breaks, whose argument is ``x``.

    ``switch`` goes to the top, ``after`` takes the place of ``body``, ``late`` is run after the
    call for each line that the program printed or logged. ``is_method``: what breaks is a special
    method itself.
    """

    name: str
    body: str
    line: str = ""
    after: str = ""
    switch: str = ""
    late: str = ""
    head: str = ""
    is_method: bool = False


FORMS: Final = (
    Form("plain", "f = body"),
    Form("inlined function", "def f(x): return body(x + 1) * 2"),
    Form(
        "module attribute",
        "class Layer(torch.nn.Module):\n    def forward(self, x): return body(x)\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.layer = Layer()\n"
        "    def forward(self, x): return self.layer(x) * 2\nf = Net()",
    ),
    Form("method", "class A:\n    def run(self, x): return body(x)\ndef f(x): return A().run(x)"),
    Form("loop", "def f(x):\n    for _ in range(3): x = body(x)\n    return x"),
    Form("comprehension", "def f(x): return sum([body(x + n) for n in range(3)])"),
    Form("try", "def f(x):\n    try: return body(x)\n    finally: pass"),
    Form("no_grad", "def f(x):\n    with torch.no_grad(): return body(x)"),
    Form("lambda", "f = lambda x: (lambda y: body(y))(x) + 1"),
    Form("partial", "import functools\ndef f(x): return functools.partial(body, x)()"),
    Form(
        "decorator",
        "import functools\ndef wraps(g):\n    @functools.wraps(g)\n"
        "    def w(*args): return g(*args)\n    return w\ndef f(x): return wraps(body)(x)",
    ),
    Form(
        "child process",
        "f = body",
        call="in_child(lambda: torch.compile(f, backend='eager')(x))",
    ),
    Form(
        "generator",
        "def g(x):\n    for n in range(3): yield body(x + n)\n"
        "def f(x):\n    for y in g(x): x = x + y\n    return x",
        "generator",
    ),
    Form(
        "__bool__",
        "class A:\n    def __init__(self, x): self.x = x\n"
        "    def __bool__(self):\n        body(self.x)\n        return True\n"
        "def f(x): return x + 1 if A(x) else x",
        "method",
    ),
    Form(
        "__enter__",
        "class A:\n    def __enter__(self): body(torch.ones(3))\n    def __exit__(self, *_): pass\n"
        "def f(x):\n    with A(): x = x + 1\n    return x",
        "method",
    ),
    Form(
        "contextmanager",
        "import contextlib\n@contextlib.contextmanager\ndef c(x):\n    body(x)\n    yield\n"
        "def f(x):\n    with c(x): x = x + 1\n    return x",
        "method",
    ),
    Form(
        "__post_init__",
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: object\n"
        "    def __post_init__(self): body(self.x)\ndef f(x): return A(x).x + 1",
        "method",
    ),
    Form(
        "property",
        "class A:\n    def __init__(self, x): self.x = x\n"
        "    @property\n    def y(self): return body(self.x)\ndef f(x): return A(x).y",
        "method",
    ),
    Form(
        "__call__",
        "class A:\n    def __call__(self, x): return body(x)\na = A()\ndef f(x): return a(x)",
        "method",
    ),
    Form(
        "sorted(key=...)",
        "def key(x): return body(x) is None\ndef f(x): return sorted([x, x + 1], key=key)[0]",
        "callback",
    ),
    Form("map", "def f(x): return list(map(body, [x, x + 1]))[0]", "callback"),
    Form(
        "functools.reduce",
        "import functools\ndef f(x): return functools.reduce(lambda a, b: body(a) + b, [x, x])",
        "callback",
    ),
    Form(
        "hook of a module",
        "layer = torch.nn.Identity()\nlayer.register_forward_hook(lambda m, i, y: body(y))\n"
        "def f(x): return layer(x)",
        "callback",
    ),
    Form(
        "checkpoint",
        "from torch.utils.checkpoint import checkpoint\n"
        "def f(x): return checkpoint(body, x, use_reentrant=False)",
        "operator",
    ),
    Form(
        "autograd.Function",
        "class A(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x): return body(x)\n"
        "    @staticmethod\n    def backward(ctx, g): return g\n"
        "def f(x): return A.apply(x)",
        "operator",
        "torch.compile(f, backend='eager')(x.requires_grad_())",
    ),
    Form("library code", "from MODULE import run\ndef f(x): return run(x)", "library"),
)

PRINTED: Final = "return what it prints, and print it after the call"
LOGGED: Final = "return what it logs, and log it after the call"
NUMBERS: Final = (
    "torch._dynamo.config.capture_scalar_outputs = True, where no if, index or length depends on it"
)
SIZES: Final = (
    "torch._dynamo.config.capture_dynamic_output_shape_ops = True, where no if depends on its size"
)
WHERE: Final = (
    "torch.where(condition, a, b), without .item(), "
    "where both sides only make a tensor of one shape"
)
NUMBER: Final = "torch._dynamo.config.capture_scalar_outputs = True"
CAUSES: Final = (
    Cause(
        "print",
        "    print('at', 1)\n    return x * 2\n",
        PRINTED,
        "    return x * 2\n",
        late="print('at', 1)",
    ),
    Cause(
        "print of a shape",
        "    print('at', x.shape)\n    return x * 2\n",
        PRINTED,
        "    return x * 2\n",
        late="print('at', x.shape)",
    ),
    Cause(
        "print of a number",
        "    print('at', (x * 0).sum().item())\n    return x * 2\n",
        PRINTED,
        "    return x * 2\n",
        late="print('at', (x * 0).sum().item())",
    ),
    Cause(
        "log",
        "    log.warning('at')\n    return x * 2\n",
        LOGGED,
        "    return x * 2\n",
        late="log.warning('at')",
    ),
    Cause("item", "    return x / x.max().item()\n", NUMBERS, switch=NUMBER),
    Cause(
        "item that is kept",
        "    last.append(x.max().item())\n    return x * 2\n",
        NUMBERS,
        switch=NUMBER,
    ),
    Cause("float", "    n = float(x.sum())\n    return x * n + n\n", NUMBERS, switch=NUMBER),
    Cause(
        "branch",
        "    if x.sum() > 0:\n        x = x * 2\n    return x\n",
        WHERE,
        "    return torch.where(x.sum() > 0, x * 2, x)\n",
    ),
    Cause(
        "branch on a number",
        "    if x.max().item() > 0.5:\n        x = x * 2\n    return x\n",
        WHERE,
        "    return torch.where(x.max() > 0.5, x * 2, x)\n",
    ),
    Cause(
        "shape",
        "    return x * x[x > 0].mean()\n",
        SIZES,
        switch="torch._dynamo.config.capture_dynamic_output_shape_ops = True",
    ),
    Cause(
        "nonzero",
        "    return x * x.nonzero().sum()\n",
        SIZES,
        switch="torch._dynamo.config.capture_dynamic_output_shape_ops = True",
    ),
    Cause(
        "time",
        "    last.append(time.perf_counter())\n    return x * 2\n",
        "read the clock before and after the call of the compiled function, not in it",
        "    return x * 2\n",
        head="import time",
    ),
    Cause(
        "numpy",
        "    at = numpy.digitize(x.detach().numpy(), numpy.array([1.0]))\n"
        "    return x * torch.from_numpy(at)\n",
        head="import numpy",
    ),
    Cause(
        "custom class",
        "    return x * box.n\n",
        head="class Box:\n    n = 2\n    def __getattribute__(self, name):\n"
        "        return object.__getattribute__(self, name)\nbox = Box()",
        is_method=True,
    ),
    Cause("list", "    return x * sum(x.tolist())\n"),
    Cause(
        "a class",
        "    class Two:\n        n = 2\n    return x * Two.n\n",
        "define the class at module level",
        "    return x * Two.n\n",
        switch="class Two:\n    n = 2",
    ),
    Cause(
        "graph_break()",
        "    torch._dynamo.graph_break()\n    return x * 2\n",
        "take the torch._dynamo.graph_break() away",
        "    return x * 2\n",
    ),
    Cause(
        "a message that is no constant",
        "    assert (x < 99).all(), f'bad {x}'\n    return x * 2\n",
        'a constant text as the message: assert ok, "text"',
        "    assert (x < 99).all(), 'bad'\n    return x * 2\n",
    ),
    Cause(
        "assert on a number",
        "    assert x.max().item() < 99, 'bad'\n    return x * 2\n",
        'assert on the tensor, without .item(), and a constant text: assert (x < 9).all(), "text"',
        "    assert (x < 99).all(), 'bad'\n    return x * 2\n",
    ),
    Cause(
        "warning",
        "    warnings.warn('at')\n    return x * 2\n",
        "warn after the call",
        "    return x * 2\n",
        late="warnings.warn('at')",
        head="import warnings",
    ),
    Cause(
        "one_hot",
        "    return x + torch.nn.functional.one_hot(x.long() % 3).sum()\n",
        "give num_classes: torch.nn.functional.one_hot(x, num_classes=n)",
        "    return x + torch.nn.functional.one_hot(x.long() % 3, num_classes=3).sum()\n",
    ),
    Cause(
        "LSTM",
        "    return layer1(x.view(1, -1))[0].view(-1)\n",
        "torch._dynamo.config.allow_rnn = True (experimental)",
        switch="torch._dynamo.config.allow_rnn = True",
        head="torch.manual_seed(0)\nlayer1 = torch.nn.LSTM(3, 3)",
    ),
)
