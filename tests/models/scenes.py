"""What is done with a model: one forward, a step of training, a few tokens.

Each scene takes what the fixture ``compile_model`` gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytest_graphbreak.measuring.compile_model import CompileModel
from tests.models.zoo import Model

if TYPE_CHECKING:
    import torch

STEPS: Final = 3
"""Tokens decoded after the prompt."""
ROOM: Final = 32
"""Positions in a static cache: the prompt and what is decoded fit."""


def forward(compile_model: CompileModel, model: Model) -> None:
    """One forward without gradients, and the same numbers as without the compiler."""
    import torch

    module, inputs = model.build()
    with torch.no_grad():
        expected = module(**inputs)
        run = compile_model(module, backend=_quick(compile_model, "eager"), **inputs)
    torch.testing.assert_close(run.output[0].cpu(), expected[0], atol=1e-3, rtol=1e-3)


def inductor(compile_model: CompileModel, model: Model) -> None:
    """One forward through the backend that ``torch.compile`` takes by itself on a CPU."""
    import torch

    module, inputs = model.build()
    with torch.no_grad():
        expected = module(**inputs)
        run = compile_model(module, backend="inductor", **inputs)
    torch.testing.assert_close(run.output[0], expected[0], atol=1e-3, rtol=1e-3)


def training(compile_model: CompileModel, model: Model) -> None:
    """Forward, backward and a step of SGD, as a training loop has them."""
    import torch

    module, inputs = model.build()
    if "LMHead" in model.name or "ForCausalLM" in model.name:
        inputs["labels"] = inputs["input_ids"]
    run = compile_model(module.train(), backend=_quick(compile_model, "aot_eager"), **inputs)
    loss = run.output.loss if "labels" in inputs else run.output[0].square().mean()
    loss.backward()
    torch.optim.SGD(module.parameters(), lr=0.1).step()
    _settle(compile_model)
    assert all(
        bool(torch.isfinite(p.grad).all()) for p in module.cpu().parameters() if p.grad is not None
    )


def decoding(compile_model: CompileModel, model: Model, cache: str) -> None:
    """A prompt and ``STEPS`` greedy tokens, with a cache that grows or one that does not.

    ``cache`` is ``dynamic`` or ``static``, after transformers' classes.
    """
    import torch

    module, inputs = model.build()
    prompt = inputs["input_ids"]
    expected = _greedy(module, prompt, _cache(module, cache))
    with torch.no_grad():
        run = compile_model(
            module,
            backend=_quick(compile_model, "eager"),
            input_ids=prompt,
            past_key_values=_cache(module, cache),
            use_cache=True,
        )
        output, tokens = run.output, []
        for _ in range(STEPS):
            tokens.append(output.logits[:, -1:].argmax(-1))
            _settle(compile_model)
            output = run.compiled(
                input_ids=tokens[-1], past_key_values=output.past_key_values, use_cache=True
            )
            _settle(compile_model)
    assert [token.tolist() for token in tokens] == expected


def _greedy(module: Any, prompt: torch.Tensor, cache: Any) -> list[Any]:
    """The tokens that the model gives without the compiler."""
    import torch

    ids, tokens = prompt, []
    with torch.no_grad():
        for _ in range(STEPS):
            output = module(input_ids=ids, past_key_values=cache, use_cache=True)
            ids = output.logits[:, -1:].argmax(-1)
            tokens.append(ids.tolist())
    return tokens


def _cache(module: Any, kind: str) -> Any:
    import transformers

    if kind == "static":
        return transformers.StaticCache(config=module.config, max_cache_len=ROOM)
    return transformers.DynamicCache(config=module.config)


def _quick(compile_model: CompileModel, backend: str) -> str | None:
    """On a device its own backend; elsewhere one that only counts, since inductor is slow."""
    return None if on_xla(compile_model) else backend


def on_xla(compile_model: CompileModel) -> bool:
    return compile_model.device.kind in ("xla", "tt")


def _settle(compile_model: CompileModel) -> None:
    """Let the device do what is pending, as a loop that samples or steps does each time."""
    if on_xla(compile_model):
        import torch_xla

        torch_xla.sync(wait=True)
