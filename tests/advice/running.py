"""Runs the examples of the advice for real: compiled, counted, their outputs kept."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from torch._dynamo.testing import CompileCounter

from pytest_graphbreak import Record, advice, observe
from pytest_graphbreak.advice import Item, explanation
from pytest_graphbreak.advice.explanation import Example, by_name
from tests.examples import ALL

_COMPILES = re.compile(r"torch\.(compile(?!r)|export\.export)")
"""Code that compiles or exports its ``f`` itself."""

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


@dataclass(frozen=True)
class Case:
    """One example of one page."""

    name: str
    number: int
    example: Example

    @property
    def applies(self) -> bool:
        """Whether the torch of this environment is one that the example speaks of."""
        if sys.version_info < (3, 11) and self.name == "object":
            return False  # Python 3.10 takes two equal lambdas of one line for the same
        since, until = self.example.since, self.example.until
        return (not since or _version(since) <= VERSION) and (
            not until or _version(until) >= VERSION
        )

    def __str__(self) -> str:
        return f"{self.name}-{self.number}"


@dataclass(frozen=True)
class Outcome:
    """What a run made: graphs by an independent count, outputs, and our own record."""

    graphs: int
    outputs: list[Any]
    record: Record


def cases(needs: str) -> list[Case]:
    """All examples that need this device (``xla``, or empty for none)."""
    return [
        Case(name, number, example)
        for name in sorted(by_name())
        for number, example in enumerate(explanation.load_page(name).examples)
        if example.needs == needs
    ]


ON_XLA = cases("xla") if os.environ.get(ALL) else cases("xla")[::2]
"""Every second example that needs a device, and all of them at night."""


def run(code: str, inputs: str, folder: Path) -> Outcome:
    """Compile ``f`` of an example with a counting backend and call it with each input."""
    counter = CompileCounter()
    with clean_dynamo(), _default_backend(counter):
        names = _execute(code, folder, {"torch": torch})
        function = names["f"]
        if not _COMPILES.search(code):
            function = torch.compile(function)
        with observe() as seen:
            outputs = _call(function, inputs, names)
    return Outcome(counter.frame_count, outputs, seen.record)


def uncompiled(code: str, inputs: str, folder: Path) -> list[Any]:
    """The outputs of an example without the compiler."""
    names = _execute(code, folder, {"torch": torch})
    return _call(names["f"], inputs, names)


def on_xla(python: str) -> dict[str, dict[str, Any]]:
    """The examples of ``ON_XLA``, run in a process of their own, by ``str(case)``.

    There was no backward pass in it: autograd cannot use a device that torch_xla
    registers after the first of a process. Each has, for ``before`` and ``after``: the
    graphs by torch_xla's own metric, those of our record, its families, and the
    outputs as lists.
    """
    environment = os.environ | {"PJRT_DEVICE": "CPU"}
    done = subprocess.run(
        [python, "-m", "tests.advice.running"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def families(record: Record) -> set[str]:
    """The names of the families of all that is in a record."""
    items: list[Item] = [*record.breaks, *record.eager, *record.recompile_list, *record.graph_list]
    return {found.name for item in items if (found := advice.family(item)) is not None}


def _run_on_xla(code: str, inputs: str, folder: Path, cache_key: str) -> dict[str, Any]:
    """One example on torch_xla, counted by its own metric of compiles.

    The key keeps examples with equal graphs apart: it is part of the hash by
    which torch_xla finds graphs that it has compiled.
    """
    import torch_xla
    from torch_xla.debug import metrics

    def compiles() -> int:
        data = metrics.metric_data("CompileTime")
        return int(data[0]) if data else 0

    with clean_dynamo():
        os.environ["XLA_AUTO_SPMD_MESH"] = cache_key
        names = _execute(
            code,
            folder,
            {"torch": torch, "torch_xla": torch_xla, "device": torch_xla.device()},
        )
        # Moved to the device, not made there: nothing waits, and nothing is compiled.
        arguments = _arguments(inputs, names)
        before = compiles()
        with observe() as seen, contextlib.redirect_stdout(io.StringIO()):
            outputs = [names["f"](*call) for call in arguments]
            torch_xla.sync(wait=True)
        graphs = compiles() - before
    return {
        "graphs": graphs,
        "recorded": seen.record.graphs.get("xla", 0),
        "families": sorted(families(seen.record)),
        "outputs": [output.cpu().tolist() for output in outputs],
    }


def _main() -> None:
    found = {}
    for case in ON_XLA:
        with tempfile.TemporaryDirectory() as folder:
            found[str(case)] = {
                when: _run_on_xla(code, case.example.inputs, Path(folder), f"{case}-{when}")
                for when, code in (("before", case.example.before), ("after", case.example.after))
            }
    print(json.dumps(found))


def _execute(code: str, folder: Path, names: dict[str, Any]) -> dict[str, Any]:
    file = folder / "example.py"
    file.write_text(code, encoding="utf-8")
    torch.manual_seed(0)
    exec(compile(code, str(file), "exec"), names)
    return names


def _arguments(inputs: str, names: dict[str, Any]) -> list[tuple[Any, ...]]:
    return list(eval(f"({inputs})", names))


def _call(function: Any, inputs: str, names: dict[str, Any]) -> list[Any]:
    torch.manual_seed(0)
    random.seed(0)
    return [function(*call) for call in _arguments(inputs, names)]


@contextmanager
def clean_dynamo() -> Iterator[None]:
    """Dynamo from cold, its config put back afterwards."""
    config = torch._dynamo.config
    kept = {
        key: copy.deepcopy(value)
        for key in config.get_config_copy()
        if isinstance(value := getattr(config, key), (bool, int, set))
    }
    torch._dynamo.reset()
    try:
        yield
    finally:
        for key, value in kept.items():
            if getattr(config, key) != value:
                setattr(config, key, value)
        torch._dynamo.reset()


@contextmanager
def _default_backend(backend: Any) -> Iterator[None]:
    """``torch.compile`` as it is, but for the backend that it takes if none is named."""
    real = torch.compile

    def compile(model: Any = None, **options: Any) -> Any:
        options.setdefault("backend", backend)
        return real(model, **options)

    torch.compile = compile
    try:
        yield
    finally:
        torch.compile = real


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


if __name__ == "__main__":
    _main()
