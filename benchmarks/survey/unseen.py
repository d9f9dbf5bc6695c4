"""A patched class against the plain one, on inputs that the search for patches never used.

Separate processes: the first runs the class as it is, without the compiler, and stores inputs and
outputs; the second runs a script, patched or not, and calls what it compiled with the same inputs.
Before each kind of inputs but the first what is compiled is forgotten, and the class called with
the inputs of the survey, as the script does it: that is the first compilation, and the first input
of the kind may be the second. Each input after it that is compiled again is counted, and each that
comes after the recompile limit, whose code runs without the compiler; the limit is lower than
torch's, to save time. ``compared`` starts both.
"""

from __future__ import annotations

import logging
import runpy
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.survey.inputs import BATCH, Inputs
from benchmarks.survey.measure import _line, _tensors, small
from benchmarks.survey.run import alone, warm

SEEDS: Final = (101, 202)
EACH: Final = 11
"""How many paddings, batches and sizes."""
LIMIT: Final = 4
"""The recompile limit; torch's own is 8."""
Plain = dict[str, Any]


def compared(
    name: str, scripts: dict[str, bytes], values: Plain, timeout: float
) -> dict[str, Plain]:
    """Return for each script how many of the unseen inputs gave the same, raised, or differ."""
    warm()
    with tempfile.TemporaryDirectory() as directory:
        answers = Path(directory) / "answers.pt"
        if why := _alone(lambda: plain(name, answers, values), timeout).get("died"):
            return {side: {"differs": [f"plain: {why}"]} for side in scripts}
        found = {}
        for side, source in scripts.items():
            script = Path(directory) / f"{side}.py"
            script.write_bytes(source)
            seen = _alone(lambda script=script: compiled(script, answers), timeout)
            found[side] = {"differs": [seen["died"]]} if "died" in seen else seen
        return found


def _alone(work: Callable[[], Plain], timeout: float) -> Plain:
    """Return what ``work`` returns in a process of its own, or how it failed as ``died``."""

    def tried() -> Plain:
        try:
            return work()
        except Exception as error:
            return {"died": _line(error)}

    return alone(tried, round(timeout))


def others(model: Any, inputs: Inputs) -> Iterator[tuple[str, Inputs]]:
    """Yield kinds of inputs: drawn again, and eleven paddings, batches and sizes each."""
    yield from _drawn(model, inputs)
    masks = [key for key, one in inputs.items() if key.endswith("mask") and one.dim() == 2]
    for number in range(1, EACH + 1):
        if masks:
            yield "padding", {**inputs, **{key: _padded(inputs[key], number) for key in masks}}
    for number in range(2, EACH + 2):
        yield "batch", {key: _rows(one, number) for key, one in inputs.items()}
    for number in range(1, EACH + 1):
        yield from _sized(inputs, number)


def _padded(mask: torch.Tensor, number: int) -> torch.Tensor:
    """Return a mask with so many places left out in its last row, and others in its first."""
    mask, size = mask.clone(), mask.shape[1]
    mask[-1, size - number % size :] = 0
    mask[0, size - number * 7 % size :] = 0
    return mask


def _rows(one: torch.Tensor, times: int) -> torch.Tensor:
    return torch.cat([one] * times) if one.dim() and one.shape[0] % BATCH == 0 else one


_SHAPES: Final = ((4, 4), (2, 8), (8, 2))
"""Shapes of an image with as many patches as that of the survey."""


def _sized(inputs: Inputs, number: int) -> Iterator[tuple[str, Inputs]]:
    """Yield another length of text, images of other shapes or sizes, another length of sound."""
    ids = inputs.get("input_ids")
    if ids is not None and ids.dim() == 2 and number <= ids.shape[1] - 5:
        length = ids.shape[1]
        cut = {
            key: one[:, : length - number].clone() if one.shape[1:2] == (length,) else one
            for key, one in inputs.items()
        }
        yield "length", cut
    grid = next((key for key in inputs if key.endswith("grid_thw") or key == "spatial_shapes"), "")
    if grid:
        shapes = inputs[grid].clone()
        shapes[0, -2:] = torch.tensor(_SHAPES[number % 3])
        shapes[1, -2:] = torch.tensor(_SHAPES[number // 3 % 3])
        yield "image shapes", {**inputs, grid: shapes}
    elif ids is None and "pixel_values" in inputs:
        wide = torch.cat([inputs["pixel_values"]] * 2, -1)
        size = inputs["pixel_values"].shape[-1] + 16 * number
        yield "image sizes", {**inputs, "pixel_values": wide[..., :size].clone()}
    for key in ("input_features", "input_values"):
        if key in inputs and number < inputs[key].shape[-1] - 8:
            cut = inputs[key][..., :-number].clone()
            masks = {
                name: one[..., :-number].clone()
                for name, one in inputs.items()
                if name.endswith("mask") and one.shape[-1] == inputs[key].shape[-1]
            }
            yield f"length of {key}", {**inputs, **masks, key: cut}


def _drawn(model: Any, inputs: Inputs) -> Iterator[tuple[str, Inputs]]:
    """Yield the same inputs drawn again."""
    kept = {
        value
        for part in (model.config, *vars(model.config).values())
        for key, value in getattr(part, "__dict__", {}).items()
        if key.endswith(("_token_id", "_token_index", "_token")) and isinstance(value, int)
    }

    def drawn(name: str, value: torch.Tensor) -> torch.Tensor:
        if value.is_floating_point():
            return torch.rand_like(value) if not name.endswith("mask") else value
        if not name.endswith("input_ids"):
            return value
        free = ~torch.isin(value, torch.tensor(sorted(kept) or [-1]))
        least, most = int(value[free].min()), int(value[free].max())
        again = torch.randint(least, most + 1, value.shape)
        again = torch.where(torch.isin(again, torch.tensor(sorted(kept) or [-1])), value, again)
        return torch.where(free, again, value)

    for seed in SEEDS:
        torch.manual_seed(seed)
        yield "drawn again", {key: drawn(key, one) for key, one in inputs.items()}


def _called(call: Callable[..., Any], inputs: Inputs) -> Any:
    """Return the tensors of an output, or what was raised, as text."""
    from pytest_graphbreak.repair.compare import flatten

    given = {key: value.clone() for key, value in inputs.items()}
    torch.manual_seed(7)
    try:
        with torch.no_grad():
            return flatten(_tensors(call(**given)))
    except Exception as error:
        return _line(error)


def plain(name: str, answers: Path, values: Plain) -> Plain:
    model, inputs = small(name, **values)
    reported = [(what, given, _called(model, given)) for what, given in others(model, inputs)]
    torch.save(reported, answers)
    return {}


def compiled(script: Path, answers: Path) -> Plain:
    from pytest_graphbreak.repair.compare import difference

    program = runpy.run_path(str(script), run_name="__main__")
    call, own = program["compiled"], program["inputs"]
    torch._dynamo.config.recompile_limit = LIMIT
    limit = _Limit()
    logging.getLogger("torch._dynamo.convert_frame").addHandler(limit)
    found: Plain = {"equal": 0, "raise": 0, "differs": [], "kinds": {}, "graphs": 0, "again": {}}
    found["limit"] = LIMIT
    for what, given, wanted in torch.load(answers, weights_only=False):
        if found["kinds"] and what not in found["kinds"]:
            torch._dynamo.reset()
            limit.hit = False
            _called(call, own)
        before = _graphs()
        got = _called(call, given)
        made = _graphs() - before
        calls = found["kinds"][what] = found["kinds"].get(what, 0) + 1
        found["graphs"] += made
        if calls > 1 and (made or limit.hit):
            found["again"][what] = found["again"].get(what, 0) + 1
        if isinstance(wanted, str) and isinstance(got, str):
            found["raise"] += 1
        elif isinstance(wanted, str) or isinstance(got, str):
            side = "plain" if isinstance(wanted, str) else "compiled"
            found["differs"].append(f"{what}: {side} raises {wanted if side == 'plain' else got}")
        elif words := difference(wanted, got):
            found["differs"].append(f"{what}: {words}")
        else:
            found["equal"] += 1
    return found


class _Limit(logging.Handler):
    """Knows whether the recompile limit was hit: code runs without the compiler then."""

    hit = False

    def emit(self, record: logging.LogRecord) -> None:
        self.hit = self.hit or "recompile_limit" in record.getMessage()


def _graphs() -> int:
    made: int = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    return made
