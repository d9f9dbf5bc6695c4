"""Edits that are held out: what commits do to programs that entries were not worked on with.

They were written before any of them had been run under the gate, by somebody who knew its reports
and not how it works. The places of some are drawn by a seed, as in ``drawn``.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from benchmarks.planted.edits import TEST, Edit
from benchmarks.planted.held_out_programs import BESIDE, PROGRAMS

# ruff: noqa: E501  # an edit and its place are on a line each

_TEMPLATES: Final = {
    "drawn: break": (
        "import logging\nlogging.getLogger('run').warning('mean %s', {x}.mean())",
        "largest = {x}.detach().float().abs().max().numpy()\nassert largest >= 0",
        "if float({x}.detach().float().std(correction=0)) > 1e6:\n    {x} = {x}.clamp(-1e6, 1e6)",
        "rows = {x}.detach().flatten().nonzero()\nassert rows.size(1) == 1",
        "import warnings\nwarnings.warn('more than one row', stacklevel=2)",
        "import sys\nsys.stderr.write('{x}\\n')",
        "import time\ntime.sleep(0.0)",
        "torch.save({x}.detach(), '/dev/null')",
        "norms = [float(row) for row in {x}.detach().flatten()[:2]]\nassert norms",
    ),
    "drawn: state": (
        "type(self).uses = getattr(type(self), 'uses', 0) + 1\n{x} = {x} / type(self).uses",
        "self.norms = [*getattr(self, 'norms', []), {x}.detach().norm()]\n{x} = {x} / len(self.norms)",
        "import os\nos.environ['USES'] = os.environ.get('USES', '') + '1'\n{x} = {x} / len(os.environ['USES'])",
        "torch.seen_sums = [*getattr(torch, 'seen_sums', []), {x}.detach().sum()]\n{x} = {x} / len(torch.seen_sums)",
        "self.decayed = getattr(self, 'decayed', 1.0) * 0.9\n{x} = {x} * self.decayed",
    ),
    "drawn: harmless": (
        "{x}: torch.Tensor = {x}",
        "{x} = {x}.to({x}.dtype)",
        "{x} = torch.nn.functional.dropout({x}, 0.0)",
        "shape = {x}.shape\n{x} = {x}.reshape(shape)",
        "if {x}.dim() > 9:\n    raise ValueError(f'too many axes: {{x}.shape}')",
        "{x} = torch.where({x}.isnan(), torch.zeros_like({x}), {x})",
        "del_after = ('{x}', len({x}.shape))",
        "with torch.profiler.record_function('{x}'):\n    {x} = {x} + 0.0",
    ),
}
_DRAWN: Final = {"drawn: break": 3, "drawn: state": 2, "drawn: harmless": 2}


def templates(chance: random.Random) -> Mapping[str, list[str]]:
    """The lines that are put at drawn places of one program, chosen by chance, by kind of edit."""
    return {kind: chance.sample(_TEMPLATES[kind], number) for kind, number in _DRAWN.items()}


_T5: Final = "modeling_t5.py"
_QWEN: Final = "modeling_qwen2.py"
_WHISPER: Final = "modeling_whisper.py"
_DIGITS: Final = "digits.py"


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


_MEMORY: Final = "    memory = encode(input_ids=source, attention_mask=mask)"
_TARGET: Final = "        target = pad_to(out, LONGEST)"
_PICKED: Final = "        token = pick(answer.logits, index)"
_ENCODE: Final = 'encode = torch.compile(model.encoder, backend="eager")'
_DECODE: Final = 'decode = torch.compile(model, backend="eager")'
_FORWARDED: Final = "        hidden_states = hidden_states + self.dropout(forwarded_states)\n        return hidden_states\n"
_BIAS: Final = "        values = values.permute([2, 0, 1]).unsqueeze(0)  # shape (1, num_heads, query_length, key_length)"
_NORM: Final = "        variance = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)\n        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)\n"
_SHARED_BIAS: Final = "            position_bias = self_attention_position_bias"

_TRANSLATE: Final = (
    Edit("translate", "input", "torch.arange(20, 28).view(1, 8)", "torch.arange(20, 26).view(1, 6)"),
    Edit("translate", "input", _TARGET, "        target = out"),
    Edit("translate", "input", "mask = torch.ones_like(source)", "mask = source.ne(PAD) if FINISHED else torch.ones_like(source)"),
    Edit("translate", "arguments", "decoder_input_ids=target, use_cache=False)", "decoder_input_ids=target, use_cache=index == STEPS - 1)"),
    _changed("translate", "cache", {"    out = torch.full(": "    cache = None\n    out = torch.full(", "        target = pad_to(out, LONGEST)\n": "        target = out[:, -1:]\n", "use_cache=False)\n        token = pick(answer.logits, index)": "past_key_values=cache, use_cache=True)\n        cache = answer.past_key_values\n        token = pick(answer.logits, -1)"}),
    _after("translate", "mode", "            FINISHED.append(out)", "model.train()"),
    _after("translate", "hooks and parts", "    model = load()", "model.decoder.final_layer_norm.register_forward_hook(lambda module, inputs, output: print(output.shape))"),
    _after("translate", "hooks and parts", "            FINISHED.append(out)", "model.resize_token_embeddings(48 + 8 * len(FINISHED))"),
    Edit("translate", "compile moved", _ENCODE, "encode = model.encoder"),
    Edit("translate", "compile moved", _DECODE, 'model.decoder = torch.compile(model.decoder, backend="eager"); decode = model'),
    Edit("translate", "compile moved", "def pick(logits, index):", '@torch.compile(backend="eager")\ndef pick(logits, index):'),
    Edit("translate", "settings", _DECODE, 'decode = torch.compile(model, backend="eager", dynamic=True)'),
    Edit("translate", "reset", "            mask = torch.ones_like(source)\n", "            mask = torch.ones_like(source)\n            torch.compiler.reset()\n"),
    Edit("translate", "value read", _FORWARDED, _FORWARDED.replace("        return", "        if torch.isinf(hidden_states).any():\n            hidden_states = hidden_states.clamp(-65504, 65504)\n        return"), _T5),
    _after("translate", "value read", _BIAS, "self.shown = values.detach().tolist()", _T5),
    _after("translate", "state", _BIAS, "self.biases = {**getattr(self, 'biases', {}), len(getattr(self, 'biases', {})): values}", _T5),
    _after("translate", "side effect", _SHARED_BIAS, "with open('/dev/null', 'a') as log:\n    print(layer_module.__class__, file=log)", _T5),
    Edit("translate", "more runs", "STEPS = 4", "STEPS = 5"),
    Edit("translate", "harmless", _MEMORY, "    memory = encode(source, mask)"),
    Edit("translate", "harmless", "    with torch.no_grad():\n", "    with torch.inference_mode():\n"),
    Edit("translate", "harmless", _ENCODE, 'encode = torch.compile(model.encoder, backend="eager", fullgraph=True)'),
    _after("translate", "harmless", _PICKED, "print(index, token.item(), answer.logits.max().numpy())"),
    Edit("translate", "harmless", f"{_NORM}\n        # convert", "        size = hidden_states.shape[-1:]\n        hidden_states = nn.functional.rms_norm(hidden_states, size, eps=self.variance_epsilon)\n\n        # convert", _T5),
    Edit("translate", "harmless", "num_layers=2, num_decoder", "num_layers=1, num_decoder"),
    _changed("translate", "harmless", {"pad_to": "padded", "greedy": "translate"}),
    Edit("translate", "harmless", "    scores = logits[:, index]\n    return scores.argmax(-1, keepdim=True)", "    return logits.narrow(1, index, 1).argmax(-1)"),
)  # fmt: skip

_LOSS: Final = "            loss = forward(**batch, use_cache=False).loss"
_CAST: Final = '        with torch.autocast("cpu", dtype=torch.bfloat16):'
_CLIP: Final = "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
_FORWARD: Final = 'forward = torch.compile(model, backend="eager")'
_UPDATE: Final = 'update = torch.compile(optimizer.step, backend="eager")'
_MLP: Final = "        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))\n        return down_proj\n"
_LAYER: Final = "        residual = hidden_states\n        hidden_states = self.input_layernorm(hidden_states)\n"
_LAST: Final = "        hidden_states = self.norm(hidden_states)"
_HEADS: Final = "        cos, sin = position_embeddings"

_FINE_TUNE: Final = (
    _changed("fine_tune", "input", {"    for _ in range(number):": "    for step in range(number):", "(size, length)": "(size if step < number - 1 else 1, length)"}),
    _changed("fine_tune", "input", {"    for _ in range(number):": "    for bucket in range(number):", "(size, length)": "(size, length + 2 * bucket)"}),
    Edit("fine_tune", "arguments", _LOSS, '            kept = int(batch["labels"].ne(3).sum())\n            loss = forward(**batch, use_cache=False, num_items_in_batch=kept).loss'),
    _after("fine_tune", "arguments", "        optimizer.zero_grad(set_to_none=True)", 'if step % 2:\n    batch["attention_mask"] = torch.ones_like(batch["input_ids"])'),
    Edit("fine_tune", "mode", _CAST, '        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=step > 0):'),
    _after("fine_tune", "mode", "        meter.update(loss.item())", "if step == 1:\n    model.eval()\n    forward(**batch, use_cache=False)\n    model.train()"),
    _after("fine_tune", "mode", "    model = build()", "model.gradient_checkpointing_enable()"),
    _after("fine_tune", "hooks and parts", "        schedule.step()", "model.model.layers[step % 2].requires_grad_(False)"),
    Edit("fine_tune", "training", "lr=torch.tensor(1e-3)", "lr=1e-3"),
    Edit("fine_tune", "training", "optimizer.zero_grad(set_to_none=True)", "optimizer.zero_grad(set_to_none=step % 2 == 0)"),
    _after("fine_tune", "training", "        schedule.step()", "optimizer.state.clear()"),
    Edit("fine_tune", "compile moved", _FORWARD, 'for block in model.model.layers: block.compile(backend="eager")\n    forward = model'),
    Edit("fine_tune", "compile moved", _UPDATE, "update = optimizer.step"),
    _changed("fine_tune", "compile moved", {f"{_CLIP}\n": "", _UPDATE: 'update = torch.compile(lambda: (nn.utils.clip_grad_norm_(model.parameters(), 1.0), optimizer.step()), backend="eager")'}),
    Edit("fine_tune", "moved out", _LOSS, '            logits = forward(batch["input_ids"], use_cache=False).logits[:, :-1].float()\n            loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"][:, 1:].flatten())'),
    Edit("fine_tune", "value read", _MLP, _MLP.replace("        return", "        self.peak = max(getattr(self, 'peak', 0.0), down_proj.abs().max().item())\n        return"), _QWEN),
    Edit("fine_tune", "value read", _LAYER, f"        if self.training and torch.rand(()) < 0.1:\n            return hidden_states\n\n{_LAYER}", _QWEN),
    _after("fine_tune", "side effect", _LAST, "import logging\nlogging.getLogger('qwen2').warning('last layer %s', hidden_states.shape)", _QWEN),
    _after("fine_tune", "state", _HEADS, "self.forwards = getattr(self, 'forwards', 0) + 1\nquery_states = query_states * min(1.0, self.forwards / 3)", _QWEN),
    Edit("fine_tune", "more runs", "loader(4)", "loader(6)"),
    Edit("fine_tune", "harmless", _FORWARD, 'model.compile(backend="eager")\n    forward = model'),
    Edit("fine_tune", "harmless", "return min(1.0, (step + 1) / 3)", "return 1.0 / (1 + step)"),
    Edit("fine_tune", "harmless", "        meter.update(loss.item())\n", "        meter.update(float(loss.detach()))\n        print(step, meter.mean, schedule.get_last_lr())\n"),
    Edit("fine_tune", "harmless", "max_position_embeddings=32", "max_position_embeddings=32, attention_dropout=0.1"),
    Edit("fine_tune", "harmless", "def train(model, forward, update, optimizer, schedule, batches):", "def train(model: nn.Module, forward, update, optimizer: torch.optim.Optimizer, schedule, batches) -> float:"),
    _changed("fine_tune", "harmless", {f"{_CAST}\n{_LOSS}": _LOSS[4:], "torch.compile(model, ": 'torch.compile(torch.autocast("cpu", dtype=torch.bfloat16)(model.forward), '}),
    Edit("fine_tune", "harmless", f"{_CLIP}\n        update()\n        schedule.step()", f"{_CLIP.replace('norm_', 'value_')}\n        schedule.step()\n        update()"),
    Edit("fine_tune", "harmless", "def loader(number, size=2, length=8):", "def loader(number, size=3, length=12):"),
)  # fmt: skip

_POOL: Final = "        weights = (hidden @ self.query).softmax(-1)"
_REGIONS: Final = '    for layer in model.encoder.layers:\n        layer.compile(backend="eager")\n'
_CLASSIFY: Final = '    model.classify = torch.compile(model.classify, backend="eager")\n'
_LOGITS: Final = "        logits = model(features(clip))"
_TAGGER: Final = "    model = compile_regions(Tagger(CONFIG).eval())"
_CLAMPED: Final = "        return hidden_states\n\n\nclass WhisperDecoderLayer"

_TAG: Final = (
    Edit("tag", "input", "return [torch.randn(size, 147) for _ in range(number)]", "return [torch.randn(size + index // 2, 147) for index in range(number)]"),
    Edit("tag", "mode", _LOGITS, '        with torch.autocast("cpu", torch.bfloat16, enabled=len(guesses) > 0):\n            logits = model(features(clip))'),
    Edit("tag", "mode", "        guesses.append(logits.argmax(-1))\n", "        guesses.append(logits.argmax(-1))\n        model.train()\n"),
    Edit("tag", "arguments", "self.encoder(features).last", "self.encoder(features, output_attentions=True).last"),
    _after("tag", "hooks and parts", _TAGGER, "model.encoder.layers[0].fc1.register_forward_hook(lambda module, inputs, output: output.clamp(-5, 5))"),
    _after("tag", "hooks and parts", _TAGGER, "nn.utils.parametrizations.weight_norm(model.encoder.layers[2].fc2)"),
    _after("tag", "hooks and parts", "    for clip in recordings:", "    model.head = nn.Linear(16, 5 + len(guesses))"),
    Edit("tag", "compile moved", _REGIONS, _REGIONS.replace("layer.compile", "layer.self_attn.compile")),
    Edit("tag", "compile moved", _REGIONS, _REGIONS.replace("layers:", "layers[: len(model.encoder.layers) // 2]:")),
    Edit("tag", "compile moved", _REGIONS, '    model.encoder.compile(backend="eager")\n'),
    Edit("tag", "compile moved", _CLASSIFY, ""),
    Edit("tag", "compile moved", "def features(clip):", '@torch.compile(backend="eager")\ndef features(clip):'),
    _changed("tag", "moved out", {"        pooled = self.pool(hidden)\n        return self.head(pooled)": "        return self.head(hidden)", "return self.classify(hidden)": "return self.classify(self.pool(hidden))"}),
    Edit("tag", "settings", _CLASSIFY, _CLASSIFY.replace("eager", 'eager", dynamic=True, mode="reduce-overhead')),
    _after("tag", "value read", _POOL, "entropy = -(weights * weights.log()).sum(-1).mean().item()\nassert entropy == entropy"),
    Edit("tag", "value read", _CLAMPED, f"        if not torch.isfinite(hidden_states).all():\n            hidden_states = torch.nan_to_num(hidden_states)\n\n{_CLAMPED}", _WHISPER),
    _after("tag", "side effect", "        pooled = self.pool(hidden)", "torch.manual_seed(0)"),
    Edit("tag", "state", "    def pool(self, hidden):\n", "    def pool(self, hidden, seen=[]):\n        seen.append(hidden.size(1))\n"),
    _after("tag", "state", "        pooled = self.pool(hidden)", "Tagger.calls = getattr(Tagger, 'calls', 0) + 1"),
    Edit("tag", "disable", "    def pool(self, hidden):", "    @torch.compiler.disable(recursive=False)\n    def pool(self, hidden):"),
    Edit("tag", "reset", _LOGITS, f"        torch._dynamo.reset_code_caches()\n{_LOGITS}"),
    Edit("tag", "more runs", "clips(3)", "clips(3) + clips(1)"),
    Edit("tag", "harmless", "encoder_layers=3", "encoder_layers=2"),
    _changed("tag", "harmless", {"max_source_positions=10": "max_source_positions=6", "147": "91"}),
    Edit("tag", "harmless", "(weights.unsqueeze(-1) * hidden).sum(1)", "(weights.unsqueeze(1) @ hidden).squeeze(1)"),
    Edit("tag", "harmless", "        pooled = self.pool(hidden)\n", "        weights = torch.softmax(hidden @ self.query, dim=-1)\n        pooled = torch.einsum('bt,btd->bd', weights, hidden)\n"),
    _changed("tag", "harmless", {"        self.head = nn.Linear(config.d_model, labels)\n": '        self.head = nn.Linear(config.d_model, labels)\n        self.classify = torch.compile(self.classify, backend="eager")\n', _CLASSIFY: ""}),
    Edit("tag", "harmless", _REGIONS, _REGIONS.replace('"eager"', '"eager", fullgraph=True, mode="default"')),
    Edit("tag", "harmless", "        guesses.append(logits.argmax(-1))\n", "        guesses.append(torch.tensor(logits.argmax(-1).tolist()))\n        print(logits.softmax(-1).max().item())\n"),
    _after("tag", "harmless", _TAGGER, "model.encoder.layer_norm.register_forward_hook(lambda module, inputs, output: print(output.mean()))"),
)  # fmt: skip

_BATCHES: Final = "            for batch in images.split(4):"
_NOISE: Final = "        noise = torch.randn_like(std)"
_ANNEALED: Final = "return torch.tensor(min(1.0, 0.1 * (epoch + 1)))"
_ELBO: Final = "    divergence = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum()"
_OUT: Final = "        logits, mean, log_var = self.model(images)"
_COMPILED: Final = "self.loss = torch.compile(self.loss_of, backend=backend)"
_SAMPLE: Final = "self.sample = torch.compile(self.average.model.decode, backend=backend)"

_ENCODED: Final = (
    Edit("encode", "input", "load_digits(8)", "load_digits(10)"),
    Edit("encode", "input", "self.loss(images[:4], torch.ones(()))", "self.loss(images, torch.ones(()))", _DIGITS),
    _after("encode", "input", _BATCHES, "    batch = batch.transpose(2, 3) if epoch else batch", _DIGITS),
    Edit("encode", "arguments", _ANNEALED, "return min(1.0, 0.1 * (epoch + 1))", _DIGITS),
    Edit("encode", "arguments", "samples = trainer.generate(2)", "samples = torch.cat([trainer.generate(number) for number in (2, 5)])[:2]"),
    _after("encode", "mode", "        for epoch in range(epochs):", "    self.model.encoder.drop.train(epoch == 0)", _DIGITS),
    _after("encode", "hooks and parts", "        for epoch in range(epochs):", "    self.model.encoder.drop.p = 0.1 / (epoch + 1)", _DIGITS),
    _after("encode", "hooks and parts", "    model = VAE(width=4)", "model.decoder.out.register_forward_pre_hook(lambda module, inputs: print('decode'))"),
    _after("encode", "training", "                loss.backward()", "self.model.encoder.down[0].requires_grad_(False)", _DIGITS),
    Edit("encode", "compile moved", _COMPILED, "self.model = torch.compile(model, backend=backend); self.loss = self.loss_of", _DIGITS),
    Edit("encode", "compile moved", _SAMPLE, "self.sample = self.average.model.decode", _DIGITS),
    Edit("encode", "compile moved", f"        {_COMPILED}\n", f"        {_COMPILED}\n        self.average.update = torch.compile(self.average.update, backend=backend)\n", _DIGITS),
    _changed("encode", "moved out", {"        logits = self.decoder(z)\n        return logits.sigmoid()": "        return self.decoder(z)", "return self.sample(codes)": "return self.sample(codes).sigmoid()"}, _DIGITS),
    Edit("encode", "settings", "import copy\n", "import copy\nimport torch._dynamo.config\n\ntorch._dynamo.config.recompile_limit = 1\n", _DIGITS),
    Edit("encode", "value read", f"{_ELBO}\n", f"{_ELBO}\n    print(f'divergence {{divergence.item():.2f}}')\n", _DIGITS),
    Edit("encode", "value read", f"{_ELBO}\n", f"{_ELBO}\n    assert divergence >= 0, 'negative divergence'\n", _DIGITS),
    Edit("encode", "value read", "        return mean, log_var\n", "        if torch.isnan(mean).any() or torch.isnan(log_var).any():\n            raise FloatingPointError('the encoder gives NaN')\n        return mean, log_var\n", _DIGITS),
    Edit("encode", "side effect", _NOISE, "        noise = torch.randn(std.shape, generator=torch.Generator().manual_seed(0))", _DIGITS),
    Edit("encode", "side effect", "        return mean + noise * std\n", "        return torch.distributions.Normal(mean, std).rsample()\n", _DIGITS),
    Edit("encode", "state", f"{_ELBO}\n", f"{_ELBO}\n    global STEPS\n    STEPS += 1\n    beta = beta * min(1.0, STEPS / 10)\n", _DIGITS),
    _after("encode", "state", _OUT, "self.history.append(mean.detach().mean())", _DIGITS),
    Edit("encode", "disable", "        self.mean = nn.Linear(64, width)\n", "        self.mean = torch.compiler.disable(nn.Linear(64, width))\n", _DIGITS),
    Edit("encode", "more runs", "trainer.fit(images, epochs=2)", "trainer.fit(images, epochs=3)"),
    Edit("encode", "harmless", ".view(-1, 16, 2, 2)", ".unflatten(1, (16, 2, 2))", _DIGITS),
    Edit("encode", "harmless", "        x = self.drop(x.flatten(1))\n", "        x = x.flatten(1)\n", _DIGITS),
    Edit("encode", "harmless", f"        std = torch.exp(0.5 * log_var)\n{_NOISE}\n        return mean + noise * std\n", "        return torch.addcmul(mean, torch.randn_like(mean), (0.5 * log_var).exp())\n", _DIGITS),
    Edit("encode", "harmless", "            self.history.append(loss.item())\n", "            self.history.append(loss.item())\n            print(f'{epoch}: {self.history[-1]:.3f}')\n", _DIGITS),
    _changed("encode", "harmless", {"reparametrize": "sampled"}, _DIGITS),
    Edit("encode", "harmless", _BATCHES, "            for batch in torch.utils.data.DataLoader(images, batch_size=4):", _DIGITS),
)  # fmt: skip

EDITS: Final = (*_TRANSLATE, *_FINE_TUNE, *_TAG, *_ENCODED)
