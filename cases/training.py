"""Twenty small training and evaluation scripts as people write them: they print, log and measure.

Each is a script of its own for `graphbreak fix`, with the number of functions that it compiles.
"""

from __future__ import annotations

from typing import Final

SCRIPTS: Final[dict[str, tuple[int, str]]] = {
    "prints the loss": (
        1,
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


@torch.compile(backend="eager")
def compute_loss(x, y):
    loss = nn.functional.mse_loss(model(x), y)
    print("loss", loss.item())
    return loss


for step in range(4):
    x = torch.randn(16, 8)
    optimizer.zero_grad()
    loss = compute_loss(x, x.sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
""",
    ),
    "prints an f-string": (
        1,
        """
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        hidden = self.body(x).relu()
        print(f"hidden: mean {hidden.mean().item():.4f}, max {hidden.max():.4f}")
        return self.head(hidden)


torch.manual_seed(0)
model = Classifier()
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.Adam(model.parameters())
for step in range(4):
    x, labels = torch.randn(16, 8), torch.randint(0, 3, (16,))
    loss = nn.functional.cross_entropy(compiled(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
""",
    ),
    "logs norms": (
        1,
        """
import logging

import torch
from torch import nn

logger = logging.getLogger("training")
logging.basicConfig(level=logging.INFO)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        y = self.linear(self.norm(x)).tanh()
        logger.info("norm of the update: %.4f", y.norm().item())
        return x + y


torch.manual_seed(0)
model = nn.Sequential(Block(8), Block(8), nn.Linear(8, 1))
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    loss = compiled(torch.randn(4, 8)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    logger.info("step %d: %.4f", step, loss.item())
""",
    ),
    "a logger with debug lines": (
        1,
        """
import logging

import torch

log = logging.getLogger(__name__)
weight = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


def attend(x):
    scores = x @ weight
    log.debug("scores: %s", scores.shape)
    return scores.softmax(-1)


@torch.compile(backend="eager")
def forward(x):
    log.info("batch of %d", x.shape[0])
    y = attend(x)
    if y.isnan().any():
        log.warning("NaN in the output")
    return y * 2


for _ in range(3):
    forward(torch.ones(2, 4))
""",
    ),
    "warns of large values": (
        1,
        """
import warnings

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 4)


@torch.compile(backend="eager")
def predict(x):
    y = model(x)
    if y.abs().max() > 100:
        warnings.warn("large activations")
    return y.clamp(-100, 100)


with torch.no_grad():
    for scale in (1.0, 10.0, 20.0):
        predict(torch.randn(2, 4) * scale)
""",
    ),
    "an accuracy": (
        1,
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(16, 4))


@torch.compile(backend="eager")
def evaluate(images, labels):
    logits = model(images)
    loss = nn.functional.cross_entropy(logits, labels)
    correct = (logits.argmax(-1) == labels).sum().item()
    accuracy = correct / labels.shape[0]
    return loss, accuracy


total = 0.0
with torch.no_grad():
    for _ in range(4):
        loss, accuracy = evaluate(torch.randn(8, 4, 4), torch.randint(0, 4, (8,)))
        total += accuracy
print("accuracy", total / 4)
""",
    ),
    "a running mean of Python numbers": (
        1,
        """
import torch
from torch import nn


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n):
        self.total += value * n
        self.count += n


torch.manual_seed(0)
model, meter = nn.Linear(6, 2), Meter()


@torch.compile(backend="eager")
def step(x, y):
    loss = nn.functional.mse_loss(model(x), y)
    meter.update(loss.item(), x.shape[0])
    return loss


for _ in range(4):
    loss = step(torch.randn(8, 6), torch.randn(8, 2))
    loss.backward()
print("mean", round(meter.total / meter.count, 4))
""",
    ),
    "a list of losses": (
        1,
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 2)
losses = []


@torch.compile(backend="eager")
def step(x, y):
    loss = nn.functional.mse_loss(model(x), y)
    losses.append(loss.item())
    return loss


for _ in range(4):
    step(torch.randn(8, 6), torch.randn(8, 2)).backward()
print("losses", len(losses), min(losses) <= max(losses))
""",
    ),
    "a confusion matrix of numpy": (
        1,
        """
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 3)


@torch.compile(backend="eager")
def evaluate(x, labels):
    classes = np.argmax(model(x).detach().numpy(), axis=1)
    onehot = np.eye(3)[classes]
    truth = np.eye(3)[labels.numpy()]
    return truth.T @ onehot


matrix = np.zeros((3, 3))
for _ in range(3):
    matrix += evaluate(torch.randn(8, 6), torch.randint(0, 3, (8,)))
print("right", int(np.trace(matrix)), "of", int(matrix.sum()))
""",
    ),
    "unwraps phases with numpy": (
        1,
        """
import numpy as np
import torch


@torch.compile(backend="eager")
def phases(spectrum):
    angles = spectrum.angle() * 2
    unwrapped = np.unwrap(angles.numpy())
    return torch.from_numpy(unwrapped) - angles.mean()


torch.manual_seed(0)
for _ in range(3):
    phases(torch.fft.rfft(torch.randn(32)))
""",
    ),
    "clips gradients by their norm": (
        1,
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.compile(backend="eager")
def clip(grads, limit):
    norm = torch.stack([grad.norm() for grad in grads]).norm()
    if norm > limit:
        grads = [grad * (limit / norm) for grad in grads]
    return grads


for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).sum().backward()
    for parameter, grad in zip(model.parameters(), clip([p.grad for p in model.parameters()], 1.0)):
        parameter.grad = grad
    optimizer.step()
""",
    ),
    "skips a step with NaN": (
        1,
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)


@torch.compile(backend="eager")
def compute_loss(x):
    loss = model(x).pow(2).mean()
    if torch.isnan(loss):
        print("skipped a batch with NaN")
        loss = torch.zeros_like(loss)
    return loss


with torch.no_grad():
    for value in (1.0, 2.0, float("nan")):
        compute_loss(torch.full((3, 4), value))
""",
    ),
    "a schedule by step": (
        1,
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 4)


@torch.compile(backend="eager")
def loss_at(x, temperature):
    return (model(x) / temperature).softmax(-1).log().mean()


with torch.no_grad():
    for step in range(6):
        loss_at(torch.randn(3, 4), 1.0 - 0.1 * step)
""",
    ),
    "batches of several lengths": (
        1,
        """
import torch
from torch import nn

torch.manual_seed(0)
embed, head = nn.Embedding(50, 8), nn.Linear(8, 50)


@torch.compile(backend="eager", dynamic=False)
def forward(ids):
    return head(embed(ids).tanh()).log_softmax(-1)


with torch.no_grad():
    for length in (5, 9, 12, 17):
        forward(torch.randint(0, 50, (2, length)))
""",
    ),
    "asserts and prints shapes": (
        1,
        """
import torch
from torch import nn

torch.manual_seed(0)
conv = nn.Conv2d(1, 4, 3)


@torch.compile(backend="eager")
def features(images):
    print("images", images.shape)
    assert images.min() >= 0, "images are not normalised"
    y = conv(images)
    print("features", y.shape, y.dtype)
    return y.mean((2, 3))


with torch.no_grad():
    for _ in range(3):
        features(torch.rand(2, 1, 8, 8))
""",
    ),
    "times its parts": (
        1,
        """
import time

import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(8, 4), nn.Linear(4, 8)
timings = {"encode": 0.0, "decode": 0.0}


@torch.compile(backend="eager")
def forward(x):
    start = time.perf_counter()
    code = encoder(x).relu()
    timings["encode"] += time.perf_counter() - start
    start = time.perf_counter()
    y = decoder(code)
    timings["decode"] += time.perf_counter() - start
    return y


with torch.no_grad():
    for _ in range(3):
        forward(torch.randn(2, 8))
""",
    ),
    "an early exit": (
        1,
        """
import torch
from torch import nn

torch.manual_seed(0)
layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))


@torch.compile(backend="eager")
def forward(x):
    for layer in layers:
        y = layer(x).tanh()
        if (y - x).abs().max() < 1e-3:
            break
        x = y
    return x


with torch.no_grad():
    for _ in range(3):
        forward(torch.randn(2, 4))
""",
    ),
    "two models and a logger": (
        2,
        """
import logging

import torch
from torch import nn

logger = logging.getLogger("gan")
torch.manual_seed(0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 8)

    def forward(self, z):
        logger.info("noise of %s", tuple(z.shape))
        return self.net(z).tanh()


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 1)

    def forward(self, x):
        score = self.net(x)
        logger.info("score %.3f", score.mean().item())
        return score.sigmoid()


generator = torch.compile(Generator(), backend="eager")
discriminator = torch.compile(Discriminator(), backend="eager")
for _ in range(3):
    score = discriminator(generator(torch.randn(6, 4)))
    score.log().mean().backward()
""",
    ),
    "selects hard examples": (
        1,
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 3)


@torch.compile(backend="eager")
def hard_loss(x, labels):
    losses = nn.functional.cross_entropy(model(x), labels, reduction="none")
    hard = losses[losses > losses.mean()]
    return hard.mean()


for _ in range(3):
    hard_loss(torch.randn(16, 4), torch.randint(0, 3, (16,))).backward()
""",
    ),
    "counts tokens and prints": (
        1,
        """
import torch
from torch import nn

torch.manual_seed(0)
embed, head = nn.Embedding(30, 8), nn.Linear(8, 30)


@torch.compile(backend="eager")
def token_loss(ids, mask):
    logits = head(embed(ids))
    losses = nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten(), reduction="none")
    tokens = mask.sum().item()
    print("tokens", tokens)
    return (losses * mask.flatten()).sum() / max(tokens, 1)


for _ in range(3):
    ids = torch.randint(0, 30, (2, 6))
    token_loss(ids, (ids > 5).float()).backward()
""",
    ),
}
