"""Programs with patches of other hands: right ones, and wrong ones with what shows it."""

from __future__ import annotations

from typing import Final

Edits = tuple[tuple[str, str], ...]

HEAD: Final = "import torch\n\ntorch.manual_seed(0)\n\n"
CALL: Final = 'c = torch.compile(f, backend="eager")\n'
IF: Final = "    if y.sum() > 0:\n        y = y + 1\n"
WHERE: Final = "    y = torch.where(y.sum() > 0, y + 1, y)\n"

BRANCH: Final = f"""{HEAD}def f(x):
    y = x * 2
{IF}    return y * 3

{CALL}c(torch.arange(1.0, 7.0).reshape(2, 3))
"""

PRINT: Final = f"""{HEAD}def f(x):
    y = x.sin()
    print("mean", y.mean().item())
    return y.cos()

{CALL}for n in range(3):
    out = c(torch.randn(4, 4))
"""

ONE_RESULT_MORE: Final = (
    '    print("mean", y.mean().item())\n    return y.cos()\n',
    "    return y.cos(), y.mean()\n",
)

MODULE: Final = f"""{HEAD}class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0
        self._total = 0.0
        self.means = []

    def forward(self, x):
        y = self.a(x)
        self.seen += 1
        self._total += y.mean().item()
        self.means.append(y.mean().item())
        return y.tanh()

net = Net()
c = torch.compile(net, backend="eager")
for n in range(3):
    y = c(torch.randn(2, 4))
    y.sum().backward()
"""
READS: Final = """        self._total += y.mean().item()
        self.means.append(y.mean().item())
        return y.tanh()
"""
AFTER: Final = """    y = c(torch.randn(2, 4))
    y.sum().backward()
"""
MOVED: Final = """    y, mean = c(torch.randn(2, 4))
    net._total += mean.item()
    net.means.append(mean.item())
    y.sum().backward()
"""
ONE_MORE: Final = "        return y.tanh(), y.detach().mean()\n"

COUNTER: Final = f"""{HEAD}class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x / self.calls

net = torch.compile(Net(), backend="eager", dynamic=False)
for n in range(4):
    net(torch.ones(4))
"""
BUFFER: Final = (
    ("self.calls = 0", 'self.register_buffer("calls", torch.zeros((), dtype=torch.long))'),
)

ITEM: Final = f"""{HEAD}def f(x, n):
    y = x * n
    return y, y.gt(0).sum().item()

{CALL}counts = []
for n in range(3):
    y, count = c(torch.randn(5), n)
    counts.append(count)
print(counts)
"""

MEAN: Final = f"""{HEAD}def f(x):
    y = x * 2
    return y, y.mean().item()

{CALL}for n in range(3):
    y, mean = c(torch.full((4,), n + 0.1))
"""

LIST: Final = f"""{HEAD}class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.history = []

    def forward(self, x):
        y = x.sin()
        self.history.append(y.sum().item())
        return y * len(self.history)

net = Net()
c = torch.compile(net, backend="eager", dynamic=False)
for n in range(3):
    c(torch.randn(4))
print(net.history)
"""
PREALLOCATED: Final = (
    (
        "        self.history = []\n",
        '        self.register_buffer("history", torch.zeros(64, dtype=torch.float64))\n'
        '        self.register_buffer("used", torch.zeros((), dtype=torch.long))\n',
    ),
    (
        "        self.history.append(y.sum().item())\n        return y * len(self.history)\n",
        "        self.history.index_copy_(0, self.used.reshape(1), y.sum().reshape(1).double())\n"
        "        self.used += 1\n"
        "        return y * self.used\n",
    ),
    ("print(net.history)", "print(net.history[: net.used].tolist())"),
)

CHECKED: Final = f"""{HEAD}def f(x):
    if x.shape[0] == 0:
        return x.new_zeros(3)
    y = x.sum(0)
    if y.isnan().any():
        y = torch.nan_to_num(y)
    if x.shape[0] == 1:
        y = y + 1
    return y.sqrt() if x.dim() == 1 else y

{CALL}c(torch.arange(6.0).reshape(2, 3))
"""
NAN: Final = "    if y.isnan().any():\n        y = torch.nan_to_num(y)\n"
NAN_WHERE: Final = "    y = torch.where(y.isnan().any(), torch.nan_to_num(y), y)\n"

REFUSES: Final = f"""{HEAD}def f(x):
    if x.max() > 100:
        raise ValueError("too large")
    y = x * 2
{IF}    return y

{CALL}c(torch.ones(3))
"""

OBJECTS: Final = f"""{HEAD}import dataclasses
import logging
import sys
import warnings

log = logging.getLogger("training")

@dataclasses.dataclass
class Result:
    values: object
    size: int

class Plain:
    def __init__(self, values):
        self.values = values

class State:
    count = 0

    def __init__(self):
        self.seen = {{}}
        self._last = None

state = State()
_private = []

def f(x):
    y = x * 2
{IF}    state._last = y
    return Result(y, 3), Plain(y + 1), {{"a": y, "b": 2}}

{CALL}for n in range(2):
    c(torch.ones(3) * n)
    state.seen[n] = n * n
    State.count += 1
    _private.append(n)
    print("out", n)
    print("err", n, file=sys.stderr)
    log.warning("step %d", n)
    warnings.warn(f"warned {{n}}")
    with open("log.txt", "a") as file:
        file.write(f"step {{n}}\\n")
"""

HELD: Final = f"""{HEAD}import functools

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return self.a(x)

def main():
    HOLDER
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for n in range(2):
        opt.zero_grad()
        c(torch.ones(2, 3) * n).pow(2).mean().backward()
        opt.step()

main()
"""


def held(holder: str) -> str:
    """Return a program whose module is held by something, and called from a function."""
    lines = [*holder.strip().splitlines(), 'c = torch.compile(f, backend="eager")']
    return HELD.replace("HOLDER", "\n    ".join(lines))


CLOSURE: Final = """
net = Net()
def f(x):
    y = net(x)
    if y.sum() > 0:
        y = y + 1
    return y
"""
PARTIAL: Final = """
net = Net()
def g(models, x):
    y = models["a"][0](x)
    if y.sum() > 0:
        y = y + 1
    return y
f = functools.partial(g, {"a": [net]})
"""
HELD_IF: Final = "        if y.sum() > 0:\n            y = y + 1\n"
HELD_WHERE: Final = "        y = torch.where(y.sum() > 0, y + 1, y)\n"

EVAL: Final = f"""{HEAD}class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = torch.nn.Dropout(0.5)
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        y = self.norm(self.drop(x))
        if y.sum() > 100:
            y = y / 2
        if self.training:
            return y
        return y * 2

net = Net()
c = torch.compile(net, backend="eager")
c(torch.randn(6, 4))
"""
EVAL_IF: Final = "        if y.sum() > 100:\n            y = y / 2\n"
EVAL_WHERE: Final = "        y = torch.where(y.sum() > 100, y / 2, y)\n"

LOSS: Final = f"""{HEAD}def f(logits, target):
    logits = logits.clamp(-3, 3)
    if logits.sum() > 1e4:
        logits = logits / 2
    return torch.nn.functional.cross_entropy(logits, target)

{CALL}c(torch.randn(6, 5), torch.tensor([1, 2, 0, 4, 3, 1]))
"""
LOSS_IF: Final = "    if logits.sum() > 1e4:\n        logits = logits / 2\n"
LOSS_WHERE: Final = "    logits = torch.where(logits.sum() > 1e4, logits / 2, logits)\n"

IN_PLACE: Final = f"""{HEAD}def f(x, state):
    state.add_(1)
    y = x + state
{IF}    return y

{CALL}state = torch.zeros(3)
outs = []
for n in range(3):
    outs.append(c(torch.ones(3), state))
"""

GATE: Final = f"""{HEAD}class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(8, 8)

    def forward(self, x):
        x = self.a(x)
        if x.mean() > 0:
            x = x * 2
        return x.sin()

net = Gate()
c = torch.compile(net, backend="eager")
with torch.no_grad():
    c(torch.randn(4, 8))
"""
GATE_IF: Final = "        if x.mean() > 0:\n            x = x * 2\n"
GATE_WHERE: Final = "        x = torch.where(x.mean() > 0, x * 2, x)\n"

CATCHES: Final = f"""{HEAD}def f(x):
    y = x * 2
{IF}    return y

{CALL}c(torch.ones(3))
try:
    c(torch.ones(2)) + torch.ones(3)
except RuntimeError as error:
    raise SystemError("sizes") from error
"""

LATE: Final = f"""{HEAD}def f(x, n):
    y = x * n
    if y.sum() > 1000:
        y = y / 2
    return y

{CALL}for n in range(100):
    c(torch.ones(12), torch.tensor(float(n)))
"""

MASKED: Final = f"""{HEAD}class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.out = torch.nn.Linear(8, 6)

    def forward(self, x, banned):
        logits = self.out(x)
        if logits.abs().max() > 0.5:
            logits = logits.clamp(-0.5, 0.5)
        logits[:, banned] = torch.finfo(logits.dtype).min
        return logits

net = Head()
c = torch.compile(net, backend="eager")
with torch.no_grad():
    c(torch.randn(3, 8), torch.tensor([1, 4]))
"""
CLAMP: Final = """        if logits.abs().max() > 0.5:
            logits = logits.clamp(-0.5, 0.5)
"""

SUM: Final = f"""{HEAD}def f(x):
    y = x.sin()
    if y.sum() > 5:
        y = (y - y.mean()) / (y.std() + y.abs().max() + 1)
    return y

{CALL}c(torch.full((4,), 9.0))
"""

MASK: Final = f"""{HEAD}def f(x, keep):
    y = x.masked_fill(~keep, float("-inf"))
    if keep.any():
        y = y * 1
    return y.softmax(-1)

{CALL}c(torch.randn(2, 4), torch.tensor([[True, True, False, True]] * 2))
"""

RIGHT: Final[dict[str, tuple[str, Edits]]] = {
    "a branch that no input takes": (
        SUM,
        (
            (
                "    if y.sum() > 5:\n        y = (y - y.mean()) / (y.std() + y.abs().max() + 1)\n",
                "",
            ),
        ),
    ),
    "a print after the call, of its result": (
        PRINT.replace("y.mean().item()", "x.shape[0]"),
        (
            ('    print("mean", x.shape[0])\n', ""),
            (
                "    out = c(torch.randn(4, 4))\n",
                '    out = c(torch.randn(4, 4))\n    print("mean", 4)\n',
            ),
        ),
    ),
    "a function around the call that prints": (
        PRINT,
        (
            ONE_RESULT_MORE,
            (
                CALL,
                'inner = torch.compile(f, backend="eager")\n\n'
                "def c(x):\n"
                "    out, mean = inner(x)\n"
                '    print("mean", mean.item())\n'
                "    return out\n\n",
            ),
        ),
    ),
    "state that the program keeps after the call": (MODULE, ((READS, ONE_MORE), (AFTER, MOVED))),
    "a counter as a buffer": (COUNTER, BUFFER),
    "a number as the tensor that it was": (MEAN, ((".item()", ""),)),
    "an item after the call": (
        ITEM,
        (("sum().item()", "sum()"), ("counts.append(count)", "counts.append(count.item())")),
    ),
    "a tensor for an int": (
        ITEM.replace("y.gt(0).sum().item()", "n")
        .replace("c(torch.randn(5), n)", "c(torch.randn(5), n * 7)")
        .replace('backend="eager"', 'backend="eager", dynamic=False'),
        (("n * 7)", "torch.tensor(n * 7))"), ("counts.append(count)", "counts.append(int(count))")),
    ),
    "a preallocated buffer for a list": (LIST, PREALLOCATED),
    "a check for NaN as torch.where": (CHECKED, ((NAN, NAN_WHERE),)),
    "a module in a closure": (held(CLOSURE), ((HELD_IF, HELD_WHERE),)),
    "a module in a partial": (held(PARTIAL), ((HELD_IF, HELD_WHERE),)),
    "dropout and a norm": (EVAL, ((EVAL_IF, EVAL_WHERE),)),
    "a loss that ignores targets": (LOSS, ((LOSS_IF, LOSS_WHERE),)),
    "objects, files and logs": (OBJECTS, ((IF, WHERE),)),
    "an argument changed in place": (IN_PLACE, ((IF, WHERE),)),
    "a program that ends with an exception": (CATCHES, ((IF, WHERE),)),
    "the largest numbers in logits": (
        MASKED,
        (
            (
                CLAMP,
                "        high = logits.abs().max() > 0.5\n"
                "        logits = torch.where(high, logits.clamp(-0.5, 0.5), logits)\n",
            ),
        ),
    ),
    "sizes that vary": (
        f"{HEAD}def f(x):\n    return x * x.shape[0]\n\n"
        'c = torch.compile(f, backend="eager", dynamic=False)\n'
        "for n in (3, 4, 5):\n    c(torch.ones(n))\n",
        (("dynamic=False", "dynamic=True"),),
    ),
}

WRONG: Final[dict[str, tuple[str, Edits, str]]] = {
    "a large number for infinity in a mask": (
        MASK,
        (("    if keep.any():\n        y = y * 1\n", ""), ('float("-inf")', "-1e9")),
        "call of f with all 0: output, element [0, 0]: nan became 0.25",
    ),
    "another threshold at call 85": (
        LATE,
        (
            (
                "    if y.sum() > 1000:\n        y = y / 2\n",
                "    y = torch.where(y.sum() > 1150, y / 2, y)\n",
            ),
        ),
        "call 85 of f: output, element [0]: 42.0 became 84.0",
    ),
    "logits beside the largest numbers": (
        MASKED,
        ((CLAMP, "        logits = -7 * logits + 1 - 2\n"),),
        "call 1 of Head: output, element [0, 0]",
    ),
    "a weight without a gradient in a closure": (
        held(CLOSURE),
        (
            (HELD_IF, HELD_WHERE),
            (
                "y = net(x)",
                "net.seen += 1\n"
                "        y = torch.nn.functional.linear(x, net.a.weight.detach(), net.a.bias)",
            ),
        ),
        "Net.a.weight",
    ),
    "a buffer in a partial": (
        held(PARTIAL),
        ((HELD_IF, HELD_WHERE), ("        self.seen += 1\n", "")),
        "Net.seen: 2.0 became 0.0",
    ),
    "a gradient": (BRANCH, ((IF, WHERE.replace("y + 1", "y.detach() + 1")),), "gradient"),
    "a batch that is baked in": (
        BRANCH,
        ((IF, WHERE), ("return y * 3", "return (y * 3).reshape(2, -1)")),
        "batch",
    ),
    "a printed line": (
        PRINT,
        (('    print("mean", y.mean().item())\n', ""),),
        "stdout, line 1",
    ),
    "one result more, and the first is wrong": (
        PRINT,
        (
            (
                '    print("mean", y.mean().item())\n    return y.cos()\n',
                "    return y.sin(), y.mean()\n",
            ),
            (
                "    out = c(torch.randn(4, 4))\n",
                '    mean = c(torch.randn(4, 4))[1]\n    print("mean", mean.item())\n',
            ),
        ),
        "",
    ),
    "a private number": (
        MODULE,
        ((READS, ONE_MORE), (AFTER, MOVED.replace("    net._total += mean.item()\n", ""))),
        "Net._total",
    ),
    "a list that grows no more": (
        MODULE,
        ((READS, ONE_MORE), (AFTER, MOVED.replace("    net.means.append(mean.item())\n", ""))),
        "Net.means",
    ),
    "a counter that begins later": (
        COUNTER,
        (
            *BUFFER,
            (
                "self.calls += 1\n        return x / self.calls",
                "y = x / (self.calls + 1)\n        self.calls += self.calls < 3\n        return y",
            ),
        ),
        "Net.calls",
    ),
    "a count that is another": (
        ITEM,
        (
            ("gt(0).sum().item()", "ge(0).sum()"),
            ("counts.append(count)", "counts.append(count.item())"),
        ),
        "stdout, line 1",
    ),
    "a number that is truncated": (MEAN, ((".item()", ".long()"),), "mean"),
    "a buffer that holds another list": (
        LIST,
        (
            *PREALLOCATED[:1],
            (PREALLOCATED[1][0], PREALLOCATED[1][1].replace("y.sum()", "y.mean()")),
            ("print(net.history)", ""),
        ),
        "",
    ),
    "NaN": (CHECKED, ((NAN, ""),), "NaN"),
    "an exception that is gone": (
        REFUSES,
        (('    if x.max() > 100:\n        raise ValueError("too large")\n', ""), (IF, WHERE)),
        "ValueError: too large",
    ),
    "an exception of another type": (
        CATCHES,
        ((IF, WHERE), ("SystemError", "ValueError")),
        "SystemError: sizes became ValueError: sizes",
    ),
    "a dataclass": (
        OBJECTS,
        ((IF, WHERE), ("Result(y, 3)", "Result(y, 4)")),
        "output[0].size: 3 became 4",
    ),
    "a private variable": (OBJECTS, ((IF, WHERE), ("    _private.append(n)\n", "")), "_private"),
    "an attribute of an object": (
        OBJECTS,
        ((IF, WHERE), ("    state.seen[n] = n * n\n", "")),
        "State.seen",
    ),
    "a private attribute that is gone": (
        OBJECTS,
        ((IF, WHERE), ("    state._last = y\n", ""), ("        self._last = None\n", "")),
        "State._last",
    ),
    "a variable of a class": (
        OBJECTS,
        ((IF, WHERE), ("    State.count += 1\n", "")),
        "class State.count",
    ),
    "a line on standard error": (
        OBJECTS,
        ((IF, WHERE), ('"err", n', '"err", 1')),
        "stderr, line 1",
    ),
    "the level of a log": (OBJECTS, ((IF, WHERE), ("log.warning", "log.error")), "the log, line 1"),
    "a warning": (OBJECTS, ((IF, WHERE), ('warnings.warn(f"warned {n}")', "pass")), "stderr, line"),
    "a file": (
        OBJECTS,
        ((IF, WHERE), ('f"step {n}\\n")', 'f"step {n + 1}\\n")')),
        "the file log.txt, line 1",
    ),
    "one random number more": (
        BRANCH,
        ((IF, WHERE), ("return y * 3", "torch.rand(1)\n    return y * 3")),
        "random",
    ),
    "an environment": (
        BRANCH,
        (
            (IF, WHERE),
            ("import torch\n", "import os\n\nimport torch\n\nos.environ['MODE'] = 'x'\n"),
        ),
        "$MODE",
    ),
    "dropout in eval mode": (
        EVAL,
        ((EVAL_IF, EVAL_WHERE), ("return y * 2", "return y")),
        "train and eval mode",
    ),
    "targets that are ignored": (
        LOSS,
        (
            (LOSS_IF, LOSS_WHERE),
            ("cross_entropy(logits, target)", "cross_entropy(logits, target.clamp(min=0))"),
        ),
        "-100",
    ),
    "an argument that stays as it is": (
        IN_PLACE,
        ((IF, WHERE), ("state.add_(1)", "state = state + 1")),
        "arguments[1]",
    ),
    "a result that shares memory": (
        BRANCH,
        (
            (
                "    if y.sum() > 0:\n        y = y + 1\n    return y * 3",
                "    return x.mul_(6).add_(3)",
            ),
        ),
        "",
    ),
    "a gradient that the program does not compute": (
        GATE,
        (
            (GATE_IF, GATE_WHERE),
            ("self.a(x)", "x @ self.a.weight.detach().T + self.a.bias"),
        ),
        "with gradients: gradients[0], requires_grad: True became False",
    ),
    "a line that raises with gradients": (
        GATE,
        (
            (GATE_IF, GATE_WHERE),
            (
                "        return x.sin()",
                "        torch._check(not x.requires_grad)\n        return x.sin()",
            ),
        ),
        "with gradients: what it raises: nothing became RuntimeError",
    ),
    "a result without a gradient": (
        BRANCH.replace("reshape(2, 3)", "reshape(2, 3).requires_grad_()"),
        ((IF, WHERE), ("return y * 3", "return (y * 3).detach()")),
        "requires_grad: True became False",
    ),
    "another number as an argument": (
        ITEM.replace("y.gt(0).sum().item()", "y.sum()")
        .replace("    y = x * n\n", "    y = x * n\n    if y.sum() > 100:\n        y = y - 1\n")
        .replace("c(torch.randn(5), n)", "c(torch.randn(5), 2)")
        .replace("counts.append(count)", "counts.append(float(count))"),
        (
            (
                "    if y.sum() > 100:\n        y = y - 1\n",
                "    y = torch.where(y.sum() > 100, y - 1, y)\n",
            ),
            ("    y = x * n\n", "    y = x * 2\n"),
        ),
        "other numbers",
    ),
}

UNSTEADY: Final = f"""{HEAD}class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
        self.losses = []

    def forward(self, x):
        y = self.a(x).tanh().exp().sin()
        mean = y.mean().item()
        self.losses.append(mean)
        return y.cos().sum()

net = Net()
c = torch.compile(net, backend="eager")
for step in range(3):
    c(torch.randn(2, 4)).backward()
"""
SETTING: Final = (
    (
        "torch.manual_seed(0)",
        "torch._dynamo.config.capture_scalar_outputs = True\ntorch.manual_seed(0)",
    ),
)


def edited(source: str, edits: Edits) -> str:
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new)
    return source
