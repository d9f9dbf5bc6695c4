"""A patched class against the plain one, on inputs that the search for patches never used.

    python -m benchmarks.survey.unseen plain NAME ANSWERS [CONFIGURATION]
    python -m benchmarks.survey.unseen patched SCRIPT ANSWERS

Two processes of their own: the first runs the class as it is, without the compiler,
and writes inputs and outputs down; the second runs the patched script and calls what
it compiled with the same inputs. ``compared`` starts both.
"""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.survey.inputs import Inputs
from benchmarks.survey.measure import _line, _tensors, small

SEEDS: Final = (101, 202)
Plain = dict[str, Any]


def compared(name: str, source: bytes, values: Plain, timeout: float) -> Plain:
    """How many of the unseen inputs gave the same, raised on both sides, or differ and how."""
    with tempfile.TemporaryDirectory() as directory:
        script, answers = Path(directory) / "patched.py", Path(directory) / "answers.pt"
        script.write_bytes(source)
        for side, what, more in (
            ("plain", name, [json.dumps(values)]),
            ("patched", str(script), []),
        ):
            command = [sys.executable, "-m", "benchmarks.survey.unseen", side, what, str(answers)]
            try:
                done = subprocess.run(
                    [*command, *more], capture_output=True, text=True, timeout=timeout, check=False
                )
            except subprocess.TimeoutExpired:
                return {"differs": [f"{side}: it did not end within {timeout:g} s"]}
            if done.returncode:
                last = done.stderr.strip().splitlines()[-1:] or ["no words"]
                return {"differs": [f"{side}: {last[0][:200]}"]}
        found: Plain = json.loads(done.stdout.splitlines()[-1])
        return found


def others(model: Any, inputs: Inputs) -> Iterator[tuple[str, Inputs]]:
    """The same inputs drawn again, with shorter rows, and with images of another shape."""
    import torch

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
        yield f"drawn with seed {seed}", {key: drawn(key, one) for key, one in inputs.items()}
    masks = [key for key, one in inputs.items() if key.endswith("mask") and one.dim() == 2]
    for key in masks:
        shorter = inputs[key].clone()
        shorter[-1, -(shorter.shape[1] // 4 or 1) :] = 0
        yield f"{key} with a shorter row", {**inputs, key: shorter}
    for key, one in inputs.items():
        grid = one.clone()
        if key.endswith("grid_thw"):
            grid[0] = torch.tensor([1, 2, 8])
        elif key == "spatial_shapes":
            grid[0] = torch.tensor([2, 8])
        else:
            continue
        yield f"{key} of another shape", {**inputs, key: grid}
        yield f"{key} in another order", {**inputs, key: grid.flip(0)}


def _called(call: Callable[..., Any], inputs: Inputs) -> Any:
    """The tensors of an output, or what was raised, as text."""
    import torch

    from pytest_graphbreak.repair.compare import flatten

    given = {key: value.clone() for key, value in inputs.items()}
    torch.manual_seed(7)
    try:
        with torch.no_grad():
            return flatten(_tensors(call(**given)))
    except Exception as error:
        return _line(error)


def plain(name: str, answers: Path, values: Plain) -> None:
    import torch

    model, inputs = small(name, **values)
    reported = [(what, given, _called(model, given)) for what, given in others(model, inputs)]
    torch.save(reported, answers)


def patched(script: Path, answers: Path) -> Plain:
    import torch

    from pytest_graphbreak.repair.compare import difference

    compiled = runpy.run_path(str(script), run_name="__main__")["compiled"]
    found: Plain = {"equal": 0, "raise": 0, "differs": []}
    for what, given, wanted in torch.load(answers, weights_only=False):
        got = _called(compiled, given)
        if isinstance(wanted, str) and isinstance(got, str):
            found["raise"] += 1
        elif isinstance(wanted, str) or isinstance(got, str):
            side = "plain" if isinstance(wanted, str) else "patched"
            found["differs"].append(f"{what}: {side} raises {wanted if side == 'plain' else got}")
        elif words := difference(wanted, got):
            found["differs"].append(f"{what}: {words}")
        else:
            found["equal"] += 1
    return found


def main(arguments: list[str]) -> int:
    side, what, answers, *rest = arguments
    if side == "plain":
        plain(what, Path(answers), json.loads(rest[0]) if rest else {})
    else:
        print(json.dumps(patched(Path(what), Path(answers))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
