# ruff: noqa: E501  # an edit is a line of the table
"""Programs of JAX and of lazy torch_xla, a test each, with the edits of their lines."""

from __future__ import annotations

from typing import Final

from benchmarks.planted.edits import Edit

_JAX_HEAD = """
import functools
import jax
import numpy as np
from jax import numpy as jnp
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)
"""
_TRAIN = (
    _JAX_HEAD
    + """
def loss(w, x, y):
    h = jnp.tanh(x @ w["a"])
    pass  # MODEL
    return jnp.mean((h @ w["b"] - y) ** 2)

@functools.partial(jax.jit, donate_argnums=0)
def step(w, x, y, rate):
    value, grads = jax.value_and_grad(loss)(w, x, y)
    pass  # STEP
    return {k: w[k] - rate * grads[k] for k in w}, value

def test_program():
    w = {"a": jnp.asarray(ones(4, 8)), "b": jnp.asarray(ones(8, 1))}
    for n in range(3):
        x, y, rate = ones(16, 4), ones(16, 1), np.float32(0.1)
        pass  # CALL
        w, value = step(w, x, y, rate)
"""
)
_DECODE = (
    _JAX_HEAD
    + """
@functools.partial(jax.jit, static_argnames="top")
def decode(cache, token, at, top=1):
    cache = jax.lax.dynamic_update_slice(cache, token[None], (at, 0))
    pass  # MODEL
    return cache, jnp.argsort(cache.sum(0))[-top:]

def test_program():
    cache = ones(8, 4)
    for n in range(3):
        token, at, top = ones(4), np.int32(n), 1
        pass  # CALL
        cache, best = decode(cache, token, at, top=top)
        cache = np.asarray(cache)
"""
)
_SCAN = (
    _JAX_HEAD
    + """
def cell(carry, x):
    carry = jnp.tanh(carry + x)
    pass  # MODEL
    return carry, carry

def encode(x):
    return jax.lax.scan(cell, np.zeros(4, np.float32), x)[0]

encoded = jax.jit(jax.vmap(encode))

def test_program():
    for n in range(3):
        x = ones(2, 6, 4)
        pass  # CALL
        encoded(x)
"""
)
_SHARDED = (
    _JAX_HEAD
    + """
mesh = Mesh(np.array(jax.devices()[:8]), ("data",))
split = NamedSharding(mesh, P("data"))

@jax.jit
def layer(x, w):
    h = x @ w
    pass  # MODEL
    return jax.nn.relu(h)

def test_program():
    w = jax.device_put(ones(4, 4), NamedSharding(mesh, P()))
    for n in range(2):
        x = jax.device_put(ones(16, 4), split)
        pass  # CALL
        layer(x, w)
"""
)

JAX: Final = (
    Edit("jax_train", "callback", "pass  # MODEL", 'jax.debug.print("{}", h.sum())'),
    Edit("jax_train", "callback", "pass  # STEP", "value = jax.pure_callback(np.abs, jax.ShapeDtypeStruct((), np.float32), value)"),
    Edit("jax_decode", "callback", "pass  # MODEL", "io_callback(print, None, at)"),
    Edit("jax_scan", "callback", "pass  # MODEL", 'jax.debug.callback(lambda v: None, x)'),
    Edit("jax_sharded", "callback", "pass  # MODEL", 'jax.debug.print("{}", h[0, 0])'),
    Edit("jax_train", "shape", "pass  # CALL", "x, y = (x[:9], y[:9]) if n == 2 else (x, y)"),
    Edit("jax_decode", "shape", "pass  # CALL", "cache = ones(8 + n, 4)"),
    Edit("jax_scan", "shape", "pass  # CALL", "x = ones(2, 5 + n, 4)"),
    Edit("jax_sharded", "shape", "pass  # CALL", "x = jax.device_put(ones(8 + 8 * n, 4), split)"),
    Edit("jax_train", "weak type", "pass  # CALL", "rate = 0.1 if n else np.float32(0.1)"),
    Edit("jax_decode", "weak type", "pass  # CALL", "at = n if n else np.int32(0)"),
    Edit("jax_train", "type", "pass  # CALL", "y = y.astype(np.float16) if n == 1 else y"),
    Edit("jax_scan", "type", "pass  # CALL", "x = x.astype(np.int32) if n else x"),
    Edit("jax_decode", "static", "pass  # CALL", "top = 1 + n"),
    Edit("jax_train", "pytree", "pass  # CALL", 'w = dict(w, bias=np.float32(0)) if n == 1 else w'),
    Edit("jax_train", "pytree", "pass  # CALL", "rate = rate if n else None\n        rate = np.float32(0.1) if rate is None else [rate][0]"),
    Edit("jax_scan", "closure", "pass  # CALL", "encoded = jax.jit(lambda x: jax.vmap(encode)(x))"),
    Edit("jax_scan", "closure", "pass  # CALL", "encoded = jax.jit(functools.partial(jax.vmap(encode)))"),
    Edit("jax_scan", "jit removed", "encoded = jax.jit(jax.vmap(encode))", "encoded = jax.vmap(encode)"),
    Edit("jax_decode", "eager", "pass  # CALL", "token = jnp.asarray(token) * 2"),
    Edit("jax_sharded", "sharding", "pass  # CALL", "x = jax.device_put(x, NamedSharding(mesh, P())) if n else x"),
    Edit("jax_sharded", "sharding", "pass  # CALL", "x = ones(16, 4) if n else x"),
    Edit("jax_train", "setting", "pass  # CALL", 'jax.config.update("jax_default_matmul_precision", "high" if n else None)'),
    Edit("jax_train", "harmless", "pass  # CALL", "rate = np.float32(0.1 / (n + 1))"),
    Edit("jax_decode", "harmless", "pass  # CALL", "token = token * 2"),
    Edit("jax_scan", "harmless", "pass  # MODEL", "carry = carry * 2"),
    Edit("jax_sharded", "harmless", "pass  # MODEL", "h = h + 1"),
    Edit("jax_train", "harmless", "pass  # MODEL", "h = h / (1 + jnp.abs(h))"),
    Edit("jax_decode", "harmless", "pass  # CALL", "token = np.resize(token, 4)"),
    Edit("jax_train", "harmless", "pass  # CALL", 'w = {"b": w["b"], "a": w["a"]}'),
)  # fmt: skip

_LAZY_HEAD = """
import torch
import torch_xla

def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype).to(torch_xla.device())

class Net(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.a = torch.nn.Linear(8, width)
        self.b = torch.nn.Linear(width, 8)

    def forward(self, x):
        h = torch.tanh(self.a(x))
        pass  # MODEL
        return self.b(h)
"""
_LAZY_TRAIN = (
    _LAZY_HEAD
    + """
def test_program():
    torch.manual_seed(0)
    net = Net().to(torch_xla.device())
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    torch_xla.sync()
    for n in range(3):
        x = ones(16, 8)
        pass  # CALL
        opt.zero_grad()
        loss = (net(x) ** 2).mean()
        pass  # STEP
        loss.backward()
        opt.step()
        torch_xla.sync()
"""
)
_LAZY_DECODE = (
    _LAZY_HEAD
    + """
def test_program():
    torch.manual_seed(0)
    net = Net().to(torch_xla.device())
    cache, token = ones(8, 8), ones(1, 8)
    torch_xla.sync()
    for n in range(4):
        at = torch.tensor([n]).to(torch_xla.device())
        cache = cache.index_copy(0, at, token)
        pass  # CALL
        token = net(cache).mean(0, keepdim=True)
        pass  # STEP
        torch_xla.sync()
"""
)
_LAZY_EVAL = (
    _LAZY_HEAD
    + """
def test_program():
    torch.manual_seed(0)
    net = Net().to(torch_xla.device())
    torch_xla.sync()
    seen = []
    with torch.no_grad():
        for n in range(3):
            x = ones(4, 8)
            pass  # CALL
            y = net(x)
            pass  # STEP
            seen.append(y.sum().item())
"""
)


LAZY: Final = (
    Edit("lazy_train", "access", "pass  # STEP", "loss.item()"),
    Edit("lazy_train", "access", "pass  # STEP", 'print("loss", loss)'),
    Edit("lazy_train", "access", "pass  # MODEL", "h = h * 2 if h.sum() > 0 else h"),
    Edit("lazy_eval", "access", "pass  # MODEL", "h.detach().cpu().numpy()"),
    Edit("lazy_decode", "access", "pass  # STEP", "assert bool((token == token).all())"),
    Edit("lazy_decode", "access", "pass  # STEP", "token.argmax(-1).tolist()"),
    Edit("lazy_train", "sync", "pass  # STEP", "torch_xla.sync()"),
    Edit("lazy_decode", "sync", "pass  # CALL", "torch_xla.sync()"),
    Edit("lazy_eval", "sync", "pass  # MODEL", "torch_xla.sync()"),
    Edit("lazy_train", "shape", "pass  # CALL", "x = x[:9] if n == 2 else x"),
    Edit("lazy_train", "shape", "pass  # CALL", "x = ones(8 + n, 8)"),
    Edit("lazy_eval", "shape", "pass  # CALL", "x = ones(2 + n, 8)"),
    Edit("lazy_eval", "shape", "pass  # CALL", "x = ones(3, 8) if n == 2 else x"),
    Edit("lazy_decode", "cache", "pass  # CALL", "cache = torch.cat([cache, token])"),
    Edit("lazy_decode", "cache", "pass  # CALL", "cache = cache[: 8 - n] * 1 if n else cache"),
    Edit("lazy_decode", "cache", "pass  # STEP", "token = torch.cat([token] * (n + 1)).mean(0, keepdim=True)"),
    Edit("lazy_train", "type", "pass  # CALL", "x = x.double().float() if n == 1 else x"),
    Edit("lazy_train", "constant", "pass  # MODEL", "h = torch.nn.functional.leaky_relu(h, float(torch.randint(1, 9, ())))"),
    Edit("lazy_decode", "constant", "pass  # CALL", "cache = torch.roll(cache, n, 0)"),
    Edit("lazy_eval", "constant", "pass  # CALL", "x = x.clamp(max=n + 1.5)"),
    Edit("lazy_train", "fallback", "pass  # MODEL", "h = h + torch.histc(h.detach(), 8).sum()"),
    Edit("lazy_eval", "fallback", "pass  # MODEL", "h = h + torch.median(h)"),
    Edit("lazy_train", "harmless", "pass  # CALL", "x = x * 0.5"),
    Edit("lazy_train", "harmless", "pass  # MODEL", "h = torch.sigmoid(h)"),
    Edit("lazy_decode", "harmless", "pass  # CALL", "cache = cache * 0.5 + 0.25"),
    Edit("lazy_eval", "harmless", "pass  # CALL", "x = x + 3"),
    Edit("lazy_eval", "harmless", "pass  # STEP", "y = y.detach().clone()"),
    Edit("lazy_decode", "harmless", "pass  # STEP", "token = token.relu()"),
)  # fmt: skip

# Programs and edits that entries were not worked on with.

_NESTED = (
    _JAX_HEAD
    + """
@jax.jit
def normalise(x):
    pass  # INNER
    return (x - x.mean()) / (x.std() + 1)

@jax.jit
def project(x, w):
    h = normalise(x) @ w
    pass  # MODEL
    return jnp.tanh(h)

def test_program():
    w = jnp.asarray(ones(4, 4))
    for n in range(2):
        x = ones(8, 4)
        pass  # CALL
        y = project(x, w)
        z = normalise(x)
        pass  # AFTER
"""
)
_FIT = (
    _JAX_HEAD
    + """
def predict(params, x, scale=1.0):
    for layer in params:
        x = jnp.tanh(x @ layer) * scale
        pass  # MODEL
    return x.sum()

update = jax.jit(jax.value_and_grad(predict), static_argnames="scale")
score = jax.jit(predict)

def fit(params, batches):
    for n, x in enumerate(batches):
        pass  # CALL
        value, grads = update(params, x)
        params = [np.asarray(p - 0.1 * g) for p, g in zip(params, map(np.asarray, grads))]
        score(params, x)
    return params

def test_program():
    params = [ones(4, 4), ones(4, 4)]
    fit(params, [ones(8, 4) for _ in range(3)])
"""
)

JAX_OTHER: Final = (
    Edit("jax_nested", "callback", "pass  # MODEL", "jax.debug.callback(print, h.max())"),
    Edit("jax_nested", "callback", "pass  # INNER", "x = jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)"),
    Edit("jax_fit", "callback", "pass  # MODEL", "jax.debug.print('{x}', x=x[0])"),
    Edit("jax_nested", "shape", "pass  # CALL", "x = x[: 8 - n]"),
    Edit("jax_fit", "shape", "[ones(8, 4) for _ in range(3)]", "[ones(8 - n, 4) for n in range(3)]"),
    Edit("jax_fit", "type", "pass  # CALL", "x = x.astype(np.float16) if n == 2 else x"),
    Edit("jax_nested", "weak type", "z = normalise(x)", "z = normalise(2.0 if n else x)"),
    Edit("jax_fit", "static", "update(params, x)", "update(params, x, scale=1.0 + n)"),
    Edit("jax_fit", "pytree", "pass  # CALL", "params = tuple(params) if n == 1 else params"),
    Edit("jax_fit", "pytree", "pass  # CALL", "params = [*params, ones(4, 4)]"),
    Edit("jax_fit", "closure", "pass  # CALL", "update = jax.jit(jax.value_and_grad(lambda p, v: predict(p, v)))"),
    Edit("jax_nested", "closure", "pass  # CALL", "normalise = jax.jit(lambda v: v / (v.std() + n))"),
    Edit("jax_nested", "jit added", "pass  # AFTER", "jax.jit(jnp.tanh)(z)"),
    Edit("jax_nested", "jit added", "y = project(x, w)", "y = jax.jit(lambda v: project(v, w))(x)"),
    Edit("jax_nested", "jit removed", "@jax.jit\ndef project", "def project"),
    Edit("jax_nested", "jit removed", "@jax.jit\ndef normalise", "def normalise"),
    Edit("jax_fit", "jit removed", "score = jax.jit(predict)", "score = predict"),
    Edit("jax_nested", "eager", "pass  # AFTER", "z = z - y.mean()"),
    Edit("jax_fit", "setting", "pass  # CALL", "jax.config.update('jax_enable_x64', n > 1)"),
    Edit("jax_fit", "harmless", "pass  # CALL", "x = x * 2 - n"),
    Edit("jax_nested", "harmless", "pass  # INNER", "x = x * 2"),
    Edit("jax_fit", "harmless", "pass  # MODEL", "x = x + 1"),
    Edit("jax_nested", "harmless", "pass  # AFTER", "assert float(z[0, 0]) < 99"),
)  # fmt: skip

_LAZY_BATCHES = (
    _LAZY_HEAD
    + """
def evaluate(net, batches):
    total = []
    for n, x in enumerate(batches):
        pass  # CALL
        y = net(x)
        pass  # STEP
        torch_xla.sync()
        total.append(y)
    return total

def test_program():
    torch.manual_seed(0)
    net = Net().to(torch_xla.device()).eval()
    batches = [ones(4, 8) for n in range(4)]
    torch_xla.sync()
    with torch.no_grad():
        evaluate(net, batches)
"""
)

LAZY_OTHER: Final = (
    Edit("lazy_batches", "access", "pass  # STEP", "print(y.norm())"),
    Edit("lazy_batches", "access", "pass  # MODEL", "h = h[h.sum(-1) > -9]"),
    Edit("lazy_batches", "access", "pass  # STEP", "assert torch.isfinite(y).all()"),
    Edit("lazy_batches", "access", "pass  # CALL", "x = torch.tensor(x.cpu().numpy() * 2).to(torch_xla.device()) + x"),
    Edit("lazy_batches", "sync", "pass  # MODEL", "torch_xla.sync()"),
    Edit("lazy_batches", "shape", "pass  # CALL", "x = x[: 4 - n // 2]"),
    Edit("lazy_batches", "shape", "[ones(4, 8) for n in range(4)]", "[ones(4 + n, 8) for n in range(4)]"),
    Edit("lazy_batches", "cache", "pass  # STEP", "y = torch.cat([*total, y])"),
    Edit("lazy_batches", "type", "pass  # CALL", "x = x.bfloat16().float() if n == 3 else x"),
    Edit("lazy_batches", "constant", "pass  # STEP", "y = y[:, n:]"),
    Edit("lazy_batches", "fallback", "pass  # MODEL", "h = h + torch.histc(h, 8).sum()"),
    Edit("lazy_batches", "harmless", "pass  # MODEL", "h = h * 2"),
    Edit("lazy_batches", "harmless", "pass  # STEP", "y = torch.softmax(y, -1)"),
    Edit("lazy_batches", "harmless", "pass  # CALL", "assert x.shape[0] == 4"),
)  # fmt: skip

PROGRAMS: Final = {
    "jax_train": _TRAIN,
    "jax_nested": _NESTED,
    "jax_fit": _FIT,
    "lazy_batches": _LAZY_BATCHES,
    "jax_decode": _DECODE,
    "jax_scan": _SCAN,
    "jax_sharded": _SHARDED,
    "lazy_train": _LAZY_TRAIN,
    "lazy_decode": _LAZY_DECODE,
    "lazy_eval": _LAZY_EVAL,
}
