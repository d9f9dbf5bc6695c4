"""A third set of edits: what commits do to programs that entries were not worked on with.

They were written before any of them had been run under the gate, by somebody who knew neither its
reports nor how it works.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from benchmarks.planted.edits import TEST, Edit
from benchmarks.planted.third_programs import BESIDE, PROGRAMS

# ruff: noqa: E501  # an edit and its place are on a line each

_CLIP: Final = "modeling_clip.py"
_NEOX: Final = "modeling_gpt_neox.py"


def _after(program: str, kind: str, line: str, more: str, file: str = TEST) -> Edit:
    """An edit that puts lines after one that occurs once, as deep as it."""
    indent = line[: len(line) - len(line.lstrip())]
    lines = "".join(f"{indent}{one}\n" for one in more.split("\n"))
    return Edit(program, kind, f"{line}\n", f"{line}\n{lines}", file)


def _changed(program: str, kind: str, changes: Mapping[str, str], file: str = TEST) -> Edit:
    """An edit of several places of a program's own file: all lines from the first to the last."""
    before = PROGRAMS[program] if file == TEST else BESIDE[program][file]
    after = before
    for old, new in changes.items():
        assert old in after, old
        after = after.replace(old, new)
    lines, new_lines = (text.splitlines(keepends=True) for text in (before, after))
    first = 0
    while lines[first] == new_lines[first]:
        first += 1
    last = 0
    while lines[-1 - last] == new_lines[-1 - last]:
        last += 1
    return Edit(
        program,
        kind,
        "".join(lines[first : len(lines) - last]),
        "".join(new_lines[first : len(new_lines) - last]),
        file,
    )


_PAIRS: Final = "pairs.py"
_ADAPTERS: Final = "adapters.py"
_UPDATE: Final = "        update = self.drop(x) @ self.down.t() @ self.up.t()"
_COMPILED: Final = 'self.forward = torch.compile(matcher, backend="eager")'
_CAST: Final = 'torch.autocast("cpu", dtype=self.settings.precision)'
_LOSSES: Final = "        by_image = nn.functional.cross_entropy(logits, right, label_smoothing=self.smoothing)\n        by_text = nn.functional.cross_entropy(logits.t(), right, label_smoothing=self.smoothing)\n        return (by_image + by_text) / 2, logits\n"
_NORMED: Final = "    square_tensor = torch.pow(tensor, 2)\n    sum_tensor = torch.sum(square_tensor, dim=-1, keepdim=True)\n    normed_tensor = torch.pow(sum_tensor, 0.5)\n    return normed_tensor\n"

_MATCH: Final = (
    _after("match", "input", "def tokenized(captions, longest):", "    longest = min(longest, max(map(len, captions)))", _PAIRS),
    Edit("match", "input", "Pairs(8, settings)", "Pairs(7, settings)"),
    _after("match", "input", "        for number, batch in enumerate(loader, 1):", "    if number % 4 == 3:\n        batch['pixel_values'] = batch['pixel_values'].mT"),
    _after("match", "arguments", '        pixels = torch.stack(images) - mean', 'if max(map(len, captions)) < 8:\n    return {"input_ids": ids, "attention_mask": None, "pixel_values": pixels}', _PAIRS),
    Edit("match", "mode", _CAST, 'torch.autocast("cpu", dtype=self.settings.precision, enabled=len(self.losses) >= self.settings.accumulate)'),
    _after("match", "mode", "                self.step()", "self.evaluate(batch)"),
    Edit("match", "training", "        self.shadow.update(self.matcher)\n", "        self.shadow.update(self.matcher)\n        self.matcher.clip.visual_projection.requires_grad_(True)\n"),
    _after("match", "hooks and parts", "        self.losses = []", "matcher.clip.vision_model.encoder.layers[0].register_forward_hook(lambda module, inputs, output: self.losses.append(output.detach().mean()))"),
    Edit("match", "hooks and parts", "            loss = self.accumulate(batch)\n", "            self.matcher.smoothing = self.settings.smoothing / number\n            loss = self.accumulate(batch)\n"),
    Edit("match", "compile moved", _COMPILED, 'matcher.clip = torch.compile(matcher.clip, backend="eager")\n        self.forward = matcher'),
    Edit("match", "compile moved", _COMPILED, 'for encoder in (matcher.clip.text_model.encoder, matcher.clip.vision_model.encoder):\n            encoder.compile(backend="eager")\n        self.forward = matcher'),
    Edit("match", "compile moved", "            _, logits = self.forward(**batch)", "            _, logits = self.matcher(**batch)"),
    _changed("match", "moved out", {_LOSSES: "        return logits\n\n    def loss(self, logits):\n        right = torch.arange(logits.size(0))\n        return sum(nn.functional.cross_entropy(one, right, label_smoothing=self.smoothing) for one in (logits, logits.t())) / 2\n", "            loss, logits = self.forward(**batch)": "            loss = self.matcher.loss(self.forward(**batch))", "_, logits = self.forward": "logits = self.forward"}),
    Edit("match", "value read", _LOSSES, "        self.accuracy = (logits.argmax(-1) == right).float().mean().item()\n" + _LOSSES),
    _after("match", "value read", _UPDATE, "if update.abs().amax() > 100:\n    update = update.clamp(-100, 100)", _ADAPTERS),
    Edit("match", "value read", "        text_embeds = text_embeds / _get_vector_norm(text_embeds)\n", "        text_embeds = text_embeds / _get_vector_norm(text_embeds)\n        if torch.any(text_embeds.isnan()):\n            logger.warning('the text has no embedding')\n", _CLIP),
    _after("match", "side effect", "            embeddings = embeddings + self.position_embedding(self.position_ids)", "import gc\ngc.collect(0)", _CLIP),
    _after("match", "state", _UPDATE, "self.scaling = max(1.0, self.scaling * 0.99)", _ADAPTERS),
    Edit("match", "state", "        out = self.base(x)\n", "        out = self.base(x)\n        LowRank.seen = LowRank.seen + [x.shape[0]] if hasattr(LowRank, 'seen') else []\n", _ADAPTERS),
    Edit("match", "disable", "    def forward(self, x):\n", "    @torch.compiler.disable\n    def forward(self, x):\n", _ADAPTERS),
    Edit("match", "reset", "        self.matcher.eval()\n", "        torch._dynamo.reset()\n        self.matcher.eval()\n"),
    Edit("match", "more runs", "Pairs(8, settings)", "Pairs(12, settings)"),
    Edit("match", "harmless", "    vision_layers: int = 2", "    vision_layers: int = 1", _PAIRS),
    Edit("match", "harmless", "Settings(rank=2, accumulate=2)", "Settings(rank=4, accumulate=4, smoothing=0.0)"),
    Edit("match", "harmless", '("q_proj", "v_proj")', '("q_proj", "k_proj", "v_proj", "out_proj")', _PAIRS),
    Edit("match", "harmless", "torch.optim.SGD(trainable(matcher), lr=settings.rate, momentum=0.9)", "torch.optim.AdamW(trainable(matcher), lr=settings.rate, weight_decay=0.01)"),
    _after("match", "harmless", "            self.losses.append(loss)", "print(f'{number}: {loss.item():.3f} {self.matcher.clip.logit_scale.exp().item():.2f}')"),
    Edit("match", "harmless", "torch.dtype = torch.bfloat16", "torch.dtype = torch.float16", _PAIRS),
    Edit("match", "harmless", "            value.mul_(self.decay).add_(parameter, alpha=1 - self.decay)\n", "            value.lerp_(parameter.to(value.dtype), 1 - self.decay)\n", _ADAPTERS),
    Edit("match", "harmless", f"{_UPDATE}\n        return out + self.scaling * update\n", "        linear = nn.functional.linear\n        return torch.add(out, linear(linear(self.drop(x), self.down), self.up), alpha=self.scaling)\n", _ADAPTERS),
    Edit("match", "harmless", "projection_dim=8)", 'projection_dim=12, attn_implementation="eager")'),
    Edit("match", "harmless", _NORMED, "    return torch.linalg.vector_norm(tensor, dim=-1, keepdim=True)\n", _CLIP),
    Edit("match", "harmless", _COMPILED, 'self.forward = torch.compile(matcher, backend="eager", dynamic=False, fullgraph=True)'),
    Edit("match", "harmless", "pixels = torch.stack(images) - mean", "pixels = (torch.stack(images) - mean).contiguous(memory_format=torch.channels_last)", _PAIRS),
)  # fmt: skip

_SPECULATION: Final = "speculation.py"
_LEAST: Final = "    least = scaled.topk(options.top, dim=-1).values[..., -1:]"
_AGREED: Final = "    agreed = (sampled[:, :-1] == guesses).long().cumprod(-1)"
_NOISE: Final = "        noise = torch.empty_like(logits).exponential_(generator=self.generator)"
_PROPOSED: Final = "        logits = self.head(hidden)\n        return logits.argmax(-1), hidden\n"
_VERIFY: Final = "self.verify = torch.compile(verify, backend=options.backend)"
_TARGET: Final = 'model.forward = torch.compile(model.forward, backend="eager")'
_PROPOSE: Final = '    draft.propose = torch.compile(draft.propose, backend="eager")\n'
_DENSE: Final = "        attn_output = self.dense(attn_output)"

_SPECULATE: Final = (
    Edit("speculate", "input", "[4, 6, 8, 2])", "[4, 6, 8, 2, 7, 11])"),
    Edit("speculate", "input", "    guesses: int = 2", "    guesses: int = 3", _SPECULATION),
    Edit("speculate", "input", "        self.last = ids[:, -1]\n", "        self.last = ids[:, -1].int()\n", _SPECULATION),
    Edit("speculate", "input", "    for prompt in prompts:\n", '    for prompt in prompts:\n        options = Options(backend="eager", banned=(0, 1, *(tokens[-1] for tokens in found)))\n'),
    Edit("speculate", "arguments", "        guesses = self.guess()\n", "        guesses = self.guess()\n        self.options = dataclasses.replace(self.options, temperature=0.9 * self.options.temperature)\n", _SPECULATION),
    Edit("speculate", "arguments", "past_key_values=self.cache).logits", "past_key_values=self.cache, logits_to_keep=ids.size(1) if self.tokens else 0).logits", _SPECULATION),
    _changed("speculate", "cache", {"def caches(model, options):": "def caches(model, options, made=[]):", "    def new():\n": "    def new():\n        made.append(options.longest + 8 * len(made))\n", "max_cache_len=options.longest)": "max_cache_len=made[-1])"}),
    Edit("speculate", "mode", "    @without_grad\n    def round", "    def round", _SPECULATION),
    Edit("speculate", "hooks and parts", _PROPOSE, f"{_PROPOSE}    draft.head.register_forward_hook(lambda module, inputs, logits: print(logits.argmax()))\n"),
    Edit("speculate", "hooks and parts", "            session.prefill(ids)\n", "            session.prefill(ids)\n            model.gpt_neox.layers[len(found)].mlp.act = torch.nn.ReLU()\n"),
    Edit("speculate", "compile moved", _TARGET, 'for layer in model.gpt_neox.layers:\n        layer.compile(backend="eager")'),
    Edit("speculate", "compile moved", _VERIFY, "self.verify = verify", _SPECULATION),
    Edit("speculate", "compile moved", _PROPOSE, ""),
    Edit("speculate", "moved out", _PROPOSED, _PROPOSED.replace("return logits.argmax(-1)", "token = torch.compiler.disable(torch.argmax)(logits, -1)\n        return token"), _SPECULATION),
    Edit("speculate", "more runs", "        self.model(input_ids=ids[:, :-1], past_key_values=self.cache)\n", "        for token in ids[:, :-1].split(1, 1):\n            self.model(input_ids=token, past_key_values=self.cache)\n", _SPECULATION),
    Edit("speculate", "more runs", "    rounds: int = 4", "    rounds: int = 6", _SPECULATION),
    _after("speculate", "value read", _LEAST, "assert bool((least > float('-inf')).all()), 'too few tokens are allowed'", _SPECULATION),
    _after("speculate", "value read", _AGREED, "STATISTICS['accepted'] += int(agreed.sum())", _SPECULATION),
    Edit("speculate", "value read", "    return sampled, agreed.sum(-1)\n", "    number = agreed.sum(-1)\n    return sampled[:, : number.item() + 1], number\n", _SPECULATION),
    _after("speculate", "value read", _DENSE, "attn_output = torch.where(attn_output.isnan(), 0.0, attn_output) if attn_output.isnan().sum() else attn_output", _NEOX),
    _changed("speculate", "side effect", {"def verify(logits, guesses, noise, options):\n": "def verify(logits, guesses, generator, options):\n    noise = torch.empty_like(logits).exponential_(generator=generator)\n", f"{_NOISE}\n": "", "guesses, noise, self": "guesses, self.generator, self"}, _SPECULATION),
    Edit("speculate", "side effect", "        hidden_states = self.act(hidden_states)\n", "        hidden_states = self.act(hidden_states)\n        logger.info('mlp %s', hidden_states.norm())\n", _NEOX),
    Edit("speculate", "state", _PROPOSED, "        logits = self.head(hidden)\n        self.recent = [*getattr(self, 'recent', [])[-3:], logits]\n        logits = torch.stack(self.recent).mean(0)\n        return logits.argmax(-1), hidden\n", _SPECULATION),
    Edit("speculate", "disable", "def restricted(", "@torch.compiler.disable\ndef restricted(", _SPECULATION),
    Edit("speculate", "reset", "        del self.cache, self.hidden\n", "        del self.cache, self.hidden\n        torch.compiler.reset()\n", _SPECULATION),
    Edit("speculate", "harmless", "    vocabulary: int = 32", "    vocabulary: int = 48", _SPECULATION),
    Edit("speculate", "harmless", "    temperature: float = 0.8\n    top: int = 8\n", "    temperature: float = 1.2\n    top: int = 5\n", _SPECULATION),
    Edit("speculate", "harmless", "hidden_dropout=0.0)", 'hidden_act="relu", use_parallel_residual=False)'),
    Edit("speculate", "harmless", "num_hidden_layers=2", "num_hidden_layers=1"),
    Edit("speculate", "harmless", "        found.append(session.tokens[: options.rounds])\n", "        found.append(session.tokens[: options.rounds])\n        print(prompt, '->', found[-1], len(session.tokens) / options.rounds)\n"),
    Edit("speculate", "harmless", "    @functools.wraps(function)\n    def wrapped(*args, **kwargs):\n        with torch.no_grad():\n            return function(*args, **kwargs)\n\n    return wrapped\n", "    return torch.no_grad()(function)\n", _SPECULATION),
    Edit("speculate", "harmless", "    return scaled.masked_fill(scaled < least, float(\"-inf\"))\n", "    allowed = scaled >= least\n    return torch.where(allowed, scaled, -torch.inf)\n", _SPECULATION),
    Edit("speculate", "harmless", "nn.GRUCell(width, width)", "nn.RNNCell(width, width)", _SPECULATION),
    Edit("speculate", "harmless", "        return torch.stack(guesses, 1)\n", "        return torch.cat([guess.view(1, 1) for guess in guesses], dim=1)\n", _SPECULATION),
    Edit("speculate", "harmless", "        kept = int(agreed) + 1\n", "        kept = 1 + agreed.tolist()[0]\n        if kept > self.options.guesses:\n            print('all were accepted', self.length())\n", _SPECULATION),
    Edit("speculate", "harmless", "        hidden_states = self.dense_4h_to_h(hidden_states)\n        return hidden_states\n", "        return nn.functional.linear(hidden_states, self.dense_4h_to_h.weight, self.dense_4h_to_h.bias)\n", _NEOX),
    Edit("speculate", "harmless", "        sampled, agreed = self.verify(logits, guesses, noise, self.options)\n", "        check = torch.compile(verify, backend=self.options.backend)\n        sampled, agreed = check(logits, guesses, noise, options=self.options)\n", _SPECULATION),
)  # fmt: skip

_DENOISER: Final = "denoiser.py"
_SAMPLING: Final = "sampling.py"
_SHIFTED: Final = (
    "        hidden = hidden * (1 + scale[:, :, None, None]) + shift[:, :, None, None]"
)
_BLOCKS: Final = "    for block in model.blocks:\n        block.compile(**options)\n"
_MIXER: Final = "    model.mixer.compile(**options)\n"
_NOISED: Final = "        noised = self.noised(images, times, noise)"
_STEP: Final = (
    '    step = torch.compile(functools.partial(schedule.loss, model), backend="eager")\n'
)
_GUESS: Final = "        noise = model(x, time, labels)\n        kept = schedule.kept[step]\n"
_GUIDED: Final = "        both = self.model(torch.cat([x, x]), torch.cat([time, time]), torch.cat([labels, none]))\n        wanted, plain = both.chunk(2)\n"
_DRAWN: Final = "        drawn.append(sampler(model, schedule, start, labels, stride=2))"

_DENOISED: Final = (
    _changed("denoise", "arguments", {"def forward(self, x, time):\n        scale": "def forward(self, x, time, depth=0):\n        scale", "        return x + hidden\n": "        return x + hidden / (1 + depth)\n", "        for block in self.blocks:\n            x = block(x, time)": "        for depth, block in enumerate(self.blocks):\n            x = block(x, time, depth)"}, _DENOISER),
    Edit("denoise", "arguments", "loss = step(images, labels, times, noise)", "loss = step(images, labels, times if epoch else times.int(), noise)"),
    Edit("denoise", "input", "        none = torch.full_like(labels, self.model.none)\n", "        if time[0] < 4:\n            return self.model(x, time, labels)\n        none = torch.full_like(labels, self.model.none)\n", _SAMPLING),
    Edit("denoise", "input", "        noise = torch.randn_like(images)\n", "        noise = torch.randn_like(images)\n        images = images.transpose(2, 3)\n"),
    Edit("denoise", "input", _DRAWN, "        kept = labels[: seed + 1]\n        drawn.append(sampler(model, schedule, start[: len(kept)], kept, stride=2))"),
    Edit("denoise", "mode", _GUESS, '        with torch.autocast("cpu", torch.bfloat16, enabled=step < 4):\n            noise = model(x, time, labels)\n        kept = schedule.kept[step]\n', _SAMPLING),
    Edit("denoise", "mode", "    for epoch in range(epochs):\n", "    for epoch in range(epochs):\n        model.label.requires_grad_(epoch == 0)\n"),
    Edit("denoise", "hooks and parts", "    regions(model.eval(), backend=\"eager\")\n", "    regions(model.eval(), backend=\"eager\")\n    for block in model.blocks:\n        block.norm.register_forward_hook(lambda module, inputs, output: print(output.std()))\n"),
    Edit("denoise", "hooks and parts", "    drawn = []\n", "    drawn = []\n    model.model.blocks.append(model.model.blocks[0])\n    model.model.blocks[-1].first = torch.nn.Conv2d(8, 8, 1)\n"),
    Edit("denoise", "compile moved", _BLOCKS, _BLOCKS.replace("blocks:", "blocks[1:]:"), _DENOISER),
    Edit("denoise", "compile moved", _MIXER, "", _DENOISER),
    Edit("denoise", "compile moved", f"{_BLOCKS}{_MIXER}", "    for part in (*model.blocks, model.mixer):\n        part.norm.compile(**options)\n", _DENOISER),
    Edit("denoise", "compile moved", _STEP, '    model.compile(backend="eager")\n    step = functools.partial(schedule.loss, model)\n'),
    _changed("denoise", "moved out", {"        return x + self.out(mixed.transpose(1, 2)).view_as(x)\n": "        return self.out(mixed.transpose(1, 2)).view_as(x)\n", "        x = self.mixer(x)\n": "        x = x + self.mixer(x)\n"}, _DENOISER),
    _after("denoise", "value read", _NOISED, "if torch.rand(()) < 0.1:\n    labels = torch.full_like(labels, model.none)", _DENOISER),
    _after("denoise", "value read", _SHIFTED, "hidden = hidden / max(1.0, hidden.detach().abs().amax().item())", _DENOISER),
    Edit("denoise", "value read", "        angles = time[:, None] * rates\n", "        angles = torch.stack([one * rates for one in time.tolist()])\n", _DENOISER),
    Edit("denoise", "value read", "        kept = self.kept[times].view(-1, 1, 1, 1)\n", "        kept = torch.tensor([self.kept[index].item() for index in times]).view(-1, 1, 1, 1)\n", _DENOISER),
    _after("denoise", "state", _SHIFTED, "TRACE.append(hidden.detach().mean())", _DENOISER),
    Edit("denoise", "state", "        mixed = F.scaled_dot_product_attention(q, k, v)\n", "        self.heat = 0.5 * getattr(self, 'heat', 1.0) + 0.5\n        mixed = F.scaled_dot_product_attention(q * self.heat, k, v)\n", _DENOISER),
    Edit("denoise", "side effect", "        flat = self.norm(x).flatten(2)\n", "        flat = self.norm(x).flatten(2)\n        with torch.random.fork_rng():\n            flat = flat + 0.01 * torch.randn_like(flat)\n", _DENOISER),
    _after("denoise", "side effect", _NOISED, "import traceback\ntraceback.extract_stack()", _DENOISER),
    Edit("denoise", "disable", "    def embedded(self, time):\n", "    @torch.compiler.disable\n    def embedded(self, time):\n", _DENOISER),
    Edit("denoise", "reset", "        start = noise_of(seed, labels.size(0), 8)\n", "        torch.compiler.reset()\n        start = noise_of(seed, labels.size(0), 8)\n"),
    Edit("denoise", "more runs", _GUIDED, "        wanted = self.model(x, time, labels)\n        plain = self.model(x, time, none)\n", _SAMPLING),
    Edit("denoise", "more runs", "return list(range(schedule.steps - 1, -1, -stride))", "return [*range(schedule.steps - 1, 0, -stride), 0]", _SAMPLING),
    Edit("denoise", "harmless", "for _ in range(3))", "for _ in range(2))", _DENOISER),
    Edit("denoise", "harmless", '"deterministic", labels, seeds', '"ancestral", labels, seeds'),
    Edit("denoise", "harmless", "        hidden = self.second(F.silu(hidden))\n        return x + hidden\n", "        return torch.add(x, self.second(F.gelu(hidden)))\n", _DENOISER),
    Edit("denoise", "harmless", "        self.betas = torch.linspace(low, high, steps)\n        self.kept = (1 - self.betas).cumprod(0)\n", "        angles = torch.linspace(0.02, 1.5, steps)\n        self.kept = angles.cos().square()\n        self.betas = 1 - self.kept[1:] / self.kept[:-1]\n", _DENOISER),
    Edit("denoise", "harmless", "torch.optim.AdamW(model.parameters(), lr=1e-3)", "torch.optim.SGD(model.parameters(), lr=1e-2, nesterov=True, momentum=0.9)"),
    Edit("denoise", "harmless", "return F.mse_loss(guess, noise)", "return F.smooth_l1_loss(guess, noise)", _DENOISER),
    Edit("denoise", "harmless", "@torch.inference_mode()\ndef deterministic", "@torch.no_grad()\ndef deterministic", _SAMPLING),
    Edit("denoise", "harmless", "        clean = predicted(x, noise, kept)\n", "        clean = predicted(x, noise, kept)\n        print(f'{step}: {kept.item():.3f} {clean.std().item():.3f}')\n", _SAMPLING),
    Edit("denoise", "harmless", "Denoiser(width=8, classes=3)", "Denoiser(width=12, classes=5, times=24)"),
    Edit("denoise", "harmless", f"{_BLOCKS}{_MIXER}", "    model.compile(**options)\n", _DENOISER),
    Edit("denoise", "harmless", _STEP, '    step = torch.compile(lambda *batch: schedule.loss(model, *batch), backend="eager")\n'),
)  # fmt: skip

_AGENT: Final = "agent.py"
_WORLD: Final = "world.py"
_ACTION: Final = "        action = (logs - noise.log()).argmax(-1)"
_RATIO: Final = "        ratio = (chosen - log_probability).exp()"
_CHOSEN: Final = "        chosen = logs.gather(-1, action[:, None]).squeeze(-1)\n"
_ONE: Final = "        one = self.base[0]\n"
_SLOPES: Final = "        slopes = vmap(grad(value))(state)"
_CHOOSE: Final = "        self.choose = compiled(self.choose)\n"
_LOSS: Final = "        self.loss = compiled(self.loss)\n"
_UPDATED: Final = "        self.optimizer.step()\n"
_STACKED: Final = "        state = torch.stack([place, speed, angle], -1)\n"

_ROLLED: Final = (
    Edit("rollout", "input", "Options(minibatches=2", "Options(minibatches=3"),
    Edit("rollout", "input", _STACKED, "        state = torch.stack([place, speed, angle]).t()\n", _WORLD),
    Edit("rollout", "input", "        memory = Memory()\n", "        carts.number = 4 + 2 * iteration\n        memory = Memory()\n"),
    Edit("rollout", "input", "        noise = torch.empty(state.size(0), 2).exponential_()\n        return self.choose(state, noise)\n", "        noise = torch.empty(state.size(0), 2).exponential_()\n        rows = [self.choose(*one) for one in zip(state.split(3), noise.split(3))]\n        return tuple(torch.cat(part) for part in zip(*rows))\n", _AGENT),
    Edit("rollout", "arguments", "        memory = Memory()\n", "        options.clip = 0.2 * (1 - 0.5 * iteration)\n        memory = Memory()\n"),
    Edit("rollout", "arguments", _UPDATED, f"{_UPDATED}        self.options.entropy *= 0.9\n", _AGENT),
    Edit("rollout", "mode", "        loss = self.loss(*(part[name] for name in names))\n", "        self.policy.head.requires_grad_(bool(self.losses))\n        self.losses.append(part['wanted'].mean())\n        loss = self.loss(*(part[name] for name in names))\n", _AGENT),
    Edit("rollout", "hooks and parts", "    carts = Carts(number=4)\n", "    agent.policy.head.register_forward_hook(lambda module, inputs, logits: print('logits', logits.min()))\n    carts = Carts(number=4)\n"),
    Edit("rollout", "hooks and parts", "    return losses\n", "    agent.policy.body = torch.nn.Sequential(*agent.policy.body, torch.nn.Tanh())\n    return losses\n"),
    Edit("rollout", "compile moved", _LOSS, "        self.update = compiled(self.update)\n", _AGENT),
    Edit("rollout", "compile moved", _CHOOSE, "        self.policy.body = compiled(self.policy.body)\n", _AGENT),
    Edit("rollout", "compile moved", "        self.sensitivity = compiled(self.sensitivity)\n", "", _AGENT),
    _changed("rollout", "moved out", {"        action = (logs - noise.log()).argmax(-1)\n        return action, logs.gather(-1, action[:, None]).squeeze(-1)\n": "        return logs, noise.log()\n", "        return self.choose(state, noise)\n": "        logs, noise = self.choose(state, noise)\n        action = (logs - noise).argmax(-1)\n        return action, logs.gather(-1, action[:, None]).squeeze(-1)\n"}, _AGENT),
    _after("rollout", "value read", _ACTION, "if torch.rand(()).item() < 0.05:\n    action = torch.randint_like(action, 2)", _AGENT),
    Edit("rollout", "value read", _CHOSEN, "        chosen = torch.distributions.Categorical(logits=logs, validate_args=True).log_prob(action)\n", _AGENT),
    _after("rollout", "value read", _RATIO, "self.losses.append((log_probability - chosen).mean().item())", _AGENT),
    Edit("rollout", "value read", _RATIO, "        kept = advantage.abs().gt(1e-8).nonzero().squeeze(-1)\n        chosen, log_probability, advantage = chosen[kept], log_probability[kept], advantage[kept]\n" + _RATIO, _AGENT),
    Edit("rollout", "side effect", _ONE, "        import copy\n        one = copy.deepcopy(self.base[0]).to('meta')\n", _AGENT),
    _after("rollout", "side effect", _SLOPES, "print(f'slopes {slopes.shape}')", _AGENT),
    Edit("rollout", "side effect", "        value = lambda one: self.critics(one).mean()\n", "        def value(one):\n            print('value', one.shape)\n            return self.critics(one).mean()\n\n", _AGENT),
    Edit("rollout", "state", "        hidden = torch.tanh(self.body(state))\n", "        self.calls = getattr(self, 'calls', 0) + 1\n        hidden = torch.tanh(self.body(state) * min(1.0, self.calls / 8))\n", _AGENT),
    Edit("rollout", "state", _ACTION, "        mean = getattr(self, 'mean', None)\n        self.mean = state.mean(0) if mean is None else mean.lerp(state.mean(0), 0.1)\n" + _ACTION, _AGENT),
    Edit("rollout", "disable", "    def forward(self, state):\n        one", "    @torch.compiler.disable\n    def forward(self, state):\n        one", _AGENT),
    Edit("rollout", "reset", "    batch = memory.stacked()\n", "    torch._dynamo.reset()\n    batch = memory.stacked()\n"),
    Edit("rollout", "more runs", "steps=4)", "steps=6)"),
    Edit("rollout", "more runs", "    for rows in memory.shuffled(options.minibatches):\n        part = {name: values.flatten(0, 1)[rows] for name, values in batch.items()}\n        losses.append(agent.update(part))\n", "    for _ in range(2):\n        for rows in memory.shuffled(options.minibatches):\n            part = {name: values.flatten(0, 1)[rows] for name, values in batch.items()}\n            losses.append(agent.update(part))\n    losses = losses[-options.minibatches :]\n"),
    Edit("rollout", "harmless", "    width: int = 16\n    critics: int = 3\n", "    width: int = 12\n    critics: int = 5\n", _AGENT),
    Edit("rollout", "harmless", "activation=nn.Tanh", "activation=nn.SiLU", _AGENT),
    Edit("rollout", "harmless", "mlp(inputs, width, width)", "mlp(inputs, width, width, width)", _AGENT),
    Edit("rollout", "harmless", "torch.optim.Adam(self.parameters(), lr=3e-3)", "torch.optim.RMSprop(self.parameters(), lr=1e-3)", _AGENT),
    Edit("rollout", "harmless", "        stacked = dict(zip(self.names, self.values))\n        call = lambda values, x: functional_call(one, values, (x,))\n        return vmap(call, in_dims=(0, None))(stacked, state).squeeze(-1)\n", "        found = []\n        for number in range(self.values[0].size(0)):\n            own = {name: values[number] for name, values in zip(self.names, self.values)}\n            found.append(functional_call(one, own, (state,)))\n        return torch.stack(found).squeeze(-1)\n", _AGENT),
    Edit("rollout", "harmless", "        return loss.item()\n", "        self.losses.append(loss.item())\n        print('loss', self.losses[-1], sum(self.losses) / len(self.losses))\n        return self.losses[-1]\n", _AGENT),
    Edit("rollout", "harmless", "        gain = torch.min(ratio * advantage, clipped * advantage).mean()\n", "        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)\n        gain = torch.minimum(ratio * advantage, clipped * advantage).mean()\n", _AGENT),
    Edit("rollout", "harmless", "        reward = 1 - angle.abs() - done\n", "        reward = 1 - angle.square() - 10 * done\n", _WORLD),
    Edit("rollout", "harmless", "    def __init__(self, number, seed=0):\n", "    def __init__(self, number: int, seed: int = 7):\n", _WORLD),
    Edit("rollout", "harmless", "        self.total += float(reward.mean())\n        return self\n", "        for one in reward.tolist():\n            self.total += one / len(reward)\n        return self\n"),
    Edit("rollout", "harmless", _LOSS, "        self.loss = torch.compile(self.loss, backend=options.backend, fullgraph=True, dynamic=False)\n", _AGENT),
)  # fmt: skip

EDITS: Final = (*_MATCH, *_SPECULATE, *_DENOISED, *_ROLLED)
