"""Small configurations: those of transformers, with few layers, few heads and little width.

What a field means is read from its name. Layers of different kinds stay: of each
kind one, so the graphs are those of the full size, only fewer layers long.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

WAYS: Final = ("small", "small, sections", "thin")
"""How far: all that has a known name, or only layers, experts and words. Tried in this order.

The second gives the sections of a rotary embedding also where the class has
them in its code, for the heads of its full size.
"""
WIDTH: Final = 64
HEADS: Final = 4
HEAD: Final = WIDTH // HEADS
WORDS: Final = 256
FIRST_WORD: Final = 128
"""Ids from here on are words; special tokens lie below."""

_FIXED: Final = {"pad": 0, "bos": 1, "eos": 2, "unk": 3, "sep": 4, "cls": 5, "mask": 6}
_SPECIAL: Final = re.compile(r"(?:^|_)token_(?:id|index)$")
_WORDS: Final = re.compile(r"vocab_size(?:_per_layer_input)?$|^num_text_tokens$")
_LAYERS: Final = re.compile(
    r"^(?:num_hidden_layers|num_layers|n_layers?|depth|encoder_layers|decoder_layers"
    r"|num_encoder_layers|num_decoder_layers|num_encoder_blocks|.*_num_hidden_layers"
    r"|.*_num_layers|num_.*_hidden_layers|.*_depth|num_block_records|num_entity_layers)$"
)
_EXPERTS: Final = re.compile(
    r"^(?:n_routed_experts|num_experts|num_local_experts|moe_num_experts)$"
)
_COUNTS: Final = {
    "num_experts_per_tok": 2,
    "moe_topk": 2,
    "moe_k": 2,
    "upsample_groups": WIDTH,
    "top_k_experts": 2,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "max_window_layers": 1,
    "num_kv_shared_layers": 0,
    "decoder_sparse_step": 1,
}
_NONE: Final = {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "default_language": "en_XX",
}
"""What stands for nothing in a class whose layers are configured to have it."""
_SMALL: Final = (
    (re.compile(r"(?:key_value_heads|kv_heads)$"), HEADS // 2),
    (re.compile(r"(?:attention_heads|num_heads|n_heads?|num_.*_heads)$"), HEADS),
    (re.compile(r"^(?:qk_rope_head_dim)$"), HEAD // 2),
    (re.compile(r"^(?:qk_head_dim)$"), HEAD + HEAD // 2),
    (re.compile(r"(?:head_dim|^d_kv|attention_head_size|lora_rank|^dim_head|^rotary_dim)$"), HEAD),
    (
        re.compile(
            r"(?:intermediate_size|ffn_dim|d_ff|mlp_dim|ffn_hidden_size|ffn_size|hidden_dim_ffn"
            r"|feedforward_size|feed_forward_size|intermediate_dim|mlp_hidden_size|dim_feedforward"
            r"|feedforward_dim|d_inner|inner_dim|feed_forward_proj_dim)$"
        ),
        2 * WIDTH,
    ),
    (
        re.compile(
            r"(?:hidden_size|d_model|embed_dim|n_embd|embedding_size|embedding_dim|hidden_dim"
            r"|projection_dim|proj_dim|hidden_width|output_dim|output_size|d_embed|^dim|^width"
            r"|depth_hidden_size|classifier_proj_size|pooler_output_size)$"
        ),
        WIDTH,
    ),
    (re.compile(r"^(?:max_position_embeddings|n_positions|max_seq_len|seq_length)$"), 512),
    (re.compile(r"^(?:max_source_positions|max_target_positions)$"), 64),
    (re.compile(r"^(?:num_queries)$"), 20),
)


def shrunk(config: type[Any], way: str, **values: Any) -> Any:
    """An instance of a configuration class. Raises whatever the class raises."""
    return config(**{**_values(config(), way, {}), **values})


def _values(config: Any, way: str, ids: dict[str, int]) -> dict[str, Any]:
    """The keywords that make a configuration like this one small."""
    kept = _kept(config)
    count = _count(config)
    found: dict[str, Any] = {}
    for name, value in _fields(config):
        if dataclasses.is_dataclass(value) and hasattr(value, "model_type"):
            found[name] = {"model_type": value.model_type, **_values(value, way, ids)}
        else:
            small = _value(name, value, way, kept, count, ids)
            if small is not value:
                found[name] = small
    taps = vars(config).get("_out_features")
    if taps and not count:
        found["out_features"] = [*taps]
    elif taps:
        found["out_indices"] = [*range(len(kept) - len(taps) + 1, len(kept) + 1)]
    _missing(config, found)
    if way != "thin":
        _images(config, found)
        _heads(config, found)
        _rotary(config, found, way)
    return found


def _missing(config: Any, found: dict[str, Any]) -> None:
    """Return the arguments of a class that have no default."""
    if "prediction_length" in vars(config) and config.prediction_length is None:
        found["prediction_length"] = 8
    had = {name: value for name, value in vars(config).items() if value is None}
    heads = vars(config).get("num_attention_heads")
    if "head_dim" in had and isinstance(heads, int):
        wide = found.get("hidden_size", vars(config).get("hidden_size"))
        found["head_dim"] = wide // found.get("num_attention_heads", heads) if wide else HEAD
    found.update({name: value for name, value in _NONE.items() if name in had})
    rotary = vars(config).get("rope_parameters")
    if isinstance(rotary, dict) and "rope_type" in rotary and rotary.get("rope_theta") is None:
        found["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0}


def _heads(config: Any, found: dict[str, Any]) -> None:
    """Sizes of heads that are equal in the class stay equal."""
    had = vars(config)
    heads, groups = had.get("num_attention_heads"), had.get("num_key_value_heads")
    if heads == groups and "num_key_value_heads" in found:
        found["num_key_value_heads"] = found["num_attention_heads"]
    rotary = had.get("qk_rope_head_dim")
    if rotary is not None and had.get("head_dim") == rotary:
        found["head_dim"] = found["qk_rope_head_dim"]
    if isinstance(had.get("num_heads"), (list, tuple)):
        found.pop("embed_dim", None)  # a multiple of the heads of its first stage


def _fields(config: Any) -> Iterator[tuple[str, Any]]:
    names = [field.name for field in dataclasses.fields(config)]
    for name in names:
        value = vars(config).get(name)
        if not name.startswith("_") and value is not None:
            yield name, value


def _count(config: Any) -> int:
    """How many layers the configuration has by itself; 0 where no field says so."""
    for name in ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "depth"):
        value = vars(config).get(name)
        if isinstance(value, int):
            return value
    return 0


def _kept(config: Any) -> list[int]:
    """The layers that stay: the first of each kind, and two at least."""
    count = _count(config)
    kinds: list[Sequence[Any]] = []
    for name, value in vars(config).items():
        if _per_layer(value, count) and "type" in name:
            kinds.append(value)
    if not kinds:  # given by a period: then no layer before can be left out
        reported = _period(config)
        last = max((reported.index(kind) for kind in {*reported}), default=0)
        return [*range(min(count, max(2, last + 1, len(vars(config).get("_out_indices") or ()))))]
    first: dict[Any, int] = {}
    for index in range(count):
        first.setdefault(tuple(str(kind[index]) for kind in kinds), index)
    least = max(2, len(vars(config).get("_out_indices") or ()))
    rest = [index for index in range(count) if index not in first.values()]
    return sorted([*first.values(), *rest[: max(0, least - len(first))]])


def _period(config: Any) -> list[str]:
    """The kinds of layers, where the class works them out itself."""
    for name in ("layers_block_type", "layer_types"):
        reported = getattr(config, name, None)
        if isinstance(reported, (list, tuple)):
            return [str(kind) for kind in reported]
    return []


def _per_layer(value: object, count: int) -> bool:
    return isinstance(value, (list, tuple)) and count > 0 and len(value) == count


def _value(
    name: str, value: Any, way: str, kept: list[int], count: int, ids: dict[str, int]
) -> Any:
    if _SPECIAL.search(name):
        return _token(name, value, ids)
    if _per_layer(value, count) and not name.startswith("out_"):
        return [value[index] for index in kept]
    if isinstance(value, (list, tuple)):
        return _listed(name, value, way, len(kept))
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if _WORDS.search(name):
        return WORDS if value > WORDS else value
    if _LAYERS.match(name):
        return min(value, max(2, len(kept))) if name in _OWN else min(value, 2)
    if _EXPERTS.match(name):
        return min(value, 4)
    if name in _COUNTS:
        return min(value, _COUNTS[name])
    if way != "thin":
        for pattern, small in _SMALL:
            if pattern.search(name):
                return min(value, small)
    return value


_INDICES: Final = re.compile(r"(?:index(?:es|s)?|_layers|_layer_ids|layer_idx|attention_blocks)$")
_OWN: Final = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "depth")


def _token(name: str, value: Any, ids: dict[str, int]) -> Any:
    if isinstance(value, list):
        return [_token(name, value[0], ids)] if value else value
    if not isinstance(value, int) or value < 0:
        return value
    word = _SPECIAL.sub("", name)
    if word == "decoder_start":
        return 2
    if word in _FIXED:
        return _FIXED[word]
    return ids.setdefault(word, 16 + len(ids))


def _listed(name: str, value: Sequence[Any], way: str, layers: int) -> Any:
    """A list for stages stays as long as it is, its values get smaller; one of layers is cut."""
    if not value or not all(type(each) is int for each in value):
        return value
    if name in ("depths", "layer_depths", "stage_num_blocks", "blocks_per_stage"):
        return type(value)(min(each, 1) for each in value)
    if name != "encode_proj_layers" and re.search(
        r"(?:index(?:es|s)?|_layers|_layer_ids|layer_idx|attention_blocks)$", name
    ):
        inside = [each for each in value if each < layers]
        return type(value)(inside or [layers - 1]) if layers and max(value) >= layers else value
    if name == "eos_token_id":
        return [2]
    if way != "thin" and name == "conv_dim":
        return type(value)(32 for _ in value)
    return value


def _images(config: Any, found: dict[str, Any]) -> None:
    """Images of four patches a side, or of 64 pixels."""
    size, patch = vars(config).get("image_size"), vars(config).get("patch_size")
    if size is None:
        return
    side = 64 if not isinstance(patch, int) or patch < 8 else 4 * patch
    if isinstance(size, int):
        found["image_size"] = min(size, side)
    elif isinstance(size, (list, tuple)) and all(isinstance(each, int) for each in size):
        found["image_size"] = type(size)(min(each, side) for each in size)


def _rotary(config: Any, found: dict[str, Any], way: str) -> None:
    """Sections of a rotary embedding are half a head together, in the shares that they had."""
    parameters = found.get("rope_parameters", vars(config).get("rope_parameters"))
    if not isinstance(parameters, dict):
        return
    sections = parameters.get("mrope_section")
    if sections is None and way == "small, sections":
        sections = (2, 3, 3)
    if sections is not None:
        share = float(parameters.get("partial_rotary_factor") or 1)
        half, total = max(3, int(HEAD * share) // 2), sum(sections)
        small = [max(1, each * half // total) for each in sections]
        small[0] += half - sum(small)
        found["rope_parameters"] = {**parameters, "mrope_section": small}
