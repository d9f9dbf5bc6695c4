# ruff: noqa: E501  # an edit is a line of the table
"""The programs of ``planted_devices``: a test each, with the line that is edited."""

from __future__ import annotations

from typing import NamedTuple


class Edit(NamedTuple):
    """One edit. ``template`` has ``<EDIT>`` for the line; an empty ``new`` takes it away."""

    name: str
    kind: str
    template: str
    old: str
    new: str
    calls_host: bool = False

    def _with(self, text: str) -> str:
        lines = []
        for line in self.template.split("\n"):
            if "<EDIT>" in line:
                indent = line[: len(line) - len(line.lstrip())]
                lines += [f"{indent}{part}" for part in (text or "pass").split("\n")]
            else:
                lines.append(line)
        return "\n".join(lines)

    @property
    def before(self) -> str:
        return self._with(self.old)

    @property
    def after(self) -> str:
        return self._with(self.new)

    @property
    def line(self) -> int:
        lines = self.template.split("\n")
        return next(number for number, line in enumerate(lines, 1) if "<EDIT>" in line)


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
    <MODEL>
    return jnp.mean((h @ w["b"] - y) ** 2)

@functools.partial(jax.jit, donate_argnums=0)
def step(w, x, y, rate):
    value, grads = jax.value_and_grad(loss)(w, x, y)
    <STEP>
    return {k: w[k] - rate * grads[k] for k in w}, value

def test_program():
    w = {"a": jnp.asarray(ones(4, 8)), "b": jnp.asarray(ones(8, 1))}
    for n in range(3):
        x, y, rate = ones(16, 4), ones(16, 1), np.float32(0.1)
        <CALL>
        w, value = step(w, x, y, rate)
"""
)
_DECODE = (
    _JAX_HEAD
    + """
@functools.partial(jax.jit, static_argnames="top")
def decode(cache, token, at, top=1):
    cache = jax.lax.dynamic_update_slice(cache, token[None], (at, 0))
    <MODEL>
    return cache, jnp.argsort(cache.sum(0))[-top:]

def test_program():
    cache = ones(8, 4)
    for n in range(3):
        token, at, top = ones(4), np.int32(n), 1
        <CALL>
        cache, best = decode(cache, token, at, top=top)
        cache = np.asarray(cache)
"""
)
_SCAN = (
    _JAX_HEAD
    + """
def cell(carry, x):
    carry = jnp.tanh(carry + x)
    <MODEL>
    return carry, carry

def encode(x):
    return jax.lax.scan(cell, np.zeros(4, np.float32), x)[0]

<JIT>

def test_program():
    for n in range(3):
        x = ones(2, 6, 4)
        <CALL>
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
    <MODEL>
    return jax.nn.relu(h)

def test_program():
    w = jax.device_put(ones(4, 4), NamedSharding(mesh, P()))
    for n in range(2):
        x = jax.device_put(ones(16, 4), split)
        <CALL>
        layer(x, w)
"""
)


def _of(template: str, at: str) -> str:
    """The template with the line to be edited, and nothing at the other places."""
    for name, other in (("MODEL", "pass"), ("STEP", "pass"), ("CALL", "pass")):
        template = template.replace(f"<{name}>", "<EDIT>" if name == at else other)
    return template.replace(
        "<JIT>", "<EDIT>" if at == "JIT" else "encoded = jax.jit(jax.vmap(encode))"
    )


_KIND = "jax.ShapeDtypeStruct(h.shape, h.dtype)"
JAX = (
    Edit("train_print", "callback", _of(_TRAIN, "MODEL"), "", 'jax.debug.print("{}", h.sum())', True),
    Edit("train_pure", "callback", _of(_TRAIN, "STEP"), "",
         "value = jax.pure_callback(np.abs, jax.ShapeDtypeStruct((), np.float32), value)", True),
    Edit("decode_io", "callback", _of(_DECODE, "MODEL"), "", "io_callback(print, None, at)", True),
    Edit("scan_print", "callback", _of(_SCAN, "MODEL"), "", 'jax.debug.callback(lambda v: None, x)', True),
    Edit("sharded_print", "callback", _of(_SHARDED, "MODEL"), "", 'jax.debug.print("{}", h[0, 0])', True),
    Edit("train_last_batch", "shape", _of(_TRAIN, "CALL"), "", "x, y = (x[:9], y[:9]) if n == 2 else (x, y)"),
    Edit("decode_grows", "shape", _of(_DECODE, "CALL"), "", "cache = ones(8 + n, 4)"),
    Edit("scan_lengths", "shape", _of(_SCAN, "CALL"), "", "x = ones(2, 5 + n, 4)"),
    Edit("sharded_batch", "shape", _of(_SHARDED, "CALL"), "", "x = jax.device_put(ones(8 + 8 * n, 4), split)"),
    Edit("train_weak", "weak type", _of(_TRAIN, "CALL"), "", "rate = 0.1 if n else np.float32(0.1)"),
    Edit("decode_weak", "weak type", _of(_DECODE, "CALL"), "", "at = n if n else np.int32(0)"),
    Edit("train_dtype", "type", _of(_TRAIN, "CALL"), "", "y = y.astype(np.float16) if n == 1 else y"),
    Edit("scan_dtype", "type", _of(_SCAN, "CALL"), "", "x = x.astype(np.int32) if n else x"),
    Edit("decode_static", "static", _of(_DECODE, "CALL"), "", "top = 1 + n"),
    Edit("train_key", "pytree", _of(_TRAIN, "CALL"), "", 'w = dict(w, bias=np.float32(0)) if n == 1 else w'),
    Edit("train_tuple", "pytree", _of(_TRAIN, "CALL"), "", "rate = rate if n else None\nrate = np.float32(0.1) if rate is None else [rate][0]"),
    Edit("scan_closure", "closure", _of(_SCAN, "CALL"), "", "encoded = jax.jit(lambda x: jax.vmap(encode)(x))"),
    Edit("scan_partial", "closure", _of(_SCAN, "CALL"), "", "encoded = jax.jit(functools.partial(jax.vmap(encode)))"),
    Edit("scan_eager", "jit removed", _of(_SCAN, "JIT"), "encoded = jax.jit(jax.vmap(encode))", "encoded = jax.vmap(encode)"),
    Edit("decode_eager", "eager", _of(_DECODE, "CALL"), "", "token = jnp.asarray(token) * 2"),
    Edit("sharded_elsewhere", "sharding", _of(_SHARDED, "CALL"), "", "x = jax.device_put(x, NamedSharding(mesh, P())) if n else x"),
    Edit("sharded_host", "sharding", _of(_SHARDED, "CALL"), "", "x = ones(16, 4) if n else x"),
    Edit("train_precision", "setting", _of(_TRAIN, "CALL"), "", 'jax.config.update("jax_default_matmul_precision", "high" if n else None)'),
    Edit("train_values", "harmless", _of(_TRAIN, "CALL"), "", "rate = np.float32(0.1 / (n + 1))"),
    Edit("decode_numpy", "harmless", _of(_DECODE, "CALL"), "", "token = token * 2"),
    Edit("scan_model", "harmless", _of(_SCAN, "MODEL"), "", "carry = carry * 2"),
    Edit("sharded_model", "harmless", _of(_SHARDED, "MODEL"), "", "h = h + 1"),
    Edit("train_regularised", "harmless", _of(_TRAIN, "MODEL"), "", "h = h / (1 + jnp.abs(h))"),
    Edit("decode_buckets", "harmless", _of(_DECODE, "CALL"), "", "token = np.resize(token, 4)"),
    Edit("train_key_order", "harmless", _of(_TRAIN, "CALL"), "", 'w = {"b": w["b"], "a": w["a"]}'),
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
        <MODEL>
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
        <CALL>
        opt.zero_grad()
        loss = (net(x) ** 2).mean()
        <STEP>
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
        <CALL>
        token = net(cache).mean(0, keepdim=True)
        <STEP>
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
            <CALL>
            y = net(x)
            <STEP>
            seen.append(y.sum().item())
"""
)


def _lazy(template: str, at: str) -> str:
    for name in ("MODEL", "CALL", "STEP"):
        template = template.replace(f"<{name}>", "<EDIT>" if name == at else "pass")
    return template


LAZY = (
    Edit("train_item", "access", _lazy(_LAZY_TRAIN, "STEP"), "", "loss.item()"),
    Edit("train_print", "access", _lazy(_LAZY_TRAIN, "STEP"), "", 'print("loss", loss)'),
    Edit("model_branch", "access", _lazy(_LAZY_TRAIN, "MODEL"), "", "h = h * 2 if h.sum() > 0 else h"),
    Edit("model_numpy", "access", _lazy(_LAZY_EVAL, "MODEL"), "", "h.detach().cpu().numpy()"),
    Edit("decode_assert", "access", _lazy(_LAZY_DECODE, "STEP"), "", "assert bool((token == token).all())"),
    Edit("decode_tolist", "access", _lazy(_LAZY_DECODE, "STEP"), "", "token.argmax(-1).tolist()"),
    Edit("train_sync", "sync", _lazy(_LAZY_TRAIN, "STEP"), "", "torch_xla.sync()"),
    Edit("decode_sync", "sync", _lazy(_LAZY_DECODE, "CALL"), "", "torch_xla.sync()"),
    Edit("model_sync", "sync", _lazy(_LAZY_EVAL, "MODEL"), "", "torch_xla.sync()"),
    Edit("train_last_batch", "shape", _lazy(_LAZY_TRAIN, "CALL"), "", "x = x[:9] if n == 2 else x"),
    Edit("train_shapes", "shape", _lazy(_LAZY_TRAIN, "CALL"), "", "x = ones(8 + n, 8)"),
    Edit("eval_shapes", "shape", _lazy(_LAZY_EVAL, "CALL"), "", "x = ones(2 + n, 8)"),
    Edit("eval_last", "shape", _lazy(_LAZY_EVAL, "CALL"), "", "x = ones(3, 8) if n == 2 else x"),
    Edit("decode_cat", "cache", _lazy(_LAZY_DECODE, "CALL"), "", "cache = torch.cat([cache, token])"),
    Edit("decode_slice", "cache", _lazy(_LAZY_DECODE, "CALL"), "", "cache = cache[: 8 - n] * 1 if n else cache"),
    Edit("decode_stack", "cache", _lazy(_LAZY_DECODE, "STEP"), "", "token = torch.cat([token] * (n + 1)).mean(0, keepdim=True)"),
    Edit("train_dtype", "type", _lazy(_LAZY_TRAIN, "CALL"), "", "x = x.double().float() if n == 1 else x"),
    Edit("train_number", "constant", _lazy(_LAZY_TRAIN, "MODEL"), "", "h = torch.nn.functional.leaky_relu(h, float(torch.randint(1, 9, ())))"),
    Edit("decode_number", "constant", _lazy(_LAZY_DECODE, "CALL"), "", "cache = torch.roll(cache, n, 0)"),
    Edit("eval_number", "constant", _lazy(_LAZY_EVAL, "CALL"), "", "x = x.clamp(max=n + 1.5)"),
    Edit("train_fallback", "fallback", _lazy(_LAZY_TRAIN, "MODEL"), "", "h = h + torch.histc(h.detach(), 8).sum()"),
    Edit("eval_fallback", "fallback", _lazy(_LAZY_EVAL, "MODEL"), "", "h = h + torch.median(h)"),
    Edit("train_values", "harmless", _lazy(_LAZY_TRAIN, "CALL"), "", "x = x * 0.5"),
    Edit("model_more", "harmless", _lazy(_LAZY_TRAIN, "MODEL"), "", "h = torch.sigmoid(h)"),
    Edit("decode_more", "harmless", _lazy(_LAZY_DECODE, "CALL"), "", "cache = cache * 0.5 + 0.25"),
    Edit("eval_more", "harmless", _lazy(_LAZY_EVAL, "CALL"), "", "x = x + 3"),
    Edit("eval_detached", "harmless", _lazy(_LAZY_EVAL, "STEP"), "", "y = y.detach().clone()"),
    Edit("decode_relu", "harmless", _lazy(_LAZY_DECODE, "STEP"), "", "token = token.relu()"),
)  # fmt: skip
