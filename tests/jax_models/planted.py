"""One realistic defect for each model, and what the gate says of it.

    python -m tests.jax_models.planted [NAME...]

Each plant changes one line of a copy of these models and runs its test there, in a fork, against
the baselines of the repository. The text is right if what is new, ``+``, is at the line that it
should be at and nowhere else.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import tempfile
import traceback
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
FOLDER: Final = HERE.relative_to(ROOT)
ADDED: Final = re.compile(r"^E?\s*\+ (?!\d)(.*)\n\s*E?\s*(\S+?):\d+ in (\S+)\n\s*E?\s*(.*)$", re.M)


@dataclass(frozen=True)
class Plant:
    """``old`` becomes ``new`` in ``file``; ``line`` of ``function`` then has ``words``."""

    test: str
    file: str
    old: str
    new: str
    function: str
    line: str
    words: str


_CLASSIFY: Final = "scores = apply(params, batch, temperature=temperature)"
_STEP: Final = "self.params, self.state, loss = self.compiled("

PLANTS: Final = {
    "a last batch that is smaller": Plant(
        "test_models.py::test_model[linen-classifier]",
        "linen_models.py",
        "range(0, whole, size)",
        "range(0, len(data), size)",
        "classify",
        _CLASSIFY,
        "at args[0]: float32[16,64] before, float32[6,64] now",
    ),
    "a static number that changes": Plant(
        "test_models.py::test_model[linen-classifier]",
        "linen_models.py",
        "temperature = 2.0\n",
        "temperature = 2.0 / (1 + len(answers))\n",
        "classify",
        _CLASSIFY,
        "static argument temperature: 2.0 before, 1.0 now",
    ),
    "a tree with one entry more": Plant(
        "test_models.py::test_model[linen-resnet]",
        "linen_models.py",
        "        variables = follow(variables, batch)",
        "        variables = follow(variables, batch)\n"
        '        variables["seen"] = {"batches": np.int32(1)}',
        "statistics",
        "variables = follow(variables, batch)",
        "put together differently",
    ),
    "words that are not padded": Plant(
        "test_models.py::test_model[linen-lstm]",
        "linen_models.py",
        "        padded[0, : len(words)] = words",
        "        padded = words[None].astype(np.int32)",
        "tag",
        "tags.append(np.asarray(apply(params, padded)).argmax(-1)[0, : len(words)])",
        "int32[1,5] before, int32[1,9] now",
    ),
    "a number of Python's": Plant(
        "test_models.py::test_model[linen-vae]",
        "linen_models.py",
        "beta = np.float32(min(1.0, 0.5 * seed))",
        "beta = 0.5 * seed if seed else np.float32(0)",
        "draw",
        "losses.append(float(loss(params, data, np.uint32(seed), beta)))",
        "at beta: float32[] before, float32[] of weak type now",
    ),
    "a new function object": Plant(
        "test_models.py::test_model[nnx-mlp]",
        "nnx_models.py",
        "    for batch in batches(digits(48, 64), 16):",
        "    for batch in batches(digits(48, 64), 16):\n"
        "        apply = nnx.jit(lambda model, x: model(x))",
        "evaluate",
        "answers.append(apply(model, batch))",
        "made anew",
    ),
    "a length of Python's": Plant(
        "test_models.py::test_model[nnx-encoder]",
        "nnx_models.py",
        "known = np.int32(length)",
        "known = np.int32(length) if length < 8 else length",
        "encode",
        "vectors.append(apply(model, words, known))",
        "weak type",
    ),
    "a module changed between calls": Plant(
        "test_models.py::test_model[equinox-convolutional]",
        "equinox_models.py",
        "        scores.append(apply(model, batch))",
        "        scores.append(apply(model, batch))\n"
        "        model = eqx.tree_at(lambda m: m.scale, model, model.scale / 2)",
        "look",
        "scores.append(apply(model, batch))",
        "",
    ),
    "jnp outside of jit": Plant(
        "test_models.py::test_model[equinox-gru]",
        "equinox_models.py",
        "return np.asarray(scores)",
        "return np.asarray(jax.nn.softmax(scores))",
        "hear",
        "return np.asarray(jax.nn.softmax(scores))",
        "",
    ),
    "a stack on the device": Plant(
        "test_models.py::test_model[equinox-ensemble]",
        "equinox_models.py",
        "return np.stack(answers)",
        "return np.asarray(jax.numpy.stack(answers))",
        "ensemble",
        "return np.asarray(jax.numpy.stack(answers))",
        "",
    ),
    "a step made anew": Plant(
        "test_training.py::test_training[linen]",
        "training.py",
        f"        {_STEP}",
        f"        self.compiled = jax.jit(lambda *args: self._step(*args))\n        {_STEP}",
        "LinenTrainer.step",
        _STEP,
        "made anew",
    ),
    "a loss that is compared on the device": Plant(
        "test_training.py::test_training[nnx]",
        "training.py",
        "self.data, self.labels))\n\n\nclass EquinoxTrainer",
        "self.data, self.labels))\n"
        "        if len(self.losses) > 1 and self.losses[-1] > 10 * self.losses[0]:\n"
        "            raise ValueError\n\n\nclass EquinoxTrainer",
        "NnxTrainer.step",
        "if len(self.losses) > 1 and self.losses[-1] > 10 * self.losses[0]:",
        "",
    ),
    "a scale of Python's": Plant(
        "test_training.py::test_training[equinox]",
        "training.py",
        "self.scale = np.float32(128)",
        "self.scale = 128.0",
        "EquinoxTrainer.step",
        "self.model, self.state, self.scale, loss = self.compiled(",
        "",
    ),
    "steps that follow the prompt": Plant(
        "test_decoding.py::test_scan",
        "decoding.py",
        "steps = 8\n",
        "steps = 8 + len(prompt)\n",
        "scanned",
        "texts.append(generate(weights, word, np.int32(len(prompt)), cache, steps=steps))",
        "static argument steps: 10 before, 11 now",
    ),
    "a prompt without a bucket": Plant(
        "test_decoding.py::test_buckets",
        "decoding.py",
        "words = np.zeros(size, np.int32)",
        "words = np.zeros(len(prompt), np.int32)",
        "Server.answer",
        "word, cache = prefill(self.weights, padded(prompt), np.int32(len(prompt)), empty())",
        "at words: int32[16] before, int32[1] now",
    ),
    "a batch that is not put in place": Plant(
        "test_sharded.py::test_data_parallel",
        "sharded.py",
        "x = jax.device_put(batch, parted)",
        "x = jax.device_put(batch, parted) if batch[0, 0] < 0.5 else batch",
        "data_parallel",
        "weights = step(weights, x)",
        "sharded",
    ),
    "a setting that changes": Plant(
        "test_sharded.py::test_split_layer",
        "sharded.py",
        "        answers.append(layer(batch, up, down))",
        "        with jax.default_matmul_precision('high' if answers else 'default'):\n"
        "            answers.append(layer(batch, up, down))",
        "split_layer",
        "answers.append(layer(batch, up, down))",
        "default_matmul_precision",
    ),
}


def planted(plant: Plant) -> str:
    """What pytest prints of a copy of this folder with the plant in it, run in a fork."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            with tempfile.TemporaryDirectory() as directory, open(writing, "w") as reported:
                reported.write(_run(plant, Path(directory)))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as reported:
        text = reported.read()
    os.waitpid(child, 0)
    return text


def _run(plant: Plant, root: Path) -> str:
    import pytest

    for part in (FOLDER, Path("baselines") / FOLDER):
        shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
    (root / FOLDER.parent / "__init__.py").touch()
    (root / "pytest.ini").write_text("[pytest]\n")
    file = root / FOLDER / plant.file
    source = file.read_text()
    if source.count(plant.old) != 1:
        raise ValueError(f"{plant.file} has {source.count(plant.old)} times {plant.old!r}")
    file.write_text(source.replace(plant.old, plant.new))
    os.chdir(root)
    sys.path[:] = [str(root), *(path for path in sys.path if path)]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    said = io.StringIO()
    with redirect_stdout(said):
        pytest.main(["-q", "-p", "no:cacheprovider", "--graph-budget", str(FOLDER / plant.test)])
    return said.getvalue()


def added(text: str) -> list[tuple[str, str, str, str]]:
    """Each ``+`` of a text: what it says, its file, function and line."""
    return [(found[1], found[2], found[3], found[4].strip()) for found in ADDED.finditer(text)]


def wrong(plant: Plant, text: str) -> str:
    """What is wrong with a text; empty where it says what was planted and no more."""
    found = added(text)
    if not found:
        return "there is no +"
    for what, file, function, line in found:
        if (file, function) != (str(FOLDER / plant.file), plant.function):
            return f"{what} is at {file} in {function}"
        if line != plant.line:
            return f"{what} is at the line {line}"
    return "" if plant.words in text else f"nothing says {plant.words!r}"


def main(names: list[str]) -> int:
    import equinox  # noqa: F401
    import flax  # noqa: F401
    import optax  # noqa: F401

    fails = 0
    for name in names or PLANTS:
        text = planted(PLANTS[name])
        fault = wrong(PLANTS[name], text)
        fails += bool(fault)
        print(f"{name}: {fault or added(text)[0][0]}", flush=True)
        if fault or names:
            print(text)
    return 1 if fails else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
