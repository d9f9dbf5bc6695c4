"""Programs of a third set: matching of pictures, speculative sampling, denoising, a rollout.

A test is a program's own; a model of transformers is copied beside it, as are the program's other
files.
"""

from __future__ import annotations

from typing import Final

# ruff: noqa: E501  # the programs are written as they are found, with long lines

MATCH: Final = """
import torch
from torch import nn
from transformers import CLIPConfig
from modeling_clip import CLIPModel

from adapters import Shadow, adapt, trainable
from pairs import Pairs, Settings, collate


def build(settings):
    shared = dict(hidden_size=settings.width, intermediate_size=2 * settings.width, num_attention_heads=2)
    text = dict(shared, num_hidden_layers=settings.text_layers, vocab_size=64, max_position_embeddings=settings.longest, eos_token_id=63, bos_token_id=62, pad_token_id=0)
    vision = dict(shared, num_hidden_layers=settings.vision_layers, image_size=settings.image_size, patch_size=4)
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)
    model = CLIPModel(config)
    return adapt(model, settings.rank, settings.targets)


class Matcher(nn.Module):
    def __init__(self, clip, smoothing):
        super().__init__()
        self.clip = clip
        self.smoothing = smoothing

    def forward(self, input_ids, attention_mask, pixel_values):
        found = self.clip(input_ids=input_ids, attention_mask=attention_mask, pixel_values=pixel_values)
        logits = found.logits_per_image
        right = torch.arange(logits.size(0), device=logits.device)
        by_image = nn.functional.cross_entropy(logits, right, label_smoothing=self.smoothing)
        by_text = nn.functional.cross_entropy(logits.t(), right, label_smoothing=self.smoothing)
        return (by_image + by_text) / 2, logits


class Trainer:
    def __init__(self, matcher, settings):
        self.matcher = matcher
        self.settings = settings
        self.optimizer = torch.optim.SGD(trainable(matcher), lr=settings.rate, momentum=0.9)
        self.shadow = Shadow(matcher, settings.decay)
        self.forward = torch.compile(matcher, backend="eager")
        self.losses = []

    def accumulate(self, batch):
        with torch.autocast("cpu", dtype=self.settings.precision):
            loss, logits = self.forward(**batch)
        (loss / self.settings.accumulate).backward()
        return loss.detach()

    def step(self):
        nn.utils.clip_grad_norm_(trainable(self.matcher), self.settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.shadow.update(self.matcher)

    def fit(self, loader):
        self.matcher.train()
        for number, batch in enumerate(loader, 1):
            loss = self.accumulate(batch)
            self.losses.append(loss)
            if number % self.settings.accumulate == 0:
                self.step()
        return torch.stack(self.losses).mean().item()

    @torch.no_grad()
    def evaluate(self, batch):
        self.matcher.eval()
        with self.shadow.applied(self.matcher):
            _, logits = self.forward(**batch)
        return logits.argmax(-1)


def test_planted():
    torch.manual_seed(0)
    settings = Settings(rank=2, accumulate=2)
    trainer = Trainer(Matcher(build(settings), settings.smoothing), settings)
    loader = torch.utils.data.DataLoader(Pairs(8, settings), batch_size=2, collate_fn=collate(settings))
    mean = trainer.fit(loader)
    guesses = trainer.evaluate(next(iter(loader)))
    assert mean > 0
    assert guesses.dim() == 1
"""

PAIRS: Final = """
from dataclasses import dataclass, field

import torch


@dataclass
class Settings:
    width: int = 16
    text_layers: int = 1
    vision_layers: int = 2
    image_size: int = 8
    longest: int = 10
    rank: int = 4
    targets: tuple = ("q_proj", "v_proj")
    smoothing: float = 0.1
    rate: float = 0.05
    decay: float = 0.9
    clip: float = 1.0
    accumulate: int = 1
    precision: torch.dtype = torch.bfloat16
    mean: list = field(default_factory=lambda: [0.48, 0.46, 0.41])


class Pairs(torch.utils.data.Dataset):
    def __init__(self, number, settings):
        generator = torch.Generator().manual_seed(3)
        size = settings.image_size
        self.images = torch.rand(number, 3, size, size, generator=generator)
        self.captions = [torch.randint(1, 62, (4 + n % 3,), generator=generator).tolist() for n in range(number)]

    def __len__(self):
        return len(self.captions)

    def __getitem__(self, index):
        return self.images[index], [62, *self.captions[index], 63]


def tokenized(captions, longest):
    ids = torch.zeros(len(captions), longest, dtype=torch.long)
    for row, caption in zip(ids, captions):
        kept = caption[:longest]
        row[: len(kept)] = torch.tensor(kept)
    return ids, ids.ne(0).long()


def collate(settings):
    mean = torch.tensor(settings.mean).view(1, 3, 1, 1)

    def together(rows):
        images, captions = zip(*rows)
        ids, mask = tokenized(captions, settings.longest)
        pixels = torch.stack(images) - mean
        return {"input_ids": ids, "attention_mask": mask, "pixel_values": pixels}

    return together
"""

ADAPTERS: Final = """
import contextlib
import math

import torch
from torch import nn

MERGED = False


class LowRank(nn.Module):
    def __init__(self, base, rank, alpha=4.0):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(rank))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scaling = alpha / rank
        self.drop = nn.Dropout(0.0)

    def forward(self, x):
        out = self.base(x)
        if MERGED:
            return out
        update = self.drop(x) @ self.down.t() @ self.up.t()
        return out + self.scaling * update


def adapt(model, rank, targets):
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in targets and isinstance(child, nn.Linear):
                setattr(module, name, LowRank(child, rank))
    model.logit_scale.requires_grad_(True)
    return model


def trainable(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


class Shadow:
    def __init__(self, model, decay):
        self.decay = decay
        self.values = [parameter.detach().clone() for parameter in trainable(model)]

    @torch.no_grad()
    def update(self, model):
        for value, parameter in zip(self.values, trainable(model)):
            value.mul_(self.decay).add_(parameter, alpha=1 - self.decay)

    @contextlib.contextmanager
    def applied(self, model):
        parameters = trainable(model)
        kept = [parameter.detach().clone() for parameter in parameters]
        with torch.no_grad():
            for parameter, value in zip(parameters, self.values):
                parameter.copy_(value)
        try:
            yield model
        finally:
            with torch.no_grad():
                for parameter, value in zip(parameters, kept):
                    parameter.copy_(value)
"""

SPECULATE: Final = """
import torch
from transformers import GPTNeoXConfig, StaticCache
from modeling_gpt_neox import GPTNeoXForCausalLM

from speculation import Draft, Options, Session

PROMPTS = ([3, 5, 7, 9], [4, 6, 8, 2])


def target(options):
    config = GPTNeoXConfig(vocab_size=options.vocabulary, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=options.longest, hidden_dropout=0.0)
    model = GPTNeoXForCausalLM(config).eval()
    model.requires_grad_(False)
    return model


def caches(model, options):
    def new():
        cache = StaticCache(config=model.config, max_cache_len=options.longest)
        heads = model.config.num_attention_heads
        cache.early_initialization(1, heads, 16 // heads, torch.float32, torch.device("cpu"))
        return cache

    return new


def answers(model, draft, options, prompts):
    found = []
    for prompt in prompts:
        ids = torch.tensor([prompt])
        with Session(model, draft, options, caches(model, options)) as session:
            session.prefill(ids)
            for _ in range(options.rounds):
                session.round()
        found.append(session.tokens[: options.rounds])
    return found


def test_planted():
    torch.manual_seed(0)
    options = Options(backend="eager")
    model = target(options)
    draft = Draft(options.vocabulary).eval()
    model.forward = torch.compile(model.forward, backend="eager")
    draft.propose = torch.compile(draft.propose, backend="eager")
    found = answers(model, draft, options, PROMPTS)
    assert all(len(tokens) == options.rounds for tokens in found)
"""

SPECULATION: Final = """
import dataclasses
import functools

import torch
from torch import nn

STATISTICS = {"accepted": 0}


@dataclasses.dataclass(frozen=True)
class Options:
    backend: str = "inductor"
    vocabulary: int = 32
    guesses: int = 2
    rounds: int = 4
    longest: int = 24
    temperature: float = 0.8
    top: int = 8
    banned: tuple = (0, 1)


def without_grad(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        with torch.no_grad():
            return function(*args, **kwargs)

    return wrapped


class Draft(nn.Module):
    def __init__(self, vocabulary, width=8):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.cell = nn.GRUCell(width, width)
        self.head = nn.Linear(width, vocabulary)

    def propose(self, token, hidden):
        hidden = self.cell(self.embed(token), hidden)
        logits = self.head(hidden)
        return logits.argmax(-1), hidden


def restricted(logits, options):
    scaled = logits / options.temperature
    scaled = scaled.index_fill(-1, torch.tensor(options.banned), float("-inf"))
    least = scaled.topk(options.top, dim=-1).values[..., -1:]
    return scaled.masked_fill(scaled < least, float("-inf"))


def verify(logits, guesses, noise, options):
    probabilities = restricted(logits, options).softmax(-1)
    sampled = (probabilities / noise).argmax(-1)
    agreed = (sampled[:, :-1] == guesses).long().cumprod(-1)
    return sampled, agreed.sum(-1)


class Session:
    def __init__(self, model, draft, options, new_cache):
        self.model = model
        self.draft = draft
        self.options = options
        self.new_cache = new_cache
        self.verify = torch.compile(verify, backend=options.backend)
        self.tokens = []

    def __enter__(self):
        self.cache = self.new_cache()
        self.hidden = torch.zeros(1, self.draft.cell.hidden_size)
        self.generator = torch.Generator().manual_seed(1)
        return self

    def __exit__(self, *_):
        del self.cache, self.hidden

    def length(self):
        return self.cache.layers[0].cumulative_length

    def rewind(self, number):
        for layer in self.cache.layers:
            layer.cumulative_length.sub_(number)

    @without_grad
    def prefill(self, ids):
        self.model(input_ids=ids[:, :-1], past_key_values=self.cache)
        for token in ids[:, :-1].unbind(1):
            _, self.hidden = self.draft.propose(token, self.hidden)
        self.last = ids[:, -1]

    def guess(self):
        token, hidden = self.last, self.hidden
        guesses = []
        for _ in range(self.options.guesses):
            token, hidden = self.draft.propose(token, hidden)
            guesses.append(token)
        self.hidden = hidden
        return torch.stack(guesses, 1)

    @without_grad
    def round(self):
        guesses = self.guess()
        ids = torch.cat([self.last[:, None], guesses], 1)
        logits = self.model(input_ids=ids, past_key_values=self.cache).logits
        noise = torch.empty_like(logits).exponential_(generator=self.generator)
        sampled, agreed = self.verify(logits, guesses, noise, self.options)
        kept = int(agreed) + 1
        self.rewind(ids.size(1) - kept)
        self.tokens += sampled[0, :kept].tolist()
        self.last = sampled[:, kept - 1]
        STATISTICS["accepted"] += kept
"""

DENOISE: Final = """
import functools

import torch
from denoiser import Denoiser, Schedule, regions
from sampling import Guided, ancestral, deterministic

SAMPLERS = {"ancestral": ancestral, "deterministic": deterministic}


def noise_of(seed, number, size):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(number, 1, size, size, generator=generator)


def fit(model, schedule, images, labels, epochs):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = torch.compile(functools.partial(schedule.loss, model), backend="eager")
    for epoch in range(epochs):
        times = torch.randint(0, schedule.steps, (images.size(0),))
        noise = torch.randn_like(images)
        loss = step(images, labels, times, noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def draw(model, schedule, name, labels, seeds):
    sampler = SAMPLERS[name]
    drawn = []
    for seed in seeds:
        start = noise_of(seed, labels.size(0), 8)
        drawn.append(sampler(model, schedule, start, labels, stride=2))
    return torch.cat(drawn)


def test_planted():
    torch.manual_seed(0)
    schedule = Schedule(steps=8)
    model = Denoiser(width=8, classes=3)
    labels = torch.tensor([0, 1, 2])
    loss = fit(model, schedule, torch.rand(3, 1, 8, 8), labels, epochs=2)
    regions(model.eval(), backend="eager")
    guided = Guided(model, scale=2.0)
    pictures = draw(guided, schedule, "deterministic", labels, seeds=(1, 2))
    assert loss > 0
    assert pictures.shape[1:] == (1, 8, 8)
"""

DENOISER: Final = """
import math

import torch
from torch import nn
from torch.nn import functional as F

TRACE = []


class Residual(nn.Module):
    def __init__(self, width, times):
        super().__init__()
        self.norm = nn.GroupNorm(4, width)
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.shift = nn.Linear(times, 2 * width)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x, time):
        scale, shift = self.shift(F.silu(time)).chunk(2, -1)
        hidden = self.first(F.silu(self.norm(x)))
        hidden = hidden * (1 + scale[:, :, None, None]) + shift[:, :, None, None]
        hidden = self.second(F.silu(hidden))
        return x + hidden


class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(1, width)
        self.qkv = nn.Conv1d(width, 3 * width, 1)
        self.out = nn.Conv1d(width, width, 1)

    def forward(self, x):
        flat = self.norm(x).flatten(2)
        q, k, v = (part.transpose(1, 2) for part in self.qkv(flat).chunk(3, 1))
        mixed = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(mixed.transpose(1, 2)).view_as(x)


class Denoiser(nn.Module):
    def __init__(self, width, classes, times=16):
        super().__init__()
        self.times = times
        self.label = nn.Embedding(classes + 1, times)
        self.enter = nn.Conv2d(1, width, 3, padding=1)
        self.blocks = nn.ModuleList(Residual(width, times) for _ in range(3))
        self.mixer = Mixer(width)
        self.leave = nn.Conv2d(width, 1, 3, padding=1)
        self.none = classes

    def embedded(self, time):
        half = self.times // 2
        rates = torch.exp(-math.log(1e4) * torch.arange(half) / half)
        angles = time[:, None] * rates
        return torch.cat([angles.sin(), angles.cos()], -1)

    def forward(self, x, time, label):
        time = self.embedded(time) + self.label(label)
        x = self.enter(x)
        skip = x
        for block in self.blocks:
            x = block(x, time)
        x = self.mixer(x)
        return self.leave(x + skip)


def regions(model, **options):
    for block in model.blocks:
        block.compile(**options)
    model.mixer.compile(**options)
    return model


class Schedule:
    def __init__(self, steps, low=1e-3, high=0.2):
        self.steps = steps
        self.betas = torch.linspace(low, high, steps)
        self.kept = (1 - self.betas).cumprod(0)

    def noised(self, images, times, noise):
        kept = self.kept[times].view(-1, 1, 1, 1)
        return kept.sqrt() * images + (1 - kept).sqrt() * noise

    def loss(self, model, images, labels, times, noise):
        noised = self.noised(images, times, noise)
        guess = model(noised, times, labels)
        return F.mse_loss(guess, noise)
"""

SAMPLING: Final = """
import torch


class Guided:
    def __init__(self, model, scale):
        self.model = model
        self.scale = scale

    def __call__(self, x, time, labels):
        none = torch.full_like(labels, self.model.none)
        both = self.model(torch.cat([x, x]), torch.cat([time, time]), torch.cat([labels, none]))
        wanted, plain = both.chunk(2)
        return plain + self.scale * (wanted - plain)


def steps_of(schedule, stride):
    return list(range(schedule.steps - 1, -1, -stride))


def predicted(x, noise, kept):
    return ((x - (1 - kept).sqrt() * noise) / kept.sqrt()).clamp(-2, 2)


@torch.inference_mode()
def deterministic(model, schedule, x, labels, stride=1):
    for step in steps_of(schedule, stride):
        time = torch.full((x.size(0),), step)
        noise = model(x, time, labels)
        kept = schedule.kept[step]
        before = schedule.kept[max(0, step - stride)]
        clean = predicted(x, noise, kept)
        x = before.sqrt() * clean + (1 - before).sqrt() * noise
    return x


@torch.inference_mode()
def ancestral(model, schedule, x, labels, stride=1):
    for step in steps_of(schedule, stride):
        time = torch.full((x.size(0),), step)
        noise = model(x, time, labels)
        clean = predicted(x, noise, schedule.kept[step])
        before = schedule.kept[max(0, step - stride)]
        x = before.sqrt() * clean + (1 - before).sqrt() * torch.randn_like(x)
    return x
"""

ROLLOUT: Final = """
import torch
from agent import Agent, Options
from world import Carts, Memory


class Running:
    def __init__(self):
        self.total = 0.0

    def __iadd__(self, reward):
        self.total += float(reward.mean())
        return self


def collect(agent, carts, memory, steps):
    state = carts.reset()
    reward_sum = Running()
    for step in range(steps):
        action, log_probability = agent.act(state)
        after, reward, done = carts.step(action)
        memory.add(state=state, action=action, log_probability=log_probability, reward=reward, done=done)
        reward_sum += reward
        state = after
    return state, reward_sum.total


def improve(agent, memory, last, options):
    batch = memory.stacked()
    batch["advantage"], batch["wanted"] = agent.advantages(batch, last)
    losses = []
    for rows in memory.shuffled(options.minibatches):
        part = {name: values.flatten(0, 1)[rows] for name, values in batch.items()}
        losses.append(agent.update(part))
    return losses


def test_planted():
    torch.manual_seed(0)
    options = Options(minibatches=2, backend="eager")
    agent = Agent(Carts.width, Carts.actions, options)
    carts = Carts(number=4)
    for iteration in range(2):
        memory = Memory()
        last, total = collect(agent, carts, memory, steps=4)
        losses = improve(agent, memory, last, options)
    spread = agent.uncertainty(last)
    assert spread.dim() == 1
    assert len(losses) == options.minibatches
"""

AGENT: Final = """
from dataclasses import dataclass

import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap


@dataclass
class Options:
    width: int = 16
    critics: int = 3
    discount: float = 0.99
    smoothing: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    minibatches: int = 4
    backend: str = "inductor"


def mlp(*sizes, activation=nn.Tanh):
    layers = []
    for one, two in zip(sizes, sizes[1:]):
        layers += [nn.Linear(one, two), activation()]
    return nn.Sequential(*layers[:-1])


class Policy(nn.Module):
    def __init__(self, inputs, actions, width):
        super().__init__()
        self.body = mlp(inputs, width, width)
        self.head = nn.Linear(width, actions)

    def forward(self, state):
        hidden = torch.tanh(self.body(state))
        return self.head(hidden).log_softmax(-1)


class Critics(nn.Module):
    def __init__(self, number, inputs, width):
        super().__init__()
        critics = [mlp(inputs, width, 1, activation=nn.SiLU) for _ in range(number)]
        self.base = [critics[0]]
        values, _ = stack_module_state(critics)
        self.names = list(values)
        self.values = nn.ParameterList(values[name].detach() for name in self.names)

    def forward(self, state):
        one = self.base[0]
        stacked = dict(zip(self.names, self.values))
        call = lambda values, x: functional_call(one, values, (x,))
        return vmap(call, in_dims=(0, None))(stacked, state).squeeze(-1)


class Agent:
    def __init__(self, inputs, actions, options):
        self.options = options
        self.policy = Policy(inputs, actions, options.width)
        self.critics = Critics(options.critics, inputs, options.width)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=3e-3)
        self.losses = []
        compiled = torch.compile(backend=options.backend)
        self.choose = compiled(self.choose)
        self.loss = compiled(self.loss)
        self.sensitivity = compiled(self.sensitivity)

    def parameters(self):
        return [*self.policy.parameters(), *self.critics.parameters()]

    def choose(self, state, noise):
        logs = self.policy(state)
        action = (logs - noise.log()).argmax(-1)
        return action, logs.gather(-1, action[:, None]).squeeze(-1)

    @torch.no_grad()
    def act(self, state):
        noise = torch.empty(state.size(0), 2).exponential_()
        return self.choose(state, noise)

    def advantages(self, batch, last):
        with torch.no_grad():
            values = self.critics(batch["state"]).mean(0)
            after = self.critics(last).mean(0)
        advantage, found = torch.zeros_like(after), []
        for index in reversed(range(len(values))):
            going = 1 - batch["done"][index]
            delta = batch["reward"][index] + self.options.discount * going * after - values[index]
            advantage = delta + self.options.discount * self.options.smoothing * going * advantage
            found.insert(0, advantage)
            after = values[index]
        advantages = torch.stack(found)
        return advantages, advantages + values

    def loss(self, state, action, log_probability, advantage, wanted):
        logs = self.policy(state)
        chosen = logs.gather(-1, action[:, None]).squeeze(-1)
        ratio = (chosen - log_probability).exp()
        clipped = ratio.clamp(1 - self.options.clip, 1 + self.options.clip)
        gain = torch.min(ratio * advantage, clipped * advantage).mean()
        entropy = -(logs.exp() * logs).sum(-1).mean()
        error = (self.critics(state) - wanted).square().mean()
        return error - gain - self.options.entropy * entropy

    def update(self, part):
        names = ("state", "action", "log_probability", "advantage", "wanted")
        loss = self.loss(*(part[name] for name in names))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def sensitivity(self, state):
        value = lambda one: self.critics(one).mean()
        slopes = vmap(grad(value))(state)
        return slopes.norm(dim=-1)

    def uncertainty(self, state):
        slopes = self.sensitivity(state)
        with torch.no_grad():
            return self.critics(state).std(0) * slopes
"""

WORLD: Final = """
import torch


class Carts:
    width = 3
    actions = 2

    def __init__(self, number, seed=0):
        self.number = number
        self.generator = torch.Generator().manual_seed(seed)

    def reset(self):
        self.state = torch.randn(self.number, self.width, generator=self.generator)
        return self.state

    def step(self, action):
        push = action.float() * 2 - 1
        place, speed, angle = self.state.unbind(-1)
        speed = 0.9 * speed + 0.1 * push
        angle = angle + 0.1 * speed - 0.05 * push
        place = place + 0.1 * speed
        state = torch.stack([place, speed, angle], -1)
        done = (angle.abs() > 2).float()
        reward = 1 - angle.abs() - done
        self.state = state
        return state, reward, done


class Memory:
    def __init__(self):
        self.rows = []

    def add(self, **row):
        self.rows.append(row)

    def stacked(self):
        return {name: torch.stack([row[name] for row in self.rows]) for name in self.rows[0]}

    def shuffled(self, number):
        size = len(self.rows) * len(self.rows[0]["reward"])
        return torch.randperm(size).chunk(number)
"""

PROGRAMS: Final = {
    "match": MATCH,
    "speculate": SPECULATE,
    "denoise": DENOISE,
    "rollout": ROLLOUT,
}
BESIDE: Final = {
    "match": {"pairs.py": PAIRS, "adapters.py": ADAPTERS},
    "speculate": {"speculation.py": SPECULATION},
    "denoise": {"denoiser.py": DENOISER, "sampling.py": SAMPLING},
    "rollout": {"agent.py": AGENT, "world.py": WORLD},
}
"""The files of a program that are no copies of transformers, by name."""
