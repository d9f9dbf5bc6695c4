"""Edits drawn by chance: a seed says at which executed lines of a model which edit is planted.

The programs are others than those that entries were worked on with. What is executed, and which
variables are tensors there, is found by a trace of the uncompiled program.
"""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.planted.edits import TEST, Edit
from cases.forked import in_child

# ruff: noqa: E501  # an edit and its place are on a line each

SCORE: Final = """
import torch
from transformers import GPT2Config
from modeling_gpt2 import GPT2LMHeadModel


def score(run, batches):
    losses = []
    for number, ids in enumerate(batches):
        labels = ids
        pass  # CALL
        losses.append(run(input_ids=ids, labels=labels, use_cache=False).loss)
    return torch.stack(losses)


def test_planted():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2)
    model = GPT2LMHeadModel(config).eval()
    batches = [torch.arange(1, 9).repeat(2, 1) for _ in range(3)]
    run = torch.compile(model, backend="eager")
    with torch.no_grad():
        losses = score(run, batches)
    assert losses.dim() == 1
"""

TUNE: Final = """
import torch
from transformers import BertConfig
from modeling_bert import BertForSequenceClassification


def test_planted():
    torch.manual_seed(0)
    config = BertConfig(vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    model = BertForSequenceClassification(config).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def loss_of(ids, mask, labels):
        return model(input_ids=ids, attention_mask=mask, labels=labels).loss

    forward = torch.compile(loss_of, backend="eager")
    update = torch.compile(optimizer.step, backend="eager")
    for number in range(3):
        ids = torch.arange(1, 9).repeat(2, 1)
        mask = torch.ones_like(ids)
        labels = torch.tensor([0, 1])
        pass  # CALL
        loss = forward(ids, mask, labels)
        loss.backward()
        update()
        optimizer.zero_grad()
    assert loss.dim() == 0
"""

SEE: Final = """
import torch
from transformers import ViTConfig
from modeling_vit import ViTForImageClassification


def test_planted():
    torch.manual_seed(0)
    config = ViTConfig(hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, image_size=8, patch_size=4)
    model = ViTForImageClassification(config).eval()
    for layer in model.vit.layers:
        layer.compile(backend="eager")
    classify = torch.compile(model.classifier.forward, backend="eager")
    model.classifier.forward = lambda x: x
    with torch.inference_mode():
        for number in range(3):
            images = torch.ones(2, 3, 8, 8)
            pass  # CALL
            hidden = model(pixel_values=images).logits
            out = classify(hidden)
    assert out.shape[1] == 2
"""

PROGRAMS: Final = {"score": SCORE, "tune": TUNE, "see": SEE}


class _Place(NamedTuple):
    """A statement that was executed: what it assigned to ``name`` is a tensor of numbers."""

    line: int
    end: int
    name: str
    has_self: bool


_AFTER: Final = {
    "drawn: break": (
        "print({x}.shape)",
        "if {x}.isnan().any():\n    raise ValueError('nan')",
        "{x} = {x} * max(1.0, {x}.detach().abs().max().item())",
        "assert len({x}.detach().flatten().tolist()) > 0",
        "with open('/dev/null', 'a') as file:\n    file.write(str(tuple({x}.shape)))",
    ),
    "drawn: state": (
        "torch.seen_here = getattr(torch, 'seen_here', 0) + 1\n{x} = {x} + torch.seen_here",
        "self.seen_here = getattr(self, 'seen_here', 0) + 1\n{x} = {x} * self.seen_here",
        "if not hasattr(self, 'seen_here'):\n    self.seen_here = []\nself.seen_here.append(1)\n{x} = {x} * len(self.seen_here)",
    ),
    "drawn: harmless": (
        "{x} = {x} * 1.0",
        "{x} = {x}.contiguous()",
        "assert {x}.dim() >= 0",
        "# the line before sets {x}",
    ),
}

CALLS: Final = (
    Edit("score", "call: input", "pass  # CALL", "ids = labels = ids[:, : 8 - number]"),
    Edit("score", "call: input", "pass  # CALL", "labels = labels if number < 2 else None\n        if labels is None:\n            losses.append(run(input_ids=ids, use_cache=False).logits.mean())\n            continue"),
    Edit("score", "call: mode", "pass  # CALL", "torch.set_grad_enabled(number > 0)"),
    Edit("score", "call: parts", "    with torch.no_grad():\n", "    model.transformer.h[1].register_forward_hook(lambda m, i, o: print('block'))\n    with torch.no_grad():\n"),
    Edit("score", "call: less compiled", 'run = torch.compile(model, backend="eager")', 'model.transformer = torch.compile(model.transformer, backend="eager"); run = model'),
    Edit("score", "call: less compiled", 'run = torch.compile(model, backend="eager")', "run = model"),
    Edit("score", "call: less compiled", 'run = torch.compile(model, backend="eager")', 'run = torch.compile(model, backend="eager", disable=True)'),
    Edit("score", "call: more runs", "range(3)", "range(5)"),
    Edit("score", "call: harmless", "pass  # CALL", "ids = labels = ids + 1"),
    Edit("score", "call: harmless", "pass  # CALL", "print(number, ids.shape)"),
    Edit("score", "call: harmless", "n_layer=2", "n_layer=1"),
    Edit("tune", "call: input", "pass  # CALL", "mask = mask[:, None, None, :] if number == 2 else mask"),
    Edit("tune", "call: input", "pass  # CALL", "labels = labels.float()[:, None].repeat(1, 2) if number else labels"),
    Edit("tune", "call: training", "pass  # CALL", "optimizer.param_groups[0]['lr'] = 0.1 * (number + 1)"),
    Edit("tune", "call: training", "pass  # CALL", "model.bert.embeddings.requires_grad_(number < 1)"),
    Edit("tune", "call: mode", "pass  # CALL", "model.eval() if number == 1 else model.train()"),
    Edit("tune", "call: parts", "pass  # CALL", "model.dropout = torch.nn.Dropout(0.1 * number)"),
    Edit("tune", "call: less compiled", 'update = torch.compile(optimizer.step, backend="eager")', "update = optimizer.step"),
    Edit("tune", "call: less compiled", 'forward = torch.compile(loss_of, backend="eager")', "forward = loss_of"),
    Edit("tune", "call: more runs", "        loss = forward(ids, mask, labels)\n", "        loss = forward(ids, mask, labels) + forward(ids, mask, labels)\n"),
    Edit("tune", "call: harmless", "pass  # CALL", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
    Edit("tune", "call: harmless", "lr=0.01", "lr=0.02"),
    Edit("see", "call: input", "torch.ones(2, 3, 8, 8)", "torch.ones(2 + number, 3, 8, 8)"),
    Edit("see", "call: input", "pass  # CALL", "model.double() if number == 2 else None\n            images = images.to(model.dtype)"),
    Edit("see", "call: mode", "pass  # CALL", "model.vit.layers[0].train(number == 1)"),
    Edit("see", "call: less compiled", "in model.vit.layers:", "in model.vit.layers[:2]:"),
    Edit("see", "call: less compiled", 'classify = torch.compile(model.classifier.forward, backend="eager")', "classify = model.classifier.forward"),
    Edit("see", "call: more runs", "out = classify(hidden)", "out = classify(hidden) + classify(hidden)"),
    Edit("see", "call: harmless", "pass  # CALL", "images = images * 0.5"),
    Edit("see", "call: harmless", "num_hidden_layers=3", "num_hidden_layers=2"),
)  # fmt: skip


def templates(_: random.Random) -> Mapping[str, Sequence[str]]:
    """The lines that are put at drawn places of each program, by kind of edit."""
    return _AFTER


def edits(
    seed: int,
    files: dict[str, dict[str, str]],
    folder: Path,
    chosen: Callable[[random.Random], Mapping[str, Sequence[str]]] = templates,
) -> list[Edit]:
    """The edits of a seed; ``files`` are those of each program, by name, to be put into a folder.

    ``chosen`` gives back the lines that are planted in a program.
    """
    found: list[Edit] = []
    for program, texts in files.items():
        chance = random.Random(f"{seed} {program}")
        place = folder / f"drawn_{program}"
        place.mkdir()
        for name, text in texts.items():
            (place / name).write_text(text)
        (model,) = (name for name in texts if name.endswith(".py") and name != TEST)
        found += _drawn(program, model, texts[model], place, chance, chosen(chance))
    return found


def _drawn(
    program: str,
    model: str,
    text: str,
    folder: Path,
    chance: random.Random,
    chosen: Mapping[str, Sequence[str]],
) -> Iterator[Edit]:
    traced = in_child(_traced, f"{folder / TEST}|{folder / model}")
    places = [_Place(*one) for one in traced["places"]]
    for kind, templates in chosen.items():
        for template in templates:
            fits = [one for one in places if one.has_self or "self." not in template]
            place = chance.choice(fits)
            lines = text.splitlines(keepends=True)[: place.end]
            indent = lines[place.line - 1][: -len(lines[place.line - 1].lstrip())]
            more = template.replace("{x}", place.name).split("\n")
            old = _once(lines, text)
            yield Edit(program, kind, old, old + "".join(f"{indent}{one}\n" for one in more), model)
    line = chance.choice(traced["functions"])
    lines = text.splitlines(keepends=True)
    indent = lines[line - 1][: -len(lines[line - 1].lstrip())]
    old = _once(lines[:line], text)
    new = old[: -len(lines[line - 1])] + f"{indent}@torch.compiler.disable\n{lines[line - 1]}"
    yield Edit(program, "drawn: disable", old, new, model)


def _once(lines: list[str], text: str) -> str:
    """The last of these lines, with as many before it as make them occur once in the text."""
    number = 1
    while text.count("".join(lines[-number:])) > 1:
        number += 1
    return "".join(lines[-number:])


def _traced(argument: str) -> dict[str, Any]:
    """Where a program assigns tensors in a file, and the lines of the functions that it calls."""
    import torch

    test, file = argument.split("|")
    tree = ast.parse(Path(file).read_text())
    assigned = {
        node.lineno: (node.end_lineno, node.targets[0].id)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    functions = {
        min([node.lineno, *(one.lineno for one in node.decorator_list)]): node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and "init" not in node.name
    }
    places: set[tuple[Any, ...]] = set()
    called: set[int] = set()
    last: dict[int, int] = {}

    def note(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != file:
            return None
        if event == "call" and frame.f_code.co_firstlineno in functions:
            called.add(frame.f_code.co_firstlineno)
        line = last.get(id(frame), 0)
        if line in assigned:
            end, name = assigned[line]
            value = frame.f_locals.get(name)
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                places.add((line, end, name, "self" in frame.f_locals))
        last[id(frame)] = 0 if event == "call" else frame.f_lineno
        return note

    names: dict[str, Any] = {"__name__": "planted", "__file__": test}
    sys.path.insert(0, str(Path(test).parent))
    torch.compiler.set_stance("force_eager")
    exec(compile(Path(test).read_text(), test, "exec"), names)
    sys.settrace(note)
    try:
        names["test_planted"]()
    finally:
        sys.settrace(None)
    return {"places": sorted(places), "functions": sorted(called)}
