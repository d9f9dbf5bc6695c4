"""Programs whose edits are held out: translation, fine-tuning, tagging of clips, an autoencoder.

A test is a program's own; a model of transformers is copied beside it, and ``digits.py`` is the
file that the autoencoder's test imports.
"""

from __future__ import annotations

from typing import Final

# ruff: noqa: E501  # the programs are written as they are found, with long lines

TRANSLATE: Final = """
import torch
from torch.nn import functional as F
from transformers import T5Config
from modeling_t5 import T5ForConditionalGeneration

PAD = 0
LONGEST = 6
STEPS = 4
FINISHED = []


def load():
    config = T5Config(vocab_size=48, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_decoder_layers=2, num_heads=2)
    return T5ForConditionalGeneration(config).eval()


def pad_to(ids, length):
    return F.pad(ids, (0, length - ids.size(1)), value=PAD)


def pick(logits, index):
    scores = logits[:, index]
    return scores.argmax(-1, keepdim=True)


def greedy(encode, decode, source, mask):
    memory = encode(input_ids=source, attention_mask=mask)
    out = torch.full((source.size(0), 1), PAD, dtype=torch.long)
    for index in range(STEPS):
        target = pad_to(out, LONGEST)
        answer = decode(encoder_outputs=memory, attention_mask=mask, decoder_input_ids=target, use_cache=False)
        token = pick(answer.logits, index)
        out = torch.cat([out, token], 1)
    return out


def test_planted():
    torch.manual_seed(0)
    model = load()
    encode = torch.compile(model.encoder, backend="eager")
    decode = torch.compile(model, backend="eager")
    sentences = [torch.arange(2, 10).view(1, 8), torch.arange(12, 20).view(1, 8), torch.arange(20, 28).view(1, 8)]
    with torch.no_grad():
        for source in sentences:
            mask = torch.ones_like(source)
            out = greedy(encode, decode, source, mask)
            FINISHED.append(out)
    assert out.shape == (1, 1 + STEPS)
"""

FINE_TUNE: Final = """
import torch
from torch import nn
from transformers import Qwen2Config
from modeling_qwen2 import Qwen2ForCausalLM


class Meter:
    def __init__(self):
        self.total = 0.0
        self.count = 0

    def update(self, value):
        self.total += value
        self.count += 1

    @property
    def mean(self):
        return self.total / max(1, self.count)


def build():
    config = Qwen2Config(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32)
    return Qwen2ForCausalLM(config)


def groups(model):
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]


def loader(number, size=2, length=8):
    generator = torch.Generator().manual_seed(1)
    for _ in range(number):
        ids = torch.randint(0, 64, (size, length), generator=generator)
        yield {"input_ids": ids, "labels": ids.clone()}


def warm_up(step):
    return min(1.0, (step + 1) / 3)


def train(model, forward, update, optimizer, schedule, batches):
    meter = Meter()
    model.train()
    for step, batch in enumerate(batches):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = forward(**batch, use_cache=False).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update()
        schedule.step()
        meter.update(loss.item())
    return meter.mean


def test_planted():
    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.AdamW(groups(model), lr=torch.tensor(1e-3))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warm_up)
    forward = torch.compile(model, backend="eager")
    update = torch.compile(optimizer.step, backend="eager")
    mean = train(model, forward, update, optimizer, schedule, loader(4))
    assert mean > 0
"""

TAG: Final = """
import torch
from torch import nn
from transformers import WhisperConfig
from modeling_whisper import WhisperEncoder

CONFIG = WhisperConfig(d_model=16, encoder_layers=3, encoder_attention_heads=2, encoder_ffn_dim=32, num_mel_bins=8, max_source_positions=10)
WINDOW = torch.hann_window(14)


class Tagger(nn.Module):
    def __init__(self, config, labels=5):
        super().__init__()
        self.encoder = WhisperEncoder(config)
        self.query = nn.Parameter(torch.zeros(config.d_model))
        self.head = nn.Linear(config.d_model, labels)

    def pool(self, hidden):
        weights = (hidden @ self.query).softmax(-1)
        return (weights.unsqueeze(-1) * hidden).sum(1)

    def classify(self, hidden):
        pooled = self.pool(hidden)
        return self.head(pooled)

    def forward(self, features):
        hidden = self.encoder(features).last_hidden_state
        return self.classify(hidden)


def compile_regions(model):
    for layer in model.encoder.layers:
        layer.compile(backend="eager")
    model.classify = torch.compile(model.classify, backend="eager")
    return model


def features(clip):
    frames = clip.unfold(-1, 14, 7) * WINDOW
    power = torch.fft.rfft(frames).abs().square()
    return power.clamp(min=1e-6).log().transpose(1, 2)


def clips(number, size=2):
    torch.manual_seed(2)
    return [torch.randn(size, 147) for _ in range(number)]


def evaluate(model, recordings):
    guesses = []
    for clip in recordings:
        logits = model(features(clip))
        guesses.append(logits.argmax(-1))
    return torch.cat(guesses)


def test_planted():
    torch.manual_seed(0)
    model = compile_regions(Tagger(CONFIG).eval())
    with torch.no_grad():
        guesses = evaluate(model, clips(3))
    assert guesses.dim() == 1
"""

ENCODE: Final = """
import torch
from digits import Trainer, VAE, load_digits


def test_planted():
    torch.manual_seed(0)
    model = VAE(width=4)
    trainer = Trainer(model, rate=1e-3, backend="eager")
    images = load_digits(8)
    trainer.fit(images, epochs=2)
    samples = trainer.generate(2)
    score = trainer.evaluate(images)
    assert samples.shape == (2, 1, 8, 8)
    assert score > 0
"""

DIGITS: Final = """
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

STEPS = 0


def load_digits(number):
    grid = torch.linspace(0, math.pi, 64).view(1, 1, 8, 8)
    return torch.cat([torch.sin(grid * (1 + index % 3)).abs() for index in range(number)])


class Down(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.GroupNorm(2, outputs), nn.SiLU())


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down = nn.ModuleList([Down(1, 8), Down(8, 16)])
        self.mean = nn.Linear(64, width)
        self.log_var = nn.Linear(64, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        for layer in self.down:
            x = layer(x)
        x = self.drop(x.flatten(1))
        mean = self.mean(x)
        log_var = self.log_var(x).clamp(-8, 8)
        return mean, log_var


class Decoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.start = nn.Linear(width, 64)
        self.up = nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1)
        self.out = nn.ConvTranspose2d(8, 1, 4, stride=2, padding=1)

    def forward(self, z):
        x = F.silu(self.start(z)).view(-1, 16, 2, 2)
        x = F.silu(self.up(x))
        return self.out(x)


class VAE(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.encoder = Encoder(width)
        self.decoder = Decoder(width)

    def reparametrize(self, mean, log_var):
        if not self.training:
            return mean
        std = torch.exp(0.5 * log_var)
        noise = torch.randn_like(std)
        return mean + noise * std

    def decode(self, z):
        logits = self.decoder(z)
        return logits.sigmoid()

    def forward(self, x):
        mean, log_var = self.encoder(x)
        z = self.reparametrize(mean, log_var)
        return self.decoder(z), mean, log_var


def elbo(logits, images, mean, log_var, beta):
    reconstruction = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
    divergence = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum()
    return (reconstruction + beta * divergence) / images.size(0)


class Average:
    def __init__(self, model, decay=0.9):
        self.model = copy.deepcopy(model).eval()
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for kept, new in zip(self.model.parameters(), model.parameters()):
            kept.lerp_(new, 1 - self.decay)


class Trainer:
    def __init__(self, model, rate, backend="inductor"):
        self.model = model
        self.average = Average(model)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        self.history = []
        self.loss = torch.compile(self.loss_of, backend=backend)
        self.sample = torch.compile(self.average.model.decode, backend=backend)

    def loss_of(self, images, beta):
        logits, mean, log_var = self.model(images)
        return elbo(logits, images, mean, log_var, beta)

    def beta(self, epoch):
        return torch.tensor(min(1.0, 0.1 * (epoch + 1)))

    def fit(self, images, epochs):
        self.model.train()
        for epoch in range(epochs):
            beta = self.beta(epoch)
            for batch in images.split(4):
                self.optimizer.zero_grad()
                loss = self.loss(batch, beta)
                loss.backward()
                self.optimizer.step()
                self.average.update(self.model)
            self.history.append(loss.item())

    @torch.no_grad()
    def generate(self, number):
        codes = torch.randn(number, self.model.width)
        return self.sample(codes)

    def evaluate(self, images):
        self.model.eval()
        with torch.no_grad():
            return self.loss(images[:4], torch.ones(())).item()
"""

PROGRAMS: Final = {"translate": TRANSLATE, "fine_tune": FINE_TUNE, "tag": TAG, "encode": ENCODE}
BESIDE: Final = {"encode": {"digits.py": DIGITS}}
"""The files of a program that are no copies of transformers, by name."""
