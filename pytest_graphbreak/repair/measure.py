"""Counts what a program compiles, keeps what it gives, and calls it with drawn inputs."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from pytest_graphbreak import observe
from pytest_graphbreak.model.places import places
from pytest_graphbreak.repair import steady
from pytest_graphbreak.repair.capture import Capture
from pytest_graphbreak.repair.compare import ENDLESS
from pytest_graphbreak.repair.failure import store_error

Answer = dict[str, Any]

_INPUTS = ".inputs"
"""The end of the name of the file with the inputs of what is called by a name."""


def work(order: Answer, go: Callable[[Any], Answer | None]) -> Answer:
    """Run the target, and save its results in ``order["results"]`` if it is not empty."""
    capture = Capture(allow_breaks=order["allow_breaks"], codegen=order["codegen"])
    answer: Answer = {}
    if order["results"]:
        _same_random()
    if not order["codegen"]:
        _skip_codegen()

    @contextmanager
    def window() -> Iterator[None]:
        steady.seed()
        start, seen = _output_size(), None
        ended: Answer = {"error": None}
        try:
            with observe() as seen, steady.log_lines() as lines:
                with store_error(ended):
                    yield
                steady.wait(pending=False)
        finally:
            if seen is not None:
                answer["record"] = seen.record.to_dict()
        answer.update(said=[start, _output_size()], logged=lines, **ended, **_calls(capture))
        if ended["error"] is None and order["results"]:
            answer.update(_results(order, capture))

    steady.seed()  # also for what the import of a test's module makes
    # This includes a test's fixtures and the import of its module, which may call torch.compile.
    with capture.install():
        answer.update(go(window) or {})
    answer["sites"] = _sites(answer.get("record") or {})
    answer["torch"] = torch.__version__
    return answer


def _calls(capture: Capture) -> Answer:
    """Return what is known about the compiled calls."""
    return {
        "fullgraph": capture.fullgraph,
        "options": capture.options,
        "inductor": capture.inductor,
        "varies": capture.varies(),
        "numbers": capture.numbers(),
        "roots": capture.roots(),
        "device": _device(),
    }


def _results(order: Answer, capture: Capture) -> Answer:
    """Save what the run gave. What a backend of the program's own notes, no other run holds."""
    program = vars(sys.modules["__main__"]) if not order["test"] else {}
    source = Path(order["path"]).read_text("utf-8", "replace")
    # Dynamo puts global variables of its own there, which the source does not name.
    space = {name: value for name, value in program.items() if name in source}
    original = order["original"] and torch.load(f"{order['original']}{_INPUTS}", weights_only=False)
    options = {name: order[name] for name in ("eager", "values_only", "left_out")}
    results = capture.results(space, original or None, **options)
    if capture.options.get("backend", "") is None:
        results["objects"] = {}
    # In a file of their own: what compares results may not know their device.
    names, inputs = results.pop("names"), f"{order['results']}{_INPUTS}"
    torch.save(results, order["results"])
    try:
        torch.save(names, inputs)
    except Exception:  # inputs that cannot be saved, such as a local function
        torch.save({}, inputs)
    endless = [kind for kind, value in results["drawn"].items() if value == ENDLESS]
    return {"trained": bool(results["state"]), "endless": endless}


def _output_size() -> int:
    """Return the size of standard output so far, which is a file."""
    sys.stdout.flush()
    return os.fstat(1).st_size


def _device() -> str:
    """Return the device that torch_xla computes on (``TT``, ``CPU``), or "" without torch_xla."""
    runtime = sys.modules.get("torch_xla.runtime")
    try:
        return str(runtime.device_type() or "") if runtime is not None else ""
    except Exception:
        return ""


def _same_random() -> None:
    """Use eager's random numbers in inductor too, since its own would differ."""
    if importlib.util.find_spec("torch._inductor") is not None:
        import torch._inductor.config as config

        config.fallback_random = True


def _skip_codegen() -> None:
    """Run the graphs that inductor would generate code for as the backend ``aot_eager`` does.

    No C++ and no Triton is compiled. ``eager`` would take less time still, but Dynamo compiles
    again for other floats then than it does where AOTAutograd makes them tensors (torch 2.13).
    """
    from torch._dynamo.backends.debugging import aot_eager

    def compiled(self: Any, model: Any, inputs: Any, **options: Any) -> Any:
        return aot_eager(model, inputs)

    torch._TorchCompileInductorWrapper.__call__ = compiled


def _sites(record: Answer) -> dict[str, list[str]]:
    """Return the paths and the modules of the files that the breaks are in."""
    namer = places(Path.cwd())
    files = {frame["file"] for item in record.get("breaks", ()) for frame in item["stack"]}
    for key in ("breaks", "eager", "recompile_list"):
        files |= {item["where"]["file"] for item in record.get(key, ()) if item["where"]}
    names = {*map(os.path.basename, files)}  # to look at a thousand modules on disk takes 0.2 s
    sites: dict[str, list[str]] = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and os.path.basename(path) in names and os.path.isfile(path):
            stable = namer.file(path)
            if stable in files and name != "__mp_main__":
                sites.setdefault(stable, [path, name])
    return sites
