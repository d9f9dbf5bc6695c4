"""A third set of programs of JAX and torch_xla with edits, written before any was run under the gate.

A decoder of flax.nnx with a cache, a differential equation that is fitted on a mesh, lazy training
with an evaluation, a lazy diffusion loop, and a recommender compiled with the backend ``openxla``.
"""

from __future__ import annotations

from typing import Final

from benchmarks.planted.edits import Edit

# ruff: noqa: E501  # an edit is a line of the table

_NNX: Final = """
import jax
import numpy as np
from flax import nnx
from jax import numpy as jnp

LIMIT = 12


class Block(nnx.Module):
    def __init__(self, width, heads, rngs):
        self.heads = heads
        self.norm = nnx.RMSNorm(width, rngs=rngs)
        self.qkv = nnx.Linear(width, 3 * width, rngs=rngs)
        self.out = nnx.Linear(width, width, rngs=rngs)
        self.up = nnx.Linear(width, 2 * width, rngs=rngs)
        self.down = nnx.Linear(2 * width, width, rngs=rngs)

    def attend(self, query, keys, values, position):
        scores = jnp.einsum("bhd,bthd->bht", query, keys) / query.shape[-1] ** 0.5
        scores = jnp.where(jnp.arange(LIMIT) <= position, scores, -1e9)
        return jnp.einsum("bht,bthd->bhd", jax.nn.softmax(scores), values)

    def __call__(self, x, keys, values, position):
        parts = jnp.split(self.qkv(self.norm(x)), 3, -1)
        query, key, value = (one.reshape(x.shape[0], self.heads, -1) for one in parts)
        keys = jax.lax.dynamic_update_slice_in_dim(keys, key[:, None], position, 1)
        values = jax.lax.dynamic_update_slice_in_dim(values, value[:, None], position, 1)
        mixed = self.attend(query, keys, values, position)
        x = x + self.out(mixed.reshape(x.shape))
        return x + self.down(nnx.gelu(self.up(x))), keys, values


class Decoder(nnx.Module):
    def __init__(self, vocabulary, width, heads, depth, rngs):
        self.embed = nnx.Embed(vocabulary, width, rngs=rngs)
        self.blocks = nnx.List([Block(width, heads, rngs) for _ in range(depth)])
        self.head = nnx.Linear(width, vocabulary, rngs=rngs)
        self.shape = (LIMIT, heads, width // heads)

    def empty(self, size):
        zeros = np.zeros((size, *self.shape), np.float32)
        return [(zeros, zeros) for _ in self.blocks]

    def __call__(self, token, cache, position):
        x = self.embed(token)
        after = []
        for block, (keys, values) in zip(self.blocks, cache):
            x, keys, values = block(x, keys, values, position)
            after.append((keys, values))
        return self.head(x), after


@nnx.jit
def step(model, token, cache, position, key, temperature):
    logits, cache = model(token, cache, position)
    token = jax.random.categorical(key, logits / temperature)
    return token, cache


class Chat:
    def __init__(self, model, temperature=0.7):
        self.model = model
        self.temperature = np.float32(temperature)
        self.keys = np.asarray(jax.random.split(jax.random.PRNGKey(3), LIMIT))

    def answer(self, prompt, length):
        cache = self.model.empty(len(prompt))
        tokens = [prompt[:, n] for n in range(prompt.shape[1])]
        for n in range(prompt.shape[1] + length - 1):
            token = tokens[n]
            position = np.int32(n)
            token, cache = step(self.model, token, cache, position, self.keys[n], self.temperature)
            if n + 1 >= prompt.shape[1]:
                tokens.append(np.asarray(token, np.int32))
        return np.stack(tokens, 1)


def test_program():
    chat = Chat(Decoder(16, 8, 2, depth=2, rngs=nnx.Rngs(0)))
    prompts = [np.ones((2, 3), np.int32), np.full((2, 3), 4, np.int32)]
    answers = [chat.answer(prompt, 4) for prompt in prompts]
    assert answers[0].shape == (2, 7)
"""

_ODE: Final = """
import dataclasses
import functools

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

MESH = Mesh(np.array(jax.devices()[:4]), ("data",))


@dataclasses.dataclass(frozen=True)
class Settings:
    steps: int = 6
    tolerance: float = 1e-2
    most: int = 20


def field(params, time, y):
    hidden = jnp.tanh(params["enter"] @ y + params["time"] * time)
    return params["leave"] @ hidden


def advanced(params, time, y, size):
    one = field(params, time, y)
    two = field(params, time + size / 2, y + size / 2 * one)
    three = field(params, time + size, y + size * two)
    return y + size * (one + 4 * two + three) / 6, y + size * two


def solve(params, y, settings):
    size = 1.0 / settings.steps

    def body(y, time):
        y, _ = advanced(params, time, y, size)
        return y, y

    times = jnp.linspace(0.0, 1.0, settings.steps, endpoint=False)
    return lax.scan(body, y, times)[0]


@functools.partial(jax.jit, static_argnames="settings")
def adaptive(params, starts, settings):
    def going(carry):
        time, _, _, number = carry
        return (time < 1.0) & (number < settings.most)

    def body(carry):
        time, y, size, number = carry
        size = jnp.minimum(size, 1.0 - time)
        better, worse = advanced(params, time, y, size)
        right = jnp.abs(better - worse).max() < settings.tolerance
        time = jnp.where(right, time + size, time)
        y = jnp.where(right, better, y)
        return time, y, jnp.where(right, 1.5 * size, 0.5 * size), number + 1

    run = lambda y: lax.while_loop(going, body, (0.0, y, 0.25, 0))
    _, ends, _, numbers = jax.vmap(run)(starts)
    return ends, numbers.max()


def trainer(settings):
    def local(params, starts, ends, rate):
        def loss_of(params):
            found = jax.vmap(lambda y: solve(params, y, settings))(starts)
            return jnp.square(found - ends).mean()

        loss, grads = jax.value_and_grad(loss_of)(params)
        grads = lax.pmean(grads, "data")
        return jax.tree.map(lambda p, g: p - rate * g, params, grads), lax.pmean(loss, "data")

    specs = {"in_specs": (P(), P("data"), P("data"), P()), "out_specs": P()}
    return jax.jit(jax.shard_map(local, mesh=MESH, check_vma=False, **specs))


def batches(number, size=8):
    rng = np.random.default_rng(0)
    for _ in range(number):
        starts = rng.normal(size=(size, 2)).astype(np.float32)
        yield starts, np.stack([starts[:, 1], -starts[:, 0]], 1)


def initial(width):
    rng = np.random.default_rng(1)
    shapes = {"enter": (width, 2), "time": (width,), "leave": (2, width)}
    params = {name: 0.3 * rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return jax.device_put(params, NamedSharding(MESH, P()))


def test_program():
    settings = Settings()
    params = initial(width=6)
    update = trainer(settings)
    losses = []
    for epoch in range(2):
        for starts, ends in batches(2):
            rate = np.float32(0.1)
            params, loss = update(params, starts, ends, rate)
            losses.append(loss)
        found, number = adaptive(params, starts, settings)
        print(epoch, int(number), float(losses[-1]))
    assert found.shape[1] == 2
"""

_WRITTEN: Final = (
    "        keys = jax.lax.dynamic_update_slice_in_dim(keys, key[:, None], position, 1)\n"
)
_STEPPED: Final = "            token, cache = step(self.model, token, cache, position, self.keys[n], self.temperature)\n"
_EMPTY: Final = "        cache = self.model.empty(len(prompt))\n"
_LOGITS: Final = "    logits, cache = model(token, cache, position)\n"
_RATE: Final = "            rate = np.float32(0.1)\n"
_MEAN_GRADS: Final = '        grads = lax.pmean(grads, "data")\n'
_RIGHT: Final = "        right = jnp.abs(better - worse).max() < settings.tolerance\n"
_ADAPTED: Final = "        found, number = adaptive(params, starts, settings)\n"

JAX: Final = (
    Edit("nnx_chat", "shape", "np.full((2, 3), 4, np.int32)]", "np.full((1, 3), 4, np.int32)]"),
    Edit("nnx_chat", "weak type", "            position = np.int32(n)\n", "            position = n if n >= prompt.shape[1] else np.int32(n)\n"),
    Edit("nnx_chat", "type", "tokens.append(np.asarray(token, np.int32))", "tokens.append(np.asarray(token, np.uint8))"),
    Edit("nnx_chat", "static", "@nnx.jit\ndef step", '@nnx.jit(static_argnames="position")\ndef step'),
    Edit("nnx_chat", "static", _EMPTY, f"{_EMPTY}        self.model.turns = getattr(self.model, 'turns', 0) + 1\n"),
    Edit("nnx_chat", "pytree", _EMPTY, f"{_EMPTY}        cache = tuple(cache)\n"),
    Edit("nnx_chat", "pytree", "        return np.stack(tokens, 1)\n", "        self.model.seen = nnx.Variable(np.int32(len(tokens)))\n        return np.stack(tokens, 1)\n"),
    Edit("nnx_chat", "closure", _STEPPED, "            run = nnx.jit(lambda model, token, cache: step(model, token, cache, position, self.keys[n], self.temperature))\n            token, cache = run(self.model, token, cache)\n"),
    Edit("nnx_chat", "jit removed", "@nnx.jit\ndef step", "def step"),
    Edit("nnx_chat", "eager", "                tokens.append(np.asarray(token, np.int32))\n", "                tokens.append(np.asarray(jnp.clip(token, 1, 15), np.int32))\n"),
    Edit("nnx_chat", "eager", "self.keys[n], self.temperature)\n", "jax.random.split(self.keys[n])[1], self.temperature)\n"),
    Edit("nnx_chat", "callback", _LOGITS, f'{_LOGITS}    jax.debug.print("{{}} {{}}", position, logits.max())\n'),
    Edit("nnx_chat", "callback", "        mixed = self.attend(query, keys, values, position)\n", "        mixed = self.attend(query, keys, values, position)\n        jax.debug.callback(lambda norm: None, jnp.linalg.norm(mixed))\n"),
    Edit("nnx_chat", "harmless", "nnx.gelu(", "nnx.silu("),
    Edit("nnx_chat", "harmless", "depth=2", "depth=1"),
    Edit("nnx_chat", "harmless", "chat.answer(prompt, 4)", "chat.answer(prompt, 6)[:, :7]"),
    Edit("nnx_chat", "harmless", "temperature=0.7", "temperature=1.3"),
    Edit("nnx_chat", "harmless", "        return np.stack(tokens, 1)\n", "        found = np.stack(tokens, 1)\n        for row in found.tolist():\n            print(*row)\n        return found\n"),
    Edit("nnx_chat", "harmless", "            if n + 1 >= prompt.shape[1]:\n                tokens.append(np.asarray(token, np.int32))\n", "            token = np.asarray(token, np.int32)\n            if n >= prompt.shape[1] - 1:\n                tokens.append(token)\n"),
    Edit("nnx_chat", "harmless", "    token = jax.random.categorical(key, logits / temperature)\n", "    noise = jax.random.gumbel(key, logits.shape, logits.dtype)\n    token = jnp.argmax(logits / temperature + noise, axis=-1)\n"),
    Edit("ode_fit", "shape", "    for _ in range(number):\n", "    for index in range(number):\n        size = 8 if index == 0 else 4\n"),
    Edit("ode_fit", "shape", _ADAPTED, "        found, number = adaptive(params, starts[: 8 - 4 * epoch], settings)\n"),
    Edit("ode_fit", "type", "        for starts, ends in batches(2):\n", "        for starts, ends in batches(2):\n            ends = ends.astype(np.float16) if epoch else ends\n"),
    Edit("ode_fit", "weak type", _RATE, "            rate = 0.1 if epoch else np.float32(0.1)\n"),
    Edit("ode_fit", "static", _ADAPTED, "        settings = dataclasses.replace(settings, tolerance=settings.tolerance / 2)\n" + _ADAPTED),
    Edit("ode_fit", "closure", "        for starts, ends in batches(2):\n", "        update = trainer(dataclasses.replace(settings, steps=6 + 2 * epoch))\n        for starts, ends in batches(2):\n"),
    Edit("ode_fit", "closure", "            params, loss = update(params, starts, ends, rate)\n", "            params, loss = trainer(settings)(params, starts, ends, rate)\n"),
    Edit("ode_fit", "sharding", "            params, loss = update(params, starts, ends, rate)\n", '            if epoch:\n                starts, ends = jax.device_put((starts, ends), NamedSharding(MESH, P("data")))\n            params, loss = update(params, starts, ends, rate)\n'),
    Edit("ode_fit", "sharding", "        print(epoch, int(number), float(losses[-1]))\n", "        params = jax.device_get(params)\n        print(epoch, int(number), float(losses[-1]))\n"),
    Edit("ode_fit", "jit removed", '@functools.partial(jax.jit, static_argnames="settings")\ndef adaptive', "def adaptive"),
    Edit("ode_fit", "callback", _RIGHT, f'{_RIGHT}        jax.debug.print("{{}} {{}}", time, size)\n'),
    Edit("ode_fit", "callback", _MEAN_GRADS, f'{_MEAN_GRADS}        jax.debug.callback(lambda loss: None, loss)\n'),
    Edit("ode_fit", "eager", "            losses.append(loss)\n", "            losses.append(loss)\n            smooth = sum(losses) / len(losses)\n"),
    Edit("ode_fit", "setting", "    for epoch in range(2):\n", '    for epoch in range(2):\n        jax.config.update("jax_default_matmul_precision", "highest" if epoch else "default")\n'),
    Edit("ode_fit", "harmless", "    steps: int = 6\n", "    steps: int = 10\n"),
    Edit("ode_fit", "harmless", "    tolerance: float = 1e-2\n    most: int = 20\n", "    tolerance: float = 1e-3\n    most: int = 50\n"),
    Edit("ode_fit", "harmless", _RATE, "            rate = np.float32(0.1 / (1 + epoch))\n"),
    Edit("ode_fit", "harmless", "    for epoch in range(2):\n", "    for epoch in range(4):\n"),
    Edit("ode_fit", "harmless", "jnp.tanh(params", "jax.nn.softplus(params"),
    Edit("ode_fit", "harmless", "return jnp.square(found - ends).mean()", "return jnp.abs(found - ends).mean()"),
    Edit("ode_fit", "harmless", "            losses.append(loss)\n", "            losses.append(float(loss))\n            print('loss', losses[-1], max(losses))\n"),
    Edit("ode_fit", "harmless", "        return jax.tree.map(lambda p, g: p - rate * g, params, grads), lax.pmean(loss, \"data\")\n", "        size = jnp.sqrt(sum(jnp.square(g).sum() for g in jax.tree.leaves(grads)))\n        params = jax.tree.map(lambda p, g: p - rate * g / jnp.maximum(1.0, size), params, grads)\n        return params, lax.pmean(loss, \"data\")\n"),
)  # fmt: skip

_SEGMENT: Final = """
import copy

import torch
import torch_xla
from torch import nn

DEVICE = torch_xla.device()


class Segmenter(nn.Module):
    def __init__(self, width=6, classes=3):
        super().__init__()
        self.enter = nn.Conv2d(1, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.deep = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.leave = nn.Conv2d(2 * width, classes, 1)

    def forward(self, x):
        x = torch.relu(self.norm(self.enter(x)))
        deep = torch.relu(self.deep(x))
        deep = nn.functional.interpolate(deep, scale_factor=2, mode="nearest")
        return self.leave(torch.cat([x, deep], 1))


def scenes(number, size=2, side=8):
    generator = torch.Generator().manual_seed(0)
    for _ in range(number):
        images = torch.rand(size, 1, side, side, generator=generator)
        yield images, (images[:, 0] * 3).long()


class Meter:
    def __init__(self, classes):
        self.counts = torch.zeros(classes, 2, device=DEVICE)

    def update(self, logits, masks):
        guesses = logits.argmax(1)
        for index in range(len(self.counts)):
            inside, right = guesses == index, masks == index
            self.counts[index, 0] += (inside & right).sum()
            self.counts[index, 1] += (inside | right).sum()

    def result(self):
        counts = self.counts.cpu()
        return (counts[:, 0] / counts[:, 1].clamp(min=1)).mean().item()


class Trainer:
    def __init__(self, model, rate):
        self.model = model
        self.average = copy.deepcopy(model)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        self.loss = torch.zeros((), device=DEVICE)
        torch_xla.sync()

    def step(self, images, masks):
        images, masks = images.to(DEVICE), masks.to(DEVICE)
        loss = nn.functional.cross_entropy(self.model(images), masks)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.follow()
        self.loss = loss.detach()
        torch_xla.sync()

    @torch.no_grad()
    def follow(self):
        for kept, new in zip(self.average.parameters(), self.model.parameters()):
            kept.lerp_(new, 0.1)

    def fit(self, loader):
        self.model.train()
        for number, (images, masks) in enumerate(loader):
            self.step(images, masks)
        return self.loss.item()

    @torch.no_grad()
    def evaluate(self, loader):
        self.average.eval()
        meter = Meter(3)
        torch_xla.sync()
        for number, (images, masks) in enumerate(loader):
            logits = self.average(images.to(DEVICE))
            meter.update(logits, masks.to(DEVICE))
            torch_xla.sync()
        return meter.result()


def test_program():
    torch.manual_seed(0)
    trainer = Trainer(Segmenter().to(DEVICE), rate=0.05)
    for epoch in range(2):
        loss = trainer.fit(scenes(3))
        score = trainer.evaluate(scenes(2))
    assert loss > 0 and score >= 0
"""

_DIFFUSE: Final = """
import math

import torch
import torch_xla
from torch import nn

DEVICE = torch_xla.device()


class Mixer(nn.Module):
    def __init__(self, width, places):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.across = nn.Linear(places, places)
        self.along = nn.Linear(width, width)

    def forward(self, x):
        x = x + self.across(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.along(nn.functional.gelu(x))


class Denoiser(nn.Module):
    def __init__(self, width=8, places=6, depth=2):
        super().__init__()
        self.mixers = nn.ModuleList(Mixer(width, places) for _ in range(depth))
        self.time = nn.Linear(2, width)

    def forward(self, x, time):
        angle = time * math.pi / 2
        x = x + self.time(torch.cat([angle.sin(), angle.cos()], -1))
        for mixer in self.mixers:
            x = mixer(x)
        return x


class Sampler:
    def __init__(self, model, steps, guidance=1.5):
        self.model = model
        self.steps = steps
        self.guidance = guidance
        self.times = torch.linspace(1, 0.1, steps).view(steps, 1, 1)

    def noise(self, x, time):
        guess = self.model(x, time)
        plain = self.model(torch.zeros_like(x), time)
        return plain + self.guidance * (guess - plain)

    def update(self, x, time, before):
        noise = self.noise(x, time)
        clean = (x - time * noise).clamp(-3, 3)
        return clean + before * noise

    @torch.no_grad()
    def sample(self, number, seed):
        x = torch.randn(number, 6, 8, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
        times = self.times.to(DEVICE)
        moments = list(times.unbind(0))
        torch_xla.sync()
        for index in range(self.steps - 1):
            time, before = moments[index], moments[index + 1]
            x = self.update(x, time, before)
            torch_xla.sync()
        return x.cpu()


def test_program():
    torch.manual_seed(0)
    model = Denoiser().to(DEVICE).eval()
    sampler = Sampler(model, steps=5)
    drawn = [sampler.sample(3, seed) for seed in (1, 2)]
    assert torch.cat(drawn).shape[1:] == (6, 8)
"""

_RECOMMEND: Final = """
import torch
import torch_xla
from torch import nn

DEVICE = torch_xla.device()
POPULAR = []


class Tower(nn.Module):
    def __init__(self, number, width):
        super().__init__()
        self.embed = nn.Embedding(number, width)
        self.dense = nn.Linear(width, width)

    def forward(self, ids):
        pooled = self.embed(ids).mean(1)
        hidden = torch.relu(self.dense(pooled))
        return hidden


class Ranker(nn.Module):
    def __init__(self, users=20, items=30, width=8):
        super().__init__()
        self.user = Tower(users, width)
        self.item = Tower(items, width)
        self.bias = nn.Parameter(torch.zeros(1))
        self.served = 0

    def crossed(self, user, item):
        return (user * item).sum(-1)

    def forward(self, user, item):
        user, item = self.user(user), self.item(item)
        score = self.crossed(user, item) + self.bias
        return score.sigmoid()


def requests(number, size=4):
    generator = torch.Generator().manual_seed(0)
    for _ in range(number):
        user = torch.randint(0, 20, (size, 3), generator=generator)
        item = torch.randint(0, 30, (size, 2), generator=generator)
        yield user, item


class Service:
    def __init__(self, ranker):
        self.ranker = ranker.to(DEVICE).eval()
        self.rank = torch.compile(self.ranker, backend="openxla")
        torch_xla.sync()

    @torch.no_grad()
    def serve(self, user, item):
        scores = self.rank(user.to(DEVICE), item.to(DEVICE))
        torch_xla.sync()
        return scores.cpu()


def test_program():
    torch.manual_seed(0)
    service = Service(Ranker())
    found = []
    for number, (user, item) in enumerate(requests(3)):
        scores = service.serve(user, item)
        found.append(scores)
    assert torch.cat(found).dim() == 1
"""

_BACKWARD: Final = "        loss.backward()\n"
_TO_DEVICE: Final = "        images, masks = images.to(DEVICE), masks.to(DEVICE)\n"
_FOLLOW: Final = "        self.follow()\n"
_METERED: Final = "            meter.update(logits, masks.to(DEVICE))\n"
_DEEP: Final = "        deep = torch.relu(self.deep(x))\n"
_CLEAN: Final = "        clean = (x - time * noise).clamp(-3, 3)\n"
_NEXT: Final = "            x = self.update(x, time, before)\n"
_SCORE: Final = "        score = self.crossed(user, item) + self.bias\n"
_HIDDEN: Final = "        hidden = torch.relu(self.dense(pooled))\n"
_RANK: Final = 'self.rank = torch.compile(self.ranker, backend="openxla")'
_SERVED: Final = "        scores = self.rank(user.to(DEVICE), item.to(DEVICE))\n"

XLA: Final = (
    Edit("lazy_segment", "access", _BACKWARD, "        if torch.isnan(loss):\n            raise FloatingPointError('the loss is no number')\n" + _BACKWARD),
    Edit("lazy_segment", "access", "            self.step(images, masks)\n", "            self.step(images, masks)\n            print(f'{number}: {self.loss.item():.4f}')\n"),
    Edit("lazy_segment", "access", _METERED, f"{_METERED}            print(meter.result())\n"),
    Edit("lazy_segment", "access", "        guesses = logits.argmax(1)\n", "        guesses = logits.argmax(1)\n        assert int(guesses.max()) < len(self.counts)\n"),
    Edit("lazy_segment", "sync", _BACKWARD, f"{_BACKWARD}        torch_xla.sync()\n"),
    Edit("lazy_segment", "sync", "            self.counts[index, 1] += (inside | right).sum()\n", "            self.counts[index, 1] += (inside | right).sum()\n            torch_xla.sync()\n"),
    Edit("lazy_segment", "shape", "        images = torch.rand(size, 1, side, side, generator=generator)\n", "        images = torch.rand(size if _ + 1 < number else 1, 1, side, side, generator=generator)\n"),
    Edit("lazy_segment", "training", "            kept.lerp_(new, 0.1)\n", "            self.updates = getattr(self, 'updates', 0) + 1\n            kept.lerp_(new, 1 / (10 + self.updates))\n"),
    Edit("lazy_segment", "training", "torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)", "torch.optim.AdamW(model.parameters(), lr=rate)"),
    Edit("lazy_segment", "training", "        for number, (images, masks) in enumerate(loader):\n            self.step", "        for number, (images, masks) in enumerate(loader):\n            self.optimizer.param_groups[0]['lr'] *= 0.9\n            self.step"),
    Edit("lazy_segment", "constant", "        loss = nn.functional.cross_entropy(self.model(images), masks)\n", "        smoothing = torch.rand(()).item() / 10\n        loss = nn.functional.cross_entropy(self.model(images), masks, label_smoothing=smoothing)\n"),
    Edit("lazy_segment", "fallback", _DEEP, f"{_DEEP}        deep = deep - torch.nanmedian(deep)\n"),
    Edit("lazy_segment", "more runs", "trainer.fit(scenes(3))", "trainer.fit(scenes(5))"),
    Edit("lazy_segment", "harmless", "Segmenter().to(DEVICE)", "Segmenter(width=4).to(DEVICE)"),
    Edit("lazy_segment", "harmless", 'scale_factor=2, mode="nearest")', 'scale_factor=2, mode="bilinear")'),
    Edit("lazy_segment", "harmless", "            kept.lerp_(new, 0.1)\n", "            kept.mul_(0.95).add_(new, alpha=0.05)\n"),
    Edit("lazy_segment", "harmless", "        loss = trainer.fit(scenes(3))\n", "        loss = trainer.fit(scenes(3))\n        print(f'epoch {epoch}: {loss:.4f}')\n"),
    Edit("lazy_segment", "harmless", "        for index in range(len(self.counts)):\n            inside, right = guesses == index, masks == index\n            self.counts[index, 0] += (inside & right).sum()\n            self.counts[index, 1] += (inside | right).sum()\n", "        classes = torch.arange(len(self.counts), device=DEVICE).view(-1, 1, 1, 1)\n        inside, right = guesses == classes, masks == classes\n        both, either = (inside & right).sum((1, 2, 3)), (inside | right).sum((1, 2, 3))\n        self.counts += torch.stack([both, either], 1)\n"),
    Edit("lazy_diffuse", "access", _CLEAN, f"{_CLEAN}        if clean.abs().max() > 2.9:\n            clean = clean * 0.99\n"),
    Edit("lazy_diffuse", "access", "            time, before = moments[index], moments[index + 1]\n", "            time, before = moments[index], moments[index + 1]\n            print(f'step {index} at {float(time):.2f}')\n"),
    Edit("lazy_diffuse", "access", "        guess = self.model(x, time)\n", "        guess = self.model(x, time)\n        self.largest = max(getattr(self, 'largest', 0.0), guess.abs().max().item())\n"),
    Edit("lazy_diffuse", "sync", "            x = mixer(x)\n", "            x = mixer(x)\n            torch_xla.sync()\n"),
    Edit("lazy_diffuse", "constant", "            time, before = moments[index], moments[index + 1]\n", "            time = torch.full((1, 1), 1 - index / self.steps, device=DEVICE)\n            before = torch.full((1, 1), 1 - (index + 1) / self.steps, device=DEVICE)\n"),
    Edit("lazy_diffuse", "constant", "        noise = self.noise(x, time)\n", "        self.guidance = 0.9 * self.guidance\n        noise = self.noise(x, time)\n"),
    Edit("lazy_diffuse", "shape", "[sampler.sample(3, seed) for seed in (1, 2)]", "[sampler.sample(2 + seed, seed) for seed in (1, 2)]"),
    Edit("lazy_diffuse", "cache", _NEXT, "            history = [*history, x] if index else [x]\n            x = self.update(torch.stack(history).mean(0), time, before)\n"),
    Edit("lazy_diffuse", "type", _NEXT, "            with torch.autocast('xla', dtype=torch.bfloat16, enabled=index < 2):\n                x = self.update(x, time, before)\n"),
    Edit("lazy_diffuse", "fallback", _CLEAN, "        clean = x - time * noise\n        clean = clean / torch.quantile(clean.abs(), 0.9).clamp(min=1)\n"),
    Edit("lazy_diffuse", "more runs", "steps=5", "steps=7"),
    Edit("lazy_diffuse", "harmless", "guidance=1.5", "guidance=3.0"),
    Edit("lazy_diffuse", "harmless", "depth=2", "depth=1"),
    Edit("lazy_diffuse", "harmless", "torch.linspace(1, 0.1, steps)", "torch.linspace(1, 0.1, steps).square()"),
    Edit("lazy_diffuse", "harmless", "        return x.cpu()\n", "        x = x.cpu()\n        print(seed, x.std().item(), x.abs().max().item())\n        return x\n"),
    Edit("lazy_diffuse", "harmless", "        guess = self.model(x, time)\n        plain = self.model(torch.zeros_like(x), time)\n", "        both = self.model(torch.cat([x, torch.zeros_like(x)]), time)\n        guess, plain = both.chunk(2)\n"),
    Edit("lazy_diffuse", "harmless", "        return x + self.along(nn.functional.gelu(x))\n", "        hidden = self.along(nn.functional.silu(x))\n        return torch.add(x, hidden)\n"),
    Edit("openxla_rank", "break", _SCORE, f"{_SCORE}        POPULAR.append(score.max().item())\n"),
    Edit("openxla_rank", "break", _HIDDEN, f"{_HIDDEN}        if hidden.sum() == 0:\n            hidden = pooled\n"),
    Edit("openxla_rank", "break", "        pooled = self.embed(ids).mean(1)\n", "        assert ids.max() < self.embed.num_embeddings, 'an unknown id'\n        pooled = self.embed(ids).mean(1)\n"),
    Edit("openxla_rank", "break", _SCORE, f"{_SCORE}        import logging\n        logging.getLogger('rank').warning('scores %s', score.shape)\n"),
    Edit("openxla_rank", "state", _SCORE, f"        self.served += user.size(0)\n{_SCORE}        score = score / (1 + self.served)\n"),
    Edit("openxla_rank", "shape", "        user = torch.randint(0, 20, (size, 3), generator=generator)\n", "        user = torch.randint(0, 20, (size, 3 + _), generator=generator)\n"),
    Edit("openxla_rank", "type", "        yield user, item\n", "        yield user.int() if _ == 1 else user, item\n"),
    Edit("openxla_rank", "compile removed", _RANK, "self.rank = self.ranker"),
    Edit("openxla_rank", "compile removed", _RANK, 'self.ranker.item = torch.compile(self.ranker.item, backend="openxla"); self.rank = self.ranker'),
    Edit("openxla_rank", "compile removed", "    def crossed(self", "    @torch.compiler.disable\n    def crossed(self"),
    Edit("openxla_rank", "access", "        torch_xla.sync()\n        return scores.cpu()\n", "        if scores.max().item() > 0.99:\n            print('sure')\n        torch_xla.sync()\n        return scores.cpu()\n"),
    Edit("openxla_rank", "more runs", "requests(3)", "requests(4)"),
    Edit("openxla_rank", "harmless", "width=8):\n        super().__init__()\n        self.user", "width=12):\n        super().__init__()\n        self.user"),
    Edit("openxla_rank", "harmless", "        hidden = torch.relu(self.dense(pooled))\n        return hidden\n", "        return torch.tanh(self.dense(pooled))\n"),
    Edit("openxla_rank", "harmless", "        return (user * item).sum(-1)\n", '        return torch.einsum("bi,bi->b", user, item)\n'),
    Edit("openxla_rank", "harmless", "        found.append(scores)\n", "        found.append(scores)\n        print(number, [round(score, 3) for score in scores.tolist()])\n"),
    Edit("openxla_rank", "harmless", "requests(number, size=4)", "requests(number, size=6)"),
    Edit("openxla_rank", "harmless", _RANK, 'self.rank = torch.compile(self.ranker, backend="openxla", dynamic=False)'),
)  # fmt: skip

PROGRAMS: Final = {
    "nnx_chat": _NNX,
    "ode_fit": _ODE,
    "lazy_segment": _SEGMENT,
    "lazy_diffuse": _DIFFUSE,
    "openxla_rank": _RECOMMEND,
}
