"""The program of ``graphbreak run --model transformers:bert-base``: a known model, without code.

It is made from the configuration of its class with few layers, small sizes and random weights:
nothing is downloaded. It runs on the CPU, in evaluation mode, compiled with the backend ``eager``.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection, Mapping
from typing import Any, Final

from pytest_graphbreak.text.errors import UserError

SMALL: Final = {
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_head", "n_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads",), 4),
    **dict.fromkeys(("head_dim", "d_kv", "attention_head_size"), 16),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim"), 64),
    **dict.fromkeys(("intermediate_size", "d_ff", "hidden_dim", "feed_forward_size"), 128),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim"), 128),
    "vocab_size": 256,
}
"""The sizes of a configuration, by the names that the classes of transformers have for them."""


def kind_of(name: str, kinds: Collection[str]) -> str | None:
    """Return the type of a model: ``bert`` of ``bert-base-uncased``; None if there is none."""
    begins = [kind for kind in kinds if name == kind or name.startswith(f"{kind}-")]
    return max(begins, key=len, default=None)


def small(defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return small values for the sizes in a configuration, and in those inside of it."""
    sizes: dict[str, Any] = {}
    for key, value in defaults.items():
        if isinstance(value, Mapping) and key.endswith("_config"):
            sizes[key] = small(value)
        elif key in SMALL and isinstance(value, int):
            sizes[key] = SMALL[key]
        elif key.endswith("_token_id") and isinstance(value, int):
            sizes[key] = min(value, SMALL["vocab_size"] - 1)
    return sizes


def inputs_of(model: Any) -> dict[str, Any]:
    """Return random inputs, as tensors: two rows of 64 tokens, or two pictures.

    Raises ``UserError`` for a model that takes something else.
    """
    import torch

    # Not 0, 1 or 2, which mostly mean padding and the ends of a text (bert, roberta, t5, bart).
    tokens = torch.randint(3, SMALL["vocab_size"], (2, 64))
    if model.main_input_name == "input_ids":
        second = {"decoder_input_ids": tokens} if model.config.is_encoder_decoder else {}
        return {"input_ids": tokens, **second}
    size, channels = (getattr(model.config, key, None) for key in ("image_size", "num_channels"))
    if model.main_input_name == "pixel_values" and isinstance(size, int) and channels:
        return {"pixel_values": torch.rand(2, channels, size, size)}
    raise UserError(f"it takes {model.main_input_name}, and tokens and pictures are made only")


def call_model(kind: str) -> tuple[Any, dict[str, Any]]:
    """Return a model that was called once without a compiler, and its inputs.

    Raises ``UserError`` if it cannot be made small, or called with these inputs.
    """
    import torch
    import transformers

    configuration = transformers.CONFIG_MAPPING[kind]
    try:
        sizes = small(configuration().to_dict())
        model = transformers.AutoModel.from_config(configuration(**sizes)).eval()
        inputs = inputs_of(model)
        with torch.no_grad():
            model(**inputs)
    except Exception as error:
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(
            f"{kind} of transformers cannot be run as a small model: {words}; "
            "write a script that calls it, and run that"
        ) from None
    return model, inputs


def main(name: str) -> None:
    """Build the model of transformers with this name, compile it and call it once."""
    import torch
    import transformers

    kinds = [*transformers.CONFIG_MAPPING]
    kind = kind_of(name.lower(), kinds)
    if kind is None:
        near = difflib.get_close_matches(name.lower(), kinds, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UserError(f"transformers {transformers.__version__} has no model {name!r}{hint}")
    torch.manual_seed(0)
    model, inputs = call_model(kind)
    print(f"{type(model).__name__} of transformers {transformers.__version__}, small and random")
    with torch.no_grad():
        torch.compile(model, backend="eager")(**inputs)


if __name__ == "__main__":
    main(sys.argv[1])
