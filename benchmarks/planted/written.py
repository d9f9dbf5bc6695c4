"""Programs with edits written by hand: small models, training steps, decode loops, regions.

A program is the text of a test file. An edit replaces one piece of it by another; the lines that
are others after it are what the gate has to name.
"""

from __future__ import annotations

from typing import Final

from benchmarks.planted.edits import Edit

# ruff: noqa: E501  # an edit and its place are on a line each


MLP: Final = """
import torch
from torch import nn

SEEN = []
SCALE = 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)
        self.drop = nn.Dropout(0.0)
        self.calls = 0

    def forward(self, x):
        hidden = torch.relu(self.up(x))
        hidden = self.drop(hidden)
        return x + self.down(hidden)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(8, 4)

    def pool(self, x):
        return x.mean(1)

    def forward(self, x, scale=1):
        for block in self.blocks:
            x = block(x)
        x = self.pool(x)
        return self.head(x) * scale


def test_planted():
    torch.manual_seed(0)
    model = Net()
    run = torch.compile(model, backend="eager")
    for step in range(3):
        x = torch.ones(4, 5, 8)
        out = run(x)
    assert out.shape[1] == 4
"""

TRAIN: Final = """
import torch
from torch import nn


class Config:
    steps = 0
    rate = 0.1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 1)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


LOSSES = []


def test_planted():
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=Config.rate, momentum=0.9)

    def loss_of(x, y):
        return ((model(x) - y) ** 2).mean()

    def train(x, y):
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    step = torch.compile(train, backend="eager")
    x, y = torch.ones(4, 8), torch.ones(4, 1)
    for number in range(3):
        loss = step(x, y)
    assert loss.dim() == 0
"""


DECODE: Final = """
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, 8)
        self.query = nn.Linear(8, 8)
        self.head = nn.Linear(8, 32)
        self.register_buffer("cache", torch.zeros(2, 16, 8))

    def attend(self, x, keys):
        weights = torch.softmax(self.query(x) @ keys.transpose(1, 2), -1)
        return weights @ keys

    def forward(self, token, position):
        x = self.embed(token)
        keys = self.cache.index_copy(1, position, x)
        x = self.attend(x, keys)
        return self.head(x)[:, -1].argmax(-1, keepdim=True)


def generate(step, token, length):
    tokens = [token]
    for index in range(length):
        position = torch.tensor([index])
        token = step(token, position)
        tokens.append(token)
    return torch.cat(tokens, 1)


def test_planted():
    torch.manual_seed(0)
    model = Decoder().eval()
    step = torch.compile(model, backend="eager")
    with torch.no_grad():
        out = generate(step, torch.zeros(2, 1, dtype=torch.long), 4)
    assert out.shape == (2, 5)
"""


PROGRAMS: Final = {
    "mlp": MLP,
    "train": TRAIN,
    "decode": DECODE,
}

EDITS: Final = (
    # A print, a value that is read, a branch on it.
    Edit(
        "mlp",
        "break",
        "        x = self.pool(x)\n",
        '        x = self.pool(x)\n        print("pooled")\n',
    ),
    Edit("mlp", "break", "return x.mean(1)", "return x.mean(1) if x.sum() > 0 else x.sum(1)"),
    Edit(
        "mlp",
        "break",
        "        hidden = self.drop(hidden)\n",
        "        hidden = self.drop(hidden)\n        hidden = hidden * hidden.mean().item()\n",
    ),
    Edit(
        "mlp", "break", "return self.head(x) * scale", "return self.head(x[x.sum(-1) > 0]) * scale"
    ),
    Edit(
        "train",
        "break",
        "        loss.backward()\n",
        "        LOSSES.append(float(loss))\n        loss.backward()\n",
    ),
    Edit(
        "train",
        "break",
        "        return loss.detach()\n",
        '        print("loss", loss)\n        return loss.detach()\n',
    ),
    Edit(
        "decode",
        "break",
        "        x = self.attend(x, keys)\n",
        "        x = self.attend(x, keys)\n        if x.isnan().any():\n            x = x.nan_to_num()\n",
    ),
    Edit(
        "mlp",
        "break",
        "        x = self.pool(x)\n",
        "        x = self.pool(x)\n        x = x + x.unique().numel()\n",
    ),
    Edit(
        "decode",
        "break",
        "        return weights @ keys\n",
        "        self.weights = weights.tolist()\n        return weights @ keys\n",
    ),
    # What is compiled again in the model.
    Edit(
        "mlp",
        "recompile",
        "        hidden = self.drop(hidden)\n",
        "        self.calls += 1\n        hidden = self.drop(hidden) * self.calls\n",
    ),
    Edit(
        "mlp",
        "recompile",
        "        x = self.pool(x)\n",
        "        x = self.pool(x) + len(SEEN)\n        SEEN.append(1)\n",
    ),
    Edit(
        "mlp",
        "recompile",
        "        hidden = self.drop(hidden)\n",
        '        if not hasattr(self, "warm"):\n            self.warm = True\n        hidden = self.drop(hidden)\n',
    ),
    Edit(
        "decode",
        "recompile",
        "        keys = self.cache.index_copy(1, position, x)\n",
        "        self.seen = getattr(self, 'seen', 0) + 1\n        keys = self.cache.index_copy(1, position, x) * self.seen\n",
    ),
    Edit(
        "mlp",
        "recompile",
        "        x = self.pool(x)\n",
        "        global SCALE\n        SCALE += 1\n        x = self.pool(x) * SCALE\n",
    ),
    # What calls it varies.
    Edit("mlp", "recompile, input", "x = torch.ones(4, 5, 8)", "x = torch.ones(4 - step, 5, 8)"),
    Edit(
        "mlp",
        "recompile, input",
        "out = run(x)",
        "out = run(x.double().float() if step else x.requires_grad_())",
    ),
    Edit("mlp", "recompile, input", "out = run(x)", "out = run(x, step)"),
    Edit(
        "mlp",
        "recompile, input",
        "        out = run(x)\n",
        "        model.train(step != 1)\n        out = run(x)\n",
    ),
    Edit(
        "mlp",
        "recompile, input",
        "        out = run(x)\n",
        "        with torch.set_grad_enabled(step != 1):\n            out = run(x)\n",
    ),
    Edit(
        "mlp",
        "recompile, input",
        "        out = run(x)\n",
        "        model.blocks[0].drop.p = step / 10\n        out = run(x)\n",
    ),
    Edit(
        "mlp",
        "recompile, input",
        "        out = run(x)\n",
        "        out = run(x)\n        model.head.register_forward_hook(lambda m, i, o: o * 2)\n",
    ),
    Edit(
        "decode",
        "recompile, input",
        "token = step(token, position)",
        "token = step(torch.cat(tokens, 1), torch.arange(index + 1))",
    ),
    Edit(
        "decode",
        "recompile, input",
        "        tokens.append(token)\n",
        "        tokens.append(token)\n        step._orig_mod.cache = torch.zeros(2, 17 + index, 8)\n",
    ),
    # Optimizer and training state.
    Edit(
        "train",
        "recompile, training",
        "        loss = loss_of(x, y)\n",
        "        Config.steps += 1\n        loss = loss_of(x, y) / Config.steps\n",
    ),
    Edit(
        "train",
        "recompile, training",
        "        return loss.detach()\n",
        "        LOSSES.append(loss.detach())\n        return torch.stack(LOSSES).mean()\n",
    ),
    Edit(
        "train",
        "recompile, training",
        "        optimizer.step()\n",
        "        optimizer.step()\n        Config.steps += 1\n        loss = loss + Config.steps\n",
    ),
    Edit(
        "train",
        "recompile, training",
        "        loss = loss_of(x, y)\n",
        "        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n        loss = loss_of(x, y)\n",
    ),
    # Code that is disabled, or no longer compiled.
    Edit(
        "mlp",
        "disable",
        "    def pool(self, x):\n",
        "    @torch.compiler.disable\n    def pool(self, x):\n",
    ),
    Edit(
        "mlp",
        "disable",
        "        self.head = nn.Linear(8, 4)\n",
        "        self.head = nn.Linear(8, 4)\n        self.head.forward = torch.compiler.disable(self.head.forward)\n",
    ),
    Edit(
        "train",
        "disable",
        "    def loss_of(x, y):\n",
        "    @torch._dynamo.disable\n    def loss_of(x, y):\n",
    ),
    Edit(
        "decode",
        "disable",
        "    def attend(self, x, keys):\n",
        "    @torch.compiler.disable(recursive=False)\n    def attend(self, x, keys):\n",
    ),
    Edit("mlp", "not compiled", 'run = torch.compile(model, backend="eager")', "run = model"),
    Edit(
        "mlp",
        "not compiled",
        'run = torch.compile(model, backend="eager")',
        'model.blocks[0].compile(backend="eager"); run = model',
    ),
    Edit(
        "train",
        "not compiled",
        'step = torch.compile(train, backend="eager")',
        'loss_of = torch.compile(loss_of, backend="eager"); step = train',
    ),
    Edit(
        "decode",
        "not compiled",
        'step = torch.compile(model, backend="eager")',
        'model.query.compile(backend="eager"); step = model',
    ),
    # What changes nothing for the compiler, or makes the program smaller.
    Edit(
        "mlp",
        "harmless",
        "        x = self.pool(x)\n",
        "        # the mean over the sequence\n        x = self.pool(x)\n",
    ),
    Edit(
        "mlp",
        "harmless",
        "        hidden = torch.relu(self.up(x))\n",
        "        hidden = self.up(x)\n",
    ),
    Edit("mlp", "harmless", "return x.mean(1)", "return x.sum(1) / x.size(1)"),
    Edit("mlp", "harmless", "for step in range(3):", "for step in range(5):"),
    Edit(
        "train",
        "harmless",
        "        return loss.detach()\n",
        "        return loss.detach() * 1.0\n",
    ),
    Edit("train", "harmless", "lr=Config.rate, momentum=0.9", "lr=Config.rate"),
    Edit(
        "decode",
        "harmless",
        "        x = self.attend(x, keys)\n",
        "        with torch.autocast('cpu', enabled=False):\n            x = self.attend(x, keys)\n",
    ),
    Edit(
        "decode",
        "harmless",
        "    with torch.no_grad():\n",
        "    with torch.inference_mode():\n",
    ),
    Edit(
        "decode",
        "harmless",
        "        tokens.append(token)\n",
        "        tokens.append(token)\n        step.train()\n",
    ),
)
