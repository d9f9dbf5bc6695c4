"""Runs a script or a test for a trial, in a process of its own, and reports what happened."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pytest_graphbreak.repair.failure import noted

Answer = dict[str, Any]

OTHERS: Final = "other inputs: "
"""How a difference begins that the program's own calls do not show."""

_ORDERS: Final = {"cut": "cut", "timing": "timing", "exporting": "exporting"}
"""Orders that are not measurements: the key of each, and the module that carries it out."""


def work(order: Answer) -> Answer:
    """Carry out an order of ``trial``, and return the answer."""
    os.chdir(order["cwd"])
    target = Path(order["path"])
    sys.argv = [str(target), *order["arguments"]]
    order["base"] = sys.path[1:]
    sys.path[0] = str(target.resolve().parent)
    for key, module in _ORDERS.items():
        if order.get(key):
            found = importlib.import_module(f"pytest_graphbreak.repair.{module}")
            answer: Answer = found.work(order, lambda around: _go(order, around))
            return answer
    return _measured(order)


def _measured(order: Answer) -> Answer:
    """Run the target with all measurements: count, keep outputs, and compare with a reference."""
    import torch

    from pytest_graphbreak import observe
    from pytest_graphbreak.repair import capture, holdings, steady

    recorder = capture.Capture(allow_breaks=order["allow_breaks"], codegen=order["codegen"])
    answer: Answer = {}
    if order["same_random"]:
        _same_random()
    if not order["codegen"]:
        _skip_codegen()

    @contextmanager
    def around() -> Iterator[None]:
        steady.seed()
        start = _written()
        began = time.perf_counter()
        ended: Answer = {"error": None}
        seen = None
        try:
            with observe() as seen, holdings.logged() as lines:
                with _kept(ended):
                    yield
                steady.wait(pending=False)
        finally:
            if seen is not None:
                answer.update(record=seen.record.to_dict(), seconds=time.perf_counter() - began)
        answer.update(said=[start, _written()], logged=lines)
        answer.update(ended, **_recorded(order, recorder))
        if ended["error"] is None and order["outputs"]:
            answer.update(_outputs(order, recorder))

    # This includes a test's fixtures and the import of its module, which may call torch.compile.
    with recorder.installed():
        answer.update(_go(order, around) or {})
    answer["sites"] = _sites(answer.get("record") or {}, answer.get("again") or ())
    answer["torch"] = torch.__version__
    answer["homes"] = _homes(order["base"])
    return answer


@contextmanager
def _kept(ended: Answer) -> Iterator[None]:
    """Catch what a program raises, except Ctrl-C, and record in ``ended`` how it ended."""
    try:
        yield
    except SystemExit as left:
        if left.code not in (None, 0):
            ended["error"] = f"the script ended with {left.code}"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # pytest's outcomes are not Exceptions
        # A test that exceeds its budget did what is expected here.
        over = type(error).__name__ == "GraphBudgetFailure"
        ended.update(noted(error) if not over else {})
        ended["exception"] = [type(error).__name__, str(error)]


def _recorded(order: Answer, recorder: Any) -> Answer:
    """Return what is known about the compiled calls."""
    answer: Answer = {
        "fullgraph": recorder.fullgraph,
        "options": recorder.options,
        "inductor": recorder.inductor,
        "varies": recorder.varies(),
        "numbers": recorder.numbers(),
        "roots": recorder.roots(),
        "device": _device(),
        "entries": sum(entry.called for entry in recorder.entries),
    }
    if order.get("weights"):
        from pytest_graphbreak.repair import compare

        answer["weights"] = compare.called(recorder.entries)
    return answer


def _written() -> int:
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
    import torch
    from torch._dynamo.backends.debugging import aot_eager

    def compiled(self: Any, model: Any, inputs: Any, **options: Any) -> Any:
        return aot_eager(model, inputs)

    torch._TorchCompileInductorWrapper.__call__ = compiled


def _outputs(order: Answer, recorder: Any) -> Answer:
    """Keep the outputs as the reference, or compare them with the existing one."""
    import torch

    from pytest_graphbreak.repair import capture, holdings, sizes

    source = Path(order["path"]).read_text("utf-8", "replace")
    space = holdings.around(one.original for one in recorder.entries)
    space |= vars(sys.modules["__main__"])
    own = {"calls": recorder.calls(), "state": recorder.state()}
    own["held"] = holdings.held(space, source) if not order["test"] else []
    reference = order.get("reference")
    # For inputs that the program never used, the reference is the uncompiled program.
    wanted = torch.load(reference, weights_only=False) if reference is not None else None
    others = wanted["variants"] if wanted is not None else ()
    endless = [number for number, one in enumerate(others) if one == capture.ENDLESS]
    refused = [number for number, one in enumerate(others) if isinstance(one, str)]
    own["variants"] = recorder.rerun(
        eager=wanted is None, endless=endless, refused=refused, resized=order.get("resized", True)
    )
    own["errors"] = {n: one for n, one in recorder.errors.items() if isinstance(one, str)}
    found: Answer = {"warm": recorder.warm(), "trained": bool(own["state"])}
    if wanted is None:
        torch.save(own, order["keep"])
        return found
    found["mismatch"], found["compared"] = _mismatch(wanted, own, bool(order.get("own_errors")))
    found["held"] = holdings.difference(wanted["held"], own["held"])
    if order.get("renew") and (found["mismatch"] or "").startswith(OTHERS):
        torch.save(own | {"errors": {}}, order["keep"])
    sides = zip(wanted["variants"], own["variants"], strict=False)
    raising = sum(
        isinstance(one, str) and isinstance(two, str) and two != capture.LEFT_OUT
        for one, two in sides
    )
    found["varied"] = len(own["variants"]) - raising - own["variants"].count(capture.LEFT_OUT)
    found["endless"] = len(endless)
    found["raising"] = raising - len(endless)
    found["again"] = recorder.compiled_again
    found["other_sizes"] = sizes.varying_sizes(recorder.other_sizes)
    return found


def _mismatch(wanted: Any, own: Any, own_errors: bool) -> tuple[str | None, int]:
    """Return the first difference, and for how many inputs results were compared.

    Inputs for which both sides raise are not counted. With ``own_errors`` the program's own
    exceptions may differ.
    """
    from pytest_graphbreak.repair.capture import ENDLESS, LEFT_OUT
    from pytest_graphbreak.repair.compare import difference

    if len(wanted["calls"]) != len(own["calls"]):
        return f"{len(wanted['calls'])} calls became {len(own['calls'])}", 0
    compared = 0
    for number, (old, new) in enumerate(zip(wanted["calls"], own["calls"], strict=True), 1):
        compared += 1
        if words := difference(old, new):
            return f"call {number}: {words}", compared
    if words := difference(wanted["state"], own["state"]):
        return words, compared
    for number, (old, new) in enumerate(zip(wanted["variants"], own["variants"], strict=True)):
        if new == LEFT_OUT or (isinstance(old, str) and old == new):
            continue
        if isinstance(old, str) and isinstance(new, str):
            as_compiled = _error(wanted["errors"].get(number, "")) == _error(new)
            if not (own_errors or as_compiled) and (words := _other_error(old, new)):
                return f"{OTHERS}{words}", compared
            continue
        compared += 1
        if isinstance(new, str):
            original = "does" if new == ENDLESS else "does not"
            return f"{OTHERS}{new} where the original {original}", compared
        if isinstance(old, str):
            return f"{OTHERS}does not raise where the original does ({old[:60]})", compared
        if words := difference(old, new):
            return f"{OTHERS}{words}", compared
    return None, compared


def _error(raised: str) -> str:
    """Return the name of an exception that ``rerun`` noted as text."""
    return raised[7:].partition(":")[0]


def _other_error(old: str, new: str) -> str | None:
    """Return how an exception that the program raises itself changed; PyTorch's own may vary.

    So may one that is another when the program is compiled without a patch.
    """
    (kind, _, text), (other, _, said) = (one[7:].partition(":") for one in (old, new))
    if kind == other or kind not in _OWN:
        return None
    if (kind, other, text) == ("AssertionError", "RuntimeError", said):
        return None  # Dynamo makes an assert an op, even without a patch
    return f"{new[:80]} where the original {old[:80]}"


_OWN: Final = ("ValueError", "AssertionError", "KeyError", "NotImplementedError")


def _go(order: Answer, around: Callable[[], Any]) -> Answer | None:
    if order["test"]:
        return _test(order, around)
    _script(order, around)
    return None


def _script(order: Answer, around: Callable[[], Any]) -> None:
    """Run a file as Python does: as ``__main__``, with its directory first on the path."""
    path = order["path"]
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    with around():
        code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
        exec(code, module.__dict__)


def _test(order: Answer, around: Callable[[], Any]) -> Answer:
    """Run one test with pytest, and measure its call phase."""
    import pytest

    said: Answer = {"reports": []}

    class Watch:
        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_call(self, item: Any) -> Iterator[None]:
            # A failure is not passed on: the question is what the test did.
            with around():
                yield
            said["called"] = said.get("called", 0) + 1

        def pytest_configure(self, config: Any) -> None:
            paths = config.getini("pythonpath")
            said["pythonpath"] = [os.path.realpath(config.rootpath / path) for path in paths]

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed and report.when != "call":
                said["reports"].append(f"{report.when}: {report.longreprtext.splitlines()[-1]}")
            if report.skipped:
                said["reports"].append("the test was skipped")

    nodeid = f"{order['path']}::{order['test']}"
    # As if the file were run: a file that ``fix`` writes does nothing if it is imported.
    program = sys.modules["__main__"] = types.ModuleType("__main__")
    program.__file__ = os.path.abspath(order["path"])
    sys.path.append(os.getcwd())  # last on the path, for modules only found there
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "graph_budget=false"]
    code = pytest.main([*options, nodeid], plugins=[Watch()])
    calls = said.get("called", 0)
    if calls != 1:
        why = "; ".join(said["reports"]) or f"pytest ended with {int(code)}"
        if calls > 1:
            why = f"{calls} tests have this id; give one of them, with its [parameters]"
        return {"error": why, "unrun": True}
    return {"pythonpath": said.get("pythonpath") or []}


def _sites(record: Answer, again: Sequence[Answer]) -> dict[str, list[str]]:
    """Return the paths and the modules of the files that the breaks and fixed sizes are in."""
    from pytest_graphbreak.model.places import places

    named = places(Path.cwd())
    wanted = {frame["file"] for item in record.get("breaks", ()) for frame in item["stack"]}
    for key in ("breaks", "eager", "recompile_list"):
        wanted |= {item["where"]["file"] for item in record.get(key, ()) if item["where"]}
    wanted |= {one["file"] for one in again if one.get("code")}
    found: dict[str, list[str]] = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and os.path.isfile(path):
            stable = named.file(path)
            if stable in wanted and name != "__mp_main__":
                found.setdefault(stable, [path, name])
    return found


def _homes(base: list[str]) -> dict[str, str]:
    """Return the directories of imported modules that this Python does not find by itself.

    Those are the script's own directory, those of pytest's ``pythonpath``, and those that a
    ``conftest.py`` adds: a script elsewhere puts them on its path, too. They are in the order of
    the path.
    """
    found: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file, paths = getattr(module, "__file__", None), getattr(module, "__path__", None)
        if "." in name or name.startswith("__") or not (file or paths):
            continue
        places = list(paths)[:1] if paths else [file]
        if places and isinstance(places[0], str) and os.path.exists(places[0]):
            found[name] = os.path.realpath(os.path.dirname(os.path.abspath(places[0])))
    known = {os.path.realpath(entry) for entry in (*base, *_made_by_torch())}
    path, sys.path[:] = list(sys.path), base
    try:
        homes = {
            name: home for name, home in found.items() if home not in known and not _finds(name)
        }
    finally:
        sys.path[:] = path
    order = {os.path.realpath(entry): number for number, entry in reversed([*enumerate(path)])}
    return dict(sorted(homes.items(), key=lambda one: order.get(one[1], len(path))))


def _made_by_torch() -> list[str]:
    """Return the directory of modules that ``torch.distributed`` writes, and removes at the end."""
    writer = sys.modules.get("torch.distributed.nn.jit.instantiator")
    made = getattr(writer, "INSTANTIATED_TEMPLATE_DIR_PATH", None)
    return [made] if isinstance(made, str) else []


def _finds(name: str) -> bool:
    """Return whether an import would find a module, even if it is already imported."""
    for finder in sys.meta_path:
        try:
            if finder.find_spec(name, None) is not None:
                return True
        except Exception:
            continue
    return False
