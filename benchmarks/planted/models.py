"""Programs of models of transformers, with edits planted in the model and in what calls it.

A model's file is copied beside the test, so that a line of it can be edited; weights are drawn by
chance and nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Final

from benchmarks.planted.edits import Edit

# ruff: noqa: E501  # an edit and its place are on a line each

CLASSIFY: Final = """
import torch
from transformers import DistilBertConfig
from modeling_distilbert import DistilBertForSequenceClassification


def test_planted():
    torch.manual_seed(0)
    config = DistilBertConfig(vocab_size=64, dim=16, hidden_dim=32, n_heads=2, n_layers=2)
    model = DistilBertForSequenceClassification(config).eval()
    run = torch.compile(model, backend="eager")
    with torch.no_grad():
        for step in range(3):
            ids = torch.arange(1, 9).repeat(2, 1)
            mask = torch.ones(2, 8, dtype=torch.long)
            logits = run(input_ids=ids, attention_mask=mask).logits
    assert logits.shape == (2, 2)
"""

DECODE: Final = """
import torch
from transformers import DynamicCache, LlamaConfig, StaticCache
from modeling_llama import LlamaForCausalLM


def decode(step, cache, token, length):
    tokens = [token]
    for index in range(length):
        position = torch.tensor([[index]])
        out = step(input_ids=token, position_ids=position, past_key_values=cache)
        token = out.logits[:, -1:].argmax(-1)
        tokens.append(token)
    return torch.cat(tokens, 1)


def test_planted():
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2)
    model = LlamaForCausalLM(config).eval()
    step = torch.compile(model, backend="eager")
    cache = StaticCache(config=config, max_cache_len=16)
    with torch.no_grad():
        out = decode(step, cache, torch.ones(1, 1, dtype=torch.long), 4)
    assert out.shape == (1, 5)
"""

TRAIN: Final = """
import torch
from transformers import LlamaConfig
from modeling_llama import LlamaForCausalLM


def test_planted():
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2)
    model = LlamaForCausalLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    forward = torch.compile(model, backend="eager")
    for number in range(3):
        batch = torch.arange(1, 9).repeat(2, 1)
        labels = batch
        loss = forward(input_ids=batch, labels=labels, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    assert loss.dim() == 0
"""

PROGRAMS: Final = {"classify": CLASSIFY, "generate": DECODE, "train_lm": TRAIN}

_IMPORTED: Final = re.compile(r"from modeling_(\w+) import")
_RELATIVE: Final = re.compile(r"(?m)^from (\.+)(\w*)")


def copied(program: str) -> dict[str, str]:
    """The files of transformers that a program has a copy of, by name."""
    found = {}
    for model in _IMPORTED.findall(program):
        spec = importlib.util.find_spec(f"transformers.models.{model}.modeling_{model}")
        assert spec is not None
        assert spec.origin is not None
        parts = ["transformers", "models", model]
        text = Path(spec.origin).read_text()
        absolute = _RELATIVE.sub(
            lambda dots, parts=parts: (  # type: ignore[misc]
                f"from {'.'.join(filter(None, (*parts[: len(parts) + 1 - len(dots[1])], dots[2])))}"
            ),
            text,
        )
        found[f"modeling_{model}.py"] = absolute
    return found


_BERT: Final = "modeling_distilbert.py"
_LLAMA: Final = "modeling_llama.py"


def _in(program: str, kind: str, file: str, old: str, more: str) -> Edit:
    """An edit that puts lines before one that occurs once in a file."""
    indent = old[: len(old) - len(old.lstrip())]
    lines = "".join(f"{indent}{line}\n" for line in more.split("\n"))
    return Edit(program, kind, old, f"{lines}{old}", file)


_POOLED: Final = "        pooled_output = self.pre_classifier(pooled_output)  # (bs, dim)\n        pooled_output = nn.ReLU()(pooled_output)  # (bs, dim)"
_FFN: Final = "        x = self.activation(x)"
_EMBEDDED: Final = "        embeddings = self.LayerNorm(embeddings)  # (bs, max_seq_length, dim)"
_BLOCK: Final = "        ffn_output = self.ffn(attention_output)"
_ATTENDED: Final = "        attn_output = self.o_proj(attn_output)"
_MLP: Final = "        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))"
_LAYERS: Final = "        hidden_states = self.norm(hidden_states)"
_HEAD: Final = "        logits = self.lm_head(hidden_states)\n\n        loss = None"

EDITS: Final = (
    # What cannot be traced, deep in the model.
    _in("classify", "model: value read", _BERT, _POOLED, "if pooled_output.norm() > 1e9:\n    raise ValueError('it diverged')"),
    _in("classify", "model: value read", _BERT, _EMBEDDED, "assert int(input_ids.max()) < 64"),
    _in("generate", "model: value read", _LLAMA, _HEAD, "hidden_states = hidden_states / max(1.0, float(hidden_states.abs().max()))"),
    _in("train_lm", "model: value read", _LLAMA, _ATTENDED, "self.largest = attn_output.detach().max().item()"),
    _in("classify", "model: size from data", _BERT, _POOLED, "pooled_output = pooled_output[pooled_output.abs().sum(-1) >= 0]"),
    _in("train_lm", "model: size from data", _LLAMA, _LAYERS, "kept = torch.nonzero(hidden_states[0, :, 0] > -1e9)[:, 0]\nhidden_states = hidden_states[:, : len(kept)]"),
    _in("classify", "model: side effect", _BERT, _FFN, "print(x.shape)"),
    _in("classify", "model: side effect", _BERT, _BLOCK, "import time\ntime.sleep(0)"),
    _in("generate", "model: side effect", _LLAMA, _MLP, "import os\nos.getpid()"),
    _in("train_lm", "model: side effect", _LLAMA, _MLP, "with open('/dev/null', 'w') as file:\n    file.write('mlp')"),
    # State of the model, which changes from call to call.
    _in("classify", "model: state", _BERT, _FFN, "self.calls = getattr(self, 'calls', 0) + 1\nx = x * self.calls"),
    _in("classify", "model: state", _BERT, _BLOCK, "logger.blocks = getattr(logger, 'blocks', 0) + 1\nattention_output = attention_output * logger.blocks"),
    _in("generate", "model: state", _LLAMA, _LAYERS, "self.config.calls = getattr(self.config, 'calls', 0) + 1\nhidden_states = hidden_states * self.config.calls"),
    _in("train_lm", "model: state", _LLAMA, _LAYERS, "self.scale = getattr(self, 'scale', 1.0) * 0.5\nhidden_states = hidden_states * self.scale"),
    # What calls it varies: sizes, keywords, caches, modes, parts of the model.
    Edit("classify", "call: size", "ids = torch.arange(1, 9).repeat(2, 1)\n            mask = torch.ones(2, 8, dtype=torch.long)", "ids = torch.arange(1, 9 - step).repeat(2, 1)\n            mask = torch.ones_like(ids)"),
    Edit("train_lm", "call: size", "        labels = batch\n", "        batch = batch[: 2 - number // 2]\n        labels = batch\n"),
    Edit("classify", "call: keyword", "            logits = run(input_ids=ids, attention_mask=mask).logits\n", "            mask = mask if step else None\n            logits = run(input_ids=ids, attention_mask=mask).logits\n"),
    Edit("classify", "call: keyword", "attention_mask=mask).logits", "attention_mask=mask, output_hidden_states=step > 0).logits"),
    Edit("train_lm", "call: keyword", "use_cache=False).loss", "use_cache=False, logits_to_keep=8 if number else 0).loss"),
    Edit("generate", "call: cache", "cache = StaticCache(config=config, max_cache_len=16)", "cache = DynamicCache(config=config)"),
    Edit("generate", "call: cache", "        position = torch.tensor([[index]])\n", "        position = torch.tensor([[index]])\n        cache = StaticCache(config=step.config, max_cache_len=16 + index)\n"),
    Edit("classify", "call: mode", "            mask = torch.ones(2, 8, dtype=torch.long)\n", "            mask = torch.ones(2, 8, dtype=torch.long)\n            model.train(step == 1)\n"),
    Edit("train_lm", "call: mode", "        labels = batch\n", "        labels = batch\n        model.model.layers.requires_grad_(number > 0)\n"),
    Edit("classify", "call: mode", "            mask = torch.ones(2, 8, dtype=torch.long)\n", "            mask = torch.ones(2, 8, dtype=torch.long)\n            torch.set_default_dtype(torch.float64 if step else torch.float32)\n"),
    Edit("classify", "call: parts", "            mask = torch.ones(2, 8, dtype=torch.long)\n", "            mask = torch.ones(2, 8, dtype=torch.long)\n            model.distilbert.transformer.layer = model.distilbert.transformer.layer[: 2 - step // 2]\n"),
    Edit("classify", "call: parts", "            mask = torch.ones(2, 8, dtype=torch.long)\n", "            mask = torch.ones(2, 8, dtype=torch.long)\n            model.classifier = torch.nn.Linear(16, 2, bias=step > 0)\n"),
    # Less of the model is compiled.
    Edit("generate", "model: disabled", "    def forward(self, x):\n        down_proj", "    @torch.compiler.disable\n    def forward(self, x):\n        down_proj", _LLAMA),
    Edit("train_lm", "model: disabled", '@use_kernel_forward_from_hub("rotary_pos_emb")\ndef apply', '@torch.compiler.disable\n@use_kernel_forward_from_hub("rotary_pos_emb")\ndef apply', _LLAMA),
    Edit("classify", "model: disabled", "    def ff_chunk(self", "    @torch.compiler.disable\n    def ff_chunk(self", _BERT),
    Edit("classify", "call: less compiled", 'run = torch.compile(model, backend="eager")', 'model.distilbert = torch.compile(model.distilbert, backend="eager"); run = model'),
    Edit("generate", "call: less compiled", 'step = torch.compile(model, backend="eager")', 'model.model = torch.compile(model.model, backend="eager"); step = model'),
    Edit("train_lm", "call: less compiled", 'forward = torch.compile(model, backend="eager")', "forward = model"),
    # What changes nothing for the compiler, or makes the program smaller.
    Edit("classify", "model: harmless", "        x = self.dropout(x)\n        return x\n", "        return x\n", _BERT),
    Edit("classify", "model: harmless", "pooled_output = nn.ReLU()(pooled_output)  # (bs, dim)\n        pooled_output = self.dropout(pooled_output)  # (bs, dim)\n        logits = self.classifier(pooled_output)  # (bs, num_labels)", "pooled = nn.functional.gelu(pooled_output)\n        pooled_output = self.dropout(pooled)\n        logits = self.classifier(pooled_output)", _BERT),
    Edit("generate", "model: harmless", "        return down_proj\n", "        # what the projection gives\n        return down_proj\n", _LLAMA),
    Edit("train_lm", "model: harmless", "        hidden_states = residual + hidden_states\n        return hidden_states\n", "        return residual + hidden_states\n", _LLAMA),
    Edit("generate", "call: harmless", "        tokens.append(token)\n", "        tokens.append(token)\n        assert int(token) < 64\n"),
    Edit("train_lm", "call: harmless", "        optimizer.zero_grad()\n", "        optimizer.zero_grad(set_to_none=number > 5)\n        print(loss.item())\n"),
    Edit("classify", "call: harmless", "n_layers=2)", "n_layers=1)"),
    Edit("train_lm", "call: harmless", "range(3)", "range(4)"),
)  # fmt: skip
