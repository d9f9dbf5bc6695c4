"""Programs of JAX and torch_xla whose edits are held out, written before any was run under the gate.

A step of flax with optax, a decoder of equinox that scans, lazy training and generation, and a
model compiled with the backend ``openxla``.
"""

from __future__ import annotations

from typing import Final

from benchmarks.planted.edits import Edit

# ruff: noqa: E501  # an edit is a line of the table

_FLAX: Final = """
import functools

import jax
import numpy as np
import optax
from flax import linen as nn
from jax import numpy as jnp


class Classifier(nn.Module):
    width: int = 8
    classes: int = 3

    @nn.compact
    def __call__(self, x, train=False):
        x = nn.Dense(self.width)(x)
        x = nn.LayerNorm()(x)
        x = nn.gelu(x)
        x = nn.Dropout(0.1, deterministic=not train)(x)
        return nn.Dense(self.classes)(x)


model = Classifier()
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))


def loss_of(params, x, y, key):
    logits = model.apply({"params": params}, x, train=True, rngs={"dropout": key})
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
    return losses.mean()


@jax.jit
def train_step(params, state, x, y, key):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y, key)
    updates, state = optimizer.update(grads, state, params)
    params = optax.apply_updates(params, updates)
    return params, state, loss


@functools.partial(jax.jit, static_argnames="top")
def predict(params, x, top=1):
    logits = model.apply({"params": params}, x)
    return jax.lax.top_k(logits, top)[1]


def batches(number, size=6):
    rng = np.random.default_rng(0)
    for _ in range(number):
        x = rng.normal(size=(size, 4)).astype(np.float32)
        y = rng.integers(0, 3, size).astype(np.int32)
        yield x, y


def test_program():
    keys = np.asarray(jax.random.split(jax.random.PRNGKey(0), 8))
    params = jax.jit(model.init)(keys[7], np.ones((1, 4), np.float32))["params"]
    state = jax.jit(optimizer.init)(params)
    losses = []
    for n, (x, y) in enumerate(batches(3)):
        params, state, loss = train_step(params, state, x, y, keys[n])
        losses.append(float(loss))
    best = np.asarray(predict(params, x))
    assert best.shape[1] == 1
"""

_EQUINOX: Final = """
import equinox as eqx
import jax
import numpy as np
from jax import numpy as jnp


class Decoder(eqx.Module):
    embed: eqx.nn.Embedding
    cell: eqx.nn.GRUCell
    head: eqx.nn.Linear
    temperature: float

    def __init__(self, vocabulary, width, key, temperature=1.0):
        one, two, three = jax.random.split(key, 3)
        self.embed = eqx.nn.Embedding(vocabulary, width, key=one)
        self.cell = eqx.nn.GRUCell(width, width, key=two)
        self.head = eqx.nn.Linear(width, vocabulary, key=three)
        self.temperature = temperature

    def step(self, carry, _):
        hidden, token = carry
        hidden = self.cell(self.embed(token), hidden)
        logits = self.head(hidden) / self.temperature
        token = jnp.argmax(logits).astype(np.int32)
        return (hidden, token), token

    def __call__(self, hidden, start, length):
        step = lambda carry, x: self.step(carry, x)
        (hidden, _), tokens = jax.lax.scan(step, (hidden, start), None, length=length)
        return hidden, tokens


@eqx.filter_jit
def decode(model, hidden, starts, length):
    run = jax.vmap(lambda one, start: model(one, start, length))
    return run(hidden, starts)


def generate(model, chunks, size, length):
    hidden = np.zeros((size, 8), np.float32)
    starts = np.zeros(size, np.int32)
    found = []
    for n in range(chunks):
        hidden, tokens = decode(model, hidden, starts, length)
        tokens = np.asarray(tokens)
        starts = tokens[:, -1]
        found.append(tokens)
    return np.concatenate(found, 1)


def test_program():
    model = Decoder(16, 8, jax.random.PRNGKey(1))
    tokens = generate(model, chunks=3, size=4, length=5)
    assert tokens.ndim == 2
"""

_BATCH_LOOP: Final = "    for n, (x, y) in enumerate(batches(3)):\n"
_TRAINED: Final = "        params, state, loss = train_step(params, state, x, y, keys[n])\n"
_UPDATED: Final = "    params = optax.apply_updates(params, updates)\n"
_CHUNK: Final = "        hidden, tokens = decode(model, hidden, starts, length)\n"
_CELL: Final = "        hidden = self.cell(self.embed(token), hidden)\n"

JAX: Final = (
    Edit("flax_fit", "shape", "    for _ in range(number):\n", "    for step in range(number):\n        size = size - 1 if step == number - 1 else size\n"),
    Edit("flax_fit", "type", _TRAINED, f"        y = y.astype(np.int64 if n else np.int8)\n{_TRAINED}"),
    Edit("flax_fit", "type", _TRAINED, f"        x = x if n else x.round().astype(np.int32)\n{_TRAINED}"),
    Edit("flax_fit", "pytree", _TRAINED, f'{_TRAINED}        params = {{**params, f"unused_{{n}}": np.zeros(1, np.float32)}} if n == 0 else params\n        state = jax.jit(optimizer.init)(params)\n'),
    Edit("flax_fit", "static", "    best = np.asarray(predict(params, x))\n", "    best = [np.asarray(predict(params, x, top=top)) for top in (3, 2, 1)][-1]\n"),
    Edit("flax_fit", "closure", _TRAINED, "        params, state, loss = jax.jit(train_step.__wrapped__)(params, state, x, y, keys[n])\n"),
    Edit("flax_fit", "closure", _BATCH_LOOP, f"{_BATCH_LOOP}        jax.clear_caches()\n"),
    Edit("flax_fit", "jit removed", "@jax.jit\ndef train_step", "def train_step"),
    Edit("flax_fit", "jit removed", '@functools.partial(jax.jit, static_argnames="top")\ndef predict', "def predict"),
    Edit("flax_fit", "eager", "        losses.append(float(loss))\n", "        losses.append(float(loss))\n        norm = jnp.sqrt(sum(jnp.vdot(p, p) for p in jax.tree.leaves(params)))\n"),
    Edit("flax_fit", "eager", "    state = jax.jit(optimizer.init)(params)\n", "    state = optimizer.init(params)\n"),
    Edit("flax_fit", "callback", "    return losses.mean()\n", '    jax.debug.print("loss {}", losses.mean())\n    return losses.mean()\n'),
    Edit("flax_fit", "callback", _UPDATED, f"    loss = jax.pure_callback(np.abs, jax.ShapeDtypeStruct((), np.float32), loss)\n{_UPDATED}"),
    Edit("flax_fit", "setting", _BATCH_LOOP, f'{_BATCH_LOOP}        jax.config.update("jax_debug_nans", n == 2)\n'),
    Edit("flax_fit", "harmless", "        x = nn.LayerNorm()(x)\n", "        x = nn.RMSNorm()(x)\n"),
    Edit("flax_fit", "harmless", "optax.adamw(1e-3)", "optax.lion(1e-4)"),
    Edit("flax_fit", "harmless", "batches(3)", "batches(5)"),
    Edit("flax_fit", "harmless", "width: int = 8", "width: int = 12"),
    Edit("flax_fit", "harmless", "        losses.append(float(loss))\n", "        losses.append(np.asarray(loss).item())\n        print(n, losses[-1], sum(losses) / len(losses))\n"),
    Edit("flax_fit", "harmless", "    loss, grads = jax.value_and_grad(loss_of)(params, x, y, key)\n", "    (loss, _), grads = jax.value_and_grad(lambda *given: (loss_of(*given), 0), has_aux=True)(params, x, y, key)\n"),
    Edit("flax_fit", "harmless", "@jax.jit\ndef train_step", "@functools.partial(jax.jit, donate_argnums=(0, 1))\ndef train_step"),
    Edit("scan_decode", "shape", "    for n in range(chunks):\n", "    for n in range(chunks):\n        if n == 2:\n            found, hidden, starts = [rows[1:] for rows in found], hidden[1:], starts[1:]\n"),
    Edit("scan_decode", "static", _CHUNK, _CHUNK.replace("length)", "length + n)")),
    Edit("scan_decode", "sharding", _CHUNK, f"        hidden = jax.device_put(hidden, jax.devices()[n])\n{_CHUNK}"),
    Edit("scan_decode", "harmless", "jax.random.PRNGKey(1))", "jax.random.PRNGKey(1), temperature=np.float32(0.5))"),
    Edit("scan_decode", "harmless", "        starts = tokens[:, -1]\n", "        starts = np.ascontiguousarray(tokens[:, -1])\n"),
    Edit("scan_decode", "pytree", _CHUNK, f'        model = eqx.tree_at(lambda one: one.temperature, model, 1.0 / (n + 1))\n{_CHUNK}'),
    Edit("scan_decode", "pytree", _CHUNK, f"        model = eqx.tree_at(lambda one: one.head.bias, model, None) if n == 2 else model\n{_CHUNK}"),
    Edit("scan_decode", "closure", _CHUNK, "        hidden, tokens = eqx.filter_jit(lambda *given: decode(*given))(model, hidden, starts, length)\n"),
    Edit("scan_decode", "closure", _CHUNK, "        hidden, tokens = jax.jit(jax.vmap(lambda one, start: model(one, start, length)))(hidden, starts)\n"),
    Edit("scan_decode", "jit removed", "@eqx.filter_jit\ndef decode", "def decode"),
    Edit("scan_decode", "callback", _CELL, f'{_CELL}        jax.debug.callback(lambda value: None, hidden.max())\n'),
    Edit("scan_decode", "eager", "        tokens = np.asarray(tokens)\n", "        tokens = np.asarray(jnp.where(tokens > 14, 0, tokens))\n"),
    Edit("scan_decode", "harmless", "chunks=3", "chunks=2"),
    Edit("scan_decode", "harmless", "length=5", "length=7"),
    Edit("scan_decode", "harmless", "        token = jnp.argmax(logits).astype(np.int32)\n", "        token = jax.lax.argmax(logits, 0, np.int32)\n"),
    Edit("scan_decode", "harmless", "    temperature: float\n", "    temperature: float = eqx.field(static=True)\n"),
    Edit("scan_decode", "harmless", "    run = jax.vmap(lambda one, start: model(one, start, length))\n    return run(hidden, starts)\n", "    return jax.vmap(model, in_axes=(0, 0, None))(hidden, starts, length)\n"),
    Edit("scan_decode", "harmless", "        found.append(tokens)\n", "        found.append(tokens)\n        print(n, tokens.shape, tokens.max())\n"),
)  # fmt: skip

_LAZY_FIT: Final = """
import torch
import torch_xla
from torch import nn

DEVICE = torch_xla.device()


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.conv = nn.Conv1d(3, width, 3, padding=1)
        self.norm = nn.GroupNorm(2, width)
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        pooled = x.mean(-1)
        return self.head(pooled)


def batches(number, size=4, length=10):
    generator = torch.Generator().manual_seed(0)
    for _ in range(number):
        x = torch.randn(size, 3, length, generator=generator)
        y = torch.randint(0, 4, (size,), generator=generator)
        yield x, y


def train(net, optimizer, schedule, loader):
    total = torch.zeros((), device=DEVICE)
    for step, (x, y) in enumerate(loader):
        x, y = x.to(DEVICE), y.to(DEVICE)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        total += loss.detach()
        torch_xla.sync()
        schedule.step()
    return total.item()


def test_program():
    torch.manual_seed(0)
    net = Net().to(DEVICE)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    torch_xla.sync()
    assert train(net, optimizer, schedule, batches(4)) > 0
"""

_LAZY_GENERATE: Final = """
import torch
import torch_xla
from torch import nn

DEVICE = torch_xla.device()
LIMIT = 8
LOGITS = []


class Attention(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embed = nn.Embedding(16, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, 16)

    def forward(self, token, position, keys, values):
        query, key, value = self.qkv(self.embed(token)).chunk(3, -1)
        keys = keys.index_copy(1, position, key)
        values = values.index_copy(1, position, value)
        seen = torch.arange(LIMIT, device=DEVICE) <= position
        scores = (query @ keys.transpose(1, 2)).masked_fill(~seen, -1e9)
        mixed = scores.softmax(-1) @ values
        return self.out(mixed), keys, values


def generate(model, prompt, length):
    size = prompt.size(0)
    keys = torch.zeros(size, LIMIT, 8, device=DEVICE)
    values = torch.zeros_like(keys)
    position = torch.zeros(1, dtype=torch.long, device=DEVICE)
    token = prompt
    out = torch.zeros(size, LIMIT, dtype=torch.long, device=DEVICE)
    torch_xla.sync()
    for index in range(length):
        logits, keys, values = model(token, position, keys, values)
        token = logits.argmax(-1)
        out = out.index_copy(1, position, token)
        position = position + 1
        torch_xla.sync()
    return out.cpu()


def test_program():
    torch.manual_seed(0)
    model = Attention().to(DEVICE).eval()
    with torch.no_grad():
        out = generate(model, torch.ones(2, 1, dtype=torch.long).to(DEVICE), 5)
    assert out.shape == (2, LIMIT)
"""

_OPENXLA: Final = """
import torch
import torch_xla
from torch import nn

DEVICE = torch_xla.device()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        hidden = nn.functional.gelu(self.up(self.norm(x)))
        return x + self.down(hidden)


class Scorer(nn.Module):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x).squeeze(-1)


def score(run, rows):
    found = []
    for number, row in enumerate(rows):
        scores = run(row.to(DEVICE))
        torch_xla.sync()
        found.append(scores.cpu())
    return torch.cat(found)


def test_program():
    torch.manual_seed(0)
    model = Scorer().to(DEVICE).eval()
    run = torch.compile(model, backend="openxla")
    rows = [torch.ones(4, 8) for _ in range(3)]
    with torch.no_grad():
        scores = score(run, rows)
    assert scores.dim() == 1
"""

_STEPPED: Final = "        optimizer.step()\n"
_MOVED: Final = "        x, y = x.to(DEVICE), y.to(DEVICE)\n"
_TOKEN: Final = "        token = logits.argmax(-1)\n"
_ROWS: Final = "[torch.ones(4, 8) for _ in range(3)]"
_RUN: Final = 'run = torch.compile(model, backend="openxla")'
_RESIDUAL: Final = "        return x + self.down(hidden)\n"

XLA: Final = (
    Edit("lazy_fit", "access", "        loss.backward()\n", "        loss.backward()\n        if step % 2 == 0:\n            print(step, loss.item())\n"),
    Edit("lazy_fit", "access", "        nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n", "        if not torch.isfinite(nn.utils.clip_grad_norm_(net.parameters(), 1.0)):\n            continue\n"),
    Edit("lazy_fit", "access", "        total += loss.detach()\n", "        total += float(loss)\n"),
    Edit("lazy_fit", "access", "        pooled = x.mean(-1)\n", "        pooled = x[:, :, x.abs().sum((0, 1)) > 0].mean(-1)\n"),
    Edit("lazy_fit", "sync", _STEPPED, f"{_STEPPED}        torch_xla.sync()\n"),
    Edit("lazy_fit", "sync", "        loss.backward()\n", "        torch_xla.sync()\n        loss.backward()\n"),
    Edit("lazy_fit", "shape", "torch.randn(size, 3, length, generator=generator)", "torch.randn(size, 3, length + 2 * (_ % 2), generator=generator)"),
    Edit("lazy_fit", "shape", _MOVED, f"        x, y = (x[:3], y[:3]) if step == 3 else (x, y)\n{_MOVED}"),
    Edit("lazy_fit", "type", _MOVED, "        x, y = x.to(DEVICE, torch.bfloat16 if step == 2 else torch.float32).float(), y.to(DEVICE)\n"),
    Edit("lazy_fit", "training", "torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)", "torch.optim.Adam(net.parameters(), lr=0.1)"),
    Edit("lazy_fit", "training", "torch.optim.lr_scheduler.StepLR(optimizer, 10)", "torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)"),
    Edit("lazy_fit", "training", _STEPPED, f"        net.norm.requires_grad_(step < 1)\n{_STEPPED}"),
    Edit("lazy_fit", "fallback", "        pooled = x.mean(-1)\n", "        pooled = x.median(-1).values\n"),
    Edit("lazy_fit", "constant", "        loss = nn.functional.cross_entropy(net(x), y)\n", "        loss = nn.functional.cross_entropy(net(x), y, label_smoothing=0.1 * step)\n"),
    Edit("lazy_fit", "more runs", "batches(4)", "batches(6)"),
    Edit("lazy_fit", "harmless", "        pooled = x.mean(-1)\n", "        pooled = x.amax(-1)\n"),
    Edit("lazy_fit", "harmless", "Net().to(DEVICE)", "Net(width=12).to(DEVICE)"),
    Edit("lazy_fit", "harmless", "size=4, length=10", "size=6, length=12"),
    Edit("lazy_fit", "harmless", "        schedule.step()\n", "        schedule.step()\n        print(step, schedule.get_last_lr(), total.shape)\n"),
    Edit("lazy_fit", "harmless", "        x = torch.relu(self.norm(self.conv(x)))\n", "        x = nn.functional.silu(self.conv(x))\n"),
    Edit("lazy_generate", "access", _TOKEN, f"{_TOKEN}        if (token == 3).all():\n            break\n"),
    Edit("lazy_generate", "access", "        position = position + 1\n", "        position = torch.tensor([int(position) + 1], device=DEVICE)\n"),
    Edit("lazy_generate", "access", "        mixed = scores.softmax(-1) @ values\n", "        mixed = scores.softmax(-1) @ values\n        self.largest = scores.detach().max().cpu()\n"),
    Edit("lazy_generate", "sync", _TOKEN, f"        torch_xla.sync()\n{_TOKEN}"),
    Edit("lazy_generate", "cache", _TOKEN, f"        LOGITS.append(logits)\n        logits = torch.stack(LOGITS).mean(0)\n{_TOKEN}"),
    Edit("lazy_generate", "cache", "        logits, keys, values = model(token, position, keys, values)\n", "        logits, keys, values = model(token, position, keys, values)\n        prefix = out[:, : index + 1].sum()\n        logits = logits + 0 * prefix\n"),
    Edit("lazy_generate", "cache", "        out = out.index_copy(1, position, token)\n", "        out[:, index] = token[:, 0]\n"),
    Edit("lazy_generate", "constant", _TOKEN, "        token = (logits / (1.0 + index)).argmax(-1)\n"),
    Edit("lazy_generate", "more runs", ".to(DEVICE), 5)", ".to(DEVICE), 6)"),
    Edit("lazy_generate", "harmless", "        scores = (query @ keys.transpose(1, 2)).masked_fill(~seen, -1e9)\n", "        scores = torch.where(seen, query @ keys.transpose(1, 2), -1e9)\n"),
    Edit("lazy_generate", "harmless", "LIMIT = 8", "LIMIT = 12"),
    Edit("lazy_generate", "harmless", "    return out.cpu()\n", "    out = out.cpu()\n    print(out.tolist())\n    return out\n"),
    Edit("lazy_generate", "harmless", "        token = logits.argmax(-1)\n", "        token = logits.softmax(-1).argmax(-1)\n"),
    Edit("openxla_score", "break", _RESIDUAL, f"        print(hidden.shape)\n{_RESIDUAL}"),
    Edit("openxla_score", "break", _RESIDUAL, f"        hidden = hidden / max(1.0, hidden.abs().max().item())\n{_RESIDUAL}"),
    Edit("openxla_score", "break", "        return self.head(x).squeeze(-1)\n", "        if torch.isnan(x).any():\n            x = torch.nan_to_num(x)\n        return self.head(x).squeeze(-1)\n"),
    Edit("openxla_score", "state", "            x = block(x)\n", "            x = block(x)\n        self.calls = getattr(self, 'calls', 0) + 1\n        x = x / self.calls\n"),
    Edit("openxla_score", "shape", _ROWS, "[torch.ones(4 - number // 2, 8) for number in range(3)]"),
    Edit("openxla_score", "type", "run(row.to(DEVICE))", "run(row.to(DEVICE).requires_grad_(number == 1))"),
    Edit("openxla_score", "compile removed", _RUN, "run = model"),
    Edit("openxla_score", "compile removed", _RUN, 'model.blocks[0].compile(backend="openxla"); run = model'),
    Edit("openxla_score", "compile removed", "class Scorer", "Block.forward = torch.compiler.disable(Block.forward)\n\n\nclass Scorer"),
    Edit("openxla_score", "more runs", "range(3)]", "range(4)]"),
    Edit("openxla_score", "harmless", _RUN, 'run = torch.compile(model, backend="openxla", fullgraph=True)'),
    Edit("openxla_score", "harmless", "nn.functional.gelu(", "nn.functional.relu("),
    Edit("openxla_score", "harmless", "depth=2", "depth=1"),
    Edit("openxla_score", "harmless", "        found.append(scores.cpu())\n", "        scores = scores.cpu()\n        found.append(scores)\n        print(number, scores.tolist())\n"),
    Edit("openxla_score", "harmless", "torch.ones(4, 8)", "torch.ones(6, 8)"),
)  # fmt: skip

PROGRAMS: Final = {
    "flax_fit": _FLAX,
    "scan_decode": _EQUINOX,
    "lazy_fit": _LAZY_FIT,
    "lazy_generate": _LAZY_GENERATE,
    "openxla_score": _OPENXLA,
}
