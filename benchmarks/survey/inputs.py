"""What goes into a model: invented from the names of the arguments that ``forward`` takes.

There is more than one way to give the same thing (an image flat or not, a sound
as a wave or as a spectrogram), and which one is meant no signature tells. So
``candidates`` yields several, the richest first, and the caller keeps the first
that the model takes without the compiler.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from benchmarks.survey.shrink import FIRST_WORD, WORDS

if TYPE_CHECKING:
    import torch

Inputs = dict[str, Any]

BATCH: Final = 2
LENGTH: Final = 16
CHOICES: Final = 3
FRAMES: Final = 64

_VISION: Final = (
    "vision_config",
    "image_encoder_config",
    "backbone_config",
    "vision",
    "thinker_config",
)
_GRIDS: Final = ("image_grid_thw", "grid_thw", "video_grid_thw")
_AUDIO: Final = ("audio_config", "encoder_config", "audio_encoder_config", "speech_config")
_TEXT: Final = ("text_config", "decoder", "thinker_config", "llm_config", "model_config")


_WANTED: Final = {"visual_feats", "visual_pos"}
"""Arguments that have a default which the class then does not take."""


class Unknown(Exception):
    """``forward`` wants an argument that we have nothing for."""


def parameters(model: Any) -> dict[str, bool]:
    """The arguments of ``forward``, and whether it can do without."""
    found = inspect.signature(model.forward).parameters.values()
    return {
        each.name: each.default is not inspect.Parameter.empty
        for each in found
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) and each.name != "self"
    }


def candidates(model: Any) -> Iterator[Inputs]:
    """Inputs that the model may take. Raises ``Unknown`` where an argument has no known meaning."""
    config, names = model.config, parameters(model)
    options: list[list[Inputs]] = []
    images, sounds = _images(config, names), _sounds(config, names)
    words = _words(config, names)
    if "input_ids" in names and (images or sounds):
        options.append([*images, {}] if images else [{}])
        options.append([*sounds, {}] if sounds else [{}])
    else:
        options.append(images or [{}])
        options.append(sounds or [{}])
    options.append(words or [{}])
    found = 0
    for parts in itertools.product(*options):
        inputs: Inputs = {}
        for part in parts:
            inputs.update(part)
        missing = [
            name
            for name, optional in names.items()
            if (not optional or name in _WANTED or not inputs) and name not in inputs
        ]
        for name in missing:
            given = _other(config, name, inputs)
            if given is None and names[name]:
                continue
            if given is None:
                raise Unknown(f"forward wants {name}")
            inputs[name] = given
        if inputs:
            found += 1
            yield _as_the_head_wants(model, inputs)
    if not found:
        raise Unknown(f"nothing known to give: forward takes {', '.join(names)}")


def _as_the_head_wants(model: Any, inputs: Inputs) -> Inputs:
    """Choices have a dimension of their own; what is classified by its last word ends alike."""
    import torch

    head, ids = type(model).__name__, inputs.get("input_ids")
    if head.endswith("ForMultipleChoice"):
        shape = None if ids is None else ids.shape
        return {
            name: torch.stack([value] * CHOICES, 1) if value.shape[:2] == shape else value
            for name, value in inputs.items()
        }
    if head.endswith("ForSequenceClassification") and "decoder_input_ids" in inputs:
        end = getattr(model.config, "eos_token_id", None)
        if ids is not None and isinstance(end, int):
            ids[:, -1] = end
            return {name: value for name, value in inputs.items() if name != "decoder_input_ids"}
    return inputs


def _ids(length: int = LENGTH, most: int = WORDS) -> torch.Tensor:
    import torch

    return torch.randint(min(FIRST_WORD, most // 2), most, (BATCH, length))


def _first(config: Any, names: tuple[str, ...], default: Any = None) -> Any:
    """The value of the first of these fields that is set."""
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    return default


def _part(config: Any, names: tuple[str, ...]) -> Any:
    """The configuration of a part; the whole one where there is no such part."""
    found = _first(config, names)
    if found is None or not hasattr(found, "model_type"):
        return config
    return _part(found, names) if found is not config else found


def _words(config: Any, names: dict[str, bool]) -> list[Inputs]:
    import torch

    if "input_ids" not in names and "decoder_input_ids" not in names:
        return []
    most = getattr(_part(config, _TEXT), "vocab_size", None)
    most = most if isinstance(most, int) and most > 1 else WORDS
    inputs: Inputs = {}
    if "input_ids" in names:
        inputs["input_ids"] = _ids(most=most)
        if "attention_mask" in names:
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        if "mm_token_type_ids" in names:
            inputs["mm_token_type_ids"] = torch.zeros_like(inputs["input_ids"])
        if "bbox" in names:
            inputs["bbox"] = torch.tensor([1, 2, 3, 4]).expand(BATCH, LENGTH, 4).clone()
        if "image" in names:
            inputs["image"] = torch.rand(BATCH, 3, 224, 224)
    if "decoder_input_ids" in names and getattr(config, "is_encoder_decoder", True):
        inputs["decoder_input_ids"] = _ids(8, most)
    books = getattr(_part(config, _TEXT), "num_codebooks", None)
    if isinstance(books, int):  # a row for each codebook, in the batch or beside the length
        name = "decoder_input_ids" if "decoder_input_ids" in names else "input_ids"
        rows = torch.cat([_ids(8, most)] * books)
        beside = torch.stack([_ids(8, most)] * books, dim=-1)
        alone = {key: value for key, value in inputs.items() if key not in (name, "attention_mask")}
        return [{**alone, name: rows}, {**alone, name: beside}, inputs]
    return [inputs]


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, (list, tuple)):
        return int(value[0]), int(value[-1])
    if isinstance(value, dict):
        return int(value["height"]), int(value["width"])
    return int(value), int(value)


def _images(config: Any, names: dict[str, bool]) -> list[Inputs]:
    import torch

    part = _part(config, _VISION)
    if "pixel_values" not in names and not ({"grid_thw", "pixel_values_videos"} & {*names}):
        return []
    channels = _first(part, ("num_channels", "in_channels", "in_chans"), 3)
    channels = channels if isinstance(channels, int) else 3
    size = _first(part, ("image_size", "img_size", "input_size"), 64)
    try:
        high, wide = _pair(size)
    except (TypeError, ValueError, KeyError):
        high = wide = 64
    found: list[Inputs] = []
    patch = _first(part, ("patch_size", "spatial_patch_size"), 16)
    if any(name.endswith("grid_thw") for name in names) and isinstance(patch, int):
        time = _first(part, ("temporal_patch_size", "patch_temporal"), 1)
        grid = torch.tensor([[1, 4, 4]] * BATCH)
        flat = torch.rand(BATCH * 16, channels * time * patch * patch)
        main = "pixel_values" if "pixel_values" in names else "hidden_states"
        name = next(
            name for name in ("image_grid_thw", "grid_thw", "video_grid_thw") if name in names
        )
        found.append({main: flat, name: grid})
        found.append(
            {main: flat.view(-1, channels, patch, patch)} | {name: grid} if time == 1 else {}
        )
    extra: Inputs = {}
    if "image_sizes" in names:
        extra["image_sizes"] = torch.tensor([[high, wide]] * BATCH)
    if "spatial_shapes" in names and isinstance(patch, int):
        side = 4
        found.append(
            {
                "pixel_values": torch.rand(BATCH, side * side, channels * patch * patch),
                "spatial_shapes": torch.tensor([[side, side]] * BATCH),
                "pixel_attention_mask": torch.ones(BATCH, side * side, dtype=torch.long),
            }
        )
    if "pixel_values" in names:
        frames = _first(part, ("num_frames",))
        shapes = [(BATCH, channels, high, wide)]
        if frames:
            shapes.insert(0, (BATCH, int(frames), channels, high, wide))
        else:
            shapes.append((BATCH, 1, channels, high, wide))
            shapes.append((BATCH, 3, channels, high, wide))
        if (high, wide) != (64, 64):
            shapes.append((BATCH, channels, 64, 64))
        shapes.append((BATCH, channels, 224, 224))
        found += [{"pixel_values": torch.rand(shape), **extra} for shape in shapes]
    if "pixel_values_videos" in names and "pixel_values" not in names:
        frames = int(_first(part, ("num_frames", "frames_per_clip"), 4))
        found.append({"pixel_values_videos": torch.rand(BATCH, frames, channels, high, wide)})
    return [each for each in found if each]


def _sounds(config: Any, names: dict[str, bool]) -> list[Inputs]:
    import torch

    part = _part(config, _AUDIO)
    found: list[Inputs] = []
    bins = _first(
        part,
        (
            "num_mel_bins",
            "input_feat_per_channel",
            "feature_projection_input_dim",
            "feature_size",
            "input_dim",
            "input_size",
            "n_mels",
            "num_filters",
        ),
        80,
    )
    bins = bins if isinstance(bins, int) else 80
    places = _first(part, ("max_source_positions",))
    frames = 2 * places if isinstance(places, int) and places <= 256 else FRAMES
    for name in ("input_features", "audio_features", "audio_input_features"):
        if name in names:
            masks: Inputs = {}
            for mask in ("input_features_mask", "feature_attention_mask", "audio_attention_mask"):
                if mask in names:
                    masks[mask] = torch.ones(BATCH, frames, dtype=torch.long)
            found += [
                {name: torch.rand(BATCH, bins, frames), **masks},
                {name: torch.rand(BATCH, frames, bins), **masks},
                {name: torch.rand(BATCH, bins, frames)},
                {name: torch.rand(BATCH, frames, bins)},
                {name: torch.rand(BATCH, 1, 1024, bins)},
            ]
    for name in ("input_values", "audio_values", "audio_codes", "spectrogram"):
        if name in names:
            length = _first(part, ("max_length",), FRAMES)
            found += [
                {name: torch.rand(BATCH, 8000)},
                {name: torch.rand(BATCH, 1, 8000)},
                {name: torch.rand(BATCH, int(length), bins)},
                {name: torch.rand(BATCH, LENGTH, int(_first(part, ("hidden_size",), 64)))},
                {name: _ids(LENGTH)},
            ]
    return found


def _other(config: Any, name: str, inputs: Inputs) -> Any:
    """What an argument that has no default gets, by its name; None where it means nothing to us."""
    import torch

    context = int(_first(config, ("context_length", "seq_len", "patch_length"), 32))
    lags = _first(config, ("lags_sequence",), [0])
    past = context + max(lags) if isinstance(lags, (list, tuple)) and lags else context
    features = int(_first(config, ("num_time_features",), 1))
    channels = int(_first(config, ("num_input_channels", "input_size"), 1) or 1)
    width = int(_first(config, ("hidden_size", "d_model"), 64) or 64)
    flat = channels == 1 and hasattr(config, "lags_sequence")
    text = inputs.get("input_ids")
    length = text.shape[1] if text is not None else LENGTH
    known: dict[str, Any] = {
        "past_values": lambda: torch.rand((BATCH, past) if flat else (BATCH, past, channels)),
        "past_values_padding": lambda: torch.zeros(BATCH, past),
        "freq": lambda: torch.zeros(BATCH, 1, dtype=torch.long),
        "prompt_pixel_values": lambda: torch.rand_like(inputs["pixel_values"]),
        "prompt_masks": lambda: torch.rand_like(inputs["pixel_values"]),
        "past_time_features": lambda: torch.rand(BATCH, past, features),
        "past_observed_mask": lambda: torch.ones(BATCH, past),
        "hidden_states": lambda: torch.rand(BATCH, LENGTH, width),
        "encoder_hidden_states": lambda: torch.rand(BATCH, LENGTH, width),
        "inputs_embeds": lambda: torch.rand(BATCH, LENGTH, width),
        "attention_mask": lambda: torch.ones(BATCH, length, dtype=torch.long),
        "decoder_input_ids": lambda: _ids(8),
        "position_ids": lambda: torch.arange(length).expand(BATCH, length).clone(),
        "states": lambda: torch.rand(BATCH, LENGTH, int(_first(config, ("state_dim",), 17))),
        "actions": lambda: torch.rand(BATCH, LENGTH, int(_first(config, ("act_dim",), 4))),
        "rewards": lambda: torch.rand(BATCH, LENGTH, 1),
        "returns_to_go": lambda: torch.rand(BATCH, LENGTH, 1),
        "timesteps": lambda: torch.arange(LENGTH).expand(BATCH, LENGTH).clone(),
        "inputs": lambda: torch.rand(BATCH, LENGTH, int(_first(config, ("d_model",), 64))),
        "visual_feats": lambda: torch.rand(BATCH, 4, int(_first(config, ("visual_feat_dim",), 64))),
        "visual_pos": lambda: torch.rand(BATCH, 4, 4),
        "input_boxes": lambda: torch.rand(BATCH, 1, 4),
        "task_inputs": lambda: _ids(),
        "query_embeds": lambda: torch.rand(BATCH, 4, width),
        "input_values": lambda: torch.rand(BATCH, 1, 8000),
    }
    return known[name]() if name in known else None


_FEATURES: Final = re.compile(r"features:? ?(?:torch\.Size\(\[)?(\d+)(?:, (\d+))?")


def with_places(model: Any, inputs: Inputs, said: str) -> Inputs | None:
    """The same inputs with as many image or sound tokens as the model asks for in what it said."""
    import torch

    found = _FEATURES.search(said.split("tokens", 1)[-1]) or _FEATURES.search(said)
    ids = inputs.get("input_ids")
    if found is None or ids is None:
        return None
    kind = "audio" if "udio" in said else "video" if "ideo" in said else "image"
    token = _first(
        model.config,
        (f"{kind}_token_id", f"{kind}_token_index", f"{kind}_token", "media_token_index"),
    )
    if not isinstance(token, int):
        return None
    total = int(found[1])
    width = int(getattr(_part(model.config, _TEXT), "hidden_size", 1) or 1)
    for each in (total // BATCH, total // width // BATCH):
        if 0 < each <= 1024 and not bool((ids == token).sum() == each * BATCH):
            words = ids[ids != token].view(BATCH, -1)[:, :LENGTH]
            places = torch.full((BATCH, each), token)
            longer = torch.cat([words[:, :2], places, words[:, 2:]], dim=1)
            given = {**inputs, "input_ids": longer}
            if "attention_mask" in inputs:
                given["attention_mask"] = torch.ones_like(longer)
            if "mm_token_type_ids" in inputs:
                given["mm_token_type_ids"] = (longer == token) * (2 if kind == "video" else 1)
            return given
    return None
