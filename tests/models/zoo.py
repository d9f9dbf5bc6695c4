"""Small random models of transformers: the class, its configuration, its inputs.

Nothing is downloaded: every model is built from its configuration, with two
layers of width 32, so that compiling it is quick and its graphs are those that
the full size makes. Weights and inputs come from one seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

Inputs = dict[str, "torch.Tensor"]

BATCH: Final = 2
LENGTH: Final = 16
VOCABULARY: Final = 64

_ENCODER: Final = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
_DECODER: Final = {**_ENCODER, "num_key_value_heads": 2}
_VISION: Final = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "image_size": 16,
    "patch_size": 8,
}
# What moves a token to another id by chance would move the graphs of a model
# that reads its inputs: special tokens lie outside the ids that are drawn.
_TOKENS: Final = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_FIRST: Final = 3
_MIXTRAL: Final = {**_DECODER, "num_local_experts": 4, "num_experts_per_tok": 2, **_TOKENS}


def _ids(length: int = LENGTH) -> torch.Tensor:
    import torch

    return torch.randint(_FIRST, VOCABULARY, (BATCH, length))


def _text() -> Inputs:
    return {"input_ids": _ids()}


def _masked() -> Inputs:
    import torch

    ids = _ids()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _translation() -> Inputs:
    return {"input_ids": _ids(), "decoder_input_ids": _ids(8)}


def _image() -> Inputs:
    import torch

    return {"pixel_values": torch.randn(BATCH, 3, 16, 16)}


def _speech() -> Inputs:
    import torch

    return {"input_features": torch.randn(BATCH, 8, 32), "decoder_input_ids": _ids(8)}


@dataclass(frozen=True, slots=True)
class Model:
    """How to build one model: names in ``transformers``, and what goes in.

    ``fails_on_xla`` says how the model fails where torch_xla 2.9 runs it; empty
    where it runs.
    """

    name: str
    config: str
    values: Mapping[str, Any]
    inputs: Callable[[], Inputs] = _text
    fails_on_xla: str = ""

    def build(self) -> tuple[torch.nn.Module, Inputs]:
        """The model in evaluation mode on the CPU, and inputs for its ``forward``."""
        import torch
        import transformers

        torch.manual_seed(0)
        config = getattr(transformers, self.config)(**self.values)
        model: torch.nn.Module = getattr(transformers, self.name)(config)
        return model.eval(), self.inputs()


ZOO: Final[Mapping[str, Model]] = {
    "bert": Model("BertModel", "BertConfig", _ENCODER, _masked),
    "bigbird": Model(
        "BigBirdModel",
        "BigBirdConfig",
        {
            **_ENCODER,
            **_TOKENS,
            "sep_token_id": 2,
            "attention_type": "block_sparse",
            "block_size": 2,
            "num_random_blocks": 1,
        },
        _masked,
        fails_on_xla="openxla: unsqueeze_ in a graph: Expected XLA tensor. Got: XLALongType",
    ),
    "deberta": Model(
        "DebertaV2Model",
        "DebertaV2Config",
        {
            **_ENCODER,
            "relative_attention": True,
            "pos_att_type": ["c2p", "p2c"],
            "position_buckets": 8,
        },
        _masked,
    ),
    "distilbert": Model(
        "DistilBertModel",
        "DistilBertConfig",
        {
            "vocab_size": VOCABULARY,
            "dim": 32,
            "n_layers": 2,
            "n_heads": 2,
            "hidden_dim": 64,
            "max_position_embeddings": 64,
        },
        _masked,
    ),
    "gemma": Model("GemmaForCausalLM", "GemmaConfig", {**_DECODER, "head_dim": 16, **_TOKENS}),
    "gpt2": Model(
        "GPT2LMHeadModel",
        "GPT2Config",
        {
            "vocab_size": VOCABULARY,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 2,
            "n_positions": 64,
            **_TOKENS,
        },
    ),
    "llama": Model("LlamaForCausalLM", "LlamaConfig", {**_DECODER, **_TOKENS}),
    "longformer": Model(
        "LongformerModel",
        "LongformerConfig",
        {**_ENCODER, "attention_window": 4, **_TOKENS},
        _masked,
    ),
    "mixtral": Model(
        "MixtralForCausalLM",
        "MixtralConfig",
        {**_MIXTRAL, "experts_implementation": "batched_mm"},
    ),
    "mixtral-grouped": Model(
        "MixtralForCausalLM",
        "MixtralConfig",
        {**_MIXTRAL, "experts_implementation": "grouped_mm"},
        fails_on_xla='aten::histc falls back to the CPU: "histogram_cpu" not implemented for Int',
    ),
    "mixtral-loop": Model(
        "MixtralForCausalLM",
        "MixtralConfig",
        {**_MIXTRAL, "experts_implementation": "eager"},
    ),
    "qwen3": Model("Qwen3ForCausalLM", "Qwen3Config", {**_DECODER, "head_dim": 16, **_TOKENS}),
    "reformer": Model(
        "ReformerModel",
        "ReformerConfig",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "attention_head_size": 16,
            "num_attention_heads": 2,
            "feed_forward_size": 64,
            "attn_layers": ["local", "lsh"],
            "axial_pos_shape": [4, 4],
            "axial_pos_embds_dim": [16, 16],
            "local_attn_chunk_length": 4,
            "lsh_attn_chunk_length": 4,
            "num_buckets": 2,
            "num_hashes": 1,
            "hash_seed": 0,
            "max_position_embeddings": 16,
            "is_decoder": False,
            **_TOKENS,
        },
        fails_on_xla="torch_xla's dynamo bridge, addDumbReturn: list index out of range",
    ),
    "t5": Model(
        "T5Model",
        "T5Config",
        {
            "vocab_size": VOCABULARY,
            "d_model": 32,
            "d_kv": 16,
            "d_ff": 64,
            "num_layers": 2,
            "num_heads": 2,
            "decoder_start_token_id": 0,
        },
        _translation,
    ),
    "vit": Model("ViTModel", "ViTConfig", _VISION, _image),
    "whisper": Model(
        "WhisperModel",
        "WhisperConfig",
        {
            "vocab_size": VOCABULARY,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "num_mel_bins": 8,
            "max_source_positions": 16,
            "max_target_positions": 16,
            **_TOKENS,
            "decoder_start_token_id": 1,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
        _speech,
    ),
}
"""The models by the name that their baselines use."""
